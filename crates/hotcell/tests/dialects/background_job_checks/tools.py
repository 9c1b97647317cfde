"""What the seven tools take, do and give, and what they do unless told."""

import re
import uuid
from datetime import UTC, datetime, timedelta

import anyio

from background_job_checks.contract import ACTING, ARGUMENTS, READING, RESULTS
from background_job_checks.jobs import (
    NOBODY,
    ended,
    jobs,
    output,
    sh,
    shows,
    start,
    status,
    written,
)
from harness import Server, call, check, eventually, fails


@check("tool", "there are exactly the seven tools, by their wire names")
async def the_tools_are_these(server: Server):
    async with server.session() as session:
        listed = [tool.name for tool in (await session.list_tools()).tools]
        assert sorted(listed) == sorted(ARGUMENTS), listed


@check("tool", "every tool takes the arguments of the original: names, types, defaults and bounds")
async def the_arguments_are_the_same(server: Server):
    async with server.session() as session:
        for tool in (await session.list_tools()).tools:
            wanted = ARGUMENTS[tool.name]
            schema = tool.input_schema
            told = ("type", "default", "minimum", "maximum")
            shown = {
                name: {key: value for key, value in each.items() if key in told}
                for name, each in schema.get("properties", {}).items()
            }
            assert shown == wanted, (tool.name, shown)
            required = [name for name, each in wanted.items() if "default" not in each]
            assert sorted(schema.get("required", [])) == sorted(required), tool.name


@check("tool", "every tool describes itself, its arguments and the fields of its result")
async def the_tools_describe_themselves(server: Server):
    async with server.session() as session:
        for tool in (await session.list_tools()).tools:
            assert tool.description, tool.name
            for name, each in tool.input_schema.get("properties", {}).items():
                assert each.get("description"), (tool.name, name)
            assert RESULTS[tool.name] <= set(tool.output_schema["required"]), tool.name


@check(
    "tool",
    "tools that only read say so, kill is destructive, execute and interact are neither",
    original="its documents promise annotations, its tools have none",
)
async def the_annotations_are_as_documented(server: Server):
    async with server.session() as session:
        tools = {tool.name: tool.annotations for tool in (await session.list_tools()).tools}
        for name in READING:
            hints = tools[name]
            assert hints and hints.read_only_hint and hints.idempotent_hint, (name, hints)
        for name in ACTING:
            hints = tools[name]
            assert hints and hints.read_only_hint is False, (name, hints)
            assert hints.destructive_hint is False, (name, hints)
        hints = tools["kill_job"]
        assert hints and hints.read_only_hint is False and hints.destructive_hint, hints


@check(
    "tool",
    "the tools also answer to the names in the documents",
    original="its documents name tools that it does not have",
)
async def the_documented_names_are_accepted(server: Server):
    async with server.session() as session:
        job = (await call(session, "execute", command="cat"))["job_id"]
        assert [each["job_id"] for each in (await call(session, "list"))["jobs"]] == [job]
        assert (await call(session, "status", job_id=job))["status"] == "running"
        await call(session, "interact", job_id=job, input="hello")
        await shows(session, job, "hello")
        assert (await call(session, "output", job_id=job))["stdout"] == "hello"
        assert (await call(session, "tail", job_id=job, lines=1))["stdout"] == "hello"
        assert (await call(session, "kill", job_id=job))["status"] == "killed"


@check("tool", "execute_command answers with the id of the job, a uuid of version 4")
async def execute_gives_a_uuid(server: Server):
    async with server.session() as session:
        result = await call(session, "execute_command", command="true")
        assert set(result) == {"job_id"}, result
        parsed = uuid.UUID(result["job_id"])
        assert parsed.version == 4 and str(parsed) == result["job_id"], result


@check("tool", "execute_command does not wait for the end of the job")
async def execute_does_not_wait(server: Server):
    async with server.session() as session:
        job = await start(session, "sleep 1000")
        assert await status(session, job) == "running"


@check("tool", "blanks around a command are left out")
async def commands_are_stripped(server: Server):
    async with server.session() as session:
        assert (await written(session, "  echo hello \n"))["stdout"] == "hello"
        assert [each["command"] for each in await jobs(session)] == ["echo hello"]


@check("tool", "words of a command are split and unquoted as a shell does")
async def commands_are_split_into_words(server: Server):
    async with server.session() as session:
        seen = await written(session, "printf '[%s]\\n' 'a b' \"c d\" e\\ f '' g")
        assert seen["stdout"] == "[a b]\n[c d]\n[e f]\n[]\n[g]", seen


@check("tool", "list_jobs is empty at first")
async def there_are_no_jobs_at_first(server: Server):
    async with server.session() as session:
        assert await call(session, "list_jobs") == {"jobs": []}


@check("tool", "list_jobs tells id, status, command and start of every job, the newest first")
async def jobs_are_listed_newest_first(server: Server):
    async with server.session() as session:
        started = []
        for number in range(5):
            started.append(await start(session, f"echo {number}"))
            await ended(session, started[-1])
        listed = await jobs(session)
        assert [each["job_id"] for each in listed] == started[::-1], listed
        assert [each["command"] for each in listed] == [f"echo {n}" for n in range(4, -1, -1)]
        for each in listed:
            assert {"job_id", "status", "command", "started"} <= set(each), each
            assert each["status"] == "completed", each


