"""Claude Code. It defers tools: the model finds them by ToolSearch."""

from model.conversation import Call

from model.director import Unmet

from .base import PROMPT, Client

SEARCH = "ToolSearch"
# How people put it, and the tool that they need.
QUERIES = {
    "run a shell command": "exec_run",
    "bash terminal": "exec_run",
    "background process logs": "exec_poll",
    "undo": "cell_checkpoint",
}


def tool_search(agent):
    """The client's own search finds the right tool by the words that models use."""
    for query, tool in QUERIES.items():
        seen = yield Call(SEARCH, {"query": query, "max_results": 5})
        # What is loaded from the start is not searched for.
        if agent.find_tool(tool) is None and f"mcp__hotcell__{tool}" not in seen.text:
            raise Unmet(f"not so: {query!r} finds {tool}")


class ClaudeCode(Client):
    name = "claude-code"
    setup = "claude-code"
    own_plans = [tool_search]

    def command(self):
        (program,) = self.installed.glob("node_modules/@anthropic-ai/claude-code-linux-*/claude")
        return [program, "-p", PROMPT, "--allowedTools", "mcp__hotcell"]

    def environment(self):
        return {
            "ANTHROPIC_BASE_URL": self.model_url,
            "ANTHROPIC_API_KEY": "none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_TELEMETRY": "1",
        }

    def is_main(self, turn):
        return super().is_main(turn) or turn.find_tool(SEARCH) is not None

    def load_tools(self, turn, names):
        names = ",".join(sorted({f"mcp__hotcell__{name}" for name in names}))
        return Call(SEARCH, {"query": f"select:{names}"})


CLIENT = ClaudeCode
