"""Jobs that write without end, or do not read."""

import re

import anyio

from background_job_checks.jobs import ended, output, sh, shows, start, status, written
from harness import Server, call, check, eventually

# Long for an answer, and short for somebody who waits for one.
SOON_S = 20


@check("tool", "tail_job_output gives no more lines than it is asked for while a job writes")
async def tail_is_exact_while_a_job_writes(server: Server):
    async with server.session() as session:
        job = await start(session, sh("n=0; while :; do n=$((n+1)); echo $n; sleep 0.002; done"))
        for _ in range(20):
            tail = await call(session, "tail_job_output", job_id=job, lines=2)
            lines = [int(line) for line in tail["stdout"].split()]
            assert len(lines) <= 2 and lines == sorted(lines), tail


@check("tool", "output is shown at once of a job that writes as fast as it can")
async def floods_are_shown(server: Server):
    async with server.session({"MCP_BG_MAX_OUTPUT_SIZE": "1MB"}) as session:
        job = await start(session, "yes")
        with anyio.fail_after(SOON_S):
            tail = await call(session, "tail_job_output", job_id=job, lines=5)
            assert set(tail["stdout"].split("\n")[:-1]) <= {"y"}, tail

        async def is_shown() -> bool:
            return "y\ny\n" in (await output(session, job))["stdout"]

        with anyio.fail_after(SOON_S):
            await eventually("its output is shown", is_shown)
        assert await call(session, "kill_job", job_id=job) == {"status": "killed"}


@check("tool", "what goes back to the start of its line counts as a line")
async def returns_end_lines(server: Server):
    async with server.session() as session:
        job = await start(session, r"printf 'a\rb\n1 %%\r2 %%\r3 %%\n'")
        await ended(session, job)
        await shows(session, job, "a\nb\n1 %\n2 %\n3 %")
        for lines, expected in ((1, "3 %"), (4, "b\n1 %\n2 %\n3 %")):
            tail = await call(session, "tail_job_output", job_id=job, lines=lines)
            assert tail["stdout"] == expected, tail


@check("tool", "the end of a stream is shown, and no line that was never written")
async def no_lines_are_made_up(server: Server):
    async with server.session({"MCP_BG_MAX_OUTPUT_SIZE": "2000000"}) as session:
        many = "seq 1000000 1900000"
        job = await start(session, sh(f"{many}; {many} >&2; echo end"))
        await ended(session, job)
        seen = await output(session, job)
        assert seen["stdout"].endswith("\nend") and seen["stderr"].endswith("\n1900000"), (
            seen["stdout"][-100:],
            seen["stderr"][-100:],
        )
        # The first line may be cut.
        for line in (seen["stdout"] + "\n" + seen["stderr"]).split("\n")[1:]:
            assert re.fullmatch(r"\d{1,7}|end|\[\.\.\. .* \.\.\.\]", line), line


@check("tool", "input for a job that does not read yet holds up nobody, and is there when it does")
async def input_waits_for_the_job(server: Server):
    async with server.session() as session:
        job = await start(session, sh("sleep 4; wc -c"))
        with anyio.fail_after(SOON_S):
            for _ in range(2):
                await call(session, "interact_with_job", job_id=job, input="x" * 199_999)
        assert await status(session, job) == "running"
        await call(session, "kill_job", job_id=job)
        reads = await start(session, sh("sleep 4; head -c 400000 | wc -c"))
        for _ in range(2):
            await call(session, "interact_with_job", job_id=reads, input="x" * 199_999)
        assert await ended(session, reads) == "completed"
        assert (await output(session, reads))["stdout"].strip() == "400000"


@check("error", "a job that has closed its input runs, and takes none")
async def closed_input_is_told(server: Server):
    async with server.session() as session:
        job = await start(session, sh("exec <&-; echo closed; exec sleep 1000"))
        await shows(session, job, "closed")
        result = await session.call_tool("interact_with_job", {"job_id": job, "input": "x"})
        text = result.content[0].text
        assert result.is_error and text.startswith("Failed to interact with job: "), text
        assert await status(session, job) == "running"


@check("tool", "numbers may be written as models write them")
async def numbers_are_read_as_meant(server: Server):
    async with server.session() as session:
        await written(session, "seq 9")
        job = await start(session, "seq 9")
        await ended(session, job)
        for lines in (2, "2", 2.0):
            tail = await call(session, "tail_job_output", job_id=job, lines=lines)
            assert tail["stdout"] == "8\n9", (lines, tail)
