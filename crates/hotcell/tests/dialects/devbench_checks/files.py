"""Workspaces: reading, writing, listing and packing."""

import base64
import io
import tarfile

from devbench_checks.bench import ask, bench, printed, read, refused, spawn, write
from harness import Server, check


@check("tool", "what is written is read, with one etag everywhere")
async def files_are_written_and_read(server: Server):
    async with bench(server) as session:
        made = await spawn(session)
        written = await ask(
            session, "fs_write", container_id=made, path="/workspace/a.txt", content="hällo\n"
        )
        assert written["path"] == "/workspace/a.txt" and written["size"] == 7, written
        seen = await ask(session, "fs_read", container_id=made, path="/workspace/a.txt")
        assert seen["content"] == "hällo\n" and seen["size"] == 7, seen
        assert seen["mime_type"].startswith("text/plain") and seen["etag"] == written["etag"]
        stat = await ask(session, "fs_stat", container_id=made, path="/workspace/a.txt")
        assert stat["etag"] == written["etag"] and stat["is_dir"] is False, stat
        assert stat["permissions"] == "644" and stat["size"] == 7 and stat["mtime"]
        assert stat["path"] == "/workspace/a.txt"
        assert await printed(session, made, "cat a.txt") == "hällo\n"
        await write(session, made, "/workspace/a.py", "print(1)\n")
        for tool in ("fs_read", "fs_stat"):
            seen = await ask(session, tool, container_id=made, path="/workspace/a.py")
            assert seen["mime_type"] == "text/x-python", seen
        changed = await write(session, made, "a.txt", "hallo\n")
        assert changed != written["etag"]


@check("tool", "fs_list tells of each entry what fs_stat does")
async def directories_are_listed(server: Server):
    async with bench(server) as session:
        made = await spawn(session)
        await write(session, made, "/workspace/one/two/three", "3")
        await write(session, made, "/workspace/four", "4")
        listed = await ask(session, "fs_list", container_id=made)
        assert listed["path"] == "/workspace"
        assert [each["path"] for each in listed["entries"]] == ["/workspace/four", "/workspace/one"]
        four, one = listed["entries"]
        stat = await ask(session, "fs_stat", container_id=made, path="four")
        assert stat == four and stat["mime_type"] == "text/plain", (stat, four)
        assert one["is_dir"] is True and one["permissions"] == "755", one
        every = await ask(session, "fs_list", container_id=made, path="one", recursive=True)
        paths = [each["path"] for each in every["entries"]]
        assert paths == ["/workspace/one/two", "/workspace/one/two/three"], paths
        assert every["path"] == "one"


@check("bound", "a directory of thousands of files is listed whole")
async def long_directories_are_listed(server: Server):
    async with bench(server) as session:
        made = await spawn(session)
        await printed(session, made, "i=0; while [ $i -lt 2500 ]; do : > f$i; i=$((i + 1)); done")
        listed = await ask(session, "fs_list", container_id=made)
        assert len({each["path"] for each in listed["entries"]}) == 2500


@check("tool", "fs_delete deletes files and empty directories, and all of one only if told")
async def files_are_deleted(server: Server):
    async with bench(server) as session:
        made = await spawn(session)
        await write(session, made, "/workspace/d/a", "1")
        await refused(session, -32010, "fs_delete", container_id=made, path="/workspace/d")
        gone = await ask(session, "fs_delete", container_id=made, path="/workspace/d/a")
        assert gone == {"status": "deleted", "path": "/workspace/d/a"}, gone
        await ask(session, "fs_delete", container_id=made, path="/workspace/d")
        await write(session, made, "/workspace/d/b/c", "1")
        await ask(session, "fs_delete", container_id=made, path="d", recursive=True)
        assert (await ask(session, "fs_list", container_id=made))["entries"] == []


@check("planned", "fs_write takes a mode, and makes directories unless told not to")
async def modes_and_parents(server: Server):
    async with bench(server) as session:
        made = await spawn(session)
        await write(session, made, "/workspace/run.sh", "#!/bin/sh\necho ran\n", mode=0o755)
        stat = await ask(session, "fs_stat", container_id=made, path="run.sh")
        assert stat["permissions"] == "755", stat
        assert await printed(session, made, "./run.sh") == "ran\n"
        await refused(
            session,
            -32005,
            "fs_write",
            container_id=made,
            path="/workspace/no/such/file",
            content="",
            create_parents=False,
        )
        await write(session, made, "/workspace/no/such/file", "")


@check("planned", "what is no text is read and written in base64")
async def binary_files_are_base64(server: Server):
    async with bench(server) as session:
        made = await spawn(session)
        content = bytes(range(256)) * 10
        coded = base64.b64encode(content).decode()
        await write(session, made, "/workspace/b", coded, encoding="base64")
        seen = await ask(session, "fs_read", container_id=made, path="/workspace/b")
        assert seen["encoding"] == "base64" and seen["size"] == 2560, seen["encoding"]
        assert base64.b64decode(seen["content"]) == content
        assert await printed(session, made, "wc -c < b") == "2560\n"
        await printed(session, made, "head -c 100000 /dev/zero > zeros")
        zeros = await ask(session, "fs_read", container_id=made, path="zeros")
        assert zeros["encoding"] == "base64" and base64.b64decode(zeros["content"]) == bytes(100_000)
        await write(session, made, "/workspace/t", "text")
        assert (await ask(session, "fs_read", container_id=made, path="t"))["encoding"] == "utf-8"
        asked = await ask(session, "fs_read", container_id=made, path="t", encoding="base64")
        assert asked["content"] == base64.b64encode(b"text").decode()
        await refused(
            session, -32602, "fs_write", container_id=made, path="x", content="?", encoding="base64"
        )


