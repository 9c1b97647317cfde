"""What an agent does with Hotcell, through the official client. Each scenario gets a site and a
name of its own for the cells that it makes."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from typing import Any, ClassVar, Literal

import anyio
import jsonschema
from mcp import MCPError
from mcp.client.extension import ClientExtension, ResultClaim
from mcp_types import Request, RequestParams, ResourceTemplateReference, Result
from pydantic import ConfigDict

from servers import eventually

TOOLS = [
    "cell_spawn",
    "cell_attach",
    "cell_list",
    "cell_info",
    "cell_kill",
    "exec_run",
    "exec_poll",
    "exec_input",
    "exec_cancel",
    "exec_list",
    "fs_read",
    "fs_write",
    "fs_edit",
    "fs_list",
    "fs_stat",
    "fs_delete",
    "fs_search",
    "fs_batch",
    "fs_export",
    "fs_import",
]


async def call(client, tool: str, **arguments) -> dict[str, Any]:
    """Calls a tool; its result, which is to be what the tool says it is."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, f"{tool} {arguments}: {result.content}"
    await conforms(client, tool, result.structured_content)
    assert result.content[0].text, "there is a text for readers too"
    return result.structured_content


async def conforms(client, tool: str, content: dict[str, Any]):
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    schema = tools[tool].output_schema
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(content, schema, jsonschema.Draft202012Validator)


async def spawn(client, alias: str):
    cell = await call(client, "cell_spawn", alias=alias, persistent=True)
    assert cell["alias"] == alias, cell


async def running(client, cell: str) -> str:
    """The exec that runs in a cell, once there is one."""

    async def find():
        execs = (await call(client, "exec_list", cell=cell, status="live"))["execs"]
        return execs and execs[0]["status"] == "running" and execs[0]["exec_id"]

    return await eventually("an exec runs", find)


async def standing(client, exec_id: str) -> dict[str, Any]:
    return await call(client, "exec_poll", exec_id=exec_id)


async def ended(client, exec_id: str) -> dict[str, Any]:
    async def find():
        page = await standing(client, exec_id)
        return page["status"] == "ended" and page

    return await eventually("the exec has ended", find)


async def read_on(client, exec_id: str, after: int, until=lambda text: False) -> tuple[str, int]:
    """Reads output by cursor until it is complete, or has what is wanted."""
    text = ""
    while True:
        # With details there is one message for each record.
        asked = {"exec_id": exec_id, "after_seq": after, "wait_s": 20, "details": True}
        page = await call(client, "exec_poll", **asked)
        for message in page["messages"]:
            after += 1
            assert message["seq"] == after, f"a hole or a repeat: {page}"
            text += message["data"]
        assert page["next_seq"] == after, page
        if page["complete"] or until(text):
            return text, after


async def the_tools_describe_themselves(site, name):
    async with site.client() as client:
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools if tool.name in TOOLS] == TOOLS
        for tool in tools:
            jsonschema.Draft202012Validator.check_schema(tool.input_schema)
            jsonschema.Draft202012Validator.check_schema(tool.output_schema)
            assert "additionalProperties" not in tool.input_schema, tool.name
            assert tool.annotations.read_only_hint is not None, tool.name
        assert client.server_info.name == "hotcell"
        assert "exec_poll" in client.instructions


