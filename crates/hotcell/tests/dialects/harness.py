"""Drives a server under test through the official client, one check at a time.

A suite is a program that names its modules of checks, `sys.exit(harness.main([…]))`:

    SUITE.py --list
    SUITE.py --target hotcell|original --command 'PROGRAM ARGUMENT…' [--transport stdio|http]
             [--user NAME] [--scratch DIR] [NAME…]

The first prints what every check holds, the second runs all checks, or those named. Both print one
JSON object a line. The exit code is 0 only if all went well. Over HTTP the command says `{port}`
where the port belongs. With `--user` root starts the servers as that user."""

import argparse
import ctypes
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO, TypeVar

import anyio
from mcp import Client, StdioServerParameters
from mcp.client.stdio import get_default_environment, stdio_client

KINDS = [
    "tool",
    "default",
    "bound",
    "error",
    "config",
    "concurrency",
    "restart",
    "fault",
    "planned",
]
PATIENCE_S = 30
CHECK_LIMIT_S = 300
# As much of an error as is told.
LONG = 1000
HERE = Path(__file__).parent
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "check", "version": "1"},
    },
}
PR_SET_CHILD_SUBREAPER = 36

Found = TypeVar("Found")


@dataclass(frozen=True)
class Check:
    """What holds of a server, and how that is shown."""

    name: str
    kind: str
    about: str
    # Why it does not hold of the original; nothing if it does.
    original: str
    run: Callable[["Server"], Awaitable[None]]

    def described(self) -> dict[str, Any]:
        told = {"name": self.name, "kind": self.kind, "about": self.about}
        return told | ({"original": self.original} if self.original else {})


def check(
    kind: str, about: str, original: str = ""
) -> Callable[[Callable[["Server"], Awaitable[None]]], Check]:
    """Makes a check of a function; `original` says why the original does not pass it."""
    assert kind in KINDS, kind

    def keep(run: Callable[["Server"], Awaitable[None]]) -> Check:
        return Check(run.__name__, kind, about, original, run)

    return keep


