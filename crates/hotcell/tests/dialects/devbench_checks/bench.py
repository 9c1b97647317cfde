"""Containers as a client works with them."""

import os
import re
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp import Client, MCPError
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client

from harness import (
    INITIALIZE,
    PATIENCE_S,
    Server,
    call,
    command_of,
    eventually,
    free_port,
    is_open,
    stat_of,
)

IMAGE = os.environ.get("DEVBENCH_IMAGE", "host")
NOBODY = "c_0000000000"
NOTHING = "e_0000000000"
WITHOUT_INPUT = {
    "health",
    "reconcile",
    "metrics",
    "system_status",
    "garbage_collect",
    "list_containers",
    "list_execs",
}


@asynccontextmanager
async def bench(server: Server, **env: str) -> AsyncIterator[Client]:
    """A session with a server that has these variables."""
    transport = {"MCP_TRANSPORT_MODE": "stdio"} if server.target.transport == "stdio" else {}
    async with server.session(transport | env) as session:
        yield session


async def ask(session: Client, tool: str, **given: Any) -> dict[str, Any]:
    """Calls a tool with its one object of input; its result."""
    if tool in WITHOUT_INPUT and not given:
        return await call(session, tool)
    return await call(session, tool, input_data=given)


async def refused(session: Client, code: int, tool: str, **given: Any) -> MCPError:
    """Calls a tool, which is to fail with the error of a code."""
    try:
        result = await session.call_tool(tool, {"input_data": given})
    except MCPError as error:
        told = f"{tool} {given} fails with {error.code}: {error.message}"
        assert error.code == code, f"{told}, and not with {code}"
        assert error.data["code"], f"{told} has no name in its data: {error.data}"
        return error
    raise AssertionError(f"{tool} {given} does not fail: {result.structured_content}")


async def spawn(session: Client, **given: Any) -> str:
    return (await ask(session, "spawn", image=IMAGE, **given))["container_id"]


async def start(session: Client, container: str, script: str, **given: Any) -> str:
    begun = await ask(
        session, "exec_start", container_id=container, cmd=["sh", "-c", script], **given
    )
    assert begun["status"] == "running", begun
    return begun["exec_id"]


async def finished(session: Client, exec_id: str, after_seq: int = 0) -> list[dict[str, Any]]:
    """All messages of an execution after one, the last of which tells how it ended."""
    messages: list[dict[str, Any]] = []

    async def find() -> bool:
        after = messages[-1]["seq"] if messages else after_seq
        page = await ask(session, "exec_poll", exec_id=exec_id, after_seq=after)
        messages.extend(page["messages"])
        return page["complete"]

    await eventually("the execution is complete", find)
    return messages


def text(messages: list[dict[str, Any]], stream: str = "stdout") -> str:
    return "".join(each["data"] for each in messages if each["stream"] == stream)


async def printed(session: Client, container: str, script: str, **given: Any) -> str:
    """What a script prints until it has ended well."""
    messages = await finished(session, await start(session, container, script, **given))
    assert messages[-1]["exit_code"] == 0, messages
    return text(messages)


async def write(session: Client, container: str, path: str, content: str, **given: Any) -> str:
    written = await ask(
        session, "fs_write", container_id=container, path=path, content=content, **given
    )
    return written["etag"]


async def read(session: Client, container: str, path: str) -> str:
    return (await ask(session, "fs_read", container_id=container, path=path))["content"]


async def containers(session: Client, **given: Any) -> list[dict[str, Any]]:
    return (await ask(session, "list_containers", **given))["containers"]


async def forks_and_burns(session: Client, made: str) -> tuple[int, float]:
    """How many processes a container takes, and how many of its processors it gets."""
    fork = "i=0; while [ $i -lt 400 ]; do sleep 60 & i=$((i + 1)); echo $i; done"
    forked = await finished(session, await start(session, made, fork, timeout_s=30))
    burn = "while :; do :; done"
    burning = await start(session, made, f"({burn}) & {burn}", timeout_s=2)
    usage = (await finished(session, burning))[-1]["usage"]
    assert usage["timeout"] is True, usage
    return len(text(forked).split()), usage["cpu_ms"] / usage["wall_ms"]


async def container(session: Client, container_id: str) -> dict[str, Any]:
    (found,) = [each for each in await containers(session) if each["id"] == container_id]
    return found


def are_limited(server: Server) -> bool:
    """Whether containers are limited and counted whatever the machine hands to its users: those of
    an engine are, and root's."""
    return IMAGE != "host" or is_roots_own(server)


def is_roots_own(server: Server) -> bool:
    """Whether containers are native cells of root."""
    return IMAGE == "host" and os.getuid() == 0 and not server.target.user


def first_process_of(word: str) -> int | None:
    """The first process of the container in which a command with this argument runs, if one does."""
    wanted = word.encode()
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        if wanted in command_of(pid).split(b"\0")[1:] and len(ids_inside(pid)) > 1:
            while ids_inside(pid)[-1] != 1:
                pid = int(stat_of(pid)[1])
            return pid
    return None


def ids_inside(pid: int) -> list[int]:
    """The ids of a process, from ours to that in its own namespace."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return []
    return [int(number) for number in re.search(r"^NSpid:(.*)$", status, re.MULTILINE)[1].split()]


def serve_command(server: Server) -> list[str]:
    """The command without what says where to listen."""
    words = server.target.command
    return server.target.started(words[: words.index("--http")] if "--http" in words else words)


@asynccontextmanager
async def listening(server: Server, **env: str) -> AsyncIterator[tuple[subprocess.Popen, int]]:
    """A server that listens where the variables say, beside those of the suite."""
    port = free_port()
    with server.log() as log:
        process = subprocess.Popen(
            serve_command(server),
            env=server.variables({"MCP_PORT": str(port)} | env),
            cwd=server.work,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        try:

            async def listens() -> bool:
                assert process.poll() is None, f"the server ended with {process.poll()}"
                return is_open(port)

            await eventually("the server listens", listens)
            yield process, port
        finally:
            process.kill()
            process.wait()


def does_not_listen(server: Server, env: dict[str, str]) -> str:
    """What a server says that ends badly because of where it would listen."""
    ended = subprocess.run(
        serve_command(server),
        env=server.variables(env),
        cwd=server.work,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert ended.returncode != 0, ended.stderr
    return ended.stderr


@asynccontextmanager
async def caller(port: int, token: str = "", path: str = "/mcp") -> AsyncIterator[Client]:
    """A session over HTTP."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with create_mcp_http_client(headers=headers) as http:
        url = f"http://127.0.0.1:{port}{path}"
        async with Client(streamable_http_client(url, http_client=http)) as session:
            yield session


async def knock(port: int, token: str = "", **headers: str) -> tuple[int, int, str]:
    """How whoever is not let in is told so: the status of HTTP, the number, and what is asked for."""
    headers |= {"Authorization": f"Bearer {token}"} if token else {}
    headers["Accept"] = "application/json, text/event-stream"
    async with create_mcp_http_client(headers=headers) as http:
        answer = await http.post(f"http://127.0.0.1:{port}/mcp", json=INITIALIZE)
    number = answer.json().get("error", {}).get("code", 0)
    return answer.status_code, number, answer.headers.get("www-authenticate", "")


async def is_turned_away(port: int, token: str = "") -> bool:
    """Whether a caller without a good token is told so, by the number that the documents have."""
    return (await knock(port, token))[:2] == (401, -32007)


def hotcell(server: Server, *arguments: str) -> str:
    """What a command of the operator prints."""
    return server.target.run(server.state, *arguments)