async def a_cell_is_spawned_used_and_killed(site, name):
    async with site.client() as client:
        await spawn(client, name)
        ran = await call(
            client,
            "exec_run",
            cell=name,
            command='echo "$GREETING"; cat; echo oops >&2; exit 3',
            env={"GREETING": "hello"},
            stdin="from here\n",
        )
        assert ran["stdout"] == "hello\nfrom here\n", ran
        assert (ran["stderr"], ran["exit_code"], ran["end_cause"]) == ("oops\n", 3, "exited"), ran
        await call(client, "exec_run", cell=name, argv=["sh", "-c", "echo kept > file"])
        kept = await call(client, "exec_run", cell=name, argv=["cat", "/workspace/file"])
        assert kept["stdout"] == "kept\n", kept
        attached = await call(client, "cell_attach", cell=name)
        assert attached["cell"]["alias"] == name, attached
        listed = await call(client, "cell_list")
        assert name in [cell.get("alias") for cell in listed["cells"]], listed
        info = await call(client, "cell_info", cell=name)
        assert info["cell"]["alias"] == name, info
        await call(client, "cell_kill", cell=name, volumes=True)
        listed = await call(client, "cell_list")
        assert name not in [cell.get("alias") for cell in listed["cells"]], listed


async def a_cursor_outlives_a_killed_server(site, name):
    script = "seq 1 500; echo half; read go; seq 501 1000"
    with suppress(Exception):
        async with site.client() as client:
            await spawn(client, name)
            ran = await call(
                client, "exec_run", cell=name, command=script, stdin_open=True, wait_s=0
            )
            first, after = await read_on(
                client, ran["exec_id"], 0, lambda text: text.endswith("half\n")
            )
            await site.kill_server()
            await call(client, "cell_list")
            first = "the server was not killed"
    async with site.client() as client:
        await call(client, "exec_input", exec_id=ran["exec_id"], text="go\n")
        rest, _ = await read_on(client, ran["exec_id"], after)
        lines = [str(number) for number in range(1, 1001)]
        assert (first + rest).split() == lines[:500] + ["half"] + lines[500:]
        assert (await ended(client, ran["exec_id"]))["exit_code"] == 0


async def a_repl_is_spoken_to(site, name):
    async with site.client() as client:
        await spawn(client, name)
        repls = [
            (["sh", "-i"], "x=41\n", "echo is $((x + 1))\n", "exit 7\n"),
            (["python3", "-iqu"], "x = 41\n", "print('is', x + 1)\n", "exit(7)\n"),
        ]
        for argv, first, second, leave in repls:
            there = await call(
                client, "exec_run", cell=name, command=f"command -v {argv[0]} >/dev/null"
            )
            if there["exit_code"] != 0:
                continue
            for pty in (True, False):
                repl = await call(
                    client, "exec_run", cell=name, argv=argv, pty=pty, stdin_open=True, wait_s=0
                )
                exec_id = repl["exec_id"]
                await call(client, "exec_input", exec_id=exec_id, text=first)
                await call(client, "exec_input", exec_id=exec_id, text=second, wait_s=1)
                _, after = await read_on(client, exec_id, 0, lambda text: "is 42" in text)
                await call(client, "exec_input", exec_id=exec_id, text=leave)
                await read_on(client, exec_id, after)
                assert (await ended(client, exec_id))["exit_code"] == 7, argv


async def wait_in_background(client, tasks, cell: str, **arguments):
    """Begins a call that waits; what ends the call, and the exec."""
    scope = anyio.CancelScope()

    async def wait():
        with scope:
            await client.call_tool(
                "exec_run", {"cell": cell, "command": "sleep 1000", "wait_s": 50, **arguments}
            )

    tasks.start_soon(wait)
    return scope, await running(client, cell)


async def a_call_that_is_cancelled_ends_its_exec(site, name):
    async with site.client() as client:
        await spawn(client, name)
        async with anyio.create_task_group() as tasks:
            scope, exec_id = await wait_in_background(client, tasks, name)
            scope.cancel()
        if site.cancel_is_told:
            assert (await ended(client, exec_id))["end_cause"] == "cancelled"
        else:
            await call(client, "exec_run", cell=name, command="true")
            assert (await standing(client, exec_id))["status"] == "running"
        ended_now = await call(client, "exec_cancel", exec_id=exec_id, grace_s=1)
        assert ended_now["status"] in ("cancelled", "already_ended"), ended_now
        assert (await ended(client, exec_id))["end_cause"] == "cancelled"
        again = await call(client, "exec_cancel", exec_id=exec_id)
        assert again["status"] == "already_ended", again