@check("planned", "a batch is done in order, wholly or not at all")
async def batches_are_all_or_nothing(server: Server):
    async with bench(server) as session:
        made = await spawn(session)
        await write(session, made, "/workspace/a", "A")
        done = await ask(
            session,
            "fs_batch",
            container_id=made,
            operations=[
                {"op_type": "read", "path": "/workspace/a"},
                {"op_type": "write", "path": "/workspace/b", "content": "B"},
                {"op_type": "copy", "path": "/workspace/b", "dest_path": "/workspace/c"},
                {"op_type": "move", "path": "/workspace/a", "dest_path": "/workspace/d"},
                {"op_type": "delete", "path": "/workspace/b"},
            ],
        )
        assert done["success"] is True and done["rollback_performed"] is False, done
        assert done["results"][0]["data"]["content"] == "A"
        assert [each["op_type"] for each in done["results"]] == [
            "read",
            "write",
            "copy",
            "move",
            "delete",
        ]
        assert await read(session, made, "c") == "B" and await read(session, made, "d") == "A"
        failed = await ask(
            session,
            "fs_batch",
            container_id=made,
            operations=[
                {"op_type": "write", "path": "/workspace/c", "content": "other"},
                {"op_type": "move", "path": "/workspace/c", "dest_path": "/workspace/d"},
                {"op_type": "delete", "path": "/workspace/none"},
            ],
        )
        assert failed["success"] is False and failed["rollback_performed"] is True, failed
        assert "none" in failed["error"] and "none" in failed["results"][2]["error"]
        assert await read(session, made, "c") == "B" and await read(session, made, "d") == "A"
        await refused(
            session,
            -32004,
            "fs_batch",
            container_id=made,
            operations=[{"op_type": "write", "path": "/etc/x", "content": ""}],
        )
        await refused(
            session,
            -32602,
            "fs_batch",
            container_id=made,
            operations=[{"op_type": "move", "path": "/workspace/c"}],
        )


@check("planned", "each operation of a batch can be held to an etag of what it begins with")
async def batches_are_held_to_etags(server: Server):
    async with bench(server) as session:
        made = await spawn(session)
        stale = await write(session, made, "/workspace/a", "first")
        await write(session, made, "/workspace/a", "second")
        there = {"op_type": "write", "path": "/workspace/new", "content": "x"}
        for operation in [
            {"op_type": "read", "path": "a"},
            {"op_type": "write", "path": "a", "content": "third"},
            {"op_type": "delete", "path": "a"},
            {"op_type": "move", "path": "a", "dest_path": "b"},
            {"op_type": "copy", "path": "a", "dest_path": "b"},
        ]:
            held = operation | {"if_match_etag": stale}
            told = await ask(session, "fs_batch", container_id=made, operations=[there, held])
            assert told["success"] is False and stale in told["error"], (operation, told)
            listed = await ask(session, "fs_list", container_id=made)
            assert [each["path"] for each in listed["entries"]] == ["/workspace/a"], operation
            etag = listed["entries"][0]["etag"]
        for operation in [
            {"op_type": "read", "path": "a"},
            {"op_type": "copy", "path": "a", "dest_path": "b"},
            {"op_type": "move", "path": "a", "dest_path": "c"},
        ]:
            held = operation | {"if_match_etag": etag}
            told = await ask(session, "fs_batch", container_id=made, operations=[held])
            assert told["success"] is True, (operation, told)
        assert await read(session, made, "b") == await read(session, made, "c") == "second"


def packed(*members: tuple[tarfile.TarInfo, bytes]) -> str:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        for member, content in members:
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return base64.b64encode(archive.getvalue()).decode()


@check("planned", "files are packed and unpacked, by patterns, compressed or not")
async def archives_are_packed_and_unpacked(server: Server):
    async with bench(server) as session:
        made = await spawn(session)
        await write(session, made, "/workspace/src/a.py", "a", mode=0o755)
        await write(session, made, "/workspace/src/b.txt", "b")
        await write(session, made, "/workspace/src/deep/c.py", "c")
        whole = await ask(session, "fs_tar_read", container_id=made, path="/workspace/src")
        assert base64.b64decode(whole["content"])[:2] == b"\x1f\x8b" and whole["files"] == 3
        some = await ask(
            session,
            "fs_tar_read",
            container_id=made,
            path="src",
            include_globs=["**/*.py"],
            exclude_globs=["deep/**"],
            compress=False,
        )
        with tarfile.open(fileobj=io.BytesIO(base64.b64decode(some["content"])), mode="r:") as tar:
            assert [each.name for each in tar if each.isfile()] == ["a.py"]
        other = await spawn(session)
        done = await ask(
            session,
            "fs_tar_write",
            container_id=other,
            dest="/workspace/in",
            content=whole["content"],
        )
        assert done == {"files_created": 3, "bytes_written": 3}, done
        assert await printed(session, other, "cat in/*.* in/deep/c.py; test -x in/a.py") == "abc"


@check("planned", "an archive that leads outside is refused, and nothing of it is unpacked")
async def archives_stay_inside(server: Server):
    link = tarfile.TarInfo("evil")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc"
    async with bench(server) as session:
        made = await spawn(session)
        for member, content in [(tarfile.TarInfo("../x"), b"x"), (link, b"")]:
            archive = packed((tarfile.TarInfo("fine"), b"1"), (member, content))
            await refused(session, -32004, "fs_tar_write", container_id=made, content=archive)
        assert (await ask(session, "fs_list", container_id=made))["entries"] == []
        broken = base64.b64encode(b"no archive at all").decode()
        await refused(session, -32602, "fs_tar_write", container_id=made, content=broken)
