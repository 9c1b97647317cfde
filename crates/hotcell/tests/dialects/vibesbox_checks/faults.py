"""The faults of the original, one by one."""

import urllib.error
import urllib.request

from harness import Server, all_at_once, check, eventually, fails
from vibesbox_checks.commands import (
    answer_of,
    blocked,
    execute,
    filtered,
    kill,
    not_on_the_list,
    printing,
    prints,
    processes,
    progress_of,
    read,
    reads,
    start,
    status,
)
from vibesbox_checks.confinement import at
from vibesbox_checks.output import JWT, KEY

# Prefixes and values apart, so that no file of ours has the form of a secret.
VALUE = "zq81vx07pw52mn34bv66cx09lk17jh28gf39"
MASKED = {
    f"Authorization: Bearer {VALUE}": "Authorization: Bearer [REDACTED]",
    f"curl -H 'Authorization: Bearer {VALUE}' x": "curl -H 'Authorization: Bearer [REDACTED]' x",
    "cloned with ghp_" + VALUE: "cloned with [REDACTED]",
    "uses sk-" + VALUE + " now": "uses [REDACTED] now",
    "uses sk-proj-" + VALUE: "uses [REDACTED]",
    f"session {JWT} begins": "session [REDACTED] begins",
    f'{{"password": "{VALUE}", "user": "me"}}': '{"password": "[REDACTED]", "user": "me"}',
    f'{{"api_key":"{VALUE}","n":1}}': '{"api_key":"[REDACTED]","n":1}',
}
INNOCENT = [
    "the secret of life is a password",
    "token bucket, key value, api of keys",
    "task-based sk-learn, ghp_ and Bearer of news",
    "PASSWORD=",
    "PASSWORD=$PASSWORD",
    "x=1 y=abcdefghijklmnopqrstuvwxyz",
    "monkey=banana",
    "a.b.c eyJ.eyJ.x",
    '{"user": "me", "count": 5, "token": null}',
    "0123456789abcdef0123456789abcdef01234567",
    "-----BEGIN CERTIFICATE-----",
]


@check("fault", "stream=true: the timeout ends the command, with all that it has started")
async def fault_streams_ignore_the_timeout(server: Server):
    async with server.session() as session:
        for command in ("sleep 1000", "sleep 1000 & sleep 1000", "while :; do sleep 0.1; done"):
            done = await execute(session, command, timeout=1, stream=True)
            assert not done["success"] and done["exit_code"] is None, done
            assert done["error"] == "Command timed out after 1 seconds", done
        assert "sleep" not in await prints(session, "cat /proc/[0-9]*/comm")


@check("fault", "stream=true: a command that failed did not succeed, and has its exit code")
async def fault_streams_report_success(server: Server):
    async with server.session() as session:
        for code in (1, 3, 127):
            done = await execute(session, f"echo out; exit {code}", stream=True)
            assert done["success"] is False and done["exit_code"] == code, done


@check("fault", "stream=true: standard error is kept")
async def fault_streams_drop_stderr(server: Server):
    async with server.session() as session:
        done = await execute(session, "echo out; echo err >&2; echo more >&2", stream=True)
        assert (done["stdout"], done["stderr"]) == ("out\n", "err\nmore\n"), done


@check("fault", "stream=true: much output of both streams at once does not block the command")
async def fault_streams_deadlock(server: Server):
    async with server.session() as session:
        for command in (
            "seq 200000 >&2; seq 200000",
            "seq 200000; seq 200000 >&2",
            "seq 200000 >&2 & seq 200000; wait",
        ):
            done = await execute(session, command, stream=True)
            assert done["success"] and done["truncated"], (command, done["error"])
            for name in ("stdout", "stderr"):
                assert done[name].endswith("\n100\n... [truncated 199900 more lines]"), done[name]


@check("fault", "output is streamed: it is told while the command waits for what comes of it")
async def fault_nothing_is_streamed(server: Server):
    async with server.session() as session:
        told = ""

        async def take(_progress: float, _total: float | None, message: str | None):
            nonlocal told
            is_first = "first" not in told
            told += message or ""
            if is_first and "first" in told:
                await prints(session, "touch go")

        command = "echo first; until [ -e go ]; do sleep 0.1; done; echo second"
        arguments = {"command": command, "timeout": 60}
        result = await session.call_tool("execute_command", arguments, progress_callback=take)
        done = answer_of(result)
        assert done["success"] and done["stdout"] == "first\nsecond\n", (done, told)


@check("fault", "standard error is streamed, too, and secrets are masked on the way")
async def fault_streams_show_half(server: Server):
    async with server.session() as session:
        command = "echo err >&2; echo PASSWORD=zq81vx07pw52; sleep 2; echo out"
        told = "".join(await progress_of(session, command=command))
        assert "err" in told and "PASSWORD=[REDACTED]" in told and "zq81" not in told, told


