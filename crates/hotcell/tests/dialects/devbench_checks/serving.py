"""How the server is reached: over HTTP unless told otherwise, at this machine alone."""

import base64
import json
import signal
import sys
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import anyio
from mcp import MCPError

from devbench_checks.bench import (
    ask,
    bench,
    caller,
    containers,
    does_not_listen,
    is_turned_away,
    knock,
    listening,
    printed,
    refused,
    spawn,
    start,
    write,
)
from harness import Server, check, eventually

TOKEN = "a-token-that-is-long-enough"
# The issuer of tokens that other tests have.
sys.path.append(str(Path(__file__).parents[2] / "clients"))


@check("default", "it listens at 127.0.0.1 alone, and speaks MCP at /mcp")
async def it_listens_at_this_machine(server: Server):
    async with listening(server) as (process, port):
        async with caller(port) as session:
            assert (await ask(session, "health"))["status"] == "healthy"
            made = await spawn(session)
            assert await printed(session, made, "echo over http") == "over http\n"
        listened = Path(f"/proc/{process.pid}/net/tcp").read_text().splitlines()[1:]
        at = [line.split()[1] for line in listened if line.split()[3] == "0A"]
        assert f"0100007F:{port:04X}" in at and f"00000000:{port:04X}" not in at, at
        for foreign in ({"Origin": "http://other.example"}, {"Host": "other.example"}):
            assert (await knock(port, **foreign))[:2] == (403, -32008), foreign


@check("tool", "as a resource a workspace has nothing from outside, and looking makes no container")
async def resources_end_at_the_workspace(server: Server):
    async with bench(server) as session:
        made = await spawn(session)
        await printed(session, made, "echo hi > a; ln -s a in; ln -s /etc/passwd out")
        listed = {str(each.uri) for each in (await session.list_resources()).resources}
        assert f"workspace:{made}" in listed and "workspace:default" not in listed, listed
        for name in ("a", "in"):
            (read,) = (await session.read_resource(f"workspace:{made}/{name}")).contents
            assert read.text == "hi\n", read
        for name in (f"{made}/out", f"{made}/../etc/passwd", "default", "default/a"):
            try:
                raise AssertionError(await session.read_resource(f"workspace:{name}"))
            except MCPError as error:
                assert name in str(error) or "passwd" not in str(error), error
        assert [each["id"] for each in await containers(session)] == [made]


@check("config", "MCP_PATH is where MCP is spoken")
async def the_path_can_be_chosen(server: Server):
    async with listening(server, MCP_PATH="/bench/api") as (_, port):
        async with caller(port, path="/bench/api") as session:
            assert (await ask(session, "health"))["status"] == "healthy"


@check("config", "an address that others reach needs proof of who calls")
async def open_doors_are_refused(server: Server):
    open_to_all = {"MCP_HOST": "0.0.0.0", "MCP_PORT": "0", "MCP_AUTH_MODE": "none"}
    told = does_not_listen(server, open_to_all)
    assert "anybody who reaches" in told and "MCP_BEARER_TOKEN" in told, told
    given = {"MCP_HOST": "0.0.0.0", "MCP_AUTH_MODE": "bearer", "MCP_BEARER_TOKEN": TOKEN}
    async with listening(server, **given) as (_, port):
        async with caller(port, TOKEN) as session:
            assert (await ask(session, "health"))["status"] == "healthy"


@check("config", "MCP_AUTH_MODE=bearer opens the server to MCP_BEARER_TOKEN and to nothing else")
async def tokens_open_the_server(server: Server):
    async with listening(server, MCP_AUTH_MODE="bearer", MCP_BEARER_TOKEN=TOKEN) as (_, port):
        async with caller(port, TOKEN) as session:
            await spawn(session)
            assert (await ask(session, "reconcile"))["errors"] == 0
            assert set((await ask(session, "garbage_collect")).values()) == {0}
            assert "hotcell_cells" in (await ask(session, "metrics"))["metrics"]
        for wrong in ("", "another-token-that-is-long"):
            assert await is_turned_away(port, wrong), f"it serves with {wrong!r}"


