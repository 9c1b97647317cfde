"""Qwen Code. It defers tools: the model looks them up with tool_search and calls them with tool_call."""

import json

from model.conversation import Call

from .base import PROMPT, Client

PREFIX = "mcp__hotcell__"
SETTINGS = {
    "general": {"enableAutoUpdate": False},
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
}


class QwenCode(Client):
    name = "qwen-code"
    setup = "qwen"
    checks_arguments = True

    def configure(self, program):
        file = self.home / ".qwen/settings.json"
        file.parent.mkdir()
        file.write_text(json.dumps(SETTINGS))
        super().configure(program)

    def command(self):
        script = self.module("@qwen-code/qwen-code/cli-entry.js")
        options = ["--auth-type", "openai", "--approval-mode", "yolo", "-p", PROMPT]
        return [self.node(), script, *options]

    def environment(self):
        return {
            "OPENAI_API_KEY": "none",
            "OPENAI_BASE_URL": f"{self.model_url}/v1",
            # A model that Qwen Code knows to take images.
            "OPENAI_MODEL": "qwen3-vl-plus",
        }

    def is_main(self, turn):
        return bool(turn.tools)

    def address(self, turn, call):
        offered = super().address(turn, call)
        if offered is not None:
            return offered
        name = PREFIX + call.tool
        is_known = any(f'"name":"{name}"' in seen.text for seen in turn.results)
        bridge = turn.find_tool("tool_call")
        return (bridge, {"name": name, "arguments": call.arguments}) if is_known else None

    def load_tools(self, turn, names):
        names = ",".join(sorted({PREFIX + name for name in names}))
        return Call("tool_search", {"query": f"select:{names}"})


CLIENT = QwenCode
