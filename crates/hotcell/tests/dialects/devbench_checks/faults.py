"""The faults of the original, one by one."""

import time

import anyio
from mcp import MCPError

from devbench_checks.bench import (
    IMAGE,
    NOTHING,
    ask,
    bench,
    caller,
    container,
    containers,
    finished,
    hotcell,
    listening,
    printed,
    read,
    refused,
    spawn,
    start,
    text,
    write,
)
from devbench_checks.files import packed
from harness import Server, check, eventually


@check("fault", "the default start serves", original="it exits with Unknown transport")
async def fault_default_start_exits(server: Server):
    async with listening(server) as (_, port), caller(port) as session:
        assert (await ask(session, "health"))["status"] == "healthy"


@check("fault", "the first call finds all tables", original="its start-up hook never runs")
async def fault_start_up_never_runs(server: Server):
    async with bench(server) as session:
        assert (await ask(session, "system_status"))["database_initialized"] is True
        assert await spawn(session)


@check("fault", "every tool of files works", original="each of them fails")
async def fault_file_tools_fail(server: Server):
    async with bench(server) as session:
        made = await spawn(session)
        await write(session, made, "/workspace/a", "x")
        assert await read(session, made, "/workspace/a") == "x"
        for tool in ("fs_stat", "fs_delete"):
            await ask(session, tool, container_id=made, path="/workspace/a")
        assert (await ask(session, "fs_list", container_id=made))["entries"] == []


@check("fault", "both lists work", original="they use a session that is not there")
async def fault_list_tools_fail(server: Server):
    async with bench(server) as session:
        made = await spawn(session)
        await start(session, made, "sleep 60")
        assert len(await containers(session)) == 1
        assert len((await ask(session, "list_execs"))["execs"]) == 1


@check("fault", "keys and cancel do something", original="each call has a manager of its own")
async def fault_keys_and_cancel_do_nothing(server: Server):
    async with bench(server) as session:
        made = await spawn(session)
        first = await start(session, made, "sleep 60", idempotency_key="k")
        assert await start(session, made, "sleep 60", idempotency_key="k") == first
        await ask(session, "exec_cancel", exec_id=first)
        end = (await finished(session, first))[-1]
        assert end["complete"] and end["usage"]["cancelled"], "a cancelled one is complete"


@check("fault", "after_seq=0 gives all of stdout", original="the first chunk has the number 0")
async def fault_first_chunk_is_dropped(server: Server):
    async with bench(server) as session:
        made = await spawn(session)
        messages = await finished(session, await start(session, made, "echo first; echo second"))
        assert text(messages) == "first\nsecond\n" and messages[0]["seq"] > 0


@check("fault", "output comes while a command runs", original="it comes only at the end")
async def fault_output_comes_at_the_end(server: Server):
    async with bench(server) as session:
        made = await spawn(session)
        exec_id = await start(session, made, "echo early; sleep 60")

        async def shows() -> bool:
            page = await ask(session, "exec_poll", exec_id=exec_id)
            return text(page["messages"]) == "early\n" and not page["complete"]

        await eventually("it shows what was printed", shows, 10)


@check("fault", "output that is not kept is told of", original="beyond 64 MB it is just gone")
async def fault_dropped_output_is_not_told(server: Server):
    async with bench(server, HOTCELL_OUTPUT_MB="1") as session:
        made = await spawn(session)
        exec_id = await start(session, made, "head -c 8000000 /dev/zero | tr '\\0' x; echo the end")
        end = (await finished(session, exec_id))[-1]
        assert end["usage"]["output_dropped"] is True, end
        assert end["usage"]["stdout_bytes"] == 8_000_008
        dropped, after, shown = 0, 0, ""
        while True:
            page = await ask(session, "exec_poll", exec_id=exec_id, after_seq=after)
            dropped += page.get("dropped", {}).get("bytes", 0)
            shown += text(page["messages"])
            if page["complete"]:
                break
            after = page["messages"][-1]["seq"]
        assert len(shown) + dropped == 8_000_008 and shown.endswith("the end\n"), dropped


