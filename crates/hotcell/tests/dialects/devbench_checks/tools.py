"""The tools that are about containers and the server, their shapes and defaults."""

import os
import signal
import time

import anyio

from devbench_checks.bench import (
    IMAGE,
    WITHOUT_INPUT,
    are_limited,
    ask,
    bench,
    container,
    containers,
    finished,
    first_process_of,
    forks_and_burns,
    hotcell,
    is_roots_own,
    printed,
    read,
    refused,
    spawn,
    start,
    write,
)
from harness import Server, call, check, eventually

SERVED = WITHOUT_INPUT | {
    "spawn",
    "attach",
    "kill",
    "exec_start",
    "exec_cancel",
    "exec_poll",
    "fs_read",
    "fs_write",
    "fs_delete",
    "fs_stat",
    "fs_list",
}
PROMISED = {
    "exec_signal",
    "fs_batch",
    "fs_tar_read",
    "fs_tar_write",
    "container_stats",
    "policy_check",
    "create_snapshot",
    "list_snapshots",
    "delete_snapshot",
    "spawn_from_snapshot",
}
DEFAULTS = {
    "spawn": {"persistent": False, "alias": None, "ttl_s": None, "idempotency_key": None},
    "kill": {"force": False},
    "exec_start": {
        "cwd": "/workspace",
        "env": None,
        "as_root": False,
        "timeout_s": 600,
        "idempotency_key": None,
    },
    "exec_poll": {"after_seq": 0},
    "fs_list": {"path": "/workspace", "recursive": False},
}
REQUIRED = {
    "spawn": {"image"},
    "attach": {"target", "client_name", "session_id"},
    "kill": {"container_id"},
    "exec_start": {"container_id", "cmd"},
    "exec_cancel": {"exec_id"},
    "exec_poll": {"exec_id"},
    "fs_read": {"container_id", "path"},
    "fs_write": {"container_id", "path", "content"},
    "fs_delete": {"container_id", "path"},
    "fs_stat": {"container_id", "path"},
    "fs_list": {"container_id"},
}
RESULTS = {
    "health": {"status", "docker_connected", "database_initialized", "version"},
    "spawn": {"container_id", "alias", "status"},
    "attach": {"container_id", "alias", "roots"},
    "kill": {"status"},
    "exec_start": {"exec_id", "status"},
    "exec_cancel": {"status", "exec_id"},
    "exec_poll": {"messages", "complete"},
    "fs_read": {"content", "etag", "size", "mime_type"},
    "fs_write": {"path", "etag", "size"},
    "fs_delete": {"status", "path"},
    "fs_stat": {"path", "size", "is_dir", "permissions", "mtime", "etag", "mime_type"},
    "fs_list": {"path", "entries"},
    "reconcile": {"discovered", "adopted", "cleaned_up", "orphaned", "errors"},
    "metrics": {"metrics"},
    "system_status": {
        "status",
        "docker_connected",
        "database_initialized",
        "active_containers",
        "active_attachments",
        "version",
    },
    "garbage_collect": {"containers_removed", "execs_cleaned", "attachments_cleaned"},
    "list_containers": {"containers"},
    "list_execs": {"execs"},
}


@check("tool", "all tools are served, with what they take in one object")
async def tools_have_their_shapes(server: Server):
    async with bench(server) as session:
        tools = {tool.name: tool for tool in (await session.list_tools()).tools}
    assert set(tools) == SERVED | PROMISED, set(tools) ^ (SERVED | PROMISED)
    for name, tool in tools.items():
        properties = tool.input_schema["properties"]
        required = tool.input_schema.get("required", [])
        if name in WITHOUT_INPUT:
            assert required == [], (name, tool.input_schema)
            continue
        assert list(properties) == ["input_data"], (name, properties)
        assert required == ["input_data"], (name, required)
    for name, needed in REQUIRED.items():
        given = tools[name].input_schema["properties"]["input_data"]
        assert set(given["required"]) == needed, (name, given)
    for name, fields in RESULTS.items():
        assert set(tools[name].output_schema["required"]) == fields, (name, fields)


@check("default", "what may be left out has the defaults of the original")
async def defaults_are_those_of_the_original(server: Server):
    async with bench(server) as session:
        tools = {tool.name: tool for tool in (await session.list_tools()).tools}
    for name, defaults in DEFAULTS.items():
        properties = tools[name].input_schema["properties"]["input_data"]["properties"]
        for field, default in defaults.items():
            assert properties[field]["default"] == default, (name, field)


@check("tool", "health tells that containers can be run")
async def health_is_told(server: Server):
    async with bench(server) as session:
        health = await ask(session, "health")
        assert health["status"] == "healthy", health
        assert health["docker_connected"] is True and health["database_initialized"] is True
        assert health["version"]