@dataclass(frozen=True)
class Target:
    """How servers under test are started."""

    name: str
    command: list[str]
    transport: str
    # Whose servers they are, where they are not ours.
    user: str | None = None

    def started(self, words: list[str]) -> list[str]:
        """What starts these words as that user, in the process that is started."""
        if not self.user:
            return words
        return ["setpriv", "--reuid", self.user, "--regid", self.user, "--clear-groups", *words]

    def own(self, path: Path) -> Path:
        """Makes a path that of the servers' user."""
        if self.user:
            shutil.chown(path, self.user, self.user)
        return path

    def environment(self, state: Path) -> dict[str, str]:
        if self.name != "hotcell":
            return {}
        given = {name: value for name, value in os.environ.items() if name.startswith("HOTCELL_")}
        return given | {"HOTCELL_STATE_DIR": str(state)}

    def run(self, state: Path, *arguments: str) -> str:
        """What the program itself prints of a state."""
        return subprocess.run(
            self.started([self.command[0], *arguments]),
            env=get_default_environment() | self.environment(state),
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout

    def sweep(self, state: Path):
        """Ends the cells that a check has left."""
        if self.name != "hotcell" or not state.exists():
            return
        listed = json.loads(self.run(state, "cells", "--all", "--json"))["cells"]
        if cells := [cell["id"] for cell in listed]:
            self.run(state, "kill", "--force", "--volumes", *cells)


class Server:
    """The server under test as one check sees it: any number of processes that have one state and
    one directory to work in."""

    def __init__(self, target: Target, place: Path, logs: Path):
        self.target = target
        self.state = place / "state"
        self.work = place / "work"
        self.logs = logs
        place.mkdir(parents=True, exist_ok=True)
        if target.user:
            target.own(place)
        self.make("")
        self.logs.mkdir(parents=True)
        # By the identity of the session, for clients cannot be keys.
        self.pids: dict[int, int] = {}
        self.listening: list[tuple[dict[str, str], subprocess.Popen, str]] = []
        # One is started at a time, so that each finds its own.
        self.opening = anyio.Lock()

    def make(self, name: str) -> Path:
        """Makes a directory of the one to work in, or that itself."""
        path = self.work / name
        path.mkdir()
        return self.target.own(path)

    def put(self, name: str, text: str = "") -> Path:
        """Puts a file into the directory to work in."""
        path = self.work / name
        path.write_text(text)
        return self.target.own(path)

    @asynccontextmanager
    async def session(self, env: dict[str, str] | None = None) -> AsyncIterator[Client]:
        """A session with a server that has these variables: over stdio with a new process, over
        HTTP with one that was started so and still lives."""
        env = env or {}
        if self.target.transport == "http":
            async with self.opening:
                process, url = await self.listener(env)
            async with AsyncExitStack() as stack:
                session = await stack.enter_async_context(Client(url))
                self.pids[id(session)] = process.pid
                yield session
                if process.poll() is not None:
                    # There is nobody to take leave of.
                    with suppress(Exception):
                        await stack.aclose()
            return
        program, *arguments = self.target.started(self.target.command)
        parameters = StdioServerParameters(
            command=program,
            args=arguments,
            env=self.variables(env),
            cwd=self.work,
        )
        with self.log() as log:
            async with AsyncExitStack() as stack:
                async with self.opening:
                    before = set(self.servers())
                    client = Client(stdio_client(parameters, errlog=log))
                    session = await stack.enter_async_context(client)
                    (self.pids[id(session)],) = set(self.servers()) - before
                yield session

    def servers(self) -> list[int]:
        """Our children that run the command under test, or an interpreter of it."""
        words = b"".join(word.encode() + b"\0" for word in self.target.command)
        return [pid for pid in children() if command_of(pid).endswith(words)]

    def variables(self, env: dict[str, str]) -> dict[str, str]:
        """The variables of a server; those that are given without a value are left out."""
        given = get_default_environment() | self.target.environment(self.state) | env
        return {name: value for name, value in given.items() if value}

    def log(self) -> TextIO:
        return open(self.logs / f"{len(list(self.logs.iterdir()))}.log", "w+")

    def start(self, env: dict[str, str], log: TextIO, port: int | None = None) -> subprocess.Popen:
        words = [word.replace("{port}", str(port)) for word in self.target.command]
        return subprocess.Popen(
            self.target.started(words),
            env=self.variables(env),
            cwd=self.work,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE if port is None else log,
            stderr=log,
            start_new_session=True,
        )

    async def listener(self, env: dict[str, str]) -> tuple[subprocess.Popen, str]:
        """The process that listens with these variables, and where."""
        for known, process, url in self.listening:
            if known == env and process.poll() is None:
                return process, url
        port = free_port()
        with self.log() as log:
            process = self.start(env, log, port)

        async def listens() -> bool:
            assert process.poll() is None, f"the server ended with {process.poll()}"
            return is_open(port)

        await eventually("the server listens", listens)
        url = f"http://127.0.0.1:{port}/mcp"
        self.listening.append((env, process, url))
        return process, url

    def pid(self, session: Client) -> int:
        """The process that serves a session."""
        return self.pids[id(session)]

    async def kill(self, session: Client):
        """Kills the process that serves a session, which can only be closed then."""
        pid = self.pid(session)
        os.kill(pid, signal.SIGKILL)

        listening = [process for _, process, _ in self.listening if process.pid == pid]

        async def is_gone() -> bool:
            # Its threads may take a moment longer than its first one.
            return not is_alive(pid) and all(process.poll() is not None for process in listening)

        # The client may give up as soon as nobody answers.
        with anyio.CancelScope(shield=True):
            await eventually("the server is gone", is_gone)

    def peak_memory(self, session: Client) -> int:
        """The most bytes of memory that the process of a session ever had."""
        status = Path(f"/proc/{self.pid(session)}/status").read_text()
        return int(re.search(r"^VmHWM:\s*(\d+) kB$", status, re.MULTILINE)[1]) * 1024

    async def refuses_to_start(self, env: dict[str, str]) -> str:
        """Shows that a server with these variables ends at once and badly; what it says then."""
        port = free_port() if self.target.transport == "http" else None
        with self.log() as log:
            process = self.start(env, log, port)
            try:
                serves = await anyio.to_thread.run_sync(
                    begins_to_serve, process, port, abandon_on_cancel=True
                )
                assert not serves, f"it serves with {env}"
                assert process.wait(PATIENCE_S) != 0, f"it ends with exit code 0, with {env}"
            finally:
                process.kill()
                process.communicate()
            log.seek(0)
            return log.read()

    def close(self):
        """Ends whatever the check has started."""
        try:
            self.target.sweep(self.state)
        finally:
            end_children()


def begins_to_serve(process: subprocess.Popen, port: int | None) -> bool:
    """Whether a process answers, and does not end."""
    if port is None:
        with suppress(BrokenPipeError):
            process.stdin.write(json.dumps(INITIALIZE).encode() + b"\n")
            process.stdin.flush()
        return bool(process.stdout.readline())
    deadline = time.monotonic() + PATIENCE_S
    while process.poll() is None and time.monotonic() < deadline:
        if is_open(port):
            return True
        time.sleep(0.02)
    return process.poll() is None


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def is_open(port: int) -> bool:
    with socket.socket() as caller:
        return caller.connect_ex(("127.0.0.1", port)) == 0


def stat_of(pid: int) -> list[str] | None:
    """The fields of a process after its name: state, parent and so on."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


def command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def is_alive(pid: int) -> bool:
    fields = stat_of(pid)
    return fields is not None and fields[0] != "Z"


def children() -> list[int]:
    """The processes that this one has started, and those that their parents have left to it."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [pid for pid in pids if (fields := stat_of(pid)) and int(fields[1]) == os.getpid()]


def adopt_orphans():
    """From now on whatever loses its parent below us becomes our child, so that we can end it."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def reap_orphans():
    """Takes note of the end of those that were left to us: nobody else can."""
    for pid in children():
        if (stat_of(pid) or "?")[0] == "Z":
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def end_children():
    while left := children():
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)


async def call(session: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """Calls a tool; its structured result, which its text repeats."""
    result = await session.call_tool(tool, arguments)
    assert not result.is_error, f"{tool} {arguments}: {result.content}"
    assert json.loads(result.content[0].text) == result.structured_content, result
    return result.structured_content


async def fails(session: Client, tool: str, match: str, **arguments: Any) -> str:
    """Calls a tool, which is to fail with a text that a regular expression matches in full."""
    result = await session.call_tool(tool, arguments)
    assert result.is_error, f"{tool} {arguments} does not fail: {result.structured_content}"
    text = result.content[0].text
    assert re.fullmatch(match, text, re.DOTALL), f"{tool} {arguments} fails with: {text}"
    return text


async def eventually(
    what: str, find: Callable[[], Awaitable[Found]], patience_s: float = PATIENCE_S
) -> Found:
    """What is found at last; `find` is asked again until it is true."""
    with anyio.move_on_after(patience_s):
        while True:
            found = await find()
            if found:
                return found
            await anyio.sleep(0.05)
    raise AssertionError(f"it never came true: {what}")


async def all_at_once(calls: list[Callable[[], Awaitable[Found]]]) -> list[Found]:
    """What comes of calls that are made side by side, in their order."""
    found: list = [None] * len(calls)

    async def make(number: int):
        found[number] = await calls[number]()

    async with anyio.create_task_group() as tasks:
        for number in range(len(calls)):
            tasks.start_soon(make, number)
    return found


def cause(error: BaseException) -> str:
    """What failed, without the groups of tasks around it, and where in the check."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    steps = traceback.extract_tb(error.__traceback__)
    own = [step for step in steps if Path(step.filename).parent.is_relative_to(HERE)] or steps
    places = " < ".join(f"{Path(step.filename).name}:{step.lineno}" for step in own[::-1])
    return f"{type(error).__name__}: {str(error)[:LONG] or own[-1].line} ({places})"


async def limited(each: Check, server: Server):
    with anyio.fail_after(CHECK_LIMIT_S):
        await each.run(server)


def run(each: Check, target: Target, scratch: Path) -> dict[str, Any]:
    # Short, since there are sockets below it.
    place = Path(tempfile.mkdtemp(dir=scratch, prefix=""))
    server = Server(target, place, scratch / "logs" / each.name)
    detail = ""
    try:
        try:
            anyio.run(limited, each, server)
        finally:
            server.close()
    except Exception as error:
        detail = cause(error)
    if not detail:
        # What is kept of a check that failed is for people; the logs of all are.
        shutil.rmtree(place, ignore_errors=True)
    return each.described() | {"ok": not detail, "detail": detail}


def checks_of(suite: list[ModuleType]) -> dict[str, Check]:
    """The checks of all modules of a suite, by name and in their order."""
    found = [each for part in suite for each in vars(part).values() if isinstance(each, Check)]
    checks = {each.name: each for each in found}
    assert len(checks) == len(found), "two checks have one name"
    return checks


def run_all(target: Target, scratch: Path, checks: list[Check]) -> bool:
    adopt_orphans()
    well = True
    for each in checks:
        result = run(each, target, scratch)
        print(json.dumps(result), flush=True)
        well = well and result["ok"]
    return well


def main(suite: list[ModuleType]) -> int:
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--target", choices=["hotcell", "original"])
    parser.add_argument("--command", type=shlex.split)
    parser.add_argument("--transport", choices=["stdio", "http"], default="stdio")
    parser.add_argument("--user", help="start the servers as this user, which root alone can")
    parser.add_argument("--scratch", type=Path, help="keep what the servers wrote and logged here")
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    checks = checks_of(suite)
    if options.list:
        for each in checks.values():
            print(json.dumps(each.described()))
        return 0
    if not options.target or not options.command:
        parser.error("--target and --command are needed to run checks")
    if unknown := set(options.names) - set(checks):
        parser.error(f"there is no check {', '.join(sorted(unknown))}")
    if options.scratch:
        options.scratch.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=options.scratch, prefix="checks-"))
    # Others have to pass through it to what is theirs.
    scratch.chmod(0o755)
    target = Target(options.target, options.command, options.transport, options.user)
    try:
        chosen = [checks[name] for name in options.names] or list(checks.values())
        return 0 if run_all(target, scratch, chosen) else 1
    finally:
        if not options.scratch:
            shutil.rmtree(scratch, ignore_errors=True)