@check("tool", "the start of a job is an ISO time in UTC, written with Z")
async def starts_are_iso_times(server: Server):
    async with server.session() as session:
        await start(session, "true")
        (job,) = await jobs(session)
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", job["started"]), job
        age = datetime.now(UTC) - datetime.fromisoformat(job["started"])
        assert abs(age) < timedelta(minutes=5), job


@check("tool", "the status of a job is running, then completed if its exit code is 0")
async def exit_code_0_is_completed(server: Server):
    async with server.session() as session:
        job = await start(session, "cat")
        assert await status(session, job) == "running"
        (listed,) = await jobs(session)
        assert listed["status"] == "running", listed
        job = await start(session, "true")
        assert await ended(session, job) == "completed"


@check("tool", "a job with another exit code has failed")
async def other_exit_codes_are_failed(server: Server):
    async with server.session() as session:
        for command in ("false", sh("exit 1"), sh("exit 2"), sh("exit 255")):
            job = await start(session, command)
            assert await ended(session, job) == "failed", command


@check("tool", "get_job_output gives both streams, apart, without the newline of the last line")
async def output_has_both_streams(server: Server):
    async with server.session() as session:
        seen = await written(session, sh("echo out; echo err >&2; echo out again"))
        assert seen == {"stdout": "out\nout again", "stderr": "err"}, seen
        seen = await written(session, "true")
        assert seen == {"stdout": "", "stderr": ""}, seen


@check("tool", "blank lines and blanks in lines are kept")
async def blanks_in_output_are_kept(server: Server):
    async with server.session() as session:
        seen = await written(session, "printf '\\n  a  \\n\\n\\tb \\n\\n'")
        assert seen["stdout"] == "\n  a  \n\n\tb \n", seen


@check("tool", "output in any script comes through as it is")
async def output_is_unicode(server: Server):
    async with server.session() as session:
        text = "héllo wörld ✓ 日本語 🚀"
        assert (await written(session, f"echo '{text}'"))["stdout"] == text
        assert (await jobs(session))[0]["command"] == f"echo '{text}'"


@check("tool", "get_job_output shows what a job has written so far while it runs")
async def output_is_shown_while_a_job_runs(server: Server):
    async with server.session() as session:
        job = await start(session, sh("echo begun; exec sleep 1000"))
        await shows(session, job, "begun")
        assert await status(session, job) == "running"


@check("tool", "the output of a job that has ended can be read again and again")
async def output_stays(server: Server):
    async with server.session() as session:
        first = await written(session, "echo hello")
        (job,) = await jobs(session)
        for _ in range(3):
            assert await output(session, job["job_id"]) == first


@check("tool", "tail_job_output gives the last lines of each stream")
async def tail_gives_the_last_lines(server: Server):
    async with server.session() as session:
        job = await start(session, sh("for n in 1 2 3 4 5; do echo o$n; echo e$n >&2; done"))
        await ended(session, job)
        await shows(session, job, "o1\no2\no3\no4\no5")
        tail = await call(session, "tail_job_output", job_id=job, lines=2)
        assert tail == {"stdout": "o4\no5", "stderr": "e4\ne5"}, tail
        tail = await call(session, "tail_job_output", job_id=job, lines=1)
        assert tail == {"stdout": "o5", "stderr": "e5"}, tail
        tail = await call(session, "tail_job_output", job_id=job, lines=100)
        assert tail == await output(session, job), tail


@check("tool", "interact_with_job sends a line and gives what comes of it, and only that")
async def interact_gives_only_what_is_new(server: Server):
    async with server.session() as session:
        job = await start(session, sh('echo ready; while read l; do echo "got $l"; done'))
        await shows(session, job, "ready")
        given = ""
        for word in ("one", "two"):
            new = await call(session, "interact_with_job", job_id=job, input=word)
            # The answer may come too late to be shown, but nothing older is.
            assert new in ({"stdout": f"got {word}", "stderr": ""}, {"stdout": "", "stderr": ""})
            given += f"\ngot {word}"
            await shows(session, job, "ready" + given)


@check("tool", "interact_with_job shows what comes within 100 ms")
async def interact_shows_the_answer(server: Server):
    async with server.session() as session:
        job = await start(session, "cat")

        async def answered() -> bool:
            new = await call(session, "interact_with_job", job_id=job, input="hello")
            return new == {"stdout": "hello", "stderr": ""}

        await eventually("an answer comes at once", answered)


@check("tool", "interact_with_job adds a newline unless there is one")
async def interact_adds_a_newline(server: Server):
    async with server.session() as session:
        job = await start(session, sh('while read l; do echo "[$l]"; done'))
        for text in ("a", "b\n", "", "c\nd", "e\n\n"):
            await call(session, "interact_with_job", job_id=job, input=text)
        await shows(session, job, "[a]\n[b]\n[]\n[c]\n[d]\n[e]\n[]")