@check("config", "MCP_AUTH_MODE=oidc takes tokens of the issuer, for this client, with the scopes")
async def tokens_of_an_issuer_open_the_server(server: Server):
    from issuer import Issuer, serve

    issuer = Issuer({"a": "p256"})
    listener = serve(issuer)
    now = int(time.time())
    claims = {"iss": issuer.url, "aud": "bench", "sub": "ada", "iat": now, "exp": now + 300}
    given = {
        "MCP_AUTH_MODE": "oidc",
        "MCP_OAUTH_CONFIG_URL": f"{issuer.url}/.well-known/openid-configuration",
        "MCP_OAUTH_CLIENT_ID": "bench",
        "MCP_OAUTH_CLIENT_SECRET": "not needed",
        "MCP_OAUTH_BASE_URL": "http://127.0.0.1:8000",
        "MCP_OAUTH_REQUIRED_SCOPES": "openid,bench",
    }
    try:
        async with listening(server, **given) as (_, port):
            good = issuer.sign("a", claims | {"scope": "openid bench"})
            async with caller(port, good) as session:
                made = await spawn(session)
                assert await printed(session, made, "echo ada") == "ada\n"
                await refused(session, -32008, "reconcile")
            lacks = issuer.sign("a", claims | {"scope": "openid"})
            status, number, asked = await knock(port, lacks)
            assert (status, number) == (403, -32008), (status, number)
            assert 'error="insufficient_scope", scope="openid bench"' in asked, asked
            described = f"http://127.0.0.1:{port}/.well-known/oauth-protected-resource"
            with urllib.request.urlopen(described) as answer:
                assert json.load(answer)["scopes_supported"] == ["openid", "bench"]
            for wrong in [
                claims | {"scope": "openid bench", "aud": "another"},
                claims | {"scope": "openid bench", "exp": now - 300},
            ]:
                assert await is_turned_away(port, issuer.sign("a", wrong)), wrong
            assert await is_turned_away(port)
        async with listening(server, **given, MCP_OAUTH_AUDIENCE="another") as (_, port):
            assert await is_turned_away(port, good)
            other = issuer.sign("a", claims | {"scope": "openid bench", "aud": "another"})
            async with caller(port, other) as session:
                assert [each["id"] for each in await containers(session)] == [made]
    finally:
        listener.shutdown()
        listener.server_close()


@check("config", "MCP_DOCKER_CONFIG_JSON is what a registry is shown when an engine pulls")
async def registries_are_shown_credentials(server: Server):
    seen: list[str] = []

    class Registry(BaseHTTPRequestHandler):
        def do_GET(self):
            shown = self.headers.get("Authorization")
            seen.extend([shown] if shown else [])
            self.send_response(404 if shown else 401)
            self.send_header("WWW-Authenticate", 'Basic realm="check"')
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_HEAD = do_GET

        def log_message(self, *_):
            pass

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    threading.Thread(target=listener.serve_forever, daemon=True).start()
    registry = f"127.0.0.1:{listener.server_port}"
    auth = base64.b64encode(b"ada:secret").decode()
    given = {
        "MCP_DOCKER_CONFIG_JSON": json.dumps({"auths": {registry: {"auth": auth}}}),
        "MCP_ALLOWED_REGISTRIES": registry,
    }
    try:
        async with bench(server, **given) as session:
            error = await refused(session, -32000, "spawn", image=f"{registry}/private:1")
            assert "secret" not in str(error.data) + error.message, error
            if (await ask(session, "health"))["driver"] == "docker":
                assert seen and set(seen) == {f"Basic {auth}"}, seen
    finally:
        listener.shutdown()
        listener.server_close()


@check("config", "MCP_DRAIN_GRACE_S bounds how long the server takes to end")
async def the_end_is_bounded(server: Server):
    async with listening(server, MCP_DRAIN_GRACE_S="1") as (process, port):
        async with caller(port) as session:
            made = await spawn(session, persistent=True)
            exec_id = await start(session, made, "sleep 300")
            began = time.monotonic()
            process.send_signal(signal.SIGTERM)
            with anyio.fail_after(20):
                while process.poll() is None:
                    await anyio.sleep(0.05)
        assert process.returncode == 0 and time.monotonic() - began < 10, process.returncode
    async with bench(server) as session:
        assert [each["id"] for each in await containers(session)] == [made]
        execs = (await ask(session, "list_execs"))["execs"]
        assert [each["exec_id"] for each in execs] == [exec_id], "what runs goes on"


