"""Commands: how they are started, read and ended."""

import anyio

from devbench_checks.bench import (
    IMAGE,
    ask,
    bench,
    finished,
    is_roots_own,
    printed,
    refused,
    spawn,
    start,
    text,
)
from harness import Server, check, eventually


@check("tool", "a command's output comes in order, and its end last of all")
async def output_comes_in_order(server: Server):
    async with bench(server) as session:
        made = await spawn(session)
        script = "echo one; sleep 0.2; echo two >&2; sleep 0.2; echo three; exit 3"
        messages = await finished(session, await start(session, made, script))
        *output, end = messages
        seen = [(each["stream"], each["data"]) for each in output]
        assert seen == [("stdout", "one\n"), ("stderr", "two\n"), ("stdout", "three\n")], seen
        numbers = [each["seq"] for each in messages]
        assert numbers == sorted(set(numbers)) and numbers[0] > 0, numbers
        assert all(not each["complete"] and each["exit_code"] is None for each in output)
        assert end["complete"] is True and end["exit_code"] == 3, end
        assert end["stream"] is None and end["data"] is None
        assert {"wall_ms", "stdout_bytes", "stderr_bytes"} <= set(end["usage"]), end
        assert end["usage"]["stdout_bytes"] == 10 and end["usage"]["stderr_bytes"] == 4
        assert "timeout" not in end["usage"] and "cancelled" not in end["usage"]
        assert 400 <= end["usage"]["wall_ms"] < 10_000


@check("tool", "after_seq gives what comes after it, and nothing twice")
async def polls_go_on(server: Server):
    async with bench(server) as session:
        made = await spawn(session)
        exec_id = await start(session, made, "echo a; echo b >&2; sleep 0.1; echo c")
        everything = await finished(session, exec_id)
        for place in range(len(everything) + 1):
            after = everything[place - 1]["seq"] if place else 0
            page = await ask(session, "exec_poll", exec_id=exec_id, after_seq=after)
            assert page["messages"] == everything[place:], (place, page)
            assert page["complete"] is True


@check("tool", "a command has its directory, its variables and its arguments as they are")
async def commands_get_what_they_are_given(server: Server):
    async with bench(server) as session:
        made = await spawn(session)
        assert await printed(session, made, "pwd") == "/workspace\n"
        assert await printed(session, made, "pwd", cwd="/tmp") == "/tmp\n"
        assert await printed(session, made, 'echo "$A-$B"', env={"A": "x y", "B": "$A"}) == "x y-$A\n"
        begun = await ask(
            session, "exec_start", container_id=made, cmd=["printf", "%s|", "a b", "$HOME", "*"]
        )
        assert text(await finished(session, begun["exec_id"])) == "a b|$HOME|*|"


@check("tool", "commands are not root unless asked for")
async def commands_are_not_root(server: Server):
    async with bench(server) as session:
        made = await spawn(session)
        assert await printed(session, made, "id -u") == "1000\n"
        if IMAGE != "host":
            # A container has one user.
            given = {"container_id": made, "cmd": ["id"], "as_root": True}
            await refused(session, -32000, "exec_start", **given)
        if is_roots_own(server):
            assert await printed(session, made, "id -u", as_root=True) == "0\n"
            await start(session, made, "sleep 60", as_root=True)
            (listed,) = (await ask(session, "list_execs"))["execs"]
            assert listed["as_root"] is True, listed


@check("default", "a command is ended after timeout_s, with all that it started")
async def timeouts_are_kept(server: Server):
    async with bench(server) as session:
        made = await spawn(session)
        exec_id = await start(session, made, "echo up; sleep 1000 & sleep 1000", timeout_s=1)
        end = (await finished(session, exec_id))[-1]
        assert end["usage"]["timeout"] is True and end["exit_code"] != 0, end
        assert 900 <= end["usage"]["wall_ms"] < 15_000, end
        left = await printed(session, made, "grep -l sleep /proc/[0-9]*/comm 2>/dev/null | wc -l")
        assert left.strip() == "0", left


@check("bound", "timeout_s takes 1 and a year, and nothing below or beyond")
async def timeouts_have_bounds(server: Server):
    async with bench(server) as session:
        made = await spawn(session)
        for seconds in (1, 365 * 24 * 3600):
            await printed(session, made, "true", timeout_s=seconds)
        for seconds in (0, -1, 365 * 24 * 3600 + 1, "soon"):
            await refused(
                session, -32602, "exec_start", container_id=made, cmd=["true"], timeout_s=seconds
            )