@check("fault", "timeout and cancel kill the process", original="it goes on")
async def fault_processes_go_on(server: Server):
    beat = "i=0; while :; do i=$((i + 1)); echo $i > {file}; sleep 0.1; done"
    async with bench(server) as session:
        made = await spawn(session)
        timed = await start(session, made, beat.format(file="timed"), timeout_s=1)
        cancelled = await start(session, made, beat.format(file="cancelled"))
        await finished(session, timed)
        await ask(session, "exec_cancel", exec_id=cancelled)
        before = await printed(session, made, "cat timed cancelled")
        await anyio.sleep(0.5)
        assert await printed(session, made, "cat timed cancelled") == before


@check("fault", "exit code 0 is 0", original="it is stored as -1")
async def fault_success_is_minus_one(server: Server):
    async with bench(server) as session:
        made = await spawn(session)
        assert (await finished(session, await start(session, made, "exit 0")))[-1]["exit_code"] == 0


@check("fault", "poll of nothing is an error", original="it is incomplete for ever")
async def fault_unknown_polls_never_end(server: Server):
    async with bench(server) as session:
        await refused(session, -32000, "exec_poll", exec_id=NOTHING)


@check("fault", "stat, read and list have one etag", original="they differ")
async def fault_etags_differ(server: Server):
    async with bench(server) as session:
        made = await spawn(session)
        etag = await write(session, made, "/workspace/a", "x")
        seen = [
            (await ask(session, "fs_stat", container_id=made, path="/workspace/a"))["etag"],
            (await ask(session, "fs_read", container_id=made, path="/workspace/a"))["etag"],
            (await ask(session, "fs_list", container_id=made))["entries"][0]["etag"],
        ]
        assert seen == 3 * [etag], seen


@check("fault", "if_match of a missing file fails, and checks are atomic", original="it writes")
async def fault_conditions_are_ignored(server: Server):
    async with bench(server) as session:
        made = await spawn(session)
        etag = await write(session, made, "/workspace/a", "x")
        given = {"container_id": made, "path": "/workspace/b", "content": "y"}
        await refused(session, -32010, "fs_write", if_match_etag=etag, **given)
        await refused(session, -32005, "fs_read", container_id=made, path="/workspace/b")


@check("fault", "/workspaceevil is outside", original="it begins with the right letters")
async def fault_prefixes_pass_the_check(server: Server):
    async with bench(server) as session:
        made = await spawn(session)
        for path in ("/workspaceevil", "/workspaceevil/a", "/workspace/../workspaceevil"):
            await refused(session, -32004, "fs_write", container_id=made, path=path, content="")


@check("fault", "links do not lead outside", original="they are not resolved")
async def fault_links_lead_outside(server: Server):
    async with bench(server) as session:
        made = await spawn(session)
        await write(session, made, "/workspace/real", "x")
        await printed(session, made, "ln -s /tmp t; ln -s /workspace/real absolute; ln -s real near")
        await refused(session, -32004, "fs_write", container_id=made, path="t/a", content="")
        await refused(session, -32004, "fs_list", container_id=made, path="t")
        assert await read(session, made, "absolute") == await read(session, made, "near") == "x"


@check("fault", "links of archives do not lead outside", original="they are extracted anyway")
async def fault_archive_links_are_extracted(server: Server):
    import tarfile

    link = tarfile.TarInfo("link")
    link.type, link.linkname = tarfile.SYMTYPE, "../../tmp"
    async with bench(server) as session:
        made = await spawn(session)
        await refused(session, -32004, "fs_tar_write", container_id=made, content=packed((link, b"")))


@check("fault", "a batch that fails changes nothing", original="a moved-over file is deleted")
async def fault_batches_are_not_atomic(server: Server):
    async with bench(server) as session:
        made = await spawn(session)
        await write(session, made, "/workspace/from", "from")
        await write(session, made, "/workspace/over", "over")
        move = {"op_type": "move", "path": "from", "dest_path": "over"}
        failing = {"op_type": "read", "path": "none"}
        told = await ask(session, "fs_batch", container_id=made, operations=[move, failing])
        assert told["rollback_performed"] is True
        assert await read(session, made, "over") == "over"
        assert await read(session, made, "from") == "from"


