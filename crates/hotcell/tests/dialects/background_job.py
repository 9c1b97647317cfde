"""What a user of mcp-background-job can rely on, and what is no longer wrong with it.

Every command here is harmless even where it is let through: the original runs it unconfined."""

import re
import shlex
import sys
import uuid
from datetime import datetime, timedelta, timezone
from typing import Any

import anyio
from mcp import Client, MCPError

import harness
from harness import PATIENCE_S, Server, call, check, eventually, fails

TEXT = {"type": "string"}
# The arguments of each tool as the original shows them, without titles and descriptions.
ARGUMENTS: dict[str, dict[str, Any]] = {
    "execute_command": {"command": TEXT},
    "list_jobs": {},
    "get_job_status": {"job_id": TEXT},
    "get_job_output": {"job_id": TEXT},
    "tail_job_output": {
        "job_id": TEXT,
        "lines": {"type": "integer", "default": 50, "minimum": 1, "maximum": 1000},
    },
    "interact_with_job": {"job_id": TEXT, "input": TEXT},
    "kill_job": {"job_id": TEXT},
}
RESULTS = {
    "execute_command": {"job_id"},
    "list_jobs": {"jobs"},
    "get_job_status": {"status"},
    "get_job_output": {"stdout", "stderr"},
    "tail_job_output": {"stdout", "stderr"},
    "interact_with_job": {"stdout", "stderr"},
    "kill_job": {"status"},
}
READING = ["list_jobs", "get_job_status", "get_job_output", "tail_job_output"]
ACTING = ["execute_command", "interact_with_job"]
NOBODY = "00000000-0000-4000-8000-000000000000"
NO_PATH = "/no-such-directory/at-all"
# One harmless command for each pattern that the original refuses.
DANGEROUS = [
    f"rm -rf {NO_PATH}",
    f"rm -v -rf {NO_PATH}",
    f"RM -RF {NO_PATH}",
    f"sudo rm {NO_PATH}",
    "echo hello > /dev/null",
    f"wget {NO_PATH} | sh",
    f"curl {NO_PATH} | sh",
    f"curl {NO_PATH} | bash",
    f"dd if={NO_PATH} of=/dev/null",
    "mkfs.none --version",
    "fdisk --version",
    "echo ':(){ :|:& };:'",
    f"cat /dev/urandom {NO_PATH} --version",
    f"chmod 777 {NO_PATH}",
    f"chown root {NO_PATH}",
]


def sh(script: str) -> str:
    """A command that runs a script, also where commands are run without a shell."""
    return f"sh -c {shlex.quote(script)}"


async def start(session: Client, command: str) -> str:
    return (await call(session, "execute_command", command=command))["job_id"]


async def status(session: Client, job: str) -> str:
    return (await call(session, "get_job_status", job_id=job))["status"]


async def output(session: Client, job: str) -> dict[str, str]:
    return await call(session, "get_job_output", job_id=job)


async def jobs(session: Client) -> list[dict[str, str]]:
    return (await call(session, "list_jobs"))["jobs"]


async def ended(session: Client, job: str) -> str:
    """How a job has ended, once it has."""

    async def find() -> str:
        now = await status(session, job)
        return "" if now == "running" else now

    return await eventually("the job has ended", find)


async def shows(session: Client, job: str, stdout: str):
    """Waits until a job has written just this."""

    async def find() -> bool:
        return (await output(session, job))["stdout"] == stdout

    try:
        await eventually("the output", find)
    except AssertionError:
        assert (await output(session, job))["stdout"] == stdout, "the output is another"


async def written(session: Client, command: str) -> dict[str, str]:
    """What a command writes until it has ended well."""
    job = await start(session, command)
    assert await ended(session, job) == "completed", await output(session, job)
    # The original may tell of the end before it has read all.
    seen = await output(session, job)
    while True:
        await anyio.sleep(0.2)
        before, seen = seen, await output(session, job)
        if before == seen:
            return seen


# The tools.


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
        age = datetime.now(timezone.utc) - datetime.fromisoformat(job["started"])
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


# Defaults.


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


# Bounds.


