"""The OpenAI Agents SDK."""

from .frameworks import Framework


class OpenAIAgents(Framework):
    name = "openai-agents"
    script = "openai_agents_program.py"
    survives_lost_server = False
    sends_progress_token = False

    def environment(self):
        return {"OPENAI_AGENTS_DISABLE_TRACING": "1"}


CLIENT = OpenAIAgents
