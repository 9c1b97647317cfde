"""The Messages API of Anthropic."""

import base64
import json

from .conversation import Image, Seen, Tool, Turn, event


def parse(body):
    """The turn that a request asks for."""
    tools = [
        Tool(tool["name"], tool.get("description", ""), tool.get("input_schema", {}))
        for tool in body.get("tools", [])
        if "name" in tool
    ]
    results, prompt, system = [], [], [text_of(body.get("system", ""))]
    for message in body["messages"]:
        content = message["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            if block["type"] == "tool_result":
                results.append(read_result(block.get("content", "")))
            elif block["type"] == "text" and message["role"] != "assistant":
                (system if message["role"] == "system" else prompt).append(block["text"])
    return Turn(
        system="\n".join(system),
        tools=tools,
        results=results,
        prompt="\n".join(prompt),
        is_streaming=body.get("stream", False),
        model=body.get("model", ""),
    )


def read_result(content):
    """What a result shows: its text, its images, and the tools that it made known."""
    if isinstance(content, str):
        return Seen(content)
    seen = Seen()
    texts = []
    for block in content:
        if block["type"] == "text":
            texts.append(block["text"])
        elif block["type"] == "image":
            source = block["source"]
            seen.images.append(Image(source["media_type"], base64.b64decode(source["data"])))
        else:
            texts.append(json.dumps(block))
    seen.text = "\n".join(texts)
    return seen


def text_of(content):
    if isinstance(content, str):
        return content
    return "\n".join(block.get("text", "") for block in content)


def write(turn, reply):
    """The body of the response: a message, or the events of its stream."""
    blocks = [
        {"type": "tool_use", "id": call_id, "name": tool.name, "input": arguments}
        for call_id, tool, arguments in reply.numbered_calls()
    ] or [{"type": "text", "text": reply.text}]
    stop = "tool_use" if reply.calls else "end_turn"
    message = {
        "id": f"msg_{reply.first_call}",
        "type": "message",
        "role": "assistant",
        "model": turn.model,
        "content": blocks,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 5},
    }
    if not turn.is_streaming:
        return json.dumps(message)
    return "".join(event(json.dumps(data), data["type"]) for data in events(message, blocks, stop))


def events(message, blocks, stop):
    yield {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}}
    for index, block in enumerate(blocks):
        if block["type"] == "text":
            start = {"type": "text", "text": ""}
            delta = {"type": "text_delta", "text": block["text"]}
        else:
            start = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        yield {"type": "content_block_start", "index": index, "content_block": start}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    yield {
        "type": "message_delta",
        "delta": {"stop_reason": stop, "stop_sequence": None},
        "usage": {"output_tokens": 5},
    }
    yield {"type": "message_stop"}
