"""The agent that a plan speaks of: a client, its model and its server, in a scratch directory."""

import os
import signal
import time


class Agent:
    """What a plan knows of the client and of what its model was shown so far."""

    def __init__(self, client, log):
        self.client = client
        self.memory = {}
        self.tools = []
        self._log = log
        self._shown = ""

    def note(self, turn):
        """Takes down what the model is shown in a turn."""
        self.tools = turn.tools
        self._shown = "\n".join([turn.system, turn.prompt, *(seen.text for seen in turn.results)])
        self._turn = turn

    def find_tool(self, name):
        return self._turn.find_tool(name)

    def server_tools(self):
        """The tools that the server listed: their schemas by name."""
        return {
            tool["name"]: tool["inputSchema"]
            for tools in self._log.results("tools")
            for tool in tools
        }

    def instructions(self):
        """The instructions that the server sent."""
        return next(self._log.results("instructions"), "")

    def is_named(self, name):
        """Whether the model can know of a tool: it is offered, or its name was shown."""
        return self.find_tool(name) is not None or name in self._shown

    def is_shown(self, text):
        """Whether the model was shown a text; white space does not count."""
        return "".join(text.split()) in "".join(self._shown.split())

    def kill_server(self):
        """Kills the server as the kernel does when memory runs out, and waits until it is gone."""
        pid = self._log.servers()[-1]
        os.kill(pid, signal.SIGKILL)
        wait_until_gone(pid)


def wait_until_gone(pid, patience_s=60):
    """Waits until a process that was killed has been reaped."""
    deadline = time.monotonic() + patience_s
    while is_alive(pid):
        if time.monotonic() > deadline:
            raise TimeoutError(f"process {pid} does not end")
        time.sleep(0.02)


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