@check("fault", "a container ends with its ttl_s", original="it is never enforced")
async def fault_ttl_is_not_enforced(server: Server):
    async with bench(server) as session:
        made = await spawn(session, ttl_s=10)

        async def is_gone() -> bool:
            return made not in [each["id"] for each in await containers(session)]

        await eventually("it is gone", is_gone)
        await refused(session, -32001, "exec_start", container_id=made, cmd=["true"])


@check("fault", "the warm pool gives out one after another", original="it deadlocks")
async def fault_pool_deadlocks(server: Server):
    images = {"HOTCELL_POOL_IMAGES": IMAGE}
    async with bench(server, MCP_WARM_POOL_ENABLED="1", **images) as session:
        made = []
        with anyio.fail_after(120):
            for number in range(5):

                async def is_ready() -> bool:
                    return "hotcell_pool_ready 1" in (await ask(session, "metrics"))["metrics"]

                await eventually("one is ready", is_ready)
                made.append(await spawn(session))
                shown = (await ask(session, "metrics"))["metrics"]
                pool = [line for line in shown.splitlines() if line.startswith("hotcell_pool")]
                assert f"hotcell_pool_given_total {number + 1}" in pool, (number, pool)
        assert len(set(made)) == 5


@check("fault", "the end waits for calls under way", original="it is a sleep of 0.1 s")
async def fault_drain_waits_for_nobody(server: Server):
    import signal

    async with listening(server, MCP_DRAIN_GRACE_S="30") as (process, port):
        async with caller(port) as session:
            made = await spawn(session)
            exec_id = await start(session, made, "trap 'sleep 1; exit 0' TERM; echo; sleep 60 & wait")

            async def is_up() -> bool:
                return bool((await ask(session, "exec_poll", exec_id=exec_id))["messages"])

            await eventually("the command is up", is_up)
            told: list = []

            async def cancel():
                told.append((await ask(session, "exec_cancel", exec_id=exec_id))["status"])

            async with anyio.create_task_group() as group:
                group.start_soon(cancel)
                await anyio.sleep(0.3)
                process.send_signal(signal.SIGTERM)
            assert told == ["cancelled"], told


@check("fault", "a persistent container leaves its files", original="its volume is deleted")
async def fault_volumes_are_deleted(server: Server):
    async with bench(server) as session:
        made = await spawn(session, persistent=True)
        await write(session, made, "/workspace/a", "kept")
        killed = await ask(session, "kill", container_id=made)
        assert killed["workspace_kept"] is True, killed
        assert made in hotcell(server, "volume", "list")
        other = await spawn(session)
        assert (await ask(session, "kill", container_id=other))["workspace_kept"] is False


@check("fault", "as_root is for the operator to allow", original="it is always allowed")
async def fault_root_is_always_allowed(server: Server):
    async with bench(server, HOTCELL_SERVE_AS_ROOT="false") as session:
        made = await spawn(session)
        await refused(session, -32008, "exec_start", container_id=made, cmd=["id"], as_root=True)
        assert await printed(session, made, "id -u") == "1000\n"


@check("fault", "another tenant's container is not there", original="whoever knows an ID has it")
async def fault_anybody_has_access(server: Server):
    import json

    token = "a-token-that-is-long-enough"
    async with listening(server, MCP_AUTH_MODE="bearer", MCP_BEARER_TOKEN=token) as (_, port):
        async with caller(port, token) as session:
            made = await spawn(session, alias="mine")
        create = ["token", "create", "--name", "other", "--tenant", "other", "--json"]
        other = json.loads(hotcell(server, *create))
        async with caller(port, other["token"]) as session:
            assert await containers(session) == []
            for name in (made, "mine"):
                await refused(session, -32001, "kill", container_id=name, force=True)
                await refused(session, -32001, "fs_read", container_id=name, path="/workspace/a")
            await refused(session, -32008, "reconcile")