async def a_client_that_gives_up_leaves_its_exec(site, name):
    async with site.client() as client:
        await spawn(client, name)
        arguments = {"cell": name, "command": "echo begun; sleep 1000", "wait_s": 50}
        try:
            await client.call_tool("exec_run", arguments, read_timeout_seconds=1)
            raise AssertionError("the client did not give up")
        except MCPError as error:
            assert "imed out" in error.message, error
        exec_id = await running(client, name)
        # What was to come of the notification has come once a later call is answered.
        await call(client, "exec_run", cell=name, command="true")
        page = await standing(client, exec_id)
        assert page["status"] == "running", page
        assert page["messages"][0]["data"] == "begun\n", page
        await call(client, "exec_cancel", exec_id=exec_id, signal="KILL")


async def a_client_that_vanishes_leaves_its_exec(site, name):
    async with site.client() as client:
        await spawn(client, name)
        # Another process, so that it can vanish.
        command = [sys.executable, sys.argv[0], "vanish", site.program, site.transport, site.era]
        command += [name, getattr(site, "url", "") or ""]
        victim = subprocess.Popen(command, start_new_session=True)
        exec_id = await running(client, name)
        # Only the client: its server is to find out by itself.
        os.kill(victim.pid, signal.SIGKILL)
        victim.wait()
        page = await call(client, "exec_poll", exec_id=exec_id, after_seq=0, wait_s=20)
        assert page["messages"][0]["data"] == "begun\n", page
        await call(client, "exec_input", exec_id=exec_id, text="go\n")
        text, _ = await read_on(client, exec_id, 0)
        assert text == "begun\nwent on\n", text


async def vanish(site, cell: str):
    """The part of the process that vanishes."""
    async with site.client() as client:
        script = "echo begun; read go; echo went on"
        await client.call_tool(
            "exec_run", {"cell": cell, "command": script, "stdin_open": True, "wait_s": 50}
        )


async def output_is_shown_as_it_comes(site, name):
    async with site.client() as client:
        await spawn(client, name)
        seen = []
        told = anyio.Event()

        async def show(progress, total, message):
            seen.append((progress, message))
            if "first" in message:
                exec_id = (await call(client, "exec_list", cell=name))["execs"][0]["exec_id"]
                await call(client, "exec_input", exec_id=exec_id, text="go\n")
                told.set()

        script = "echo first; read go; echo second"
        result = await client.call_tool(
            "exec_run",
            {"cell": name, "command": script, "stdin_open": True, "wait_s": 50},
            progress_callback=show,
        )
        # The run may be answered before the input that ended it: a client leaves after both.
        await told.wait()
        # It could not have ended if nothing had been shown.
        assert result.structured_content["stdout"] == "first\nsecond\n", result
        steps = [progress for progress, _ in seen]
        assert steps == sorted(steps) and len(set(steps)) == len(steps), seen


class TaskResult(Result):
    model_config = ConfigDict(extra="allow")
    result_type: Literal["task"] = "task"
    task_id: str
    status: str


class Tasks(ClientExtension):
    identifier = "io.modelcontextprotocol/tasks"

    def claims(self):
        async def resolve(result, context):
            raise AssertionError("the scenario reads its tasks itself")

        return [ResultClaim(result_type="task", model=TaskResult, resolve=resolve)]


class TaskParams(RequestParams):
    task_id: str


class GetTask(Request[TaskParams, Literal["tasks/get"]]):
    name_param: ClassVar[str | None] = "taskId"
    method: Literal["tasks/get"] = "tasks/get"
    params: TaskParams


class CancelTask(Request[TaskParams, Literal["tasks/cancel"]]):
    name_param: ClassVar[str | None] = "taskId"
    method: Literal["tasks/cancel"] = "tasks/cancel"
    params: TaskParams


