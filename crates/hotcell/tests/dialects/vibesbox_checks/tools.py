"""The tools, one by one, and what they do when they are not told."""

import re
import time

from harness import Server, check
from vibesbox_checks.commands import ask, execute, is_unknown, prints, progress_of, start
from vibesbox_checks.contract import ARGUMENTS, EXECUTED, REQUIRED


@check("tool", "the tools and their arguments are those of the original, beside background")
async def the_tools_are_those_of_the_original(server: Server):
    async with server.session() as session:
        tools = {tool.name: tool for tool in (await session.list_tools()).tools}
        assert set(tools) == set(ARGUMENTS), set(tools)
        for name, arguments in ARGUMENTS.items():
            schema = tools[name].input_schema
            assert sorted(schema.get("required", [])) == REQUIRED[name], schema
            properties = schema["properties"]
            assert set(properties) - {"background"} == set(arguments), schema
            for argument, wanted in arguments.items():
                shown = properties[argument]
                assert {each: shown.get(each) for each in wanted} == wanted, (name, shown)
            assert tools[name].description, name


@check("tool", "every tool shows that its result is a text in one field")
async def the_results_are_texts(server: Server):
    async with server.session() as session:
        for tool in (await session.list_tools()).tools:
            schema = tool.output_schema
            assert schema["required"] == ["result"], schema
            assert schema["properties"]["result"]["type"] == "string", schema


@check("tool", "what only looks is read-only; what runs something may not be repeated")
async def the_annotations_are_true(server: Server):
    async with server.session() as session:
        hints = {tool.name: tool.annotations for tool in (await session.list_tools()).tools}
        assert hints["health"].read_only_hint, hints
        assert not hints["execute_command"].read_only_hint, hints
        assert not hints["execute_command"].idempotent_hint, hints
        assert not hints["manage_process"].read_only_hint, hints


@check("tool", "health says healthy, and names service and version")
async def health_is_told(server: Server):
    async with server.session() as session:
        told = await ask(session, "health")
        assert set(told) == {"status", "service", "version"}, told
        assert told["status"] == "healthy" and told["service"] and told["version"], told


@check("tool", "the server answers within five seconds of its start")
async def the_start_is_quick(server: Server):
    begun = time.monotonic()
    async with server.session() as session:
        assert await prints(session, "echo hello") == "hello\n"
        assert time.monotonic() - begun < 5


@check("tool", "execute_command tells both streams, the exit code and that all went well")
async def a_command_is_executed(server: Server):
    async with server.session() as session:
        done = await execute(session, "echo out; echo err >&2")
        assert done == {
            "success": True,
            "exit_code": 0,
            "stdout": "out\n",
            "stderr": "err\n",
            "truncated": False,
            "error": None,
        }, done


@check("tool", "echo, ls and pwd do what they do")
async def simple_commands_work(server: Server):
    async with server.session() as session:
        assert await prints(session, "echo hello world") == "hello world\n"
        where = await prints(session, "pwd")
        assert where.startswith("/") and where.endswith("\n"), where
        await prints(session, "touch made-here")
        assert await prints(session, "ls") == "made-here\n"


@check("tool", "a command that fails has its exit code, and did not succeed")
async def exit_codes_are_told(server: Server):
    async with server.session() as session:
        for code in (1, 2, 7, 255):
            done = await execute(session, f"exit {code}")
            assert not done["success"] and done["exit_code"] == code, done


@check("tool", "a command that a signal ended did not succeed, and has no exit code 0")
async def signals_are_no_success(server: Server):
    async with server.session() as session:
        for name, number in (("TERM", 15), ("KILL", 9), ("SEGV", 11)):
            done = await execute(session, f"kill -{name} $$")
            assert not done["success"] and done["exit_code"] in (-number, 128 + number), done


@check("tool", "a shell runs the text: pipes, lists, loops, variables, redirections, globs")
async def a_shell_runs_the_text(server: Server):
    async with server.session() as session:
        for command, wanted in (
            ("echo hello | tr a-z A-Z", "HELLO\n"),
            ("true && echo yes || echo no", "yes\n"),
            ("x=4; echo $((x * 10 + 2))", "42\n"),
            ("for n in 1 2; do echo $n; done", "1\n2\n"),
            ("echo kept > file; cat < file", "kept\n"),
            ("touch b.txt a.txt; echo *.txt", "a.txt b.txt\n"),
            ("echo $(echo inner)", "inner\n"),
            ("cat <<END\nhere\nEND", "here\n"),
        ):
            assert await prints(session, command) == wanted, command