@check("tool", "spawn makes a container that runs, with its alias")
async def spawn_makes_a_container(server: Server):
    async with bench(server) as session:
        made = await ask(session, "spawn", image=IMAGE, alias="mine")
        assert made["container_id"].startswith("c_") and made["alias"] == "mine", made
        assert made["status"] == "running"
        unnamed = await ask(session, "spawn", image=IMAGE)
        assert unnamed["alias"] is None
        listed = await container(session, made["container_id"])
        assert listed["image"] == IMAGE or IMAGE == "host", listed
        assert listed["status"] == "running" and listed["persistent"] is False
        fields = {"id", "docker_id", "alias", "image", "status", "persistent", "created_at"}
        assert fields | {"last_seen"} <= set(listed), listed
        assert len(await containers(session)) == 2


@check("default", "a container has 512 MB, 256 processes and 1 CPU, and no network")
async def containers_are_limited(server: Server):
    async with bench(server) as session:
        made = await spawn(session)
        stats = await ask(session, "container_stats", container_id=made)
        assert stats["memory_limit_mb"] == 512, stats
        if are_limited(server):
            forked, processors = await forks_and_burns(session, made)
            assert 200 < forked < 256, forked
            assert processors < 1.3, processors
        interfaces = await printed(session, made, "cat /proc/net/dev")
        others = [line for line in interfaces.splitlines()[2:] if not line.strip().startswith("lo")]
        assert not others, others


@check("default", "a transient container lasts 7 days, or its ttl_s; a persistent one for ever")
async def transient_containers_have_an_end(server: Server):
    async with bench(server) as session:
        usual = await container(session, await spawn(session))
        short = await container(session, await spawn(session, ttl_s=3600))
        kept = await container(session, await spawn(session, persistent=True, ttl_s=3600))
    assert lasts(usual) == 7 * 24 * 3600 and lasts(short) == 3600
    assert kept["expires_at"] is None and kept["persistent"] is True


def lasts(listed: dict) -> float:
    from datetime import datetime

    end = datetime.fromisoformat(listed["expires_at"])
    return (end - datetime.fromisoformat(listed["created_at"])).total_seconds()


@check("tool", "attach takes an ID or an alias, tells the root, and is counted")
async def attach_notes_a_client(server: Server):
    async with bench(server) as session:
        made = await spawn(session, alias="mine")
        for target in ("mine", made):
            told = await ask(
                session, "attach", target=target, client_name="check", session_id=target
            )
            root = f"workspace:{made}"
            assert told == {"container_id": made, "alias": "mine", "roots": [root]}, told
        status = await ask(session, "system_status")
        assert status["active_containers"] == 1 and status["active_attachments"] == 2, status
        await ask(session, "kill", container_id=made)
        status = await ask(session, "system_status")
        assert status["active_containers"] == 0 and status["active_attachments"] == 0, status


@check("tool", "the workspace of a container is a resource")
async def workspaces_are_resources(server: Server):
    async with bench(server) as session:
        made = await spawn(session)
        await write(session, made, "/workspace/note.txt", "hello")
        read_back = await session.read_resource(f"workspace:{made}/note.txt")
        assert read_back.contents[0].text == "hello", read_back


@check("tool", "numbers and flags may be written as models write them")
async def values_are_read_as_meant(server: Server):
    async with bench(server) as session:
        made = await ask(session, "spawn", image=IMAGE, persistent="false", ttl_s="600")
        given = {"container_id": made["container_id"], "timeout_s": 60.0, "as_root": "false"}
        begun = await ask(session, "exec_start", cmd='["echo", "hi"]', **given)
        exec_id = begun["exec_id"]
        assert (await finished(session, exec_id))[0]["data"] == "hi\n"
        page = await ask(session, "exec_poll", exec_id=exec_id, after_seq="1")
        assert [each["data"] for each in page["messages"]] == [None], page


@check("tool", "kill stops a container; what runs is asked to end first, unless by force")
async def kill_ends_containers(server: Server):
    async with bench(server) as session:
        made = await spawn(session)
        exec_id = await start(session, made, "trap 'echo bye; exit 0' TERM; echo up; sleep 60 & wait")
        with anyio.fail_after(30):
            while not (await ask(session, "exec_poll", exec_id=exec_id))["messages"]:
                await anyio.sleep(0.05)
        assert (await ask(session, "kill", container_id=made))["status"] == "stopped"
        messages = await finished(session, exec_id)
        assert [each["data"] for each in messages[:-1]] == ["up\n", "bye\n"], messages
        other = await spawn(session)
        await start(session, other, "trap '' TERM; sleep 60")
        began = time.monotonic()
        assert (await ask(session, "kill", container_id=other, force=True))["status"] == "stopped"
        assert time.monotonic() - began < 5
        assert await containers(session) == []


