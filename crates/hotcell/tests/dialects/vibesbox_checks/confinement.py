"""What commands may use, who they are, and what they leave behind."""

import json
import time
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from mcp import Client

from harness import Server, check, children, eventually, reap_orphans, stat_of
from vibesbox_checks.commands import execute, prints, processes

COMMANDS = 60


def info(server: Server) -> dict[str, Any]:
    """What the program tells of the one cell of a state."""
    (cell,) = json.loads(server.target.run(server.state, "cells", "--json"))["cells"]
    return json.loads(server.target.run(server.state, "info", cell["id"], "--json"))


@asynccontextmanager
async def limited(
    server: Server, name: str, layer: str, value: float
) -> AsyncIterator[Client | None]:
    """A session whose cell has a limit; nothing where the machine cannot enforce one."""
    async with server.session() as session:
        await prints(session, "true")
        cell = info(server)["cell"]
        if layer not in [each["name"] for each in cell["isolation"]["layers"]]:
            yield None
            return
        assert cell["limits"][name] == value, cell["limits"]
        yield session


@check("default", "commands have the network")
async def the_network_is_there(server: Server):
    async with server.session() as session:
        await prints(session, "true")
        assert info(server)["cell"]["network"] == {"allow": ["*"]}, info(server)


@check("bound", "commands have 512 MB of memory")
async def memory_is_bounded(server: Server):
    async with limited(server, "memory_mb", "memory_limit", 512) as session:
        if session is None:
            return
        keep = "head -c {size} /dev/zero | tail -c {size} > /dev/null"
        done = await execute(session, keep.format(size=200 << 20))
        assert done["success"], done
        done = await execute(session, keep.format(size=600 << 20))
        assert not done["success"], done
        assert await prints(session, "echo still here") == "still here\n"


@check("bound", "commands have half of a processor")
async def processors_are_bounded(server: Server):
    async with limited(server, "cpus", "cpu_limit", 0.5) as session:
        if session is None:
            return
        before, begun = info(server)["stats"]["cpu_ms"], time.monotonic()
        await execute(session, "(while :; do :; done) & while :; do :; done", timeout=6)
        passed = (time.monotonic() - begun) * 1000
        used = info(server)["stats"]["cpu_ms"] - before
        assert 0 < used < 0.7 * passed, (used, passed)


@check("bound", "commands may be 100 processes")
async def processes_are_bounded(server: Server):
    async with limited(server, "pids", "pids_limit", 100) as session:
        if session is None:
            return
        fork = "n=0; while [ $n -lt {count} ]; do sleep 20 & n=$((n + 1)); done; echo all"
        assert await prints(session, fork.format(count=60)) == "all\n"
        done = await execute(session, fork.format(count=150))
        assert not done["success"] and "all" not in done["stdout"], done
        assert await prints(session, "echo still here") == "still here\n"


@check("bound", "a background command for which no process is left did not succeed, and says why")
async def failed_starts_are_told(server: Server):
    async with limited(server, "pids", "pids_limit", 100) as session:
        if session is None:
            return
        begun = [await execute(session, "exec sleep 1000", background=True) for _ in range(110)]
        failed = [each for each in begun if not each["success"]]
        assert failed, "110 processes are there"
        for each in failed:
            assert each["exit_code"] != 0 and (each["error"] or each["stderr"]), each
        started = [each.get("pid") for each in begun if each["success"]]
        assert None not in started, f"{started.count(None)} began without a pid"
        running = [each["pid"] for each in await processes(session) if each["status"] == "running"]
        assert sorted(running) == sorted(started), (len(running), len(started))


@check("bound", "commands are an unprivileged user without capabilities, and cannot gain any")
async def commands_are_unprivileged(server: Server):
    async with server.session() as session:
        assert int(await prints(session, "id -u")) > 0
        assert int(await prints(session, "id -g")) > 0
        lines = (await prints(session, "cat /proc/self/status")).splitlines()
        status = dict(line.split(":", 1) for line in lines)
        for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
            assert int(status[name], 16) == 0, (name, status[name])
        assert int(status["NoNewPrivs"]) == 1, status["NoNewPrivs"]


@check("bound", "commands see neither the files of the server nor its processes and variables")
async def commands_are_apart(server: Server):
    kept = server.put("kept-outside", "hunter2")
    async with server.session({"SECRET_OF_THE_SERVER": "hunter2"}) as session:
        done = await execute(session, f"cat {kept}; cat kept-outside")
        assert not done["success"] and done["stdout"] == "", done
        assert "hunter2" not in await prints(session, "env")
        seen = (await prints(session, "cd /proc; echo [0-9]*")).split()
        assert len(seen) < 10, seen


@check("bound", f"{COMMANDS} commands leave no zombie, and nothing running")
async def no_zombies_are_left(server: Server):
    async with server.session() as session:
        for number in range(COMMANDS):
            # A child that outlives its parent, or not.
            await execute(session, f"sleep 0.0{number % 5} & echo {number}", stream=False)
        states = await prints(session, "grep -h ^State: /proc/[0-9]*/status")
        assert "Z" not in states, states
        assert "running" not in [each["status"] for each in await processes(session)]

        async def none_is_left() -> bool:
            reap_orphans()
            return not [pid for pid in descendants() if (stat_of(pid) or "?")[0] == "Z"]

        await eventually("there is no zombie", none_is_left)


def descendants() -> list[int]:
    """Everything that we, or what we have started, have started."""
    parents = {
        int(path.name): int(fields[1])
        for path in Path("/proc").glob("[0-9]*")
        if (fields := stat_of(int(path.name)))
    }
    found = children()
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found


def at(server: Server, address: str) -> Server:
    """The same server at another address, with a state of its own."""
    program = server.target.command[0]
    command = [program, "serve", "--dialect", "vibesbox", "--http", address]
    target = replace(server.target, command=command, transport="http")
    return Server(target, server.work / "other", server.logs / "other")


@check("tool", "GET /health answers 200")
async def health_is_answered_over_http(server: Server):
    other = at(server, "127.0.0.1:{port}")
    async with other.session() as session:
        assert (await session.list_tools()).tools
        ((_, _, url),) = other.listening
        with urllib.request.urlopen(url.replace("/mcp", "/health")) as answer:
            assert answer.status == 200, answer.status


@check("default", "a port alone is opened for this machine and no other")
async def only_this_machine_is_served(server: Server):
    other = at(server, "{port}")
    async with other.session() as session:
        assert (await session.list_tools()).tools
        ((_, _, url),) = other.listening
        port = int(url.rpartition(":")[2].partition("/")[0])
        assert listening_at(port) == {"0100007F"}, listening_at(port)


def listening_at(port: int) -> set[str]:
    """The addresses, as the kernel writes them, at which a port is open."""
    tables = [Path("/proc/net/tcp"), Path("/proc/net/tcp6")]
    lines = [line.split() for table in tables if table.exists() for line in table.open()]
    listening = [fields[1].split(":") for fields in lines if fields[3] == "0A"]
    return {address for address, found in listening if int(found, 16) == port}
