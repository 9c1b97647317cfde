"""The generateContent API of Gemini."""

import base64
import json

from .conversation import Image, Seen, Tool, Turn, event


def parse(body):
    """The turn that a request asks for."""
    declared = [
        declaration
        for tool in body.get("tools", [])
        for declaration in tool.get("functionDeclarations", [])
    ]
    results, prompt = [], []
    for content in body["contents"]:
        for part in content["parts"]:
            if "functionResponse" in part:
                results.append(read_response(part["functionResponse"]))
            elif "inlineData" in part and results:
                results[-1].images.append(read_image(part["inlineData"]))
            elif "text" in part and content.get("role") == "user":
                prompt.append(part["text"])
    system = body.get("systemInstruction", {}).get("parts", [])
    return Turn(
        system="\n".join(part.get("text", "") for part in system),
        tools=[
            Tool(
                function["name"],
                function.get("description", ""),
                function.get("parametersJsonSchema") or function.get("parameters", {}),
            )
            for function in declared
        ],
        results=results,
        prompt="\n".join(prompt),
    )


def read_response(response):
    """A result. Clients put the text in a field of their own choice, images beside it."""
    shown = response.get("response", {})
    values = list(shown.values())
    text = values[0] if len(values) == 1 and isinstance(values[0], str) else json.dumps(shown)
    images = [read_image(p["inlineData"]) for p in response.get("parts", []) if "inlineData" in p]
    return Seen(text, images)


def read_image(data):
    return Image(data["mimeType"], base64.b64decode(data["data"]))


def write(turn, reply):
    """The body of the response: one candidate, as a stream of one event where asked for."""
    parts = [
        {"functionCall": {"id": call_id, "name": tool.name, "args": arguments}}
        for call_id, tool, arguments in reply.numbered_calls()
    ] or [{"text": reply.text}]
    content = {"role": "model", "parts": parts}
    body = json.dumps(
        {
            "candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
            "usageMetadata": {
                "promptTokenCount": 10,
                "candidatesTokenCount": 5,
                "totalTokenCount": 15,
            },
            "modelVersion": "scripted",
        }
    )
    return event(body) if turn.is_streaming else body
