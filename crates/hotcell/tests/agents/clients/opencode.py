"""opencode."""

import json

from .base import PROMPT, Client


class OpenCode(Client):
    name = "opencode"
    setup = "opencode"

    def configure(self, program):
        model = {
            "name": "Scripted",
            "attachment": True,
            "tool_call": True,
            "modalities": {"input": ["text", "image"], "output": ["text"]},
        }
        provider = {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": f"{self.model_url}/v1", "apiKey": "none"},
            "models": {"scripted": model},
        }
        file = self.home / ".config/opencode/opencode.json"
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps({"provider": {"scripted": provider}}))
        super().configure(program)

    def command(self):
        program = sorted(self.installed.glob("node_modules/opencode-linux-*/bin/opencode"))[0]
        options = ["--pure", "--auto", "--title", "scripted", "--model", "scripted/scripted"]
        return [program, "run", *options, PROMPT]

    def environment(self):
        return {
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
        }

    def is_main(self, turn):
        return bool(turn.tools)


CLIENT = OpenCode
