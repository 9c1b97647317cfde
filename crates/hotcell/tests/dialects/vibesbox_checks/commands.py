"""Commands and processes as a client works with them."""

import json
import re
import shlex
from typing import Any

from mcp import Client

from harness import eventually
from vibesbox_checks.contract import EXECUTED


async def ask(session: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """Calls a tool; what the JSON says that it answers with, as a text and in its one field."""
    result = await session.call_tool(tool, arguments)
    return answer_of(result)


def answer_of(result: Any) -> dict[str, Any]:
    assert not result.is_error, result.content
    (content,) = result.content
    assert result.structured_content == {"result": content.text}, result
    return json.loads(content.text)


async def execute(session: Client, command: str, **arguments: Any) -> dict[str, Any]:
    async def pass_over(_progress: float, _total: float | None, _message: str | None):
        pass

    # Nothing is streamed to a client that does not ask for progress.
    listens = pass_over if arguments.get("stream") else None
    arguments["command"] = command
    done = answer_of(
        await session.call_tool("execute_command", arguments, progress_callback=listens)
    )
    assert EXECUTED <= set(done), done
    return done


async def progress_of(session: Client, **arguments: Any) -> list[str]:
    """What is told of a command while it runs."""
    told: list[str] = []

    async def take(_progress: float, _total: float | None, message: str | None):
        told.append(message or "")

    await session.call_tool("execute_command", arguments, progress_callback=take)
    return told


async def prints(session: Client, command: str, **arguments: Any) -> str:
    """What a command writes that ends well."""
    done = await execute(session, command, **arguments)
    wanted = {"success": True, "exit_code": 0, "stderr": "", "error": None}
    assert {name: done[name] for name in wanted} == wanted, (command, done)
    return done["stdout"]


async def refused(session: Client, command: str, match: str, **arguments: Any):
    """Shows that a command is not run, for a reason that a regular expression matches in full."""
    done = await execute(session, command, **arguments)
    reason = done.pop("error")
    assert reason and re.fullmatch(match, reason, re.DOTALL), (command, reason, done)
    assert done == {
        "success": False,
        "exit_code": None,
        "stdout": "",
        "stderr": "",
        "truncated": False,
    }, (command, done)


async def not_on_the_list(session: Client, command: str, name: str, **arguments: Any):
    match = f"Command '{re.escape(name)}' not in allowlist\\. Allowed commands: .+"
    await refused(session, command, match, **arguments)


async def blocked(session: Client, command: str, pattern: str = ".+"):
    await refused(session, command, f"Command blocked: matches dangerous pattern '{pattern}'")


async def filtered(session: Client, command: str):
    """Shows that one of both lists stops a command."""
    texts = "Command blocked: matches dangerous pattern '.+'|Command '.+' not in allowlist\\. .+"
    await refused(session, command, texts)


async def start(session: Client, command: str, **arguments: Any) -> int:
    """The pid of a command that goes on."""
    done = await execute(session, command, background=True, **arguments)
    assert done["success"] and done["error"] is None and done["exit_code"] is None, done
    return done["pid"]


async def processes(session: Client) -> list[dict[str, Any]]:
    listed = await ask(session, "manage_process", action="list")
    assert set(listed) == {"success", "processes", "count"}, listed
    assert listed["success"] and listed["count"] == len(listed["processes"]), listed
    return listed["processes"]


async def status(session: Client, pid: int) -> str:
    (found,) = [each["status"] for each in await processes(session) if each["pid"] == pid]
    return found


async def ended(session: Client, pid: int):
    async def find() -> bool:
        return await status(session, pid) == "completed"

    await eventually("the process has ended", find)


async def read(session: Client, pid: int) -> str:
    """What a process has written since it was last asked."""
    seen = await ask(session, "manage_process", action="read", pid=pid)
    new = seen.get("output")
    assert seen == {"success": True, "pid": pid, "output": new, "has_new_output": new != ""}, seen
    return new


async def reads(session: Client, pid: int, wanted: str):
    """Waits until just this was read, in however many pieces."""
    seen = ""

    async def find() -> bool:
        nonlocal seen
        seen += await read(session, pid)
        return len(seen) >= len(wanted)

    try:
        await eventually("the output", find)
    finally:
        assert seen == wanted, seen


async def kill(session: Client, pid: int, **arguments: Any):
    done = await ask(session, "manage_process", action="kill", pid=pid, **arguments)
    message = done.get("message")
    assert done == {"success": True, "message": message, "pid": pid}, done
    assert str(pid) in message and arguments.get("signal", "SIGTERM") in message, done


async def is_unknown(session: Client, action: str, pid: int):
    done = await ask(session, "manage_process", action=action, pid=pid)
    assert set(done) == {"success", "error", "suggestion"}, done
    assert done["success"] is False and done["suggestion"], done
    assert done["error"] == f"Process {pid} not found in active sessions", done


def printing(text: str) -> str:
    """A command that writes a text as it is."""
    return f"printf %s {shlex.quote(text)}"
