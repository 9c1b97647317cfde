"""LangChain with its MCP adapters."""

from .frameworks import Framework


class LangChain(Framework):
    name = "langchain"
    script = "langchain_program.py"
    survives_lost_server = False
    sends_progress_token = False

    def environment(self):
        return {"LANGSMITH_TRACING": "false"}


CLIENT = LangChain
