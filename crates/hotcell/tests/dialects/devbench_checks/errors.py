"""The documented errors, by their numbers."""

import json

from mcp import MCPError

from devbench_checks.bench import (
    IMAGE,
    NOBODY,
    NOTHING,
    ask,
    bench,
    caller,
    hotcell,
    is_turned_away,
    listening,
    printed,
    refused,
    spawn,
    start,
    write,
)
from harness import Server, check


@check("error", "-32001: a container that is not there")
async def unknown_containers(server: Server):
    async with bench(server) as session:
        for name in (NOBODY, "nobody", "../x", "c_", "default", ""):
            await refused(session, -32001, "attach", target=name, client_name="a", session_id="b")
            await refused(session, -32001, "kill", container_id=name)
            await refused(session, -32001, "kill", container_id=name, force=True)
            await refused(session, -32001, "exec_start", container_id=name, cmd=["true"])
            await refused(session, -32001, "container_stats", container_id=name)
            await refused(session, -32001, "create_snapshot", container_id=name)
            for tool in ("fs_read", "fs_stat", "fs_delete", "fs_list"):
                error = await refused(session, -32001, tool, container_id=name, path="/workspace/a")
                assert error.data["code"] == "not_found"
            await refused(session, -32001, "fs_write", container_id=name, path="a", content="")


@check("error", "-32002: an image whose registry is not allowed, and how to find out which are")
async def images_that_are_not_allowed(server: Server):
    async with bench(server) as session:
        for image in ("quay.io/some/thing:1", "localhost:5000/a@sha256:" + "0" * 64, "evil.io/a"):
            error = await refused(session, -32002, "spawn", image=image)
            assert "docker.io/*" in error.data["hint"], error.data


@check("error", "-32004: a path outside of /workspace, by name or by a link")
async def paths_outside(server: Server):
    async with bench(server) as session:
        made = await spawn(session)
        await printed(session, made, "ln -s /etc/passwd file; ln -s ../etc dir; ln -s / root")
        outside = ["/etc/passwd", "../../etc/passwd", "/workspace/../etc/passwd", "/workspaceevil"]
        through = ["/workspace/file", "dir/passwd", "root/etc/passwd"]
        for path in outside + through:
            await refused(session, -32004, "fs_read", container_id=made, path=path)
        for path in [*outside, "dir/new", "root/tmp/new"]:
            await refused(session, -32004, "fs_write", container_id=made, path=path, content="x")
            await refused(session, -32004, "fs_delete", container_id=made, path=path)
        given = {"container_id": made, "path": "/workspace", "content": "x"}
        error = await refused(session, -32004, "fs_write", **given)
        assert error.message == "/workspace itself cannot be replaced", error.message
        await printed(session, made, "echo x > shut; chmod 0 shut")
        error = await refused(session, -32004, "fs_read", container_id=made, path="shut")
        assert "permission denied" in error.message and "mode" in error.data["hint"], error.data
        await refused(session, -32004, "fs_list", container_id=made, path="/")
        await refused(session, -32004, "fs_stat", container_id=made, path="/etc/passwd")
        await refused(session, -32004, "fs_tar_read", container_id=made, path="/etc")


@check("error", "-32005: a file that is not there")
async def files_that_are_not_there(server: Server):
    async with bench(server) as session:
        made = await spawn(session)
        for tool in ("fs_read", "fs_stat", "fs_delete", "fs_list"):
            await refused(session, -32005, tool, container_id=made, path="/workspace/none")


@check("error", "-32006: more commands than the operator allows at once")
async def too_many_commands(server: Server):
    async with bench(server, HOTCELL_ADMISSION_EXECS="2") as session:
        made = await spawn(session)
        for _ in range(2):
            await start(session, made, "sleep 60")
        await refused(session, -32006, "exec_start", container_id=made, cmd=["true"])


@check("error", "-32008: a command as root where that is not allowed")
async def root_that_is_not_allowed(server: Server):
    async with bench(server, HOTCELL_SERVE_AS_ROOT="false") as session:
        made = await spawn(session)
        await refused(session, -32008, "exec_start", container_id=made, cmd=["id"], as_root=True)


@check("error", "-32007 and -32008: no token, and a token that may not")
async def tokens_that_are_missing_or_too_weak(server: Server):
    token = "a-token-that-is-long-enough"
    async with listening(server, MCP_AUTH_MODE="bearer", MCP_BEARER_TOKEN=token) as (_, port):
        assert await is_turned_away(port), "it serves without a token"
        made = hotcell(server, "token", "create", "--name", "reader", "--scope", "read", "--json")
        async with caller(port, json.loads(made)["token"]) as session:
            await refused(session, -32008, "spawn", image="host")
            await refused(session, -32008, "reconcile")
            await refused(session, -32008, "garbage_collect")
            await refused(session, -32008, "metrics")
            assert (await ask(session, "list_containers"))["containers"] == []