@check("fault", "the result of stream=true is that of stream=false")
async def fault_streams_have_other_results(server: Server):
    async with server.session() as session:
        for command in (
            "echo out; echo err >&2; exit 3",
            "seq 250",
            "kill -KILL $$",
            "printf 'no newline'",
            "echo PASSWORD=zq81vx07pw52",
            "printf PASSWORD=zq81; sleep 0.4; echo vx07pw52",
            "no-such-program",
            "rm -rf /",
            "",
            # A shell that waits for it may say that it was terminated, or be ended before.
            "exec sleep 1000",
        ):
            both = [
                await execute(session, command, stream=stream, timeout=1)
                for stream in (True, False)
            ]
            assert both[0] == both[1], (command, both)


@check("fault", "manage_process has something to list, to read and to kill")
async def fault_there_are_never_processes(server: Server):
    async with server.session() as session:
        pid = await start(session, "echo begun; sleep 1000")
        (found,) = await processes(session)
        assert (found["pid"], found["status"]) == (pid, "running"), found
        await reads(session, pid, "begun\n")
        await kill(session, pid)
        assert await status(session, pid) == "completed"


@check("fault", "a command that is waited for is listed while it runs, and can be killed")
async def fault_commands_are_no_processes(server: Server):
    async with server.session() as session:

        async def end_it():
            (found,) = await eventually("the command is listed", lambda: processes(session))
            await kill(session, found["pid"])

        done, _ = await all_at_once([lambda: execute(session, "sleep 1000"), end_it])
        assert not done["success"], done


@check("fault", "GET /health is not 404")
async def fault_health_is_not_found(server: Server):
    other = at(server, "127.0.0.1:{port}")
    async with other.session():
        assert status_of(other, "/health") == 200
        assert status_of(other, "/no-such-page") == 404


def status_of(server: Server, path: str) -> int:
    """What an HTTP server answers to whoever does not say who they are."""
    ((_, _, url),) = server.listening
    try:
        with urllib.request.urlopen(url.replace("/mcp", path)) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


@check("fault", "the filter is not passed by a redirection without blanks")
async def fault_the_filter_is_passed_by_redirections(server: Server):
    async with server.session() as session:
        for command in ("echo x>/path", "echo x >/path", "echo x>>/path", "echo x 1>/path"):
            await filtered(session, command)
        await blocked(session, "echo x>/dev/sda", "> /dev/sda")
        assert await processes(session) == []


@check("fault", "the filter is not passed by blanks, quotes and other spellings")
async def fault_the_filter_is_passed_by_spelling(server: Server):
    async with server.session() as session:
        for command in ("rm -rf  /x", "rm\t-rf /x", "rm -r -f /x", "rm -fr '/x'", "r''m -rf /x"):
            await filtered(session, command)
        for command in ("rm -rf  /", "rm -r -f /", "'rm' -fr /", "rm -rf /*", "cd /; rm -rf *"):
            await blocked(session, command, "rm -rf /")
        await blocked(session, "chmod  -R  777  /", "chmod -R 777 /")
        await blocked(session, "dd of=/tmp/x if=/dev/zero", "dd if=/dev/zero")
        assert await processes(session) == []


@check("fault", "the filter is not passed by a newline")
async def fault_the_filter_is_passed_by_newlines(server: Server):
    async with server.session() as session:
        await not_on_the_list(session, "echo a\nstranger", "stranger")
        await not_on_the_list(session, "echo a\n\nstranger\necho b", "stranger")
        await blocked(session, "echo a\nrm -rf /", "rm -rf /")
        assert await processes(session) == []


@check("fault", "the filter is not passed by python -c")
async def fault_the_filter_is_passed_by_python(server: Server):
    async with server.session() as session:
        for name in ("python", "python3"):
            await not_on_the_list(session, f"{name} -c 'print(1)'", name)
            await not_on_the_list(session, f"echo 'print(1)' | {name}", name)


@check("fault", "the filter is not passed by awk, which is on the list for its own work")
async def fault_the_filter_is_passed_by_awk(server: Server):
    async with server.session() as session:
        for program in (
            'BEGIN { system("id") }',
            'BEGIN { "id" | getline x; print x }',
            'BEGIN { print "id" | "sh" }',
            'BEGIN { print "x" > "/etc/passwd" }',
        ):
            await filtered(session, f"awk '{program}'")
        assert await prints(session, "echo a b | awk '{ print $2 }'") == "b\n"


@check("fault", "the filter is not passed by env, which is on the list for its own work")
async def fault_the_filter_is_passed_by_env(server: Server):
    async with server.session() as session:
        await not_on_the_list(session, "env stranger", "stranger")
        await not_on_the_list(session, "env -i x=1 stranger", "stranger")
        await not_on_the_list(session, "env -S 'stranger a'", "stranger")
        await blocked(session, "env rm -rf /", "rm -rf /")
        assert "x=1\n" in await prints(session, "env x=1 env")