class AnyResult(Result):
    model_config = ConfigDict(extra="allow")


async def a_long_call_becomes_a_task(site, name):
    async with site.client(extensions=[Tasks()]) as client:
        await spawn(client, name)

        async def begin(script: str):
            arguments = {"cell": name, "command": script, "stdin_open": True, "wait_s": 0}
            return await client.session.call_tool("exec_run", arguments, allow_claimed=True)

        async def get(task: str):
            result = await client.session.send_request(
                GetTask(params=TaskParams(task_id=task)), AnyResult
            )
            return result.model_dump(by_alias=True)

        begun = await begin("read go; echo done; exit 4")
        if not site.is_modern:
            # The revision has no tasks, whatever its client declares.
            assert begun.structured_content["status"] in ("queued", "running"), begun
            with suppress(MCPError):
                await get(begun.structured_content["exec_id"])
                raise AssertionError("a task was shown where there are none")
            return
        assert begun.status == "working", begun
        assert (await get(begun.task_id))["status"] == "working"
        await call(client, "exec_input", exec_id=begun.task_id, text="go\n")

        async def over():
            task = await get(begun.task_id)
            return task["status"] != "working" and task

        task = await eventually("the task is over", over)
        assert task["status"] == "completed", task
        content = task["result"]["structuredContent"]
        assert (content["stdout"], content["exit_code"]) == ("done\n", 4), task
        await conforms(client, "exec_run", content)

        begun = await begin("sleep 1000")
        cancel = CancelTask(params=TaskParams(task_id=begun.task_id))
        await client.session.send_request(cancel, AnyResult)
        task = await eventually("the task is over", over)
        assert task["status"] == "cancelled", task
        try:
            await get("e_00000000000000000000000000")
            raise AssertionError("a task that never was is shown")
        except MCPError as error:
            assert error.code == -32602, error
        quick = await client.session.call_tool(
            "exec_run", {"cell": name, "command": "echo quick"}, allow_claimed=True
        )
        assert quick.structured_content["stdout"] == "quick\n", quick


async def execs_are_resources(site, name):
    async with site.client() as client:
        await spawn(client, name)
        ran = await call(client, "exec_run", cell=name, command="echo out; echo err >&2")
        exec_id = ran["exec_id"]
        templates = (await client.list_resource_templates()).resource_templates
        assert [each.uri_template for each in templates] == [
            "exec://{exec_id}/{stream}",
            "workspace:{cell}/{+path}",
        ]
        listed = [resource.uri for resource in (await client.list_resources()).resources]
        for stream, text in (("stdout", "out\n"), ("stderr", "err\n")):
            uri = f"exec://{exec_id}/{stream}"
            assert uri in listed, listed
            contents = (await client.read_resource(uri)).contents
            assert [(str(each.uri), each.text) for each in contents] == [(uri, text)]
        template = ResourceTemplateReference(uri=templates[0].uri_template)
        for part, given, wanted in (
            ("exec_id", exec_id[:-3], exec_id),
            ("stream", "std", "stdout"),
        ):
            found = await client.complete(template, {"name": part, "value": given})
            assert wanted in found.completion.values, found
            assert all(value.startswith(given) for value in found.completion.values), found
        try:
            await client.read_resource("exec://e_00000000000000000000000000/stdout")
            raise AssertionError("a resource that never was is shown")
        except MCPError as error:
            assert error.code == (-32602 if site.is_modern else -32002), error