@check("error", "-32009: a file that is larger than a call may carry, and cells that have no room")
async def resources_that_are_used_up(server: Server):
    async with bench(server, MCP_MAX_FILE_SIZE="1", HOTCELL_ADMISSION_CELLS="1") as session:
        made = await spawn(session)
        await write(session, made, "/workspace/fits", "x" * (1 << 20))
        content = "x" * ((1 << 20) + 1)
        await refused(session, -32009, "fs_write", container_id=made, path="a", content=content)
        await printed(session, made, "head -c 2000000 /dev/zero > big")
        await refused(session, -32009, "fs_read", container_id=made, path="big")
        await refused(session, -32009, "spawn", image="host")


@check("error", "-32010: an alias that is taken, an etag that is another, a key that is another's")
async def conflicts(server: Server):
    async with bench(server) as session:
        made = await spawn(session, alias="mine", idempotency_key="k")
        await refused(session, -32010, "spawn", image="host", alias="mine")
        await refused(session, -32010, "spawn", image="host", idempotency_key="k")
        etag = await write(session, made, "/workspace/a", "1")
        await write(session, made, "/workspace/a", "2", if_match_etag=etag)
        for stale in (etag, "0" * 32, "nonsense"):
            await refused(
                session,
                -32010,
                "fs_write",
                container_id=made,
                path="/workspace/a",
                content="3",
                if_match_etag=stale,
            )


@check("error", "-32602: what is missing or of another type, with its name")
async def wrong_input(server: Server):
    async with bench(server) as session:
        made = await spawn(session)
        cases = [
            ("spawn", {}, "image"),
            ("spawn", {"image": 7}, "image"),
            ("spawn", {"image": "host", "persistent": "often"}, "persistent"),
            ("spawn", {"image": "host", "alias": "no spaces"}, "no spaces"),
            ("spawn", {"image": "host", "ttl_s": 0}, "0"),
            ("spawn", {"image": "NOT AN IMAGE"}, "NOT AN IMAGE"),
            ("attach", {"target": made}, "client_name"),
            ("exec_start", {"container_id": made}, "cmd"),
            ("exec_start", {"container_id": made, "cmd": "ls"}, "cmd"),
            ("exec_start", {"container_id": made, "cmd": []}, "program"),
            ("exec_start", {"container_id": made, "cmd": ["nosuch"]}, "nosuch"),
            ("exec_start", {"container_id": made, "cmd": ["true"], "cwd": "/nope"}, "/nope"),
            ("exec_start", {"container_id": made, "cmd": ["true"], "cwd": "sub"}, "sub"),
            ("exec_start", {"container_id": made, "cmd": ["true"], "cwd": "/bin/sh"}, "/bin/sh"),
            ("exec_poll", {}, "exec_id"),
            ("exec_poll", {"exec_id": NOTHING, "after_seq": -1}, "after_seq"),
            ("fs_read", {"container_id": made}, "path"),
            ("fs_write", {"container_id": made, "path": "a"}, "content"),
            ("policy_check", {}, "image"),
        ]
        for tool, given, named in cases:
            error = await refused(session, -32602, tool, **given)
            assert named in error.message, (tool, given, error.message)
        for garbage in ("garbage", "[]", 7, ["spawn"], True):
            try:
                await session.call_tool("spawn", {"input_data": garbage, "image": IMAGE})
                raise AssertionError(f"it takes {garbage!r}")
            except MCPError as error:
                assert error.code == -32602, error
                assert "input_data has to be an object" in error.message, error.message


@check("error", "an execution that is not there is an error, whatever is asked of it")
async def unknown_executions(server: Server):
    async with bench(server) as session:
        for name in (NOTHING, "nothing", ""):
            for tool in ("exec_poll", "exec_cancel", "exec_signal"):
                error = await refused(session, -32000, tool, exec_id=name)
                assert error.message == f"Execution {name} not found", error.message


@check("error", "an image that is nowhere is an error that says what to do")
async def images_that_are_nowhere(server: Server):
    async with bench(server, HOTCELL_DRIVER="native") as session:
        error = await refused(session, -32000, "spawn", image="python:3.11-slim")
        assert "image pull" in error.data["hint"], error.data


@check("error", "a tool that is not there is an error of the protocol")
async def unknown_tools(server: Server):
    async with bench(server) as session:
        try:
            await session.call_tool("no_such_tool", {})
            raise AssertionError("it answers")
        except MCPError as error:
            assert error.code == -32602 and "no_such_tool" in error.message, error
