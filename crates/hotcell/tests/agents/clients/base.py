"""What every client has in common: where it is installed, its surroundings and how it is started."""

import os
import subprocess
from pathlib import Path

PROMPT = "Do what the script says."
# Long enough for a loaded machine; a client that hangs is killed then.
PATIENCE_S = 300
# What a client and its server need of the surroundings. Nothing else may decide what they do.
PASSED_ON = ("PATH", "TMPDIR", "LANG", "HOTCELL_STATE_DIR")


class Client:
    """A client and what it shows its model. The attributes are facts that the plans rely on."""

    name = ""
    # The client's name for `hotcell setup`, which then writes its settings.
    setup = None
    # How often the model sees each result: twice where text and structured content are both shown.
    forms = 1
    shows_images = True
    shows_instructions = True
    sends_progress_token = True
    # Whether the client itself refuses arguments that do not fit the schema.
    checks_arguments = False
    # Whether the conversation goes on when the server is gone.
    survives_lost_server = True
    # What only this client has.
    own_plans = []

    def __init__(self, scratch, installed):
        self.scratch = scratch
        self.installed = installed
        self.home = scratch / "home"
        self.project = scratch / "project"
        self.shim = scratch / "hotcell"
        self.model_url = None
        for directory in (self.home, self.project):
            directory.mkdir(exist_ok=True)

    def configure(self, program):
        """Has `hotcell setup` write the settings, then leads the client to the shim."""
        if self.setup is None:
            return
        subprocess.run(
            [program, "setup", self.setup, "--yes"],
            env=self.surroundings(),
            cwd=self.project,
            check=True,
            capture_output=True,
            text=True,
        )
        for file in self.home.rglob("*"):
            if file.is_file() and str(program) in file.read_text(errors="replace"):
                file.write_text(file.read_text().replace(str(program), str(self.shim)))

    def command(self):
        """The arguments that start the client on one task, without anybody to ask."""
        raise NotImplementedError

    def environment(self):
        """What the client needs beyond the surroundings."""
        return {}

    def is_main(self, turn):
        """Whether a turn belongs to the conversation, rather than to its title or the like."""
        return turn.find_tool("exec_run") is not None

    def address(self, turn, call):
        """The tool and the arguments that a call has at this client; None if it is not offered."""
        tool = turn.find_tool(call.tool)
        return tool and (tool, call.arguments)

    def load_tools(self, turn, names):
        """The call that makes tools known which the client defers; None where it defers none."""
        return None

    def surroundings(self):
        """The whole environment of the client: a home of its own, and no traces of the user's."""
        passed = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        return {
            **passed,
            "PATH": f"{self.node().parent}{os.pathsep}{passed['PATH']}",
            "HOME": str(self.home),
            "TERM": "dumb",
            "NO_COLOR": "1",
            "CI": "1",
            **self.environment(),
        }

    def start(self):
        """Runs the client to its end in a session of its own; how it ended."""
        return subprocess.Popen(
            [str(part) for part in self.command()],
            env=self.surroundings(),
            cwd=self.project,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def node(self):
        """The Node that was installed with the other clients."""
        clients = Path(os.environ["HOTCELL_TEST_CLIENTS"])
        return sorted(clients.glob("node_modules/node-linux-*/bin/node"))[0]

    def module(self, path):
        return self.installed / "node_modules" / path

    def python(self):
        return self.installed / "venv/bin/python"

    def program_file(self, name):
        """A program of ours that uses a framework."""
        return Path(__file__).parent.parent / "programs" / name
