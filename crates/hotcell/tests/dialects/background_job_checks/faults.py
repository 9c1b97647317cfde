"""The faults of the original, one by one, and what it had planned."""

import re

import anyio

from background_job_checks.jobs import (
    NO_PATH,
    ended,
    jobs,
    output,
    refused_as_dangerous,
    sh,
    shows,
    start,
    status,
    written,
)
from harness import PATIENCE_S, Server, call, check, eventually, fails


@check(
    "fault",
    "a job that has ended makes room for another though nobody asked for its status",
    original="a job that nobody asks for keeps its slot for ever",
)
async def fault_unpolled_jobs_keep_their_slots(server: Server):
    async with server.session({"MCP_BG_MAX_JOBS": "2"}) as session:
        for number in range(2):
            await start(session, f"touch done-{number}")

        async def have_run() -> bool:
            return all((server.work / f"done-{number}").exists() for number in range(2))

        await eventually("both jobs have run", have_run)

        async def starts() -> bool:
            result = await session.call_tool("execute_command", {"command": "true"})
            return not result.is_error

        await eventually("there is room again", starts)


@check(
    "fault",
    "kill_job ends everything that the job has started, also what left its session",
    original="only the first process is killed",
)
async def fault_kill_leaves_grandchildren(server: Server):
    beat = "i=0; while :; do i=$((i + 1)); echo $i > {file}; sleep 0.1; done"
    script = f"({beat.format(file='child')}) & setsid sh -c '{beat.format(file='away')}' & wait"
    files = [server.work / "child", server.work / "away"]
    async with server.session() as session:
        job = await start(session, sh(script))

        async def both_beat() -> bool:
            return all(file.exists() and file.read_text().strip() for file in files)

        await eventually("both grandchildren run", both_beat)
        assert await call(session, "kill_job", job_id=job) == {"status": "killed"}
        assert await ended(session, job) == "killed"

        async def are_still() -> bool:
            before = [file.read_text() for file in files]
            await anyio.sleep(2)
            return before == [file.read_text() for file in files]

        await eventually("both grandchildren have ended", are_still)


@check(
    "fault",
    "a command is run by a shell: pipes, lists, redirections, variables and globs work",
    original="commands are run without a shell, so a pipe is an argument",
)
async def fault_there_is_no_shell(server: Server):
    server.put("a.txt")
    server.put("b.txt")
    async with server.session() as session:
        for command, wanted in (
            ("echo hello | tr a-z A-Z", "HELLO"),
            ("true && echo yes || echo no", "yes"),
            ("echo one; echo two", "one\ntwo"),
            ("x=4; echo $((x * 10 + 2))", "42"),
            ("echo kept > file; cat < file", "kept"),
            ("echo *.txt", "a.txt b.txt"),
            ("for n in 1 2; do echo $n; done", "1\n2"),
            ("echo $(echo inner)", "inner"),
        ):
            assert (await written(session, command))["stdout"] == wanted, command


@check(
    "fault",
    "a program that is not there is a job that has failed, and its output tells why",
    original="commands are run without a shell, so it is the start that fails",
)
async def fault_unknown_programs_are_no_jobs(server: Server):
    async with server.session() as session:
        job = await start(session, "no-such-program --at-all")
        assert await ended(session, job) == "failed"
        assert "no-such-program" in (await output(session, job))["stderr"]


@check(
    "fault",
    "MCP_BG_JOB_TIMEOUT ends jobs that run longer, as killed",
    original="the timeout is read and never used",
)
async def fault_the_timeout_is_not_used(server: Server):
    async with server.session({"MCP_BG_JOB_TIMEOUT": "1"}) as session:
        job = await start(session, sh("echo begun; exec sleep 1000"))
        assert await ended(session, job) == "killed"
        assert (await output(session, job))["stdout"] == "begun"


@check(
    "fault",
    "jobs that ended longer than MCP_BG_CLEANUP_INTERVAL ago leave the list",
    original="the interval is read and never used",
)
async def fault_the_cleanup_interval_is_not_used(server: Server):
    async with server.session({"MCP_BG_CLEANUP_INTERVAL": "10"}) as session:
        stays = await start(session, "sleep 1000")
        for command in ("true", "false"):
            await ended(session, await start(session, command))

        async def have_left() -> bool:
            return [each["job_id"] for each in await jobs(session)] == [stays]

        await eventually("only the job that runs is listed", have_left, 2 * PATIENCE_S)


@check(
    "fault",
    "MCP_BG_WORKING_DIR is where jobs read and write",
    original="the working directory is read and never used",
)
async def fault_the_working_directory_is_not_used(server: Server):
    elsewhere = server.make("else where")
    server.put("else where/given", "from there\n")
    async with server.session({"MCP_BG_WORKING_DIR": str(elsewhere)}) as session:
        assert (await written(session, "cat given"))["stdout"] == "from there"
        await written(session, "cp given made")
    assert (elsewhere / "made").read_text() == "from there\n"
    assert not (server.work / "made").exists()