@check("tool", "files stay from one command to the next, directories and variables do not")
async def files_stay(server: Server):
    async with server.session() as session:
        await prints(session, "mkdir -p a/b; echo kept > a/b/c; cd a/b; x=1")
        assert await prints(session, 'cat a/b/c; echo "[$x]"') == "kept\n[]\n"


@check("tool", "output in any script, and bytes that are none, come through")
async def output_is_unicode(server: Server):
    async with server.session() as session:
        text = "héllo wörld ✓ 日本語 🚀"
        assert await prints(session, f"echo '{text}'") == f"{text}\n"
        assert await prints(session, r"printf 'a\377b'") == "a\ufffdb"


@check("tool", "a command that reads its input finds none, and does not wait")
async def there_is_no_input(server: Server):
    async with server.session() as session:
        assert await prints(session, "cat") == ""


@check("tool", "with background a command goes on, and its pid is told")
async def commands_go_on_in_the_background(server: Server):
    async with server.session() as session:
        done = await execute(session, "sleep 1000", background=True)
        pid = done["pid"]
        assert set(done) == EXECUTED | {"pid"} and isinstance(pid, int), done
        assert done["success"] and done["exit_code"] is None and done["error"] is None, done


@check("default", "a command runs in /bin/sh unless told, and in another shell if told")
async def the_shell_is_bin_sh(server: Server):
    async with server.session() as session:
        assert await prints(session, "echo $0") == "/bin/sh\n"
        assert await prints(session, "echo $0", shell="/bin/sh") == "/bin/sh\n"
        of_bash = 'x=(a b); echo "$0 ${x[1]}"'
        assert await prints(session, of_bash, shell="/bin/bash") == "/bin/bash b\n"


@check("default", "a command may take 30 seconds unless told")
async def the_timeout_is_30_seconds(server: Server):
    async with server.session() as session:
        done = await execute(session, "echo begun; sleep 1000")
        assert not done["success"] and done["exit_code"] is None, done
        assert done["stdout"] == "begun\n", done
        assert done["error"] == "Command timed out after 30 seconds", done


@check("default", "output is streamed unless told")
async def output_is_streamed_unless_told(server: Server):
    async with server.session() as session:
        slowly = "echo first; sleep 2; echo second"
        assert "first" in "".join(await progress_of(session, command=slowly))
        assert "first" in "".join(await progress_of(session, command=slowly, stream=True))
        assert await progress_of(session, command=slowly, stream=False) == []


@check("tool", "what is streamed is output alone, in whole characters, and tells what it leaves out")
async def streams_are_output(server: Server):
    async with server.session() as session:
        pieces = r"printf '\342\202'; sleep 0.6; printf '\254\n'; sleep 0.6; seq 100000; sleep 6"
        told = "".join(await progress_of(session, command=pieces, stream=True))
        assert told.startswith("€\n") and "\ufffd" not in told, told[:100]
        assert re.search(r"\[\.\.\. \d+ bytes left out \.\.\.\]\n", told), told[:200]
        assert told.endswith("\n100000\n"), told[-100:]


@check("tool", "numbers and flags may be written as models write them")
async def values_are_read_as_meant(server: Server):
    async with server.session() as session:
        for timeout, stream in ((5, True), ("5", "true"), (5.0, "false")):
            assert await prints(session, "echo hi", timeout=timeout, stream=stream) == "hi\n"


@check("default", "a process is killed with SIGTERM unless told")
async def the_signal_is_sigterm(server: Server):
    async with server.session() as session:
        pid = await start(session, "sleep 1000")
        done = await ask(session, "manage_process", action="kill", pid=pid)
        assert done["success"] and "SIGTERM" in done["message"], done


@check("default", "there are no processes at first")
async def there_are_no_processes_at_first(server: Server):
    async with server.session() as session:
        listed = await ask(session, "manage_process", action="list")
        assert listed == {"success": True, "processes": [], "count": 0}, listed
        await is_unknown(session, "read", 2)
