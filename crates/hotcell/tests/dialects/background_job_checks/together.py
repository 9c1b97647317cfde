"""Many calls at once, and servers that end."""

import re

from mcp import Client

from background_job_checks.jobs import (
    ended,
    jobs,
    output,
    sh,
    shows,
    start,
    status,
    written,
)
from harness import Server, all_at_once, call, check, eventually, fails


@check("concurrency", "ten jobs started at once in one session run apart from each other")
async def jobs_start_at_once(server: Server):
    async with server.session() as session:
        found = await all_at_once([lambda n=n: greeted(session, n) for n in range(10)])
        assert len(set(found)) == 10, found
        assert {each["job_id"] for each in await jobs(session)} == set(found)


@check("concurrency", "ten jobs started at once from five sessions run apart from each other")
async def sessions_work_at_once(server: Server):
    async def work(number: int) -> list[str]:
        async with server.session() as session:
            return [await greeted(session, 2 * number + n) for n in range(2)]

    found = sum(await all_at_once([lambda n=n: work(n) for n in range(5)]), [])
    assert len(set(found)) == 10, found


@check("concurrency", "no more jobs than allowed run, however many are started at once")
async def the_limit_holds_at_once(server: Server):
    async with server.session({"MCP_BG_MAX_JOBS": "3"}) as session:

        async def attempt() -> bool:
            result = await session.call_tool("execute_command", {"command": "sleep 1000"})
            return not result.is_error

        begun = await all_at_once([attempt] * 12)
        assert sum(begun) == 3, begun
        assert [each["status"] for each in await jobs(session)] == ["running"] * 3


@check("concurrency", "all tools may be called at once for one job")
async def calls_for_one_job_at_once(server: Server):
    async with server.session() as session:
        job = await start(session, "cat")
        words = [f"word{number}" for number in range(10)]
        calls = [
            lambda word=word: call(session, "interact_with_job", job_id=job, input=word)
            for word in words
        ]
        calls += [lambda: status(session, job), lambda: output(session, job)] * 10
        calls += [lambda: call(session, "tail_job_output", job_id=job), lambda: jobs(session)] * 10
        await all_at_once(calls)

        async def all_came() -> bool:
            return sorted((await output(session, job))["stdout"].split()) == words

        await eventually("every word came once", all_came)


@check("concurrency", "of several kills at once one says killed, the others that or already_terminated")
async def kills_at_once(server: Server):
    async with server.session() as session:
        job = await start(session, "sleep 1000")
        kill = lambda: call(session, "kill_job", job_id=job)
        said = sorted(each["status"] for each in await all_at_once([kill] * 4))
        assert "killed" in said and set(said) <= {"already_terminated", "killed"}, said


async def greeted(session: Client, number: int) -> str:
    """A job that was spoken to, and answered as it should."""
    job = await start(session, sh(f'read name; echo "hello $name from {number}"'))
    await call(session, "interact_with_job", job_id=job, input=f"guest {number}")
    assert await ended(session, job) == "completed"
    await shows(session, job, f"hello guest {number} from {number}")
    return job


IN_MEMORY = "its jobs are in its memory: they are forgotten, and those that run are left to nobody"


@check(
    "restart",
    "jobs are there again after the server was killed: ids, status, output",
    original=IN_MEMORY,
)
async def ended_jobs_outlive_the_server(server: Server):
    async with server.session() as session:
        good = await start(session, "echo hello")
        bad = await start(session, sh("echo oops >&2; exit 3"))
        killed = await start(session, "sleep 1000")
        await call(session, "kill_job", job_id=killed)
        for job in (good, bad, killed):
            await ended(session, job)
        before = await jobs(session)
        await server.kill(session)
    async with server.session() as session:
        assert await jobs(session) == before
        assert [each["status"] for each in before] == ["killed", "failed", "completed"], before
        assert await output(session, good) == {"stdout": "hello", "stderr": ""}
        assert await output(session, bad) == {"stdout": "", "stderr": "oops"}


@check(
    "restart",
    "a job runs on after its session was closed, and is found by the next",
    original=IN_MEMORY,
)
async def jobs_outlive_a_session(server: Server):
    async with server.session() as session:
        job = await start(session, sh('echo begun; read go; echo "went on $go"'))
        await shows(session, job, "begun")
    async with server.session() as session:
        assert await status(session, job) == "running"
        await call(session, "interact_with_job", job_id=job, input="there")
        assert await ended(session, job) == "completed"
        await shows(session, job, "begun\nwent on there")


@check(
    "restart",
    "running jobs count towards the limit after the server was killed",
    original=IN_MEMORY,
)
async def the_limit_outlives_the_server(server: Server):
    one = {"MCP_BG_MAX_JOBS": "1"}
    async with server.session(one) as session:
        job = await start(session, "sleep 1000")
        await server.kill(session)
    async with server.session(one) as session:
        text = re.escape("Job limit reached: Maximum concurrent jobs limit (1) reached")
        await fails(session, "execute_command", text, command="true")
        assert await call(session, "kill_job", job_id=job) == {"status": "killed"}
        await written(session, "true")


@check("restart", "a server that was killed can be started again at once, many times")
async def servers_can_be_killed_often(server: Server):
    for _ in range(3):
        async with server.session() as session:
            assert (await written(session, "echo hello"))["stdout"] == "hello"
            await server.kill(session)
