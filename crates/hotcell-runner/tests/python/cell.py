"""Stands where the supervisor and the engine stand: starts runners, answers their calls, reads reports.

HOTCELL_RUNNER_SOURCE is the text of the runner, HOTCELL_RUNNER_PYTHON the interpreter that runs it.
"""

import array
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import unittest

# The descriptors that a runner is given have fixed numbers; nothing of ours may be there.
while os.open(os.devnull, os.O_RDONLY) < 15:
    pass

PYTHON = os.environ.get("HOTCELL_RUNNER_PYTHON") or sys.executable
with open(os.environ["HOTCELL_RUNNER_SOURCE"], "rb") as file:
    SOURCE = file.read()
BOOT = 'exec(compile(open(6,"rb").read(),"<hotcell>","exec"))'
REPORT_BYTES = 262144
PATIENCE = 60


def memory(content):
    descriptor = os.memfd_create("order")
    os.write(descriptor, content)
    return descriptor


def source():
    descriptor = memory(SOURCE)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


class Outcome:
    """What a run left: exit code, output, report."""

    def __init__(self, code, out, err, raw):
        self.code, self.out, self.err, self.raw = code, out.decode(), err.decode(), raw
        self.report = json.loads(raw) if raw else None

    def __repr__(self):
        return "exit %s\n%s\n%s\n%s" % (self.code, self.out, self.err, self.raw[:4000])

    @property
    def result(self):
        result = self.report["result"]
        return None if result is None else next(iter(result.values()))

    @property
    def form(self):
        result = self.report["result"]
        return None if result is None else next(iter(result))

    @property
    def error(self):
        return self.report["error"]


class Peer:
    """The host's end of the calls: a table of servers and tools, each a function of its arguments."""

    def __init__(self, servers=None):
        self.servers = servers or {}
        self.seen = []
        self.ours, self.theirs = socket.socketpair()
        self.lock = threading.Lock()
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.held = []
        self.hold = 0

    def read(self, count):
        data = b""
        while len(data) < count:
            try:
                more = self.ours.recv(count - len(data))
            except OSError:
                return None
            if not more:
                return None
            data += more
        return data

    def serve(self):
        while True:
            head = self.read(4)
            if head is None:
                return
            message = json.loads(self.read(struct.unpack(">I", head)[0]))
            self.seen.append(message)
            if self.hold:
                # Answers go out in the reverse order, once enough are asked for.
                self.held.append(message)
                if len(self.held) < self.hold:
                    continue
                for held in reversed(self.held):
                    self.send(held["id"], self.answer(held))
                self.held = []
            else:
                self.send(message["id"], self.answer(message))

    def send(self, number, answer):
        if answer is None:
            return
        text = json.dumps(dict(answer, id=number)).encode()
        with self.lock:
            try:
                self.ours.sendall(struct.pack(">I", len(text)) + text)
            except OSError:
                pass

    def answer(self, message):
        operation, server = message["op"], message.get("server")
        if operation == "search":
            return {"ok": "found %(query)s %(detail)s %(server)s %(limit)s" % message}
        if operation == "list" and server is None:
            return {"ok": sorted(self.servers)}
        if server not in self.servers:
            return {"error": {"code": "not_found", "message": "no server " + server, "hint": None}}
        if operation == "list":
            return {"ok": sorted(self.servers[server])}
        try:
            return {"ok": self.servers[server][message["tool"]](**message["arguments"])}
        except Failure as failure:
            return {"error": failure.args[0]}
        except Silence:
            return None
        except HangUp:
            self.ours.shutdown(socket.SHUT_RDWR)
            return None


class Failure(Exception):
    pass


class Silence(Exception):
    pass


class HangUp(Exception):
    pass


