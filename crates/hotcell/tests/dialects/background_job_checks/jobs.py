"""Jobs as a client works with them."""

import re
import shlex

import anyio
from mcp import Client

from harness import call, eventually, fails

NOBODY = "00000000-0000-4000-8000-000000000000"
NO_PATH = "/no-such-directory/at-all"


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


async def refused_as_dangerous(session: Client, command: str):
    text = f"Invalid command: Command contains dangerous pattern and is not allowed: {command}"
    await fails(session, "execute_command", re.escape(text), command=f" {command} ")
