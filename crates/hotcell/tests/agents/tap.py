"""Stands between a client and the server it starts, and writes down every message."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

SHIM = """#!{python} -B
import sys
sys.path.insert(0, {here!r})
from tap import relay
relay({program!r}, {log!r}, sys.argv[1:])
"""


def make_shim(path, program, log):
    """A program at `path` that starts `program` with the same arguments and notes its messages."""
    here = str(Path(__file__).parent)
    path.write_text(
        SHIM.format(python=sys.executable, here=here, program=str(program), log=str(log))
    )
    path.chmod(0o755)


def relay(program, log, arguments):
    """Starts the server and passes messages both ways until it ends, then exits as it did."""
    server = subprocess.Popen([program, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    note(file, {"server": server.pid, "arguments": arguments, "cwd": os.getcwd()})
    to_server = threading.Thread(
        target=pump, args=(sys.stdin.buffer, server.stdin, file, "sent"), daemon=True
    )
    to_server.start()
    pump(server.stdout, sys.stdout.buffer, file, "received")
    status = server.wait()
    # Not sys.exit: the other thread may be blocked in a read of standard input.
    os._exit(status if status >= 0 else 128 - status)


def pump(source, target, file, direction):
    """Passes on lines until there are no more or nobody takes them."""
    try:
        for line in source:
            note(file, {direction: line.decode(errors="replace")})
            target.write(line)
            target.flush()
    except (BrokenPipeError, ValueError):
        pass
    finally:
        try:
            target.close()
        except (BrokenPipeError, ValueError):
            pass


def note(file, entry):
    # One write each, so that lines of both threads stay whole.
    os.write(file, (json.dumps(entry) + "\n").encode())


class TapLog:
    """What was written down."""

    def __init__(self, path):
        self.path = path

    def entries(self):
        if not self.path.exists():
            return []
        return [json.loads(line) for line in self.path.read_text().splitlines()]

    def servers(self):
        """The process ids of the servers that were started, in order."""
        return [entry["server"] for entry in self.entries() if "server" in entry]

    def messages(self, direction):
        """The messages that the client `sent` or `received`."""
        for entry in self.entries():
            if direction in entry:
                try:
                    yield json.loads(entry[direction])
                except ValueError:
                    continue

    def results(self, key):
        """The results that have this key."""
        for message in self.messages("received"):
            result = message.get("result")
            if isinstance(result, dict) and key in result:
                yield result[key]

    def calls(self):
        """The tool calls that the client made."""
        return [m["params"] for m in self.messages("sent") if m.get("method") == "tools/call"]
