"""What the variables do, and which values they take."""

import re

import anyio

from background_job_checks.jobs import (
    NO_PATH,
    jobs,
    refused_as_dangerous,
    start,
    status,
    written,
)
from harness import Server, call, check, fails

FALLS_BACK = "a bad value makes it ignore all its variables, with no more than a warning"


async def refuses(server: Server, name: str, *values: str):
    for value in values:
        variable = f"MCP_BG_{name}"
        told = await server.refuses_to_start({variable: value})
        assert variable in told, f"it does not name {variable}={value}: {told}"


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


@check("config", "a dangerous command is refused as dangerous, whether a pattern allows it or not")
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