@check("tool", "interact_with_job shows new lines of standard error too")
async def interact_shows_both_streams(server: Server):
    async with server.session() as session:
        job = await start(session, sh('while read l; do echo "$l" >&2; done'))

        async def answered() -> bool:
            new = await call(session, "interact_with_job", job_id=job, input="hello")
            return new == {"stdout": "", "stderr": "hello"}

        await eventually("an answer comes at once", answered)


@check("tool", "kill_job ends a running job, whose status is then killed")
async def kill_ends_a_job(server: Server):
    async with server.session() as session:
        job = await start(session, "sleep 1000")
        assert await call(session, "kill_job", job_id=job) == {"status": "killed"}
        assert await ended(session, job) == "killed"
        assert (await jobs(session))[0]["status"] == "killed"


@check("tool", "kill_job of a job that has ended says already_terminated and changes nothing")
async def kill_of_an_ended_job(server: Server):
    async with server.session() as session:
        for command, end in (("true", "completed"), ("false", "failed"), ("cat", "killed")):
            job = await start(session, command)
            if command == "cat":
                await call(session, "kill_job", job_id=job)
            assert await ended(session, job) == end
            for _ in range(2):
                result = await call(session, "kill_job", job_id=job)
                assert result == {"status": "already_terminated"}, result
            assert await status(session, job) == end


@check("tool", "kill_job of a job that never was says not_found and is no error")
async def kill_of_nobody(server: Server):
    async with server.session() as session:
        for job in (NOBODY, "nobody", ""):
            assert await call(session, "kill_job", job_id=job) == {"status": "not_found"}


@check("tool", "kill_job first asks a job to end, with SIGTERM")
async def kill_asks_first(server: Server):
    async with server.session() as session:
        script = 'trap "echo asked; exit 0" TERM; echo ready; while :; do sleep 0.1; done'
        job = await start(session, sh(script))
        await shows(session, job, "ready")
        assert await call(session, "kill_job", job_id=job) == {"status": "killed"}
        await shows(session, job, "ready\nasked")


@check("tool", "kill_job also ends a job that ignores SIGTERM")
async def kill_ends_who_ignores_it(server: Server):
    async with server.session() as session:
        job = await start(session, sh('trap "" TERM; echo ready; while :; do sleep 0.1; done'))
        await shows(session, job, "ready")
        assert await call(session, "kill_job", job_id=job) == {"status": "killed"}
        assert await ended(session, job) == "killed"


@check("tool", "the output of a killed job stays")
async def output_of_a_killed_job_stays(server: Server):
    async with server.session() as session:
        job = await start(session, sh("echo before; exec sleep 1000"))
        await shows(session, job, "before")
        await call(session, "kill_job", job_id=job)
        assert (await output(session, job))["stdout"] == "before"


@check("default", "tail_job_output gives 50 lines unless told")
async def tail_gives_50_lines(server: Server):
    async with server.session() as session:
        job = await start(session, "seq 1 120")
        await ended(session, job)
        await shows(session, job, "\n".join(map(str, range(1, 121))))
        tail = await call(session, "tail_job_output", job_id=job)
        assert tail["stdout"] == "\n".join(map(str, range(71, 121))), tail


@check("default", "ten jobs run at once, an eleventh is refused")
async def ten_jobs_run_at_once(server: Server):
    async with server.session() as session:
        started = [await start(session, "sleep 1000") for _ in range(10)]
        text = re.escape("Job limit reached: Maximum concurrent jobs limit (10) reached")
        await fails(session, "execute_command", text, command="true")
        listed = await jobs(session)
        assert [each["job_id"] for each in listed] == started[::-1], listed
        assert {each["status"] for each in listed} == {"running"}, listed


@check("default", "5 MB of output are kept whole")
async def much_output_is_kept_whole(server: Server):
    async with server.session() as session:
        seen = await written(session, "seq -f %099.0f 50000")
        assert seen["stdout"] == "\n".join(f"{n:099}" for n in range(1, 50001))


@check("default", "jobs work in the directory that the server was started in")
async def jobs_work_where_the_server_does(server: Server):
    (server.work / "given").write_text("from here\n")
    async with server.session() as session:
        assert (await written(session, "cat given"))["stdout"] == "from here"
        await written(session, "cp given made")
    assert (server.work / "made").read_text() == "from here\n"


@check("default", "jobs run as long as they like")
async def jobs_have_no_timeout(server: Server):
    async with server.session() as session:
        job = await start(session, "sleep 1000")
        await anyio.sleep(5)
        assert await status(session, job) == "running"


@check("default", "an empty variable counts as none")
async def empty_variables_count_as_none(server: Server):
    names = "MAX_JOBS MAX_OUTPUT_SIZE JOB_TIMEOUT CLEANUP_INTERVAL ALLOWED_COMMANDS WORKING_DIR"
    async with server.session({f"MCP_BG_{name}": "" for name in names.split()}) as session:
        assert (await written(session, "echo hello"))["stdout"] == "hello"
