"""Processes by their pids: listing, reading and killing them."""

import re
from datetime import UTC, datetime, timedelta

import anyio

from harness import Server, check
from vibesbox_checks.commands import (
    ended,
    execute,
    is_unknown,
    kill,
    prints,
    processes,
    read,
    reads,
    start,
    status,
)
from vibesbox_checks.contract import LISTED, MOST_ENDED

BEAT = "while :; do sleep 0.1; done"


@check("tool", "a process is listed with pid, command, start and status")
async def processes_are_listed(server: Server):
    async with server.session() as session:
        pid = await start(session, "sleep 1000")
        (found,) = await processes(session)
        assert set(found) == LISTED, found
        assert (found["pid"], found["command"]) == (pid, "sleep 1000"), found
        assert found["status"] == "running", found
        age = datetime.now(UTC) - datetime.fromisoformat(found["started_at"])
        assert abs(age) < timedelta(minutes=5), found


@check("tool", "a process runs, and is completed when it has ended, however it did")
async def ended_processes_are_completed(server: Server):
    async with server.session() as session:
        for command in ("true", "exit 3", "kill -KILL $$"):
            pid = await start(session, command)
            await ended(session, pid)
        pid = await start(session, "sleep 1000")
        assert await status(session, pid) == "running"
        await kill(session, pid)
        assert await status(session, pid) == "completed"


@check("tool", "the pid that is told is the one that the command itself has")
async def pids_are_those_inside(server: Server):
    async with server.session() as session:
        for _ in range(3):
            pid = await start(session, "echo $$; sleep 1000")
            await reads(session, pid, f"{pid}\n")
            inside = await prints(session, f"grep '^NSpid:\\|^Pid:' /proc/{pid}/status")
            assert str(pid) in inside.split(), inside


@check("tool", "read gives what is new, of both streams, and says whether there is something")
async def reading_is_incremental(server: Server):
    async with server.session() as session:
        pid = await start(session, "echo one; until [ -e go ]; do sleep 0.1; done; echo two >&2")
        await reads(session, pid, "one\n")
        assert await read(session, pid) == ""
        await prints(session, "touch go")
        await reads(session, pid, "two\n")
        await ended(session, pid)
        assert await read(session, pid) == ""


@check("tool", "output without a newline is read while its process waits")
async def prompts_are_read(server: Server):
    async with server.session() as session:
        pid = await start(session, "printf 'name? '; sleep 1000")
        await reads(session, pid, "name? ")


@check("tool", "all of much output is read, in order and without a gap")
async def much_is_read(server: Server):
    async with server.session() as session:
        pid = await start(session, "seq 200000")
        await reads(session, pid, "".join(f"{n}\n" for n in range(1, 200001)))


@check("tool", "the output of a process that has ended can still be read")
async def ended_processes_are_read(server: Server):
    async with server.session() as session:
        pid = await start(session, "echo hello; exit 3")
        await ended(session, pid)
        await reads(session, pid, "hello\n")


@check("tool", "secrets in what is read and in commands that are listed are masked")
async def secrets_are_masked_in_processes(server: Server):
    async with server.session() as session:
        pid = await start(session, "echo PASSWORD=hunter22")
        await reads(session, pid, "PASSWORD=[REDACTED]\n")
        (found,) = await processes(session)
        assert found["command"] == "echo PASSWORD=[REDACTED]", found


@check("tool", "SIGTERM asks: the process says its last words, and its exit is its own")
async def sigterm_asks(server: Server):
    async with server.session() as session:
        pid = await start(session, f'trap "echo asked; exit 0" TERM; echo ready; {BEAT}')
        await reads(session, pid, "ready\n")
        await kill(session, pid, signal="SIGTERM")
        assert "asked\n" in await read(session, pid)
        assert await status(session, pid) == "completed"


@check("tool", "SIGKILL does not ask")
async def sigkill_does_not_ask(server: Server):
    async with server.session() as session:
        pid = await start(session, f'trap "echo asked; exit 0" TERM; echo ready; {BEAT}')
        await reads(session, pid, "ready\n")
        await kill(session, pid, signal="SIGKILL")
        assert await status(session, pid) == "completed"
        assert "asked" not in await read(session, pid)


@check("tool", "a process that ignores SIGTERM is ended all the same")
async def sigterm_cannot_be_ignored(server: Server):
    async with server.session() as session:
        pid = await start(session, f'trap "" TERM; echo ready; {BEAT}')
        await reads(session, pid, "ready\n")
        await kill(session, pid)
        assert await status(session, pid) == "completed"


@check("tool", "a kill ends one process and leaves the others alone")
async def others_are_left_alone(server: Server):
    async with server.session() as session:
        one, other = [await start(session, "sleep 1000") for _ in range(2)]
        await kill(session, one)
        assert await status(session, one) == "completed"
        assert await status(session, other) == "running"


@check("error", "a process that never was, or is no command of a caller, is not found")
async def unknown_processes_are_named(server: Server):
    async with server.session() as session:
        await prints(session, "true")
        for pid in (0, 1, 99999, 2**31 - 1):
            await is_unknown(session, "kill", pid)
            await is_unknown(session, "read", pid)


@check("error", "a process that has ended cannot be killed")
async def ended_processes_are_not_killed(server: Server):
    async with server.session() as session:
        pid = await start(session, "true")
        await ended(session, pid)
        await is_unknown(session, "kill", pid)
        pid = await start(session, "sleep 1000")
        await kill(session, pid)
        await is_unknown(session, "kill", pid)


@check("bound", "a hundred processes that have ended are kept, the newest; what runs stays")
async def a_hundred_ended_processes_are_kept(server: Server):
    async with server.session() as session:
        runs = await start(session, "sleep 1000")
        first = await start(session, "echo first")
        await ended(session, first)
        for number in range(MOST_ENDED):
            await execute(session, f"echo {number}", stream=False)
        listed = await processes(session)
        kept = [each["command"] for each in listed if each["status"] == "completed"]
        assert sorted(kept) == sorted(f"echo {n}" for n in range(MOST_ENDED)), kept
        running = [each["pid"] for each in listed if each["status"] == "running"]
        assert running == [runs], listed
        await is_unknown(session, "read", first)


@check("bound", "a background command is not ended by the timeout of one that is waited for")
async def background_commands_have_time(server: Server):
    async with server.session() as session:
        pid = await start(session, "sleep 1000", timeout=1)
        await anyio.sleep(4)
        assert await status(session, pid) == "running"


@check("tool", "a start is an ISO time in UTC")
async def starts_are_iso_times(server: Server):
    async with server.session() as session:
        await prints(session, "true")
        (found,) = await processes(session)
        shape = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)"
        assert re.fullmatch(shape, found["started_at"]), found