class Given:
    """The streams of one run, as the supervisor gives them."""

    def __init__(self, order, peer, cwd, stdin=b""):
        self.order = memory(json.dumps(order).encode())
        self.report, self.report_end = os.pipe()
        self.out, self.out_end = os.pipe()
        self.err, self.err_end = os.pipe()
        self.stdin = memory(stdin)
        os.lseek(self.stdin, 0, os.SEEK_SET)
        self.cwd = os.open(cwd, os.O_RDONLY | os.O_DIRECTORY)
        self.peer = peer or Peer()
        self.calls = self.peer.theirs.fileno()
        self.peer.thread.start()

    def close_ends(self):
        self.peer.theirs.close()
        for each in (self.order, self.report_end, self.out_end, self.err_end, self.stdin, self.cwd):
            os.close(each)

    def collect(self, wait):
        read = {}

        def drain(name):
            with open(getattr(self, name), "rb") as file:
                read[name] = file.read()

        threads = [threading.Thread(target=drain, args=(n,)) for n in ("report", "out", "err")]
        for thread in threads:
            thread.start()
        code = wait()
        for thread in threads:
            thread.join(PATIENCE)
        self.peer.ours.shutdown(socket.SHUT_RDWR) if self.peer.ours.fileno() >= 0 else None
        self.peer.thread.join(PATIENCE)
        self.peer.ours.close()
        return Outcome(code, read.get("out", b""), read.get("err", b""), read.get("report", b""))


class Zygote:
    """A zygote and its children."""

    def __init__(self, imports=("json", "random")):
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        order, text = memory(json.dumps({"imports": list(imports)}).encode()), source()
        given = ((theirs.fileno(), 3), (order, 5), (text, 6))
        self.process = start("zygote", given, env={"PATH": os.environ["PATH"], "SECRET": "zygote"})
        theirs.close()
        os.close(order)
        os.close(text)
        self.ready = self.control.recv(100)

    def child(self, groups=()):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        send(self.control, b"fork", [theirs.fileno()] + list(groups))
        theirs.close()
        return Child(ours)

    def close(self):
        self.control.close()
        return self.process.wait(PATIENCE)


class Child:
    def __init__(self, control):
        self.control = control
        self.message, ancillary, _, _ = control.recvmsg(4096, 1024)
        self.pid = None
        for _, kind, data in ancillary:
            if kind == socket.SCM_CREDENTIALS:
                self.pid = struct.unpack("iII", data)[0]

    def wait(self):
        self.control.close()
        return exit_code(os.waitpid(self.pid, 0)[1])

    def run(self, given):
        hand(self.control, given)
        self.control.close()
        return given.collect(self.wait)

    dismiss = wait


class Session:
    """A process that runs one order after another, forked ahead of need or started for it."""

    def __init__(self, test, is_warm):
        self.test, self.is_warm = test, is_warm
        self.control = self.process = None
        self.runs = 0
        self.pid = 0

    def give(self, code, peer=None, stdin=b"", **order):
        self.runs += 1
        order = dict(self.test.order(code, **order), run="e_%d" % self.runs, session=True)
        order["results"] = os.path.join(self.test.cwd, ".results", order["run"])
        return Given(order, peer, self.test.cwd, stdin)

    def run(self, code, peer=None, stdin=b"", **order):
        given = self.give(code, peer, stdin, **order)
        if self.control is not None:
            hand(self.control, given)
        elif self.is_warm:
            child = self.test.zygote.child()
            self.control, self.pid = child.control, child.pid
            hand(self.control, given)
        else:
            self.start(given)
        return given.collect(self.heard)

    def start(self, given):
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.control.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        text = source()
        placed = ((given.calls, 3), (given.report_end, 4), (given.order, 5), (text, 6))
        placed += ((theirs.fileno(), 7),)
        streams = {"stdin": given.stdin, "out": given.out_end, "err": given.err_end}
        env = {"PATH": os.environ["PATH"], "HOME": self.test.cwd}
        self.process = start("run", placed, env=env, cwd=self.test.cwd, **streams)
        self.pid = self.process.pid
        os.close(text)
        theirs.close()
        given.close_ends()

    def heard(self):
        """The exit code that the process told for the run, or that it ended with."""
        while True:
            message, ancillary, _, _ = self.control.recvmsg(4096, 1024)
            if not message:
                return self.wait()
            sender = [d for _, kind, d in ancillary if kind == socket.SCM_CREDENTIALS]
            words = message.decode("utf-8", "replace").split(" ")
            told = struct.unpack("iII", sender[0])[0] == self.pid
            if told and words[:2] == ["done", "e_%d" % self.runs]:
                return int(words[2])

    def wait(self):
        self.control.close()
        self.control = None
        if self.process is not None:
            return self.process.wait(PATIENCE)
        return exit_code(os.waitpid(self.pid, 0)[1])


