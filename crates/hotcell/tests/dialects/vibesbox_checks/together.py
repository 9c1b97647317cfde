"""Many calls at once, and servers that end."""

import anyio

from harness import Server, all_at_once, check, eventually
from vibesbox_checks.commands import (
    ask,
    ended,
    execute,
    kill,
    prints,
    processes,
    read,
    reads,
    start,
    status,
)

AT_ONCE = 8


@check("concurrency", "commands run side by side: each waits for all the others")
async def commands_run_side_by_side(server: Server):
    meet = (
        "touch met-{number}; until [ $(ls | grep -c met-) -eq {count} ]; do sleep 0.2; done; "
        "echo {number}"
    )
    async with server.session() as session:

        async def take_part(number: int) -> str:
            return await prints(session, meet.format(number=number, count=AT_ONCE))

        met = await all_at_once([lambda n=n: take_part(n) for n in range(AT_ONCE)])
        assert met == [f"{number}\n" for number in range(AT_ONCE)], met


@check("concurrency", "many commands at once have each its own output and exit code")
async def results_are_not_mixed_up(server: Server):
    async with server.session() as session:

        async def work(number: int) -> tuple[str, str, int]:
            command = f"echo out{number}; echo err{number} >&2; exit {number}"
            done = await execute(session, command, stream=number % 2 == 0)
            return done["stdout"], done["stderr"], done["exit_code"]

        found = await all_at_once([lambda n=n: work(n) for n in range(40)])
        assert found == [(f"out{n}\n", f"err{n}\n", n) for n in range(40)], found


@check("concurrency", "many background processes are listed, read and killed, each by its pid")
async def many_processes_are_managed(server: Server):
    async with server.session() as session:

        async def begin(number: int) -> int:
            return await start(session, f"echo {number}; sleep 1000")

        pids = await all_at_once([lambda n=n: begin(n) for n in range(30)])
        assert len(set(pids)) == 30, pids
        running = [each["pid"] for each in await processes(session) if each["status"] == "running"]
        assert sorted(running) == sorted(pids), running
        await all_at_once(
            [lambda n=n, pid=pid: reads(session, pid, f"{n}\n") for n, pid in enumerate(pids)]
        )
        await all_at_once([lambda pid=pid: kill(session, pid) for pid in pids])
        assert {each["status"] for each in await processes(session)} == {"completed"}


@check("concurrency", "sessions work at once, and see the processes of each other")
async def sessions_share_processes(server: Server):
    async with server.session() as one, server.session() as other:
        pid = await start(one, "echo hello; sleep 1000")
        await reads(other, pid, "hello\n")
        assert await status(other, pid) == "running"
        await kill(other, pid)
        assert await status(one, pid) == "completed"


@check("concurrency", "what several read at once of one process comes to one of them, once")
async def output_is_read_once(server: Server):
    async with server.session() as session:
        for _ in range(20):
            pid = await start(session, "echo hello; exec sleep 1000")
            await anyio.sleep(0.3)
            pieces = await all_at_once([lambda: read(session, pid)] * 10)
            assert "".join(pieces) == "hello\n", pieces
            await kill(session, pid, signal="SIGKILL")


@check("concurrency", "other calls are answered while a process takes its time to end")
async def a_kill_holds_up_nobody(server: Server):
    # Asked to end, the process waits for a file that another command makes.
    script = (
        'trap "asked=yes; echo asked" TERM; echo ready; '
        'until [ "$asked" ] && [ -e go ]; do sleep 0.1; done; echo "let go"'
    )
    async with server.session() as session:
        pid = await start(session, script)
        await reads(session, pid, "ready\n")

        async def was_asked() -> bool:
            return "asked" in await read(session, pid)

        async def let_go():
            await eventually("the process was asked to end", was_asked)
            await prints(session, "touch go")

        await all_at_once([lambda: kill(session, pid), let_go])
        await ended(session, pid)
        assert "let go\n" in await read(session, pid)


@check("concurrency", "of several kills at once one at least tells of the end, none is an error")
async def kills_at_once(server: Server):
    async with server.session() as session:
        pid = await start(session, "sleep 1000")
        end = lambda: ask(session, "manage_process", action="kill", pid=pid)
        told = await all_at_once([end] * 4)
        unknown = f"Process {pid} not found in active sessions"
        assert any(each["success"] for each in told), told
        assert all(each["success"] or each["error"] == unknown for each in told), told
        assert await status(session, pid) == "completed"


@check("restart", "background processes outlive the server: the next one lists, reads, kills them")
async def processes_outlive_the_server(server: Server):
    async with server.session() as session:
        talks = await start(session, "echo begun; until [ -e go ]; do sleep 0.1; done; echo done")
        sleeps = await start(session, "sleep 1000")
        await reads(session, talks, "begun\n")
        await server.kill(session)
    async with server.session() as session:
        assert await status(session, talks) == await status(session, sleeps) == "running"
        await prints(session, "touch go")
        await ended(session, talks)
        assert (await read(session, talks)).endswith("done\n")
        await kill(session, sleeps)
        assert await status(session, sleeps) == "completed"


@check("restart", "what was listed is listed after the server was killed, and can be read")
async def the_list_outlives_the_server(server: Server):
    async with server.session() as session:
        await execute(session, "echo one; exit 3")
        pid = await start(session, "echo two")
        await ended(session, pid)
        before = await processes(session)
        await server.kill(session)
    async with server.session() as session:
        assert await processes(session) == before
        await reads(session, pid, "two\n")


@check("restart", "a process that ended while no server was there is completed, with all it wrote")
async def processes_end_without_a_server(server: Server):
    async with server.session() as session:
        pid = await start(session, "sleep 1; seq 1000")
        await server.kill(session)
    async with server.session() as session:
        await ended(session, pid)
        await reads(session, pid, "".join(f"{n}\n" for n in range(1, 1001)))


@check("restart", "processes go on after their session was closed, and files stay")
async def processes_outlive_a_session(server: Server):
    async with server.session() as session:
        pid = await start(session, "echo kept > file; echo begun; sleep 1000")
        await reads(session, pid, "begun\n")
    async with server.session() as session:
        assert await status(session, pid) == "running"
        assert await prints(session, "cat file") == "kept\n"


@check("restart", "a server that was killed can be started again at once, many times")
async def servers_can_be_killed_often(server: Server):
    for _ in range(3):
        async with server.session() as session:
            assert await prints(session, "echo hello") == "hello\n"
            await server.kill(session)
