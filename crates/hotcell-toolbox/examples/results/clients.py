"""What clients show their models of a tool result, and the names by which they introduce themselves.

Read from the packages of November 2026: Claude Code 2.1.326, Codex 0.169.0, Gemini CLI 0.61.0, opencode 1.18.33,
Qwen Code 0.24.4, openai-agents 0.24.0, pydantic-ai 2.66.0 with fastmcp 4.2.0."""

import json
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Seen:
    """The part of a result that reaches the model."""

    text: str
    images: int = 0


def compact(value) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def blocks(result) -> Seen:
    """The content blocks alone; a link or an embedded resource as JSON."""
    images, parts = 0, []
    for block in result.content:
        if block.type == "image":
            images += 1
        elif block.type == "text":
            parts.append(block.text)
        else:
            parts.append(block.model_dump_json(by_alias=True, exclude_none=True))
    return Seen("\n".join(parts), images)


def is_structured(result) -> bool:
    return result.structured_content is not None and not result.is_error


def structured_with_images(result) -> Seen:
    """Claude Code: structured content in place of the text blocks, beside all others."""
    if not is_structured(result):
        return blocks(result)
    return Seen(compact(result.structured_content), blocks(result).images)


def structured_alone(result) -> Seen:
    """Codex: structured content in place of all blocks."""
    return Seen(compact(result.structured_content)) if is_structured(result) else blocks(result)


def structured_unless_images(result) -> Seen:
    """pydantic-ai: structured content if every block is text, else the blocks."""
    texts = all(block.type == "text" for block in result.content)
    return structured_alone(result) if texts else blocks(result)


def both(result) -> Seen:
    """Qwen Code: all blocks, then structured content."""
    seen = blocks(result)
    if not is_structured(result):
        return seen
    return Seen(seen.text + "\n" + compact(result.structured_content), seen.images)


@dataclass(frozen=True)
class Profile:
    """One client: its name in `clientInfo`, and what its model sees."""

    name: str
    client_name: str
    version: str
    form: str
    see: Callable[..., Seen]


PROFILES = [
    Profile("claude-code", "claude-code", "2.1.326", "structured", structured_with_images),
    Profile("codex", "codex-mcp-client", "0.169.0", "structured", structured_alone),
    Profile("pydantic-ai", "fastmcp", "4.2.0", "structured", structured_unless_images),
    Profile("gemini", "gemini-cli-mcp-client", "0.61.0", "text", blocks),
    Profile("opencode", "opencode", "1.18.33", "text", blocks),
    # LangChain, smolagents and inspect_ai use the default name of the Python SDK too.
    Profile("openai-agents", "mcp", "0.1.0", "text", blocks),
    Profile("qwen", "qwen-cli-mcp-client-hotcell", "0.24.4", "both", both),
]
