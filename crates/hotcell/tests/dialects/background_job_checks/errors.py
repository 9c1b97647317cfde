"""What the tools refuse, and with which words."""

import re

from mcp import MCPError

from background_job_checks.contract import ARGUMENTS, TEXT
from background_job_checks.jobs import (
    NO_PATH,
    NOBODY,
    ended,
    jobs,
    refused_as_dangerous,
    shows,
    start,
    written,
)
from harness import Server, call, check, fails

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
