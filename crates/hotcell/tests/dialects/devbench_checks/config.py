"""What the variables do, and which values they take."""

import os

from devbench_checks.bench import (
    IMAGE,
    are_limited,
    ask,
    bench,
    container,
    containers,
    forks_and_burns,
    printed,
    refused,
    spawn,
    start,
)
from devbench_checks.tools import lasts
from harness import Server, check, eventually


async def refuses(server: Server, name: str, *values: str, **others: str):
    for value in values:
        told = await server.refuses_to_start({name: value} | others)
        assert name in told, f"it does not name {name}={value}: {told}"


@check("config", "MCP_ALLOWED_REGISTRIES says whose images may be used, with a port too")
async def registries_are_allowed(server: Server):
    allowed = "quay.io, localhost:5000"
    async with bench(server, MCP_ALLOWED_REGISTRIES=allowed) as session:
        for image, verdict in [
            ("quay.io/a/b:1", True),
            ("localhost:5000/a/b@sha256:" + "0" * 64, True),
            ("localhost:5001/a/b", False),
            ("quay.io.evil.org/a", False),
            ("debian:12", False),
        ]:
            told = await ask(session, "policy_check", image=image)
            assert told["allowed"] is verdict, (image, told)
        await refused(session, -32002, "spawn", image="ghcr.io/a/b")
    for everything in ("DOCKER.IO", "index.docker.io/", "docker.io"):
        async with bench(server, MCP_ALLOWED_REGISTRIES=everything) as session:
            for image in ("debian:12", "docker.io/a/b", "Docker.io/a/b", "index.docker.io/a/b"):
                told = await ask(session, "policy_check", image=image)
                assert told["allowed"] is True, (everything, image, told)
            await refused(session, -32002, "spawn", image="ghcr.io/a/b")
    await refuses(server, "MCP_ALLOWED_REGISTRIES", ",", " ", " , ", "not a registry")
    async with bench(server, MCP_ALLOWED_REGISTRIES="") as session:
        await refused(session, -32002, "spawn", image="quay.io/a/b")


@check("config", "MCP_ALLOWED_IMAGES names images that may be used, and no others")
async def images_are_allowed(server: Server):
    async with bench(server, MCP_ALLOWED_IMAGES="debian:12, ghcr.io/a/*") as session:
        for image, verdict in [
            ("debian:12", True),
            ("docker.io/library/debian:12", True),
            ("debian:13", False),
            ("ghcr.io/a/b:1", True),
            ("ghcr.io/b/a", False),
        ]:
            told = await ask(session, "policy_check", image=image)
            assert told["allowed"] is verdict, (image, told)
        await refused(session, -32002, "spawn", image="debian:13")
    await refuses(server, "MCP_ALLOWED_IMAGES", ",", " ", "NOT AN IMAGE")
    await refuses(server, "HOTCELL_IMAGES_ALLOW", ",", " ")


@check("config", "MCP_TRANSIENT_GC_DAYS is how long transient containers last")
async def transient_days(server: Server):
    async with bench(server, MCP_TRANSIENT_GC_DAYS="2") as session:
        assert lasts(await container(session, await spawn(session))) == 2 * 24 * 3600
    await refuses(server, "MCP_TRANSIENT_GC_DAYS", "0", "-1", "366", "many")


@check("config", "MCP_STATE_DB says where the state is, beside that file")
async def state_lies_beside_the_file(server: Server):
    given = {"HOTCELL_STATE_DIR": "", "MCP_STATE_DB": "./bench.db"}
    async with bench(server, **given) as session:
        made = await spawn(session, persistent=True)
        assert (server.work / "bench.hotcell").is_dir()
        assert not (server.work / "bench.db").exists()
    absolute = f"sqlite:///{server.work / 'bench.db'}"
    for url in ("sqlite:///./bench.db", "sqlite:///bench.db", absolute):
        async with bench(server, **given | {"MCP_STATE_DB": url}) as session:
            assert [each["id"] for each in await containers(session)] == [made], url
    for url in ("postgresql://ada:hidden@db/bench", "sqlite://hidden", "sqlite:///"):
        told = await server.refuses_to_start({"HOTCELL_STATE_DIR": "", "MCP_STATE_DB": url})
        assert "MCP_STATE_DB" in told and "hidden" not in told, told
    assert [each.name for each in server.work.iterdir()] == ["bench.hotcell"]
    async with bench(server, **given) as session:
        assert [each["id"] for each in await containers(session)] == [made]
        await ask(session, "kill", container_id=made, force=True)


@check("config", "MCP_LOG_LEVEL and MCP_LOG_FORMAT say what is logged and how")
async def logs_are_as_told(server: Server):
    async def logged(**env: str) -> str:
        before = set(server.logs.iterdir())
        async with bench(server, **env) as session:
            await ask(session, "health")
        (log,) = set(server.logs.iterdir()) - before
        return log.read_text()

    nowhere = {"HOTCELL_DOCKER_HOST": "", "MCP_DOCKER_HOST": "unix:///nowhere/at/all.sock"}
    by_itself = await logged(HOTCELL_DRIVER="", **nowhere)
    assert '"driver":"native"' in by_itself and by_itself.startswith("{"), by_itself
    assert "driver" not in await logged(HOTCELL_DRIVER="", MCP_LOG_LEVEL="ERROR")
    text = await logged(HOTCELL_DRIVER="", MCP_LOG_FORMAT="text")
    assert "driver" in text and not text.startswith("{"), text
    await refuses(server, "MCP_LOG_LEVEL", "LOUD")
    await refuses(server, "MCP_LOG_FORMAT", "xml")


