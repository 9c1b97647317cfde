"""Servers of the program under test, and the official client connected to them."""

import os
import re
import signal
import subprocess
import sys
import threading
from contextlib import asynccontextmanager

import anyio
from mcp import Client, StdioServerParameters
from mcp.types import Implementation

PATIENCE_S = 60


class Site:
    """How clients of one era reach servers on one state directory."""

    def __init__(self, program: str, era: str):
        self.program = program
        self.era = era

    @property
    def is_modern(self) -> bool:
        return self.era == "modern"

    @asynccontextmanager
    async def client(self, **options):
        mode = "auto" if self.is_modern else "legacy"
        # Clients with the SDK's own name are answered before they give up, after a few seconds.
        options.setdefault("client_info", Implementation(name="scenarios", version="1"))
        async with Client(await self.server(), mode=mode, **options) as client:
            wanted = "2026-07-28" if self.is_modern else "2025-11-25"
            assert client.protocol_version == wanted, client.protocol_version
            yield client

    def environment(self) -> dict[str, str]:
        return {name: value for name, value in os.environ.items() if name.startswith("HOTCELL_")}


class StdioSite(Site):
    """Every client starts its own server."""

    transport = "stdio"
    # A cancelled call is told to the server.
    cancel_is_told = True

    async def server(self):
        return StdioServerParameters(
            command=self.program, args=["serve"], env=self.environment(), cwd="/"
        )

    async def kill_server(self):
        for pid in children():
            with open(f"/proc/{pid}/cmdline", "rb") as line:
                words = line.read().split(b"\0")
            if words[:2] == [self.program.encode(), b"serve"]:
                os.kill(pid, signal.SIGKILL)

    def close(self):
        pass


class HttpSite(Site):
    """One server for all clients, started anew after it was killed."""

    transport = "http"

    def __init__(self, program: str, era: str):
        super().__init__(program, era)
        self.process = None
        self.url = None
        # The newest revision knows no cancel over HTTP: a call that is given up is a connection
        # that is lost.
        self.cancel_is_told = not self.is_modern

    async def server(self):
        if self.process is None:
            self.process = subprocess.Popen(
                [self.program, "serve", "--http", "127.0.0.1:0"],
                stdin=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                cwd="/",
            )
            # It says where it listens before anything else.
            line = await anyio.to_thread.run_sync(self.process.stderr.readline)
            address = re.search(r"http://127\.0\.0\.1:\d+", line)
            assert address, f"no address in {line!r}"
            self.url = address[0] + "/mcp"
            pass_on(self.process.stderr)
        return self.url

    async def kill_server(self):
        self.process.kill()
        self.process.wait()
        self.process = None

    def close(self):
        if self.process is not None:
            self.process.terminate()
            assert self.process.wait(PATIENCE_S) == 0, "SIGTERM ends a server well"


def pass_on(log):
    """What a server says besides, for whoever reads about a failure."""
    threading.Thread(target=lambda: sys.stderr.writelines(log), daemon=True).start()


def children() -> list[int]:
    """The processes that this one has started."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as stat:
                fields = stat.read().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == os.getpid():
            found.append(int(name))
    return found


async def eventually(what: str, find):
    """What is found at last; `find` is asked again until it is true."""
    with anyio.move_on_after(PATIENCE_S):
        while True:
            found = await find()
            if found:
                return found
            await anyio.sleep(0.02)
    raise AssertionError(f"it never came true: {what}")
