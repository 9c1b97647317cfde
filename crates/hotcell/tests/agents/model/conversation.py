"""What a model is sent and what it answers, in one form for all wire formats."""

import base64
import re
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Tool:
    """A tool as the client describes it to the model."""

    name: str
    description: str = ""
    schema: dict = field(default_factory=dict)
    namespace: str | None = None


@dataclass(frozen=True)
class Call:
    """A tool call of the model. `tool` is the name that the server gave the tool."""

    tool: str
    arguments: dict


@dataclass(frozen=True)
class Image:
    """An image that the model was shown."""

    mime: str
    data: bytes

    @staticmethod
    def from_url(url):
        """The image of a `data:` URL."""
        head, _, data = url.partition(",")
        return Image(head.removeprefix("data:").split(";")[0], base64.b64decode(data))


@dataclass
class Seen:
    """What the client showed the model of one tool result."""

    text: str = ""
    images: list[Image] = field(default_factory=list)

    @property
    def lines(self):
        """The text with line ends as such, also where it is JSON within text."""
        return self.text.replace("\\r", "").replace("\\n", "\n")

    def find(self, pattern):
        """The first group of the last match of `pattern`, or None."""
        found = re.findall(pattern, self.text)
        return found[-1] if found else None


@dataclass
class Turn:
    """One request to the model: the tools on offer and the conversation so far."""

    system: str
    tools: list[Tool]
    results: list[Seen]
    prompt: str = ""
    is_streaming: bool = False
    model: str = "scripted"

    def find_tool(self, name):
        """The tool that the server calls `name`, whatever prefix the client put before it."""
        pattern = re.compile(rf"(^|[^a-z0-9]){re.escape(name)}$")
        matching = [tool for tool in self.tools if pattern.search(tool.name)]
        return min(matching, key=lambda tool: len(tool.name), default=None)


@dataclass(frozen=True)
class Reply:
    """What the model answers: tool calls by their names at the client, or else a text."""

    text: str = ""
    calls: tuple[tuple[Tool, dict], ...] = ()
    first_call: int = 0

    def numbered_calls(self):
        """Each call with an id that is unique in the conversation."""
        return [(f"call_{self.first_call + n}", *call) for n, call in enumerate(self.calls)]


def event(data, name=None):
    """A server-sent event."""
    return (f"event: {name}\n" if name else "") + f"data: {data}\n\n"
