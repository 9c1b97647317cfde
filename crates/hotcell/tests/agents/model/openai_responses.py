"""The Responses API of OpenAI."""

import json

from .conversation import Image, Seen, Tool, Turn, event


def parse(body):
    """The turn that a request asks for."""
    tools, system, prompt, results = [], [body.get("instructions") or ""], [], []
    for tool in body.get("tools", []):
        members, namespace = [tool], None
        if tool["type"] == "namespace":
            members, namespace = tool["tools"], tool["name"]
            system.append(tool.get("description", ""))
        for member in members:
            if "name" in member:
                tools.append(
                    Tool(
                        member["name"],
                        member.get("description", ""),
                        member.get("parameters", {}),
                        namespace,
                    )
                )
    items = body.get("input", [])
    for item in [] if isinstance(items, str) else items:
        kind = item.get("type", "message")
        if kind.endswith("_output"):
            results.append(read_content(item.get("output", item)))
        elif kind == "message":
            text = read_content(item.get("content")).text
            (prompt if item["role"] == "user" else system).append(text)
    return Turn(
        system="\n".join(system),
        tools=tools,
        results=results,
        prompt="\n".join(prompt),
        is_streaming=body.get("stream", False),
        model=body.get("model", ""),
    )


def read_content(content):
    if isinstance(content, str):
        return Seen(content)
    if isinstance(content, dict):
        return Seen(json.dumps(content))
    seen, texts = Seen(), []
    for part in content or []:
        if "text" in part:
            texts.append(part["text"])
        elif part["type"] == "input_image":
            seen.images.append(Image.from_url(part["image_url"]))
        else:
            texts.append(json.dumps(part))
    seen.text = "\n".join(texts)
    return seen


def write(turn, reply):
    """The body of the response: the response object, or the events of its stream."""
    items = [
        {
            "type": "function_call",
            "id": f"fc_{call_id}",
            "call_id": call_id,
            "name": tool.name,
            "arguments": json.dumps(arguments),
            "status": "completed",
            **({"namespace": tool.namespace} if tool.namespace else {}),
        }
        for call_id, tool, arguments in reply.numbered_calls()
    ] or [
        {
            "type": "message",
            "id": "msg_final",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": reply.text, "annotations": []}],
        }
    ]
    response = {
        "id": f"resp_{reply.first_call}",
        "object": "response",
        "created_at": 1,
        "model": turn.model,
        "status": "completed",
        "output": items,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": 10,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": 5,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 15,
        },
    }
    if not turn.is_streaming:
        return json.dumps(response)
    numbered = enumerate(events(response, items))
    return "".join(
        event(json.dumps({**data, "sequence_number": number}), data["type"])
        for number, data in numbered
    )


def events(response, items):
    begun = {**response, "status": "in_progress", "output": []}
    yield {"type": "response.created", "response": begun}
    for index, item in enumerate(items):
        yield {"type": "response.output_item.added", "output_index": index, "item": item}
        if item["type"] == "message":
            yield {
                "type": "response.output_text.delta",
                "item_id": item["id"],
                "output_index": index,
                "content_index": 0,
                "delta": item["content"][0]["text"],
            }
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": "response.completed", "response": response}