@check("fault", "the filter is not passed by find -exec; find looks for files")
async def fault_the_filter_is_passed_by_find(server: Server):
    async with server.session() as session:
        await not_on_the_list(session, "find . -exec stranger {} \\;", "stranger")
        await not_on_the_list(session, "find . -execdir python3 {} +", "python3")
        await blocked(session, "find . -exec rm -rf / \\;", "rm -rf /")
        await filtered(session, "find / -delete")
        assert await prints(session, "touch f; find . -name f") == "./f\n"
        assert await prints(session, "find . -name f -exec cat {} \\;") == ""


@check("fault", "what is harmless is not refused: rm -rf below /tmp, a quoted $")
async def fault_the_filter_refuses_harmless_commands(server: Server):
    async with server.session() as session:
        assert await prints(session, "mkdir -p /tmp/x/y; rm -rf /tmp/x; ls /tmp") == ""
        for command, wanted in (
            ("echo '$HOME'", "$HOME\n"),
            ('echo "costs \\$5"', "costs $5\n"),
            ("echo '$(stranger) `stranger`'", "$(stranger) `stranger`\n"),
            ('x=5; echo "$x"', "5\n"),
            ("printf 'a$\\n' | grep 'a\\$$'", "a$\n"),
            ("echo 'a;b|c&d>e'", "a;b|c&d>e\n"),
        ):
            assert await prints(session, command) == wanted, command


@check("fault", "timeouts of 0 and 100000 seconds are refused, and nothing is run")
async def fault_any_timeout_is_accepted(server: Server):
    async with server.session() as session:
        for timeout in (0, 100000):
            for stream in (True, False):
                arguments = {"command": "touch ran", "timeout": timeout, "stream": stream}
                await fails(session, "execute_command", ".*timeout.*300.*", **arguments)
        assert await prints(session, "ls") == ""


@check("fault", "secrets are masked before output is cut: none is shown for being cut in half")
async def fault_redaction_comes_after_the_cut(server: Server):
    async with server.session() as session:
        for stream in (True, False):
            command = f"seq 95; {printing(KEY)}; echo; seq 10"
            done = await execute(session, command, stream=stream)
            lines = done["stdout"].split("\n")
            assert lines[94:97] == ["95", "[REDACTED PRIVATE KEY]", "1"], lines
            # The key counts as the one line that is shown of it.
            assert lines[100:] == ["... [truncated 6 more lines]"], lines


@check("fault", "secrets are known by their forms: Bearer, ghp_, sk-, JWT, JSON")
async def fault_few_forms_are_masked(server: Server):
    async with server.session() as session:
        for text, wanted in MASKED.items():
            assert await prints(session, printing(text)) == wanted, text


@check("fault", "text that is no secret is shown as it is")
async def fault_innocent_text_is_rewritten(server: Server):
    async with server.session() as session:
        for text in INNOCENT:
            assert await prints(session, printing(text)) == text


@check("fault", "SIGTERM is SIGTERM, and comes to every process of the command")
async def fault_sigterm_is_sigint_to_one(server: Server):
    beat = "while :; do sleep 0.1; done"
    traps = 'trap "echo {name} got INT" INT; trap "echo {name} got TERM; {then}" TERM'
    child = f"({traps.format(name='child', then='exit')}; echo ready; {beat})"
    script = f"{traps.format(name='parent', then='wait; exit')}; {child} & {beat}"
    async with server.session() as session:
        pid = await start(session, script)
        await reads(session, pid, "ready\n")
        await kill(session, pid, signal="SIGTERM")
        lines = (await read(session, pid)).splitlines()
        assert "child got TERM" in lines and "parent got TERM" in lines, lines
        assert not [line for line in lines if "INT" in line], lines


@check("fault", "a kill leaves nothing of the command running")
async def fault_kill_leaves_children(server: Server):
    async with server.session() as session:
        for signal in ("SIGTERM", "SIGKILL"):
            pid = await start(session, "sleep 1000 & (sleep 1000 & sleep 1000) & echo on; wait")
            await reads(session, pid, "on\n")
            await kill(session, pid, signal=signal)
            assert "sleep" not in await prints(session, "cat /proc/[0-9]*/comm"), signal


@check("fault", "no address that other machines reach is opened without proof of who calls")
async def fault_everybody_is_served(server: Server):
    other = at(server, "0.0.0.0:{port}")
    told = await other.refuses_to_start({})
    assert "0.0.0.0" in told and "token" in told, told


@check("fault", "with a token that address is opened, and whoever has none is refused")
async def fault_nobody_has_to_prove_anything(server: Server):
    other = at(server, "0.0.0.0:{port}")
    token = "t" * 40
    await other.listener({"HOTCELL_HTTP_TOKEN": token})
    assert status_of(other, "/mcp") == 401
    assert status_of(other, "/health") == 200
