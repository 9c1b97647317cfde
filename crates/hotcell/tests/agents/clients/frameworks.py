"""What the frameworks have in common: a program of ours that uses them, with no settings to write."""

from .base import PROMPT, Client


class Framework(Client):
    # Only programs that people use show instructions by themselves.
    shows_instructions = False
    script = ""

    def command(self):
        return [self.python(), "-B", self.program_file(self.script), self.model_url, self.shim, PROMPT]