@check(
    "fault",
    "MCP_BG_MAX_OUTPUT_SIZE bounds the bytes of output, of long lines too; the newest are kept",
    original="lines are counted instead of bytes",
)
async def fault_output_is_bounded_by_lines(server: Server):
    async with server.session({"MCP_BG_MAX_OUTPUT_SIZE": "4096"}) as session:
        job = await start(session, "seq -f %01000.0f 100")
        assert await ended(session, job) == "completed"

        async def is_complete() -> bool:
            return (await output(session, job))["stdout"].endswith(f"{100:0100}")

        await eventually("the newest output is there", is_complete)
        seen = await output(session, job)
        assert len(seen["stdout"].encode()) <= 4096, len(seen["stdout"])


@check(
    "fault",
    "a line of 100 MB does not make the server grow",
    original="a line without end is kept whole, several times",
)
async def fault_a_long_line_fills_the_memory(server: Server):
    async with server.session() as session:
        script = "head -c 100000000 /dev/zero | tr '\\0' x; echo; echo end"
        job = await start(session, sh(script))
        assert await ended(session, job) == "completed"
        # A server with the fault still reads, and would send all of the line if it were asked.
        await anyio.sleep(3)
        assert server.peak_memory(session) < 256 << 20, server.peak_memory(session)
        seen = await output(session, job)
        assert len(seen["stdout"]) <= 10 << 20, len(seen["stdout"])
        assert seen["stdout"].endswith("x\nend"), seen["stdout"][-20:]
        assert server.peak_memory(session) < 256 << 20, server.peak_memory(session)


@check(
    "fault",
    "a prompt without a newline is shown, and can be answered",
    original="output is shown only after its newline",
)
async def fault_prompts_are_invisible(server: Server):
    async with server.session() as session:
        job = await start(session, sh('printf "name? "; read name; echo "hello $name"'))
        await shows(session, job, "name? ")
        tail = await call(session, "tail_job_output", job_id=job)
        assert tail["stdout"] == "name? ", tail
        await call(session, "interact_with_job", job_id=job, input="guest")
        assert await ended(session, job) == "completed"
        await shows(session, job, "name? hello guest")


@check(
    "fault",
    "output that is no UTF-8 neither ends the reading nor blocks the job",
    original="the reader ends at the first such byte, and the job waits for ever",
)
async def fault_invalid_utf8_blocks_a_job(server: Server):
    async with server.session() as session:
        # More than a pipe holds.
        job = await start(session, sh(r"printf 'a \377\376 b\n'; seq 50000; echo end"))
        assert await ended(session, job) == "completed"
        lines = (await output(session, job))["stdout"].split("\n")
        assert re.fullmatch("a \ufffd+ b", lines[0]), lines[0]
        assert lines[1:] == [*map(str, range(1, 50001)), "end"]


@check(
    "fault",
    "other calls are answered while a job is being killed",
    original="nothing is answered until the job is dead, up to five seconds",
)
async def fault_kill_blocks_other_calls(server: Server):
    # Asked to end, the job waits for a file that another job makes.
    script = (
        'trap "asked=yes; echo asked" TERM; echo ready; '
        'until [ "$asked" ] && [ -e go ]; do sleep 0.1; done; echo "let go"'
    )
    async with server.session() as session:
        job = await start(session, sh(script))
        await shows(session, job, "ready")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: call(session, "kill_job", job_id=job))
            await shows(session, job, "ready\nasked")
            await start(session, "touch go")
        await ended(session, job)
        await shows(session, job, "ready\nasked\nlet go")


@check(
    "fault",
    "a job that a signal of its own ended has failed and was not killed",
    original="every SIGTERM and SIGKILL reads as killed, whoever sent it",
)
async def fault_own_signals_read_as_killed(server: Server):
    async with server.session() as session:
        for name in ("TERM", "KILL", "SEGV"):
            job = await start(session, sh(f"kill -{name} $$"))
            assert await ended(session, job) == "failed", name


@check(
    "fault",
    "a job that another process killed, as the kernel does when memory runs out, has failed",
    original="every SIGTERM and SIGKILL reads as killed, whoever sent it",
)
async def fault_kills_by_others_read_as_killed(server: Server):
    async with server.session() as session:
        job = await start(session, sh("sh -c 'kill -KILL $PPID'; sleep 1000"))
        assert await ended(session, job) == "failed"