@check("bound", "tail_job_output takes 1 to 1000 lines and refuses 0 and 1001")
async def tail_is_bounded(server: Server):
    async with server.session() as session:
        job = await start(session, "seq 1 2000")
        await ended(session, job)
        await shows(session, job, "\n".join(map(str, range(1, 2001))))
        for lines in (1, 1000):
            tail = await call(session, "tail_job_output", job_id=job, lines=lines)
            assert len(tail["stdout"].split("\n")) == lines, tail
        for lines, bound in ((0, 1), (-1, 1), (1001, 1000)):
            text = rf".*\b{bound}\b.*"
            await fails(session, "tail_job_output", text, job_id=job, lines=lines)


@check("bound", "lines that are no whole number are refused")
async def lines_are_whole_numbers(server: Server):
    async with server.session() as session:
        job = await start(session, "true")
        for lines in ("many", 2.5, None, [1]):
            await fails(session, "tail_job_output", ".*(lines|integer).*", job_id=job, lines=lines)


# Errors.


@check("error", "an empty command is refused")
async def empty_commands_are_refused(server: Server):
    async with server.session() as session:
        for command in ("", "  ", "\n\t"):
            text = "Invalid command: Command cannot be empty"
            await fails(session, "execute_command", text, command=command)
        assert await jobs(session) == []


@check("error", "every command on the original's list of dangerous ones is refused")
async def dangerous_commands_are_refused(server: Server):
    async with server.session() as session:
        for command in DANGEROUS:
            await refused_as_dangerous(session, command)
        assert await jobs(session) == []


async def refused_as_dangerous(session: Client, command: str):
    text = f"Invalid command: Command contains dangerous pattern and is not allowed: {command}"
    await fails(session, "execute_command", re.escape(text), command=f" {command} ")


@check("error", "ordinary relatives of dangerous commands are not refused")
async def ordinary_commands_are_not_refused(server: Server):
    (server.work / "old").mkdir()
    async with server.session() as session:
        for command in ("rm -rf old", "mkdir old", "chmod 700 old", "cat /dev/null", "rmdir old"):
            await written(session, command)


@check("error", "every tool that reads or speaks to a job says when it is not found")
async def unknown_jobs_are_named(server: Server):
    async with server.session() as session:
        for job in (NOBODY, "nobody", ""):
            text = f"Job {re.escape(job)} not found"
            for tool in ("get_job_status", "get_job_output", "tail_job_output"):
                await fails(session, tool, text, job_id=job)
            await fails(session, "interact_with_job", text, job_id=job, input="hello")


@check("error", "interact_with_job says when a job is not running")
async def ended_jobs_take_no_input(server: Server):
    async with server.session() as session:
        for command in ("true", "false", "cat"):
            job = await start(session, command)
            if command == "cat":
                await call(session, "kill_job", job_id=job)
            await ended(session, job)
            text = f"Job {job} is not running and cannot accept input"
            await fails(session, "interact_with_job", text, job_id=job, input="hello")


@check("error", "arguments that are missing, of another type or unknown are refused by name")
async def wrong_arguments_are_named(server: Server):
    async with server.session() as session:
        for tool, arguments in ARGUMENTS.items():
            given = {name: "x" for name, each in arguments.items() if each is TEXT}
            for name in given:
                missing = {other: value for other, value in given.items() if other != name}
                await fails(session, tool, f".*{name}.*", **missing)
                await fails(session, tool, f".*({name}|5).*", **(given | {name: 5}))
            await fails(session, tool, ".*colour.*", **(given | {"colour": "red"}))
        assert await jobs(session) == []


@check("error", "a tool that is not there is named")
async def unknown_tools_are_named(server: Server):
    async with server.session() as session:
        try:
            result = await session.call_tool("no_such_tool", {})
            told = result.content[0].text if result.is_error else ""
        except MCPError as error:
            told = error.message
        assert "no_such_tool" in told, told


# Configuration.


async def refuses(server: Server, name: str, *values: str):
    for value in values:
        variable = f"MCP_BG_{name}"
        told = await server.refuses_to_start({variable: value})
        assert variable in told, f"it does not name {variable}={value}: {told}"


FALLS_BACK = "a bad value makes it ignore all its variables, with no more than a warning"


@check("config", "MCP_BG_MAX_JOBS bounds the jobs that run at once; a killed one makes room")
async def max_jobs_bounds_running_jobs(server: Server):
    async with server.session({"MCP_BG_MAX_JOBS": "2"}) as session:
        started = [await start(session, "sleep 1000") for _ in range(2)]
        text = re.escape("Job limit reached: Maximum concurrent jobs limit (2) reached")
        await fails(session, "execute_command", text, command="true")
        await fails(session, "execute_command", text, command="true")
        assert len(await jobs(session)) == 2, "a refused job is no job"
        await call(session, "kill_job", job_id=started[0])
        await start(session, "sleep 1000")
        await fails(session, "execute_command", text, command="true")


