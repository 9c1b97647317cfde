"""Gemini CLI."""

import json

from .base import PROMPT, Client

SETTINGS = {
    "general": {"disableAutoUpdate": True, "disableUpdateNag": True},
    "privacy": {"usageStatisticsEnabled": False},
    "security": {"auth": {"selectedType": "gemini-api-key"}},
    "telemetry": {"enabled": False},
}


class Gemini(Client):
    name = "gemini"
    setup = "gemini"
    checks_arguments = True

    def configure(self, program):
        super().configure(program)
        file = self.home / ".gemini/settings.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), **SETTINGS}))

    def command(self):
        script = self.module("@google/gemini-cli/bundle/gemini.js")
        return [self.node(), script, "--skip-trust", "--approval-mode", "yolo", "-p", PROMPT]

    def environment(self):
        return {"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": self.model_url}


CLIENT = Gemini
