"""Performs the tasks of `tasks.py` with a Hotcell as each client does, and writes down what its model sees.

usage: measure.py PROGRAM OUT [CLIENT...]    OUT gets JSON lines, which the example `result_tokens` counts

A line has `client`, `form`, `task`, `kind` and `text`. The kinds are `definitions`, `output_schemas`, `instructions`,
`arguments`, `result`, and `missing`: something that a model needs for the task and did not get to see."""

import json
import os
import pathlib
import re
import sys
import tempfile
import traceback

import anyio
from mcp import Client, StdioServerParameters
from mcp_types import Implementation

import tasks
from clients import PROFILES, Profile, Seen, blocks, compact

HERE = pathlib.Path(__file__).parent
PATIENCE_S = 60
CALL_S = 60
PAUSE_S = 0.05


class Agent:
    """A scripted model behind one client."""

    def __init__(self, client: Client, profile: Profile, out):
        self.client = client
        self.profile = profile
        self.out = out
        self.task = ""
        self.seen_in_task: list[str] = []
        self.missing = 0

    def write(self, kind: str, text: str, **more):
        line = {"client": self.profile.name, "form": self.profile.form, "task": self.task}
        self.out.write(compact({**line, "kind": kind, "text": text, **more}) + "\n")

    async def _ask(self, tool: str, arguments: dict):
        async def progress(done, total, message):
            pass

        # Nearly every real client sends a progress token with each call.
        return await self.client.call_tool(
            tool, arguments, read_timeout_seconds=CALL_S, progress_callback=progress
        )

    async def call(self, tool: str, expect: dict[str, str] | None = None, **arguments) -> Seen:
        """Calls a tool as the model. `expect` names what the model must see and has a pattern for each."""
        result = await self._ask(tool, arguments)
        seen = self.profile.see(result)
        assert not result.is_error, f"{tool} {arguments}: {seen.text}"
        self.write("arguments", compact(arguments), tool=tool)
        self.write("result", seen.text, tool=tool)
        self.seen_in_task.append(seen.text)
        for what, pattern in (expect or {}).items():
            self.find(seen, f"{what} ({tool})", pattern)
        return seen

    def find(self, seen: Seen, what: str, pattern: str) -> str | None:
        """The last match of a pattern in what the model sees; notes what is missing."""
        found = list(re.finditer(pattern, seen.text))
        if found:
            return found[-1].group(found[-1].re.groups and 1)
        self.lacks(what)
        return None

    def lacks(self, what: str):
        self.missing += 1
        self.write("missing", what)

    def saw(self, what: str, parts: list[str]):
        """All of these were in the results of this task."""
        text = "\n".join(self.seen_in_task)
        absent = [part for part in parts if part not in text]
        if absent:
            self.lacks(f"{what}: {len(absent)} of {len(parts)}, first {absent[0]!r}")

    async def aside(self, tool: str, **arguments) -> str:
        """Calls a tool for the sake of the measurement, not as the model: all of the result."""
        result = await self._ask(tool, arguments)
        text = blocks(result).text
        assert not result.is_error, f"{tool} {arguments}: {text}"
        return text + "\n" + compact(result.structured_content)

    async def until(self, what: str, check):
        """Waits for something the measurement needs before it goes on."""
        with anyio.move_on_after(PATIENCE_S):
            while not await check():
                await anyio.sleep(PAUSE_S)
            return
        raise AssertionError(f"never became true: {what}")

    async def until_exists(self, path: str):
        async def exists():
            return not (await self._ask("fs_stat", {"path": path})).is_error

        await self.until(f"{path} exists", exists)

    async def until_ended(self, exec_id: str):
        async def ended():
            return exec_id not in await self.aside("exec_list", status="live")

        await self.until(f"{exec_id} ended", ended)


async def measure(program: str, profile: Profile, place: pathlib.Path, out) -> int:
    config = place / "hotcell.toml"
    server = [sys.executable, str(HERE / "catalog_server.py")]
    config.write_text(
        "[toolbox]\npass_through_tokens = 0\n[toolbox.tracker]\n"
        f"command = {json.dumps(server[0])}\nargs = {json.dumps(server[1:])}\n"
    )
    parameters = StdioServerParameters(
        command=program,
        args=["serve", "--config", str(config)],
        env={"PATH": os.environ["PATH"], "HOME": str(place), "HOTCELL_STATE_DIR": str(place / "state")},
        cwd=str(place),
    )
    info = Implementation(name=profile.client_name, version=profile.version)
    async with Client(parameters, mode="legacy", client_info=info) as client:
        agent = Agent(client, profile, out)
        listed = (await client.list_tools()).tools
        for tool in listed:
            shown = {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema}
            agent.write("definitions", compact(shown), tool=tool.name)
            if tool.output_schema is not None:
                agent.write("output_schemas", compact(tool.output_schema), tool=tool.name)
        agent.write("instructions", client.instructions or "")
        await tasks.prepare(agent)
        failed = 0
        for number, (name, task) in enumerate(tasks.ALL, 1):
            agent.task, agent.seen_in_task = f"{number}. {name}", []
            try:
                await task(agent)
            except Exception:
                failed += 1
                print(f"{profile.name}: {agent.task} failed\n{traceback.format_exc()}", file=sys.stderr)
        agent.task = ""
        await agent.aside("cell_kill", cell="default", force=True)
        print(f"{profile.name}: {len(tasks.ALL) - failed} tasks, {agent.missing} things missing", file=sys.stderr)
        return failed


def main() -> int:
    program, out, *chosen = sys.argv[1:]
    profiles = [profile for profile in PROFILES if not chosen or profile.name in chosen]
    assert profiles, f"no client is named {chosen}"
    failed = 0
    with open(out, "w") as lines:
        for profile in profiles:
            with tempfile.TemporaryDirectory(prefix="hotcell-tokens-") as scratch:
                # The name of the directory is part of the default cell's alias.
                place = pathlib.Path(scratch) / "project"
                place.mkdir()
                failed += anyio.run(measure, os.path.realpath(program), profile, place, lines)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
