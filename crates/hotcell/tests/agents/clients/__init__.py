"""The clients that agents are run with: one module for each."""

import importlib

# By the name that tests and users call them.
MODULES = {
    "claude-code": "claude_code",
    "codex": "codex",
    "gemini": "gemini",
    "langchain": "langchain",
    "openai-agents": "openai_agents",
    "opencode": "opencode",
    "pydantic-ai": "pydantic_ai",
    "qwen-code": "qwen_code",
    "typescript-sdk": "typescript_sdk",
}


def find_client(name):
    """The class of a client, or None."""
    module = MODULES.get(name)
    return module and importlib.import_module(f"clients.{module}").CLIENT
