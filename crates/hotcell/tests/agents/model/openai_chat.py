"""The Chat Completions API of OpenAI, which many programs and servers speak."""

import json

from .conversation import Image, Seen, Tool, Turn, event


def parse(body):
    """The turn that a request asks for."""
    functions = [tool["function"] for tool in body.get("tools", []) if tool["type"] == "function"]
    system, prompt, results = [], [], []
    for message in body["messages"]:
        seen = read_content(message.get("content"))
        if message["role"] in ("system", "developer"):
            system.append(seen.text)
        elif message["role"] == "tool":
            results.append(seen)
        elif message["role"] == "user":
            # Chat Completions has no images in results: clients send them as the user's.
            if results and seen.images:
                results[-1].images += seen.images
            prompt.append(seen.text)
    return Turn(
        system="\n".join(system),
        tools=[Tool(f["name"], f.get("description", ""), f.get("parameters", {})) for f in functions],
        results=results,
        prompt="\n".join(prompt),
        is_streaming=body.get("stream", False),
        model=body.get("model", ""),
    )


def read_content(content):
    if isinstance(content, str):
        return Seen(content)
    seen, texts = Seen(), []
    for part in content or []:
        if part["type"] == "text":
            texts.append(part["text"])
        elif part["type"] == "image_url":
            seen.images.append(Image.from_url(part["image_url"]["url"]))
        else:
            texts.append(json.dumps(part))
    seen.text = "\n".join(texts)
    return seen


def write(turn, reply):
    """The body of the response: a completion, or the chunks of its stream."""
    message = {"role": "assistant", "content": reply.text or None}
    if reply.calls:
        message["tool_calls"] = [
            {
                "index": index,
                "id": call_id,
                "type": "function",
                "function": {"name": tool.name, "arguments": json.dumps(arguments)},
            }
            for index, (call_id, tool, arguments) in enumerate(reply.numbered_calls())
        ]
    end = "tool_calls" if reply.calls else "stop"
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    base = {"id": f"chatcmpl-{reply.first_call}", "created": 1, "model": turn.model}
    if not turn.is_streaming:
        choice = {"index": 0, "message": message, "finish_reason": end}
        return json.dumps(
            {**base, "object": "chat.completion", "choices": [choice], "usage": usage}
        )
    chunk = {**base, "object": "chat.completion.chunk"}
    first = {"index": 0, "delta": message, "finish_reason": None}
    last = {"index": 0, "delta": {}, "finish_reason": end}
    return (
        event(json.dumps({**chunk, "choices": [first]}))
        + event(json.dumps({**chunk, "choices": [last], "usage": usage}))
        + event("[DONE]")
    )
