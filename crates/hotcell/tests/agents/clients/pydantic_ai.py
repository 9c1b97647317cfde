"""Pydantic AI."""

from .frameworks import Framework


class PydanticAI(Framework):
    name = "pydantic-ai"
    script = "pydantic_ai_program.py"
    survives_lost_server = False


CLIENT = PydanticAI