def hand(control, given):
    send(
        control,
        b"run",
        [given.stdin, given.out_end, given.err_end, given.cwd]
        + [given.calls, given.report_end, given.order],
    )
    given.close_ends()


def exit_code(status):
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def send(control, message, descriptors):
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
    control.sendmsg([message], rights)


def start(how, given, env=None, cwd=None, stdin=None, out=None, err=None):
    def place():
        for descriptor, number in given:
            os.dup2(descriptor, number)

    return subprocess.Popen(
        [PYTHON, "-I", "-X", "utf8", "-c", BOOT, how],
        preexec_fn=place,
        pass_fds=tuple(number for _, number in given),
        env=env,
        cwd=cwd,
        stdin=stdin if stdin is not None else subprocess.DEVNULL,
        stdout=out,
        stderr=err,
    )


def has(module):
    found = subprocess.run(
        [PYTHON, "-I", "-c", "import " + module], stderr=subprocess.DEVNULL, check=False
    )
    return found.returncode == 0


class CellTest(unittest.TestCase):
    """A test with a directory of its own, and a zygote for all tests of its class."""

    imports = ("json", "random", "asyncio", "threading", "dataclasses")
    maxDiff = 4000

    @classmethod
    def setUpClass(cls):
        cls.zygote = Zygote(cls.imports)
        assert cls.zygote.ready == b"ready", cls.zygote.ready

    @classmethod
    def tearDownClass(cls):
        assert cls.zygote.close() == 0

    def setUp(self):
        self.cwd = os.path.realpath(tempfile.mkdtemp(prefix="hotcell-runner-"))
        self.addCleanup(shutil.rmtree, self.cwd, True)
        self.results = os.path.join(self.cwd, ".results", "e_1")

    def order(self, code, env=None, limit=REPORT_BYTES):
        env = {"PATH": os.environ["PATH"], "HOME": self.cwd} if env is None else env
        limits = {"report_bytes": limit}
        results = self.results
        return {"run": "e_1", "code": code, "env": env, "results": results, "limits": limits}

    def warm(self, code, peer=None, stdin=b"", **order):
        given = Given(self.order(code, **order), peer, self.cwd, stdin)
        return self.checked(self.zygote.child().run(given), order)

    def cold(self, code, peer=None, stdin=b"", **order):
        env = order.get("env") or {"PATH": os.environ["PATH"], "HOME": self.cwd}
        given = Given(self.order(code, **order), peer, self.cwd, stdin)
        text = source()
        placed = ((given.calls, 3), (given.report_end, 4), (given.order, 5), (text, 6))
        streams = {"stdin": given.stdin, "out": given.out_end, "err": given.err_end}
        process = start("run", placed, env=env, cwd=self.cwd, **streams)
        os.close(text)
        given.close_ends()
        return self.checked(given.collect(lambda: process.wait(PATIENCE)), order)

    def checked(self, outcome, order):
        """Whatever a run did, its report is within its bound."""
        self.assertLessEqual(len(outcome.raw), order.get("limit", REPORT_BYTES))
        return outcome

    def value(self, code, **how):
        """The result of code that has to succeed."""
        outcome = self.warm(code, **how)
        self.assertIsNotNone(outcome.report, outcome)
        self.assertEqual(outcome.report["status"], "ok", outcome)
        self.assertEqual(outcome.code, 0, outcome)
        return outcome.result

    def file(self, name, text):
        path = os.path.join(self.cwd, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path


def main():
    signal.alarm(300)
    unittest.main(verbosity=1)
