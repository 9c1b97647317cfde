"""What the tools refuse, their bounds, and with which words."""

from mcp import MCPError

from harness import Server, check, fails
from vibesbox_checks.commands import (
    ask,
    execute,
    not_on_the_list,
    prints,
    processes,
    refused,
)


@check("error", "an empty command is refused, in the background, too")
async def empty_commands_are_refused(server: Server):
    async with server.session() as session:
        for command in ("", "  ", "\n\t"):
            await refused(session, command, "Command cannot be empty")
            await refused(session, command, "Command cannot be empty", background=True)
        assert await processes(session) == []


@check("bound", "a command may have 10000 characters, of any size, and no more")
async def commands_are_bounded(server: Server):
    async with server.session() as session:
        for character in ("x", "é", "🚀"):
            most = f"echo kept #{character * 9989}"
            assert len(most) == 10000
            assert await prints(session, most) == "kept\n"
            await fails(session, "execute_command", ".*10000.*", command=most + character)
        assert len(await processes(session)) == 3


@check("bound", "a timeout is 1 to 300 seconds")
async def timeouts_are_bounded(server: Server):
    async with server.session() as session:
        for timeout in (1, 300):
            assert await prints(session, "echo hello", timeout=timeout) == "hello\n"
        for timeout in (0, -1, 301, 100000):
            arguments = {"command": "echo hello", "timeout": timeout}
            await fails(session, "execute_command", ".*timeout.*", **arguments)
            await fails(session, "execute_command", ".*timeout.*", stream=False, **arguments)
        assert len(await processes(session)) == 2


@check("error", "a command that takes too long is ended, and what it wrote before is told")
async def timeouts_are_told(server: Server):
    async with server.session() as session:
        for stream in (True, False):
            done = await execute(
                session, "echo out; echo err >&2; exec sleep 1000", timeout=1, stream=stream
            )
            assert done == {
                "success": False,
                "exit_code": None,
                "stdout": "out\n",
                "stderr": "err\n",
                "truncated": False,
                "error": "Command timed out after 1 seconds",
            }, done
        assert {each["status"] for each in await processes(session)} == {"completed"}


@check("bound", "when its time is over a command is asked to end, and killed a second later")
async def timeouts_ask_first(server: Server):
    beat = "while :; do sleep 0.1; done"
    async with server.session() as session:
        done = await execute(session, f'trap "echo asked; exit" TERM; {beat}', timeout=1)
        assert done["stdout"] == "asked\n" and "timed out" in done["error"], done
        done = await execute(session, f'trap "echo asked" TERM; {beat}', timeout=1)
        assert done["stdout"].startswith("asked\n") and "timed out" in done["error"], done
        done = await execute(session, f'trap "" TERM; echo begun; {beat}', timeout=1)
        assert done["stdout"] == "begun\n" and "timed out" in done["error"], done


@check("error", "an action that is not there, or has no pid, is named")
async def wrong_actions_are_named(server: Server):
    async with server.session() as session:
        for arguments in (
            {"action": "pause"},
            {"action": "pause", "pid": 1},
            {"action": ""},
            {"action": "LIST"},
            {"action": "kill"},
            {"action": "read"},
            {"action": "kill", "pid": None},
        ):
            done = await ask(session, "manage_process", **arguments)
            action = arguments["action"]
            wanted = f"Invalid action '{action}' or missing PID for '{action}' action"
            assert set(done) == {"success", "error", "suggestion"}, done
            assert done["success"] is False and done["suggestion"], done
            assert done["error"] == wanted, done


@check("error", "a list with a pid or a signal is a list")
async def lists_need_no_pid(server: Server):
    async with server.session() as session:
        for arguments in ({"pid": 5}, {"pid": None}, {"signal": "SIGKILL"}):
            done = await ask(session, "manage_process", action="list", **arguments)
            assert done == {"success": True, "processes": [], "count": 0}, done


@check("error", "other signals than SIGTERM and SIGKILL are refused")
async def other_signals_are_refused(server: Server):
    async with server.session() as session:
        for signal in ("SIGHUP", "SIGINT", "TERM", "15", ""):
            arguments = {"action": "kill", "pid": 2, "signal": signal}
            await fails(session, "manage_process", ".*SIGTERM.*SIGKILL.*", **arguments)


@check("error", "arguments that are missing, of another type or unknown are refused by name")
async def wrong_arguments_are_named(server: Server):
    async with server.session() as session:
        for tool, name, arguments in (
            ("execute_command", "command", {}),
            ("execute_command", "command", {"command": 5}),
            ("execute_command", "shell", {"command": "true", "shell": 5}),
            ("execute_command", "timeout", {"command": "true", "timeout": "soon"}),
            ("execute_command", "timeout", {"command": "true", "timeout": 1.5}),
            ("execute_command", "stream", {"command": "true", "stream": "now"}),
            ("execute_command", "colour", {"command": "true", "colour": "red"}),
            ("manage_process", "action", {}),
            ("manage_process", "action", {"action": 5}),
            ("manage_process", "pid", {"action": "read", "pid": "first"}),
            ("manage_process", "pid", {"action": "read", "pid": -1}),
            ("manage_process", "colour", {"action": "list", "colour": "red"}),
            ("health", "colour", {"colour": "red"}),
        ):
            await fails(session, tool, f".*{name}.*", **arguments)
        assert await processes(session) == []


@check("error", "a shell that is none is refused as any other command is")
async def shells_are_commands(server: Server):
    async with server.session() as session:
        for shell in ("/usr/bin/python3", "python3", "/no/such/shell", "/tmp/sh"):
            await not_on_the_list(session, "echo hello", shell, shell=shell)
        assert await processes(session) == []


@check("error", "what a command says of its failure is on standard error, and no error of the tool")
async def failures_of_commands_are_their_own(server: Server):
    async with server.session() as session:
        done = await execute(session, "cat /no/such/file")
        assert not done["success"] and done["exit_code"] == 1, done
        assert "/no/such/file" in done["stderr"] and done["error"] is None, done


@check("error", "a tool that is not there is named")
async def unknown_tools_are_named(server: Server):
    async with server.session() as session:
        try:
            result = await session.call_tool("no_such_tool", {})
            told = result.content[0].text if result.is_error else ""
        except MCPError as error:
            told = error.message
        assert "no_such_tool" in told, told
