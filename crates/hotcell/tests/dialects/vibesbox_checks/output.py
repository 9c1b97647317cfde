"""How much of the output is shown, and what of it is masked."""

from harness import Server, check
from vibesbox_checks.commands import execute, printing, prints
from vibesbox_checks.contract import MOST_LINES

FIRST_LINES = "".join(f"{n}\n" for n in range(1, MOST_LINES + 1))
KEY_LINES = [f"{n:02}QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWZnaGlqa2xtbm9wcQ" for n in range(24)]
KEY = "\n".join(
    ["-----BEGIN RSA PRIVATE KEY-----", *KEY_LINES, "-----END RSA PRIVATE KEY-----"]
)
JWT = (
    "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0"
    ".dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
)


@check("bound", "a hundred lines are shown whole")
async def a_hundred_lines_are_shown(server: Server):
    async with server.session() as session:
        for stream in (True, False):
            done = await execute(session, "seq 100", stream=stream)
            assert done["stdout"] == FIRST_LINES and done["truncated"] is False, done


@check("bound", "of more lines the first hundred are shown, and how many there are more")
async def more_lines_are_cut(server: Server):
    async with server.session() as session:
        for count in (101, 102, 250, 100000):
            for stream in (True, False):
                done = await execute(session, f"seq {count}", stream=stream)
                wanted = f"{FIRST_LINES}... [truncated {count - 100} more lines]"
                assert done["stdout"] == wanted and done["truncated"] is True, done
                assert done["success"] and done["exit_code"] == 0, done


@check("bound", "a last line without a newline counts")
async def open_lines_count(server: Server):
    async with server.session() as session:
        done = await execute(session, "seq 99; printf last")
        assert done["stdout"].endswith("\n99\nlast") and not done["truncated"], done
        done = await execute(session, "seq 100; printf last")
        assert done["stdout"] == f"{FIRST_LINES}... [truncated 1 more lines]", done


@check("bound", "each stream is cut by itself")
async def streams_are_cut_apart(server: Server):
    async with server.session() as session:
        done = await execute(session, "seq 150 >&2; echo out")
        assert done["stdout"] == "out\n" and done["truncated"] is True, done
        assert done["stderr"] == f"{FIRST_LINES}... [truncated 50 more lines]", done


@check("bound", "a line without end does not fill the answer or the memory")
async def long_lines_are_bounded(server: Server):
    async with server.session() as session:
        done = await execute(session, "head -c 50000000 /dev/zero | tr '\\0' x")
        assert done["success"] and done["truncated"] is True, done["error"]
        assert len(done["stdout"]) <= 4 << 20, len(done["stdout"])
        assert server.peak_memory(session) < 256 << 20, server.peak_memory(session)


@check("tool", "values of names that mean secrets are masked, and the names stay")
async def secrets_are_masked(server: Server):
    async with server.session() as session:
        for name in ("PASSWORD", "DB_PASSWORD", "API_KEY", "SECRET", "GITHUB_TOKEN", "MY_SECRET"):
            shown = await prints(session, f"echo {name}=zq81vx07pw52")
            assert shown == f"{name}=[REDACTED]\n", shown
        shown = await prints(session, "echo 'export AWS_SECRET_ACCESS_KEY=zq81vx07pw52mn34bv'")
        assert shown == "export AWS_SECRET_ACCESS_KEY=[REDACTED]\n", shown


@check("tool", "secrets are masked on both streams, streamed or not, and in variables")
async def secrets_are_masked_everywhere(server: Server):
    async with server.session() as session:
        for stream in (True, False):
            done = await execute(session, "echo TOKEN=zq81vx07pw52 >&2", stream=stream)
            assert done["stderr"] == "TOKEN=[REDACTED]\n", done
            shown = await prints(session, "export MY_TOKEN=zq81vx07pw52; env", stream=stream)
            assert "MY_TOKEN=[REDACTED]\n" in shown and "zq81" not in shown, shown


@check("tool", "a private key is masked as a whole")
async def private_keys_are_masked(server: Server):
    async with server.session() as session:
        for kind in ("RSA ", "EC ", "OPENSSH ", ""):
            key = KEY.replace("RSA ", kind)
            shown = await prints(session, printing(f"before\n{key}\nafter\n"))
            assert shown == "before\n[REDACTED PRIVATE KEY]\nafter\n", shown


@check("tool", "a secret that a command writes in pieces is masked")
async def secrets_in_pieces_are_masked(server: Server):
    async with server.session() as session:
        for stream in (True, False):
            for pause in (0.05, 0.5):
                slowly = f"printf PASS; sleep {pause}; printf WORD=zq81; sleep {pause}; echo vx07pw52"
                assert await prints(session, slowly, stream=stream) == "PASSWORD=[REDACTED]\n"