@check(
    "fault",
    "get_job_status tells the exit code of a job that has ended",
    original="no tool tells the exit code",
)
async def fault_the_exit_code_is_not_told(server: Server):
    async with server.session() as session:
        for code, word in ((0, "completed"), (1, "failed"), (7, "failed"), (255, "failed")):
            job = await start(session, sh(f"exit {code}"))
            assert await ended(session, job) == word
            told = await call(session, "get_job_status", job_id=job)
            assert told.get("exit_code") == code, told
        job = await start(session, sh("kill -KILL $$"))
        assert await ended(session, job) == "failed"
        told = await call(session, "get_job_status", job_id=job)
        assert told.get("exit_code") == -9, told
        job = await start(session, "cat")
        told = await call(session, "get_job_status", job_id=job)
        assert told["status"] == "running" and told.get("exit_code") is None, told


@check(
    "fault",
    "what is known of a job is removed after MCP_BG_CLEANUP_INTERVAL",
    original="history is never removed",
)
async def fault_history_is_never_removed(server: Server):
    async with server.session({"MCP_BG_CLEANUP_INTERVAL": "10"}) as session:
        job = await start(session, "echo hello")
        await ended(session, job)

        async def is_gone() -> bool:
            result = await session.call_tool("get_job_output", {"job_id": job})
            return result.is_error and result.content[0].text == f"Job {job} not found"

        await eventually("the job is not found", is_gone, 2 * PATIENCE_S)
        await fails(session, "get_job_status", f"Job {job} not found", job_id=job)
        assert await call(session, "kill_job", job_id=job) == {"status": "not_found"}


@check(
    "fault",
    "a dangerous command is refused however its options are written",
    original="only one spelling is known",
)
async def fault_the_filter_is_passed_by_spelling(server: Server):
    # Without the root itself, which the original would go on to remove.
    async with server.session() as session:
        for options in ("-r -f", "-fr", "-f -r", "-Rf", "--recursive --force", "-r --force"):
            await refused_as_dangerous(session, f"rm {options} {NO_PATH}")


@check(
    "fault",
    "a dangerous command is refused wherever it is in the text",
    original="only one spelling is known",
)
async def fault_the_filter_is_passed_by_nesting(server: Server):
    async with server.session() as session:
        for command in (
            f'bash -c "rm -r -f {NO_PATH}"',
            f"true; rm -r -f {NO_PATH}",
            f"echo $(rm -r -f {NO_PATH})",
            f"'rm' -r -f {NO_PATH}",
        ):
            await refused_as_dangerous(session, command)


@check(
    "fault",
    "a pattern allows the commands that it matches, not those that stand beside it in a text",
    original="a pattern is looked for anywhere in the text, in comments too",
)
async def fault_allowed_patterns_are_passed_by_comments(server: Server):
    for pattern in ("echo", "^echo"):
        async with server.session({"MCP_BG_ALLOWED_COMMANDS": pattern}) as session:
            for command in (
                'bash -c "id #echo"',
                "echo hello; id",
                "echo hello && id",
                "echo hello | id",
                "echo $(id)",
                "echo hello\nid",
            ):
                text = f"Invalid command: Command not in allowed patterns: {command}"
                await fails(session, "execute_command", re.escape(text), command=command)
            assert await jobs(session) == []


@check(
    "fault",
    "jobs run on when the server is killed; the next one shows, speaks to and kills them",
    original="its death leaves every job to nobody",
)
async def fault_the_death_of_the_server_orphans_jobs(server: Server):
    async with server.session() as session:
        talks = await start(session, sh('echo begun; read go; echo "went on $go"'))
        sleeps = await start(session, "sleep 1000")
        writes = await start(session, sh("seq 1000; until [ -e go ]; do sleep 0.1; done; seq 1000"))
        await shows(session, talks, "begun")
        await server.kill(session)
    server.put("go")
    async with server.session() as session:
        listed = [each["job_id"] for each in await jobs(session)]
        assert listed == [writes, sleeps, talks], listed
        assert await status(session, talks) == await status(session, sleeps) == "running"
        assert await ended(session, writes) == "completed"
        await shows(session, writes, "\n".join([*map(str, range(1, 1001))] * 2))
        await call(session, "interact_with_job", job_id=talks, input="there")
        assert await ended(session, talks) == "completed"
        await shows(session, talks, "begun\nwent on there")
        assert await call(session, "kill_job", job_id=sleeps) == {"status": "killed"}


@check(
    "planned",
    "jobs do not see the variables of the server",
    original="jobs have all the variables of the server",
)
async def jobs_have_their_own_environment(server: Server):
    async with server.session({"SECRET_OF_THE_SERVER": "hunter2"}) as session:
        assert "hunter2" not in (await written(session, "env"))["stdout"]


@check(
    "planned",
    "jobs write nowhere but in their working directory",
    original="jobs write wherever the server may",
)
async def jobs_are_confined_to_their_directory(server: Server):
    inside = server.make("inside")
    outside = server.work / "outside"
    async with server.session({"MCP_BG_WORKING_DIR": str(inside)}) as session:
        for path in (str(outside), "../outside"):
            await ended(session, await start(session, sh(f"echo escaped > {path}")))
        assert not outside.exists()