@check("restart", "a graceful end stops transient containers; persistent ones run on")
async def transient_containers_are_stopped(server: Server):
    async with listening(server) as (process, port):
        async with caller(port) as session:
            kept = await spawn(session, persistent=True)
            passing = await spawn(session)
            await printed(session, passing, "echo file > /workspace/a")
            runs = await start(session, kept, "sleep 300")
            ends = await start(session, passing, "sleep 300")
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    async with listening(server) as (_, port):
        async with caller(port) as session:
            listed = await containers(session, include_stopped=True)
            states = {each["id"]: each["status"] for each in listed}
            assert states == {kept: "running", passing: "stopped"}, states
            execs = (await ask(session, "list_execs"))["execs"]
            assert [each["exec_id"] for each in execs] == [runs], execs
            page = await ask(session, "exec_poll", exec_id=ends)
            assert page["complete"] and page["messages"][-1]["exit_code"] != 0, page
            assert await printed(session, passing, "cat /workspace/a") == "file\n"


@check("restart", "a server that leaves stops nothing that another one serves")
async def other_servers_go_on(server: Server):
    async with listening(server) as (_, port), caller(port) as session:
        made = await spawn(session)
        exec_id = await start(session, made, "sleep 300")
        async with listening(server) as (process, other_port):
            async with caller(other_port) as other:
                assert [each["id"] for each in await containers(other)] == [made]
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
        execs = (await ask(session, "list_execs"))["execs"]
        assert [each["exec_id"] for each in execs] == [exec_id], execs


@check("tool", "metrics count what is done, and only that")
async def metrics_change(server: Server):
    async with bench(server) as session:

        async def counted(operation: str, outcome: str = "ok") -> int:
            text = (await ask(session, "metrics"))["metrics"]
            name = f'hotcell_operations_total{{operation="{operation}",outcome="{outcome}"}} '
            lines = [line for line in text.splitlines() if line.startswith(name)]
            return int(lines[0].rpartition(" ")[2]) if lines else 0

        assert [await counted(name) for name in ("cell_spawn", "exec_run", "write")] == [0, 0, 0]
        made = await spawn(session)
        assert await printed(session, made, "echo 1") == "1\n"
        assert await printed(session, made, "echo 2") == "2\n"
        await write(session, made, "/workspace/a", "x")
        await refused(session, -32001, "fs_read", container_id="nowhere", path="a")
        counts = [await counted(name) for name in ("cell_spawn", "exec_run", "write")]
        assert counts == [1, 2, 1], counts
        assert await counted("read", "error") == 1 and await counted("read") == 0


@check("restart", "after kill -9 containers, commands and their output are all there")
async def a_killed_server_loses_nothing(server: Server):
    async with listening(server) as (process, port):
        async with caller(port) as session:
            kept = await spawn(session, persistent=True, alias="kept")
            passing = await spawn(session)
            exec_id = await start(session, kept, "echo before; sleep 2; echo after; exit 5")
            other = await start(session, passing, "echo up; sleep 300")

            async def prints() -> bool:
                return bool((await ask(session, "exec_poll", exec_id=exec_id))["messages"])

            await eventually("it prints", prints)
            process.kill()
            process.wait()
    async with bench(server) as session:
        assert {each["id"] for each in await containers(session)} == {kept, passing}
        messages: list = []

        async def ends() -> bool:
            page = await ask(session, "exec_poll", exec_id=exec_id)
            messages[:] = page["messages"]
            return page["complete"]

        await eventually("it ends", ends)
        assert "".join(each["data"] or "" for each in messages) == "before\nafter\n"
        assert messages[-1]["exit_code"] == 5
        execs = (await ask(session, "list_execs"))["execs"]
        assert [each["exec_id"] for each in execs] == [other]
        assert (await ask(session, "reconcile"))["errors"] == 0
        found = await ask(session, "attach", target="kept", client_name="a", session_id="b")
        assert found["container_id"] == kept
