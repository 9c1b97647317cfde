"""The commands of the original, as a server allows them that is told nothing else."""

import re
import shlex
import subprocess

from harness import Server, check
from vibesbox_checks.commands import blocked, execute, filtered, not_on_the_list, prints, processes

# Without the profile that the suite asks for.
AS_IT_COMES = {"HOTCELL_POLICY_PROFILE": ""}
COMMANDS = """
ls pwd cat grep echo find head tail wc sort uniq cut awk sed less more file stat du df touch mkdir cp mv ln rm chmod
chown ps top uptime whoami hostname uname date env printenv which whereis type python3 node npm git curl wget tar gzip
gunzip unzip zip ssh scp rsync
""".split()
OTHERS = """
dirname basename sleep true false test printf seq tee xargs id tr nc perl ruby python sudo su bash sh dd kill timeout
nohup make gcc pip docker mount no-such-program
""".split()


@check("default", "exactly the commands of the original are allowed, and the error lists them")
async def the_list_is_that_of_the_original(server: Server):
    async with server.session(AS_IT_COMES) as session:
        done = await execute(session, "no-such-program --at-all")
        found = re.fullmatch(
            "Command 'no-such-program' not in allowlist\\. Allowed commands: (.+)", done["error"]
        )
        assert found and sorted(found[1].split(", ")) == sorted(COMMANDS), done
        for name in COMMANDS:
            done = await execute(session, f"{name} --help </dev/null", timeout=20)
            assert done["error"] is None and done["exit_code"] is not None, (name, done)


@check("error", "other commands are refused by their names, wherever they are in a text")
async def others_are_refused(server: Server):
    async with server.session(AS_IT_COMES) as session:
        for name in OTHERS:
            await not_on_the_list(session, f"{name} x", name)
            await not_on_the_list(session, f"ls; echo a | {name} x", name)
        for text in ("env sleep 1", "find . -exec sleep {} +", "echo $(sleep 1)", "x=sleep; $x 1"):
            await not_on_the_list(session, text, "sleep")
        await filtered(session, "$UNKNOWN 1")
        await not_on_the_list(session, "./ls", "./ls")
        assert await processes(session) == []


@check("default", "interpreters run what they are given: the cell is the safety")
async def interpreters_are_allowed(server: Server):
    async with server.session(AS_IT_COMES) as session:
        assert await prints(session, "python3 -c 'print(6 * 7)'") == "42\n"
        assert await prints(session, "echo 'print(6 * 7)' | python3") == "42\n"
        script = "echo 'import sys; sys.exit(3)' > x.py; cd /workspace && python3 x.py"
        assert (await execute(session, script))["exit_code"] == 3
        assert (await execute(session, "exit 5"))["exit_code"] == 5
        loop = "for f in 1 2; do echo $f; done | sort -r"
        assert await prints(session, loop) == "2\n1\n"
        done = await execute(session, "python3 -c 'import time; time.sleep(99)'", timeout=1)
        assert done["error"] == "Command timed out after 1 seconds", done


@check("error", "the block list holds, and so does the system")
async def the_block_list_holds(server: Server):
    async with server.session(AS_IT_COMES) as session:
        await blocked(session, "rm -rf /", "rm -rf /")
        await blocked(session, "chmod -R 777 /", "chmod -R 777 /")
        await blocked(session, "echo x > /dev/sda", "> /dev/sda")
        await filtered(session, "echo x>/path")
        assert await processes(session) == []


@check("bound", "a command may have thousands of arguments")
async def many_arguments_are_a_command(server: Server):
    async with server.session(AS_IT_COMES) as session:
        await prints(session, "echo x > a")
        assert await prints(session, "cat" + " a" * 4800 + " | wc -l") == "4800\n"


@check("tool", "values are hidden by the names of their variables")
async def values_are_hidden_by_name(server: Server):
    async with server.session(AS_IT_COMES) as session:
        names = ("AWS_ACCESS_KEY_ID", "PASSWORD", "DB_PASSWORD", "GITHUB_TOKEN", "API_KEY")
        values = ("hunter2hunter2", "hunter2", "abc")
        assigned = [f"{name}={value}" for name in names for value in values]
        hidden = "".join(f"{name}=[REDACTED]\n" for name in names for _ in values)
        command = f"for v in {' '.join(assigned)}; do echo $v; done"
        for stream in (True, False):
            shown = await prints(session, command, stream=stream)
            assert shown == hidden, shown
        assert await prints(session, "export PASSWORD=abc; env | grep PASS") == (
            "PASSWORD=[REDACTED]\n"
        )
        assert "PWD=/workspace\n" in await prints(session, "env")


@check("tool", "of a private key nothing is shown, wherever the output is cut")
async def keys_are_hidden_whole(server: Server):
    generate = ["openssl", "genrsa", "3072"]
    key = subprocess.run(generate, check=True, capture_output=True, text=True).stdout
    lines = key.splitlines()
    async with server.session(AS_IT_COMES) as session:
        for part in range(0, len(lines), 9):
            await prints(session, f"echo {shlex.quote(chr(10).join(lines[part:part + 9]))} >> key")
        count = "python3 -c 'for n in range({}): print(n)'"
        for text in (
            f"{count.format(95)}; cat key; {count.format(9)}",
            f"{count.format(99)}; cat key",
            f"{count.format(70)}; cat key key",
            "head -n 20 key",
            "tail -n 20 key",
        ):
            shown = (await execute(session, text))["stdout"]
            assert "[REDACTED PRIVATE KEY]" in shown, (text, shown)
            assert not [line for line in lines[1:-1] if line in shown], (text, shown)