@check("fault", "aliases and keys hold under races", original="two containers come of them")
async def fault_aliases_race(server: Server):
    async with bench(server) as session:
        made: set[str] = set()

        async def race():
            made.add(await spawn(session, idempotency_key="one"))

        async with anyio.create_task_group() as group:
            for _ in range(6):
                group.start_soon(race)
        assert len(made) == 1 and len(await containers(session)) == 1, made
        won: list[str] = []

        async def race_for_alias():
            try:
                won.append(await spawn(session, alias="one"))
            except MCPError as error:
                assert error.code == -32010, error

        async with anyio.create_task_group() as group:
            for _ in range(6):
                group.start_soon(race_for_alias)
        listed = [each["id"] for each in await containers(session) if each["alias"] == "one"]
        assert len(won) == 1 and listed == won, (won, listed)


@check("fault", "labels of metrics do not grow with use", original="each container and image is one")
async def fault_labels_are_unbounded(server: Server):
    async with bench(server) as session:
        first = await spawn(session)
        await printed(session, first, "true")
        before = (await ask(session, "metrics"))["metrics"]
        made = await spawn(session)
        for number in range(5):
            await printed(session, made, f"echo {number}")
        after = (await ask(session, "metrics"))["metrics"]
        assert first not in after and made not in after
        assert len(after.splitlines()) == len(before.splitlines())


@check("fault", "the ledger and the logs have no secrets", original="they have them in clear")
async def fault_secrets_are_logged(server: Server):
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    async with bench(server, MCP_LOG_LEVEL="DEBUG") as session:
        made = await spawn(session)
        await printed(session, made, "echo $TOKEN > /dev/null", env={"TOKEN": secret})
        await printed(session, made, f"true {secret}")
        await write(session, made, "/workspace/a", secret)
    assert secret not in hotcell(server, "audit", "export")
    for log in server.logs.iterdir():
        assert secret not in log.read_text(), log


@check("fault", "files that are no text can be read", original="they cannot")
async def fault_binary_files_cannot_be_read(server: Server):
    async with bench(server) as session:
        made = await spawn(session)
        await printed(session, made, r"printf '\377\000\376' > b")
        seen = await ask(session, "fs_read", container_id=made, path="/workspace/b")
        assert seen["encoding"] == "base64" and seen["content"] == "/wD+", seen


@check("fault", "a port of a registry is no tag", original="it breaks digest pinning")
async def fault_ports_break_digests(server: Server):
    digest = "sha256:" + "0" * 64
    given = {"MCP_ALLOWED_REGISTRIES": "localhost:5000", "HOTCELL_IMAGES_REQUIRE_DIGEST": "true"}
    async with bench(server, **given) as session:
        for image, allowed in [
            (f"localhost:5000/a@{digest}", True),
            (f"localhost:5000/a:1@{digest}", True),
            ("localhost:5000/a:1", False),
            ("localhost:5000/a", False),
        ]:
            told = await ask(session, "policy_check", image=image)
            assert told["allowed"] is allowed, (image, told)


@check("planned", "a spawn, a command, a file and a poll take as long as promised")
async def promised_times_are_kept(server: Server):
    async def took(times: int, tool: str, **given) -> float:
        spent = []
        for _ in range(times):
            began = time.monotonic()
            await ask(session, tool, **given)
            spent.append(time.monotonic() - began)
        return min(spent)

    async with bench(server) as session:
        assert await took(3, "spawn", image=IMAGE) < 2
        made = await spawn(session)
        assert (await container(session, made))["status"] == "running"
        assert await took(5, "exec_start", container_id=made, cmd=["true"]) < 0.1
        assert await took(5, "fs_write", container_id=made, path="a", content="x") < 0.05
        assert await took(5, "fs_read", container_id=made, path="a") < 0.05
        exec_id = await start(session, made, "echo hello")
        await finished(session, exec_id)
        assert await took(5, "exec_poll", exec_id=exec_id) < 0.05
