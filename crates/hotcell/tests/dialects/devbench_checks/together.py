"""Many callers at once, and what a restart leaves."""

import anyio

from devbench_checks.bench import (
    IMAGE,
    ask,
    bench,
    containers,
    finished,
    printed,
    read,
    spawn,
    start,
    text,
    write,
)
from harness import Server, check


@check("concurrency", "twenty clients work in containers of their own at the same time")
async def many_clients_at_once(server: Server):
    async def work(number: int):
        async with bench(server) as session:
            made = await spawn(session, alias=f"client-{number}")
            await write(session, made, "/workspace/who", str(number))
            assert await printed(session, made, "cat who") == str(number)
            await ask(session, "kill", container_id=made, force=True)

    async with anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(work, number)
    async with bench(server) as session:
        assert await containers(session) == []


@check("concurrency", "of many spawns with one key or one alias one container comes")
async def races_have_one_winner(server: Server):
    made: list[str] = []
    lost: list[int] = []

    async def race(session, given: dict):
        try:
            made.append((await ask(session, "spawn", image=IMAGE, **given))["container_id"])
        except Exception as error:
            lost.append(error.code)

    async with bench(server) as one, bench(server) as two:
        async with anyio.create_task_group() as group:
            for _ in range(4):
                for session in (one, two):
                    group.start_soon(race, session, {"idempotency_key": "k"})
        assert len(made) == 8 and len(set(made)) == 1 and not lost, (made, lost)
        made.clear()
        async with anyio.create_task_group() as group:
            for _ in range(4):
                for session in (one, two):
                    group.start_soon(race, session, {"alias": "a"})
        assert len(made) == 1 and lost == 7 * [-32010], (made, lost)


@check("concurrency", "of many conditional writes with one etag one wins")
async def conditional_writes_have_one_winner(server: Server):
    async with bench(server) as session:
        made = await spawn(session)
        etag = await write(session, made, "/workspace/a", "start")
        won: list[str] = []

        async def race(number: int):
            content = f"writer {number}"
            try:
                await write(session, made, "/workspace/a", content, if_match_etag=etag)
                won.append(content)
            except Exception as error:
                assert error.code == -32010, error

        async with anyio.create_task_group() as group:
            for number in range(12):
                group.start_soon(race, number)
        assert len(won) == 1 and await read(session, made, "/workspace/a") == won[0], won


@check("concurrency", "of many executions with one key one runs; the rest wait their turn")
async def executions_queue(server: Server):
    async with bench(server) as session:
        made = await spawn(session)
        same: set[str] = set()

        async def once():
            same.add(await start(session, made, "echo x >> once", idempotency_key="k"))

        async with anyio.create_task_group() as group:
            for _ in range(8):
                group.start_soon(once)
        assert len(same) == 1, same
        started = [await start(session, made, f"sleep 0.2; echo {number}") for number in range(12)]
        outputs = [text(await finished(session, each)) for each in started]
        assert outputs == [f"{number}\n" for number in range(12)]
        assert await printed(session, made, "cat once") == "x\n"


@check("restart", "a server that is killed leaves containers, files and output to the next")
async def the_next_server_goes_on(server: Server):
    async with bench(server) as session:
        made = await spawn(session, persistent=True, alias="mine")
        await write(session, made, "/workspace/a", "kept")
        exec_id = await start(session, made, "echo done", idempotency_key="k")
        await finished(session, exec_id)
        await server.kill(session)
    async with bench(server) as session:
        assert await read(session, "mine", "/workspace/a") == "kept"
        messages = await finished(session, exec_id)
        assert text(messages) == "done\n" and messages[-1]["exit_code"] == 0
        assert await start(session, made, "echo done", idempotency_key="k") == exec_id