@check("tool", "kill gives all that runs one time to end, and not one after another")
async def kill_waits_once(server: Server):
    async with bench(server) as session:
        made = await spawn(session)
        for _ in range(4):
            exec_id = await start(session, made, "trap '' TERM; echo up; while :; do sleep 1; done")

            async def is_up() -> bool:
                return bool((await ask(session, "exec_poll", exec_id=exec_id))["messages"])

            await eventually("the command is up", is_up)
        began = time.monotonic()
        await ask(session, "kill", container_id=made)
        assert 9 < time.monotonic() - began < 19


@check("tool", "reconcile, garbage_collect and system_status answer with counts")
async def upkeep_is_counted(server: Server):
    async with bench(server) as session:
        await spawn(session)
        done = await ask(session, "reconcile")
        assert done["discovered"] >= 1 and done["errors"] == 0, done
        assert all(isinstance(count, int) for count in done.values())
        collected = await ask(session, "garbage_collect")
        assert set(collected.values()) == {0}, collected
    async with bench(server, HOTCELL_LOG_KEEP_S="0") as session:
        made = await spawn(session)
        await printed(session, made, "echo hello")
        await ask(session, "kill", container_id=made, force=True)
        collected = await ask(session, "garbage_collect")
        # The container itself went with kill, and its records are over at once.
        assert collected["execs_cleaned"] >= 1 and collected["containers_removed"] == 0, collected
        assert set((await ask(session, "garbage_collect")).values()) == {0}


@check("tool", "metrics are the text that Prometheus reads, also over stdio")
async def metrics_are_shown(server: Server):
    async with bench(server) as session:
        made = await spawn(session)
        await printed(session, made, "echo hello")
        shown = (await ask(session, "metrics"))["metrics"]
        assert "hotcell_cells{" in shown and "# TYPE hotcell_" in shown, shown[:500]
        assert 'hotcell_execs_ended_total{cause="exited"} 1' in shown, shown


@check("planned", "container_stats tells what a container uses")
async def stats_are_told(server: Server):
    async with bench(server) as session:
        made = await spawn(session)
        await printed(session, made, "i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done")
        stats = await ask(session, "container_stats", container_id=made)
        assert stats["container_id"] == made and stats["memory_limit_mb"] == 512, stats
        # What is not counted is null: without control groups everything, and time in containers.
        for field, is_counted in [
            ("cpu_percent", is_roots_own(server)),
            ("memory_usage_mb", are_limited(server)),
            ("memory_percent", are_limited(server)),
            ("pids", are_limited(server)),
        ]:
            is_null = stats[field] is None and not is_counted
            assert is_null or stats[field] > 0, (field, stats)
        assert stats["execs_running"] == 0 and stats["execs_queued"] == 0, stats
        assert stats["network_rx_bytes"] == 0 and stats["timestamp"], stats


@check("planned", "policy_check judges images and commands without doing anything")
async def policy_is_told(server: Server):
    async with bench(server) as session:
        allowed = await ask(session, "policy_check", image="docker.io/library/debian:12")
        assert allowed["allowed"] is True, allowed
        denied = await ask(session, "policy_check", image="quay.io/some/thing:1")
        assert denied["allowed"] is False and denied["decision"] == "deny", denied
        assert (await ask(session, "policy_check", cmd=["true"]))["allowed"] is True
        assert (await ask(session, "policy_check", cmd=["id"], as_root=True))["allowed"] is True
    async with bench(server, HOTCELL_POLICY_PROFILE="dangerous") as session:
        assert (await ask(session, "policy_check", cmd=["rm", "-rf", "/"]))["allowed"] is False
    async with bench(server, HOTCELL_SERVE_AS_ROOT="false") as session:
        told = await ask(session, "policy_check", cmd=["id"], as_root=True)
        assert told["allowed"] is False and told["rule"] == "serve.as_root", told
        assert (await ask(session, "policy_check", cmd=["id"]))["allowed"] is True


