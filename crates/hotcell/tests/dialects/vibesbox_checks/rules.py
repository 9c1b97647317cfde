"""The block list and the allow-list, and what they have to let through."""

import re

from harness import Server, check
from vibesbox_checks.commands import blocked, execute, not_on_the_list, prints, processes
from vibesbox_checks.contract import BLOCKED

# One use for each of more than fifty commands that look at things and work on text and files.
ALLOWED = """
ls -l; cat /dev/null; head -n 1 f; tail -n 1 f; stat f; du -s .; df .; find . -name f; readlink f
realpath f; basename f; dirname f; wc -l f; md5sum f; sha1sum f; sha256sum f; cksum f; od f
diff f f; cmp f f; comm f f; echo x; printf x; grep x f; egrep x f; sed p f; awk '{print $1}' f
cut -c 1 f; sort f; uniq f; tr a b; paste f; join f f; fold f; fmt f; nl f; tac f; expand f
split f; tee g; base64 f; touch f; mkdir -p d; rmdir d; cp f g; mv g h; rm -f h; ln -s f l
chmod 600 f; tar cf t.tar f; gzip -c f; pwd; whoami; id; groups; uname; hostname; date; ps; env
printenv; which sh; type sh; nproc; true; false; test -e f; expr 1; seq 3; sleep 0; xargs echo
timeout 1 true; nice true; cd .; export x=1; unset x; set; umask; wait; read x; sh -c true
bash -c true; git --version
"""
# Names alone, so that nothing but the name is to be judged.
NOT_ALLOWED = """
python python3 perl ruby node php lua curl wget nc ssh scp sudo su doas docker kubectl apt apt-get
pip npm make gcc systemctl mount umount reboot shutdown chroot passwd useradd crontab iptables
no-such-program
""".split()


@check("error", "what the block list means is refused, by the pattern that it is on the list for")
async def the_block_list_is_kept(server: Server):
    async with server.session() as session:
        for command, pattern in BLOCKED:
            await blocked(session, command, pattern)
        assert await processes(session) == []


@check("error", "what the block list means is refused wherever it is in a text")
async def the_block_list_is_kept_in_texts(server: Server):
    async with server.session() as session:
        for command, pattern in BLOCKED[:2]:
            for text in (
                f"true; {command}",
                f"true && {command}",
                f"echo a | {command}",
                f"echo $({command})",
                f"( {command} )",
                f"if true; then {command}; fi",
                f"sh -c '{command}'",
                f"echo a\n{command}",
            ):
                await blocked(session, text, pattern)
        assert await processes(session) == []


@check("error", "a command that is not on the list is refused by its name, and the list is told")
async def the_allow_list_is_told(server: Server):
    async with server.session() as session:
        done = await execute(session, "no-such-program --at-all")
        found = re.fullmatch(
            "Command 'no-such-program' not in allowlist\\. Allowed commands: (.+)", done["error"]
        )
        assert found, done
        names = found[1].split(", ")
        assert len(names) == len(set(names)) >= 50, names
        assert {"ls", "cat", "grep", "echo", "pwd", "sleep"} <= set(names), names
        assert not set(NOT_ALLOWED) & set(names), names


@check("error", "more than fifty commands are on the list")
async def allowed_commands_are_not_refused(server: Server):
    uses = [use.strip() for use in re.split("[;\n]", ALLOWED) if use.strip()]
    assert len({use.split()[0] for use in uses}) >= 50
    async with server.session() as session:
        for use in uses:
            done = await execute(session, f"touch f; {use}")
            assert done["error"] is None and done["exit_code"] is not None, (use, done)


@check("error", "what is not on the list is refused with that text, whatever else is to be said")
async def other_commands_are_refused(server: Server):
    async with server.session() as session:
        for name in NOT_ALLOWED:
            await not_on_the_list(session, name, name)
        assert await processes(session) == []


@check("error", "a name that is not on the list is refused wherever it is in a text")
async def other_commands_are_refused_in_texts(server: Server):
    async with server.session() as session:
        for text in (
            "echo a; stranger",
            "echo a && stranger",
            "echo a | stranger",
            "echo $(stranger)",
            "echo `stranger`",
            "(stranger)",
            "x=1 stranger",
            "x=stranger; $x",
            "sh -c stranger",
            "echo a\nstranger",
            "xargs stranger",
            "timeout 1 stranger",
            "trap stranger EXIT",
            "'stranger' a b",
            "s'trange'r",
        ):
            await not_on_the_list(session, text, "stranger")
        assert await processes(session) == []


@check("error", "a name with a blank in it is told whole")
async def names_with_blanks_are_told(server: Server):
    async with server.session() as session:
        await not_on_the_list(session, "'no such program' x", "no such program")


@check("error", "a path is on the list for a directory of the system alone")
async def paths_are_judged(server: Server):
    async with server.session() as session:
        assert await prints(session, "/bin/echo hello") == "hello\n"
        for path in ("/tmp/ls", "./ls", "/workspace/echo"):
            await not_on_the_list(session, path, path)


@check("error", "ordinary relatives of what is blocked are not refused")
async def ordinary_commands_are_not_refused(server: Server):
    async with server.session() as session:
        for command in (
            "mkdir -p d/e; rm -rf d",
            "rm -rf /tmp/no-such-directory",
            "rm -r -f ./no-such-directory",
            "touch f; chmod 777 f",
            "mkdir d; chmod -R 777 d",
            "echo x > /dev/null",
            "echo x > /tmp/file",
            "ls 2>/dev/null",
        ):
            await prints(session, command)
        for text in ("rm -rf /", "mkfs", "> /dev/sda", "dd if=/dev/zero", ":(){ :|:& };:"):
            assert await prints(session, f"echo '{text}'") == f"{text}\n"