@check("config", "without an engine at MCP_DOCKER_HOST containers are native cells")
async def native_without_an_engine(server: Server):
    nowhere = {"HOTCELL_DRIVER": "", "HOTCELL_DOCKER_HOST": ""}
    async with bench(server, **nowhere, MCP_DOCKER_HOST="unix:///nowhere/at/all.sock") as session:
        assert (await ask(session, "health"))["driver"] == "native"
        made = await ask(session, "spawn", image="host")
        listed = await container(session, made["container_id"])
        assert listed["docker_id"] is None, listed


@check("config", "with an engine at MCP_DOCKER_HOST containers are containers of it")
async def containers_of_an_engine(server: Server):
    engine = os.environ.get("HOTCELL_DOCKER_HOST", "")
    if not engine:
        return
    found = {"HOTCELL_DRIVER": "", "HOTCELL_DOCKER_HOST": "", "MCP_DOCKER_HOST": engine}
    async with bench(server, **found) as session:
        assert (await ask(session, "health"))["driver"] == "docker"
        listed = await container(session, await spawn(session))
        assert listed["docker_id"], listed


@check("config", "HOTCELL_DRIVER wins over what is found")
async def the_driver_can_be_named(server: Server):
    async with bench(server, HOTCELL_DRIVER="docker", HOTCELL_DOCKER_HOST="unix:///no.sock") as session:
        health = await ask(session, "health")
        assert health["driver"] == "docker" and health["docker_connected"] is False, health
        assert health["status"] == "degraded", health
        status = await ask(session, "system_status")
        assert status["docker_connected"] is False, status


@check("config", "MCP_WARM_POOL_ENABLED makes a container ahead of need, which a spawn gets")
async def containers_are_made_ahead(server: Server):
    warm = {"MCP_WARM_POOL_ENABLED": "true", "MCP_DEFAULT_IMAGE_ALIAS": IMAGE}
    if IMAGE == "host":
        # The machine's own programs are no image; they are what the pool has unless told.
        warm = {"MCP_WARM_POOL_ENABLED": "true", "HOTCELL_POOL_IMAGES": "host"}
    async with bench(server, **warm) as session:

        async def is_ready() -> bool:
            return "hotcell_pool_ready 1" in (await ask(session, "metrics"))["metrics"]

        await eventually("one is ready", is_ready)
        made = await spawn(session, alias="warm")
        shown = (await ask(session, "metrics"))["metrics"]
        assert "hotcell_pool_given_total 1" in shown, shown
        assert await printed(session, made, "echo hello") == "hello\n"
    await refuses(server, "MCP_WARM_POOL_ENABLED", "maybe")
    await refuses(server, "MCP_DEFAULT_IMAGE_ALIAS", "NOT AN IMAGE")


@check("config", "limits that the documents name are those of containers")
async def limits_are_those_of_the_documents(server: Server):
    async with bench(server, MCP_CONTAINER_MEMORY_LIMIT="256", MCP_MAX_CONCURRENT_EXECS="1") as session:
        made = await spawn(session)
        stats = await ask(session, "container_stats", container_id=made)
        assert stats["memory_limit_mb"] == 256 and stats["pids_limit"] == 256, stats
        for _ in range(3):
            await start(session, made, "sleep 60")
        statuses = sorted(each["status"] for each in (await ask(session, "list_execs"))["execs"])
        assert statuses == ["queued", "queued", "running"], statuses
    small = {"MCP_CONTAINER_PID_LIMIT": "50", "MCP_CONTAINER_CPU_LIMIT": "0.3"}
    if are_limited(server):
        async with bench(server, **small) as session:
            forked, processors = await forks_and_burns(session, await spawn(session))
            assert 10 < forked < 50, forked
            assert processors < 0.5, processors
    await refuses(server, "MCP_CONTAINER_PID_LIMIT", "-1", "many")
    await refuses(server, "MCP_CONTAINER_CPU_LIMIT", "-1", "many")
    await refuses(server, "MCP_CONTAINER_MEMORY_LIMIT", "-1", "much")


@check("config", "sse is refused, with the name of what takes its place")
async def sse_is_refused(server: Server):
    told = await server.refuses_to_start({"MCP_TRANSPORT_MODE": "sse"})
    assert "MCP_TRANSPORT_MODE" in told and "streamable-http" in told, told
    await refuses(server, "MCP_TRANSPORT_MODE", "carrier-pigeon")


@check("config", "values that mean nothing stop the start, and are named")
async def bad_values_stop_the_start(server: Server):
    await refuses(server, "MCP_PORT", "65536", "-1", "http")
    await refuses(server, "MCP_HOST", "not an address")
    await refuses(server, "MCP_DRAIN_GRACE_S", "-1", "soon")
    await refuses(server, "MCP_PATH", "mcp", "/health", "/a b")
    await refuses(server, "MCP_AUTH_MODE", "oauth", "password", "bearer", "oidc")


@check("config", "secrets in variables are not told, however wrong they are")
async def secrets_are_not_told(server: Server):
    told = await server.refuses_to_start({"MCP_DOCKER_CONFIG_JSON": "hidden-in-here {"})
    assert "MCP_DOCKER_CONFIG_JSON" in told and "hidden" not in told, told
    short = {"MCP_AUTH_MODE": "bearer", "MCP_BEARER_TOKEN": "hidden", "MCP_TRANSPORT_MODE": ""}
    told = await server.refuses_to_start(short | {"MCP_PORT": "0"})
    assert "token" in told and "hidden" not in told, told