@check("planned", "a snapshot keeps files, and containers are spawned from it")
async def snapshots_are_spawned_from(server: Server):
    async with bench(server) as session:
        made = await spawn(session)
        if (await container(session, made))["docker_id"]:
            # Containers of an engine have none, and say so.
            await refused(session, -32000, "create_snapshot", container_id=made)
            return
        await write(session, made, "/workspace/a", "first")
        kept = await ask(
            session, "create_snapshot", container_id=made, snapshot_name="one", description="a"
        )
        await write(session, made, "/workspace/a", "second")
        listed = (await ask(session, "list_snapshots", container_id=made))["snapshots"]
        assert [each["snapshot_id"] for each in listed] == [kept["snapshot_id"]]
        forked = await ask(
            session,
            "spawn_from_snapshot",
            snapshot_id=kept["snapshot_id"],
            persistent=True,
            alias="again",
        )
        assert forked["alias"] == "again" and forked["status"] == "running", forked
        assert await read(session, forked["container_id"], "/workspace/a") == "first"
        assert (await container(session, forked["container_id"]))["persistent"] is True
        by_image = await ask(session, "spawn", image=kept["image_tag"])
        assert await read(session, by_image["container_id"], "/workspace/a") == "first"
        assert (await container(session, by_image["container_id"]))["persistent"] is False
        keyed = {"image": kept["image_tag"], "ttl_s": 3600, "idempotency_key": "k"}
        first = await ask(session, "spawn", **keyed)
        assert lasts(await container(session, first["container_id"])) == 3600
        assert (await ask(session, "spawn", **keyed))["container_id"] == first["container_id"]
        raced: set[str] = set()

        async def race():
            raced.add((await ask(session, "spawn", **keyed | {"idempotency_key": "r"}))["container_id"])

        async with anyio.create_task_group() as group:
            for _ in range(6):
                group.start_soon(race)
        assert len(raced) == 1, raced
        given = {"snapshot_id": kept["snapshot_id"], "ttl_s": 60, "idempotency_key": "k"}
        await refused(session, -32010, "spawn_from_snapshot", **given)
        await refused(session, -32010, "spawn", image=IMAGE, idempotency_key="k")
        await refused(session, -32602, "spawn", image=kept["image_tag"], ttl_s=0)
        gone = await ask(session, "delete_snapshot", snapshot_id=kept["snapshot_id"])
        assert gone["status"] == "deleted"
        assert await read(session, made, "/workspace/a") == "second"


@check("planned", "a snapshot that is not there is an error, and one goes with its container")
async def snapshots_go_with_their_container(server: Server):
    async with bench(server) as session:
        made = await spawn(session, persistent=True)
        ids = ["snap_nothing"]
        if not (await container(session, made))["docker_id"]:
            kept = await ask(session, "create_snapshot", container_id=made)
            await ask(session, "delete_snapshot", snapshot_id=kept["snapshot_id"])
            ids.append(kept["snapshot_id"])
            kept = await ask(session, "create_snapshot", container_id=made)
            await ask(session, "kill", container_id=made)
            ids.append(kept["snapshot_id"])
            await refused(session, -32001, "list_snapshots", container_id=made)
        for snapshot in ids:
            for tool in ("delete_snapshot", "spawn_from_snapshot"):
                error = await refused(session, -32000, tool, snapshot_id=snapshot)
                assert error.message == f"Snapshot {snapshot} not found", error.message
        if len(ids) > 1:
            hotcell(server, "volume", "restore", made)
            listed = (await ask(session, "list_snapshots", container_id=made))["snapshots"]
            assert [each["snapshot_id"] for each in listed] == ids[-1:], listed


@check("planned", "list_containers tells of stopped ones only when asked to")
async def stopped_containers_are_listed_on_demand(server: Server):
    async with bench(server) as session:
        made = await spawn(session, persistent=True)
        other = await spawn(session)
        word = f"86{os.getpid()}"
        await start(session, made, f"exec sleep {word}")

        async def is_found() -> int | None:
            return first_process_of(word)

        os.kill(await eventually("the command runs", is_found), signal.SIGKILL)

        async def is_left_out() -> bool:
            return [each["id"] for each in await containers(session)] == [other]

        await eventually("it is not listed", is_left_out)
        every = await containers(session, include_stopped=True)
        assert {each["id"]: each["status"] for each in every} == {
            made: "stopped",
            other: "running",
        }, every


@check("tool", "list_containers tells when a container was last used")
async def last_use_is_told(server: Server):
    async with bench(server) as session:
        made = await spawn(session)
        unused = await container(session, made)
        assert unused["last_seen"] == unused["created_at"], unused
        await printed(session, made, "sleep 0.1")
        used = await container(session, made)
        assert used["last_seen"] > unused["last_seen"], used
        await anyio.sleep(0.1)
        assert (await container(session, made))["last_seen"] == used["last_seen"]
        await start(session, made, "sleep 60")
        assert (await container(session, made))["last_seen"] > used["last_seen"]


@check("tool", "names that the documents use, and input without the object, are understood")
async def documented_names_are_understood(server: Server):
    async with bench(server) as session:
        made = (await call(session, "spawn", image=IMAGE))["container_id"]
        assert (await call(session, "list"))["containers"][0]["container_id"] == made
        assert (await call(session, "stats", container_id=made))["container_id"] == made
        await call(session, "fs_write", container_id=made, path="a", content="b")
        assert (await call(session, "export_tar", container_id=made))["files"] == 1
