"""Codex. Nobody can be asked in `codex exec`: tools that need approval are refused."""

import json

from .base import PROMPT, Client


class Codex(Client):
    name = "codex"
    setup = "codex"

    def command(self):
        (program,) = self.installed.glob("node_modules/@openai/codex-linux-*/vendor/*/bin/codex")
        provider = f'{{name="scripted",base_url={json.dumps(self.model_url + "/v1")},wire_api="responses"}}'
        settings = {
            "model": '"scripted"',
            "model_provider": '"scripted"',
            "model_providers.scripted": provider,
            "analytics.enabled": "false",
            "check_for_update_on_startup": "false",
        }
        options = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
        return [program, "exec", "--skip-git-repo-check", *options, PROMPT]

    def is_main(self, turn):
        return bool(turn.tools)


CLIENT = Codex