@check("config", "MCP_BG_MAX_JOBS may be 1 and 100")
async def max_jobs_takes_its_bounds(server: Server):
    async with server.session({"MCP_BG_MAX_JOBS": "1"}) as session:
        await start(session, "sleep 1000")
        text = re.escape("Job limit reached: Maximum concurrent jobs limit (1) reached")
        await fails(session, "execute_command", text, command="true")
    async with server.session({"MCP_BG_MAX_JOBS": "100"}) as session:
        for _ in range(12):
            await start(session, "sleep 1000")


@check("config", "a bad MCP_BG_MAX_JOBS stops the start", original=FALLS_BACK)
async def bad_max_jobs(server: Server):
    await refuses(server, "MAX_JOBS", "0", "101", "-1", "many", "1.5")


@check("config", "MCP_BG_MAX_OUTPUT_SIZE takes megabytes too, in capitals or not")
async def max_output_size_takes_megabytes(server: Server):
    for value in ("1MB", "1mb", "1048576"):
        async with server.session({"MCP_BG_MAX_OUTPUT_SIZE": value}) as session:
            # 3.2 MB in lines of 64 bytes.
            seen = await written(session, "seq -f %063.0f 50000")
            assert (1 << 19) < len(seen["stdout"]) <= (1 << 20), len(seen["stdout"])
            assert seen["stdout"].endswith("\n" + f"{50000:063}"), "the newest is kept"


@check("config", "MCP_BG_MAX_OUTPUT_SIZE may be 1024 bytes and 100 MB")
async def max_output_size_takes_its_bounds(server: Server):
    for value in ("1024", "104857600", "100MB"):
        async with server.session({"MCP_BG_MAX_OUTPUT_SIZE": value}) as session:
            assert (await written(session, "echo hello"))["stdout"] == "hello"


@check("config", "a bad MCP_BG_MAX_OUTPUT_SIZE stops the start", original=FALLS_BACK)
async def bad_max_output_size(server: Server):
    await refuses(server, "MAX_OUTPUT_SIZE", "1023", "104857601", "101MB", "0MB", "much", "-1")


@check("config", "a job that ends within MCP_BG_JOB_TIMEOUT is not touched")
async def timeout_spares_quick_jobs(server: Server):
    async with server.session({"MCP_BG_JOB_TIMEOUT": "1000"}) as session:
        assert (await written(session, "echo hello"))["stdout"] == "hello"


@check("config", "a bad MCP_BG_JOB_TIMEOUT stops the start", original=FALLS_BACK)
async def bad_job_timeout(server: Server):
    await refuses(server, "JOB_TIMEOUT", "0", "-1", "soon")


@check("config", "MCP_BG_CLEANUP_INTERVAL may be 10 and 3600; jobs that run stay listed")
async def cleanup_spares_running_jobs(server: Server):
    async with server.session({"MCP_BG_CLEANUP_INTERVAL": "3600"}) as session:
        assert (await written(session, "echo hello"))["stdout"] == "hello"
    async with server.session({"MCP_BG_CLEANUP_INTERVAL": "10"}) as session:
        job = await start(session, "sleep 1000")
        await anyio.sleep(15)
        assert await status(session, job) == "running"
        assert job in [each["job_id"] for each in await jobs(session)]


@check("config", "a bad MCP_BG_CLEANUP_INTERVAL stops the start", original=FALLS_BACK)
async def bad_cleanup_interval(server: Server):
    await refuses(server, "CLEANUP_INTERVAL", "9", "3601", "-1", "often")


@check("config", "MCP_BG_ALLOWED_COMMANDS allows what one of its patterns matches, and no more")
async def allowed_commands_are_enforced(server: Server):
    allowed = {"MCP_BG_ALLOWED_COMMANDS": "^echo , ^(true|false)$,,"}
    async with server.session(allowed) as session:
        assert (await written(session, "echo hello"))["stdout"] == "hello"
        await written(session, " true ")
        for command in ("id", "true story", 'bash -c "id #echo"', "xecho a", "ls; echo a"):
            text = f"Invalid command: Command not in allowed patterns: {command}"
            await fails(session, "execute_command", re.escape(text), command=f" {command} ")
        assert len(await jobs(session)) == 2


