"""One client in a scratch directory, with its model and its server, from setup to the end of its cells."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from agent import Agent, is_alive, wait_until_gone
from clients.base import PATIENCE_S
from model.director import Director, Outcome
from model.server import ModelServer
from tap import TapLog, make_shim

MOST_SHOWN = 2000


class Session:
    """A context manager: everything that was started inside it has ended afterwards."""

    def __init__(self, program, client_class):
        self.program = program
        self.scratch = Path(tempfile.mkdtemp(prefix="hotcell-agents-"))
        os.environ.setdefault("HOTCELL_STATE_DIR", str(self.scratch / "state"))
        self.log = TapLog(self.scratch / "messages.jsonl")
        self.client = client_class(self.scratch, Path(os.environ["HOTCELL_TEST_AGENTS"]))
        self.server = ModelServer()
        self.client.model_url = self.server.url
        self.agent = Agent(self.client, self.log)
        self.outcomes = []

    def __enter__(self):
        make_shim(self.client.shim, self.program, self.log.path)
        return self

    def __exit__(self, *_):
        self.server.close()
        self._end_servers()
        self._end_cells()
        if os.environ.get("HOTCELL_TEST_KEEP"):
            self.server.write_requests(self.scratch / "requests.jsonl")
            print(f"kept: {self.scratch}", file=sys.stderr)
        else:
            shutil.rmtree(self.scratch, ignore_errors=True)

    def converse(self, plans):
        """One start of the client, from the first plan to the last."""
        director = Director(self.agent, plans)
        self.server.answer = director.answer
        started = self.client.start()
        timer = threading.Timer(PATIENCE_S, end_session, [started])
        timer.start()
        try:
            output = started.stdout.read().decode(errors="replace")
            status = started.wait()
        finally:
            timer.cancel()
            end_session(started)
        for outcome in director.outcomes:
            if not outcome.is_over:
                outcome.failure = f"the client ended (status {status}):\n{output[-MOST_SHOWN:]}"
        self.outcomes += director.outcomes

    def check(self, name, failure):
        """Notes a check that no plan made; no failure means that it passed."""
        self.outcomes.append(Outcome(name, failure=failure or None, is_over=True))

    def hotcell(self, *arguments):
        """What a command of the user prints, in the project; errors as well."""
        finished = subprocess.run(
            [self.program, *arguments],
            env=self.client.surroundings(),
            cwd=self.client.project,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        return finished.stdout

    def _end_servers(self):
        for pid in self.log.servers():
            if is_alive(pid):
                os.kill(pid, signal.SIGTERM)
                wait_until_gone(pid)

    def _end_cells(self):
        cells = json.loads(self.hotcell("cells", "--json"))["cells"]
        if cells:
            ids = [cell["id"] for cell in cells]
            self.hotcell("kill", "--force", "--volumes", *ids)


def end_session(started):
    """Ends what is left of a client and of what it started."""
    try:
        os.killpg(started.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