async def files_are_worked_with(site, name):
    async with site.client() as client:
        await spawn(client, name)

        async def fs(tool, **arguments):
            return await call(client, f"fs_{tool}", cell=name, **arguments)

        written = await fs("write", path="src/a.txt", content="one\ntwo\n", mode="640")
        read = await fs("read", path="src/a.txt", lines="2-")
        assert (read["content"], read["etag"]) == ("two\n", written["etag"]), read
        edits = [{"old": "two", "new": "2"}]
        edited = await fs("edit", path="src/a.txt", edits=edits, if_match=written["etag"])
        assert "-two\n+2\n" in edited["diff"], edited
        assert (await fs("stat", path="src/a.txt"))["mode"] == "640"
        found = await fs("search", pattern="^2$")
        assert [each["line"] for each in found["matches"]] == [2], found
        batch = [{"op": "copy", "path": "src/a.txt", "to": "b"}, {"op": "read", "path": "b"}]
        done = await fs("batch", operations=batch)
        assert done["results"][1]["result"]["content"] == "one\n2\n", done
        archive = (await fs("export", path="src"))["archive"]
        assert (await fs("import", path="copy", archive=archive))["files"] == 1
        listed = await fs("list", recursive=True, glob="**/a.txt")
        paths = [each["path"] for each in listed["entries"]]
        assert paths == ["copy/a.txt", "src/a.txt"], paths
        assert (await fs("delete", path="src", recursive=True))["removed"] == 2
        contents = (await client.read_resource(f"workspace:{name}/b")).contents
        assert contents[0].text == "one\n2\n", contents


async def changes_are_told(site, name):
    uri = f"workspace:{name}/notes"
    told = []

    async def heard(message):
        if getattr(message, "method", "") == "notifications/resources/updated":
            told.append(message.params.uri)

    async def change_and_hear(client, hear):
        for number in range(3):
            before = len(told)
            command = f"echo {number} > notes; echo elsewhere > other"
            await call(client, "exec_run", cell=name, command=command)
            await hear(before)
            read = await client.read_resource(uri)
            assert read.contents[0].text == f"{number}\n", read
            if number == 1:
                await call(client, "cell_checkpoint", cell=name, action="create")

    async with site.client(message_handler=heard) as client:
        await spawn(client, name)
        if not site.is_modern:
            await client.subscribe_resource(uri)

            async def hear(before):
                async def more():
                    return len(told) > before

                await eventually("a change is told", more)

            await change_and_hear(client, hear)
            await client.unsubscribe_resource(uri)
            assert set(told) == {uri}, told
            return
        async with client.listen(resource_subscriptions=[uri]) as stream:
            assert stream.honored.resource_subscriptions == [uri], stream.honored
            events = aiter(stream)

            async def hear(before):
                event = await anext(events)
                assert event.uri == uri, event

            await anext(events)
            await change_and_hear(client, hear)


async def mistakes_are_named(site, name):
    async with site.client() as client:
        for tool, arguments, named in (
            ("exec_run", {"command": "true", "colour": "red"}, "colour"),
            ("exec_run", {"command": 5}, "5"),
            ("exec_poll", {}, "exec_id"),
            ("cell_spawn", {"limits": {"memory": 1}}, "memory"),
            ("cell_info", {"cell": "nobody-" + name}, "nobody-" + name),
        ):
            result = await client.call_tool(tool, arguments)
            assert result.is_error, result
            assert named in result.content[0].text, result
            assert result.meta["hotcell/error"]["code"] in ("invalid", "not_found"), result
        try:
            await client.call_tool("no_such_tool", {})
            raise AssertionError("a tool that is not there was called")
        except MCPError as error:
            assert error.code == -32602 and "no_such_tool" in error.message, error


ALL = [
    the_tools_describe_themselves,
    a_cell_is_spawned_used_and_killed,
    a_cursor_outlives_a_killed_server,
    a_repl_is_spoken_to,
    a_call_that_is_cancelled_ends_its_exec,
    a_client_that_gives_up_leaves_its_exec,
    a_client_that_vanishes_leaves_its_exec,
    output_is_shown_as_it_comes,
    a_long_call_becomes_a_task,
    execs_are_resources,
    files_are_worked_with,
    changes_are_told,
    mistakes_are_named,
]