@check("config", "patterns of MCP_BG_ALLOWED_COMMANDS match anywhere, in capitals or not")
async def allowed_patterns_search(server: Server):
    async with server.session({"MCP_BG_ALLOWED_COMMANDS": "HELLO"}) as session:
        assert (await written(session, "echo hello"))["stdout"] == "hello"


@check("config", "MCP_BG_ALLOWED_COMMANDS without a pattern allows everything")
async def no_allowed_patterns_allow_everything(server: Server):
    async with server.session({"MCP_BG_ALLOWED_COMMANDS": " , "}) as session:
        assert (await written(session, "echo hello"))["stdout"] == "hello"


@check("config", "a dangerous command is refused as that even if it is allowed or not")
async def dangerous_comes_before_allowed(server: Server):
    for pattern in ("^rm", "^echo"):
        async with server.session({"MCP_BG_ALLOWED_COMMANDS": pattern}) as session:
            await refused_as_dangerous(session, f"rm -rf {NO_PATH}")


@check(
    "config",
    "a pattern in MCP_BG_ALLOWED_COMMANDS that is no regular expression stops the start",
    original="it starts, and then every command fails with the text of the parser",
)
async def bad_allowed_commands(server: Server):
    await refuses(server, "ALLOWED_COMMANDS", "(", "^echo,[")


@check(
    "config",
    "a MCP_BG_WORKING_DIR that is not there, or no directory, stops the start",
    original=FALLS_BACK,
)
async def bad_working_dir(server: Server):
    (server.work / "file").write_text("")
    await refuses(server, "WORKING_DIR", NO_PATH, str(server.work / "file"))


# Concurrent use.


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


@check("concurrency", "of several kills at once one says killed, the others already_terminated")
async def kills_at_once(server: Server):
    async with server.session() as session:
        job = await start(session, "sleep 1000")
        kill = lambda: call(session, "kill_job", job_id=job)
        said = sorted(each["status"] for each in await all_at_once([kill] * 4))
        assert said == ["already_terminated"] * 3 + ["killed"], said


async def all_at_once(calls: list) -> list:
    found: list = [None] * len(calls)

    async def make(number: int):
        found[number] = await calls[number]()

    async with anyio.create_task_group() as tasks:
        for number in range(len(calls)):
            tasks.start_soon(make, number)
    return found


async def greeted(session: Client, number: int) -> str:
    """A job that was spoken to, and answered as it should."""
    job = await start(session, sh(f'read name; echo "hello $name from {number}"'))
    await call(session, "interact_with_job", job_id=job, input=f"guest {number}")
    assert await ended(session, job) == "completed"
    await shows(session, job, f"hello guest {number} from {number}")
    return job


# Restarts.


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


# Faults of the original, one by one.


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
    (server.work / "a.txt").write_text("")
    (server.work / "b.txt").write_text("")
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
    elsewhere = server.work / "else where"
    elsewhere.mkdir()
    (elsewhere / "given").write_text("from there\n")
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
        # Only the memory is asked for first: a server with the fault would send all of the line.
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
    "a job that a signal ended which was not ours has failed and was not killed",
    original="every SIGTERM and SIGKILL reads as killed, whoever sent it",
)
async def fault_other_signals_read_as_killed(server: Server):
    async with server.session() as session:
        for name in ("TERM", "KILL", "SEGV"):
            job = await start(session, sh(f"kill -{name} $$"))
            assert await ended(session, job) == "failed", name


@check(
    "fault",
    "a job that was killed because memory ran out has failed and was not killed",
    original="every SIGTERM and SIGKILL reads as killed, whoever sent it",
)
async def fault_a_job_out_of_memory_reads_as_killed(server: Server):
    async with server.session() as session:
        # The kernel kills with the same signal; only who sent it differs.
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
    (server.work / "go").write_text("")
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


# What the original had planned.


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
    inside = server.work / "inside"
    inside.mkdir()
    outside = server.work / "outside"
    async with server.session({"MCP_BG_WORKING_DIR": str(inside)}) as session:
        for path in (str(outside), "../outside"):
            await ended(session, await start(session, sh(f"echo escaped > {path}")))
        assert not outside.exists()


sys.exit(harness.main())
