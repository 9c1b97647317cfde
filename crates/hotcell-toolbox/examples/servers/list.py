"""Asks each server of servers.json for its tools over its standard streams, and writes down what it says.

usage: list.py INSTALLED OUT    INSTALLED is where the packages are, OUT gets a file NAME.json per server.
"""

import json
import os
import pathlib
import select
import subprocess
import sys
import tempfile
import time

SECONDS = 300
MOST_PAGES = 100


class Client:
    def __init__(self, command, env, directory, log):
        self.process = subprocess.Popen(
            command, cwd=directory, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
        )
        self.unread = b""
        self.last_id = 0

    def send(self, message):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def ask(self, method, params):
        self.last_id += 1
        self.send({"id": self.last_id, "method": method, "params": params})
        until = time.monotonic() + SECONDS
        while line := self.line(until):
            try:
                message = json.loads(line)
            except ValueError:
                continue
            if message.get("id") != self.last_id or "method" in message:
                continue
            if "error" in message:
                raise RuntimeError(f"{method}: {message['error']}")
            return message["result"]
        raise RuntimeError(f"{method}: no answer")

    def line(self, until):
        while b"\n" not in self.unread:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0, until - time.monotonic()))
            more = os.read(self.process.stdout.fileno(), 1 << 16) if ready else b""
            if not more:
                return b""
            self.unread += more
        line, self.unread = self.unread.split(b"\n", 1)
        return line + b"\n"

    def close(self):
        self.process.kill()
        self.process.wait()


def handshake(client):
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "list", "version": "1"}}
    greeting = client.ask("initialize", hello)
    client.send({"method": "notifications/initialized"})
    return greeting


def listing(client):
    greeting = handshake(client)
    tools, cursor = [], None
    for _ in range(MOST_PAGES):
        page = client.ask("tools/list", {"cursor": cursor} if cursor else {})
        tools += page["tools"]
        cursor = page.get("nextCursor")
        if not cursor:
            break
    return {
        "title": greeting["serverInfo"].get("title"),
        "instructions": greeting.get("instructions"),
        "tools": tools,
    }


def main():
    installed, out = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
    servers = json.loads((pathlib.Path(__file__).parent / "servers.json").read_text())
    failed = 0
    for name, server in servers.items():
        with tempfile.TemporaryDirectory() as scratch, open(f"{scratch}/stderr", "w+b") as log:
            command = [part.replace("{scratch}", scratch) for part in server["command"]]
            command[0] = str(installed / command[0])
            env = {"PATH": os.environ["PATH"], "HOME": scratch, **server.get("env", {})}
            client = Client(command, env, scratch, log)
            try:
                found = listing(client)
                (out / f"{name}.json").write_text(json.dumps({"name": name, **found}, indent=1))
                print(f"{name}: {len(found['tools'])} tools", file=sys.stderr)
            except (OSError, RuntimeError) as error:
                failed += 1
                log.seek(0)
                said = log.read().decode(errors="replace").strip().splitlines()[-1:]
                print(f"{name}: {error}; it said {said}", file=sys.stderr)
            finally:
                client.close()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