@check("tool", "exec_cancel ends a command and all that it started")
async def cancel_ends_commands(server: Server):
    async with bench(server) as session:
        made = await spawn(session)
        exec_id = await start(session, made, "sleep 1000 & setsid sleep 1000 & echo up; wait")
        assert exec_id in [each["exec_id"] for each in (await ask(session, "list_execs"))["execs"]]
        assert await ask(session, "exec_cancel", exec_id=exec_id) == {
            "status": "cancelled",
            "exec_id": exec_id,
        }
        end = (await finished(session, exec_id))[-1]
        assert end["usage"]["cancelled"] is True and end["exit_code"] != 0, end
        assert (await ask(session, "list_execs"))["execs"] == []
        again = await ask(session, "exec_cancel", exec_id=exec_id)
        assert again == {"status": "completed", "exec_id": exec_id}, again


@check("planned", "exec_signal sends a signal to a command")
async def signals_arrive(server: Server):
    async with bench(server) as session:
        made = await spawn(session)
        exec_id = await start(session, made, "trap 'echo got; exit 7' USR1; echo up; sleep 60 & wait")

        async def is_up() -> bool:
            return bool((await ask(session, "exec_poll", exec_id=exec_id))["messages"])

        await eventually("the command is up", is_up)
        sent = await ask(session, "exec_signal", exec_id=exec_id, signal="SIGUSR1")
        assert sent["status"] == "signaled"
        messages = await finished(session, exec_id)
        assert text(messages) == "up\ngot\n" and messages[-1]["exit_code"] == 7, messages
        await refused(session, -32010, "exec_signal", exec_id=exec_id)
        other = await start(session, made, "sleep 60")
        await ask(session, "exec_signal", exec_id=other)
        assert (await finished(session, other))[-1]["exit_code"] == 143
        await refused(session, -32602, "exec_signal", exec_id=other, signal="SIGNONSENSE")


@check("tool", "list_execs tells what runs and what waits")
async def running_commands_are_listed(server: Server):
    async with bench(server) as session:
        made = await spawn(session)
        started = [await start(session, made, f"sleep 6{number}") for number in range(5)]

        async def all_are_listed() -> list:
            execs = (await ask(session, "list_execs"))["execs"]
            running = [each for each in execs if each["status"] == "running"]
            return execs if len(running) == 4 else []

        execs = await eventually("four run", all_are_listed)
        assert {each["exec_id"] for each in execs} == set(started)
        assert sorted(each["status"] for each in execs) == ["queued"] + 4 * ["running"], execs
        for each in execs:
            assert each["container_id"] == made and each["as_root"] is False and each["started_at"]
            assert each["cmd"][:2] == ["sh", "-c"], each


@check("tool", "the same idempotency_key runs a command once, and is another's conflict")
async def keys_run_commands_once(server: Server):
    async with bench(server) as session:
        made = await spawn(session)
        first = await start(session, made, "echo x >> count", idempotency_key="k")
        await finished(session, first)
        assert await start(session, made, "echo x >> count", idempotency_key="k") == first
        assert await printed(session, made, "cat count") == "x\n"
        await refused(
            session,
            -32010,
            "exec_start",
            container_id=made,
            cmd=["true"],
            idempotency_key="k",
        )
        container_id = await spawn(session, idempotency_key="s")
        assert await spawn(session, idempotency_key="s") == container_id


@check("tool", "characters stay whole, and what is no text is shown as such")
async def characters_stay_whole(server: Server):
    async with bench(server) as session:
        made = await spawn(session)
        split = r"printf '\303'; sleep 0.3; printf '\244'; sleep 0.1; printf '\377.'"
        assert text(await finished(session, await start(session, made, split))) == "ä\ufffd."
        long = await printed(session, made, "i=0; while [ $i -lt 20000 ]; do echo äöüß; i=$((i+1)); done")
        assert long == "äöüß\n" * 20000


@check("tool", "output of hundreds of kilobytes is read page by page until it is complete")
async def long_output_comes_whole(server: Server):
    async with bench(server) as session:
        made = await spawn(session)
        exec_id = await start(session, made, "head -c 9000000 /dev/zero | tr '\\0' x; echo end")
        messages = await finished(session, exec_id)
        assert text(messages) == "x" * 9_000_000 + "end\n"
        assert messages[-1]["usage"]["stdout_bytes"] == 9_000_004
        await anyio.sleep(0)
