"""Twenty tasks as an agent does them: sequences of tool calls, and what its model must get to see.

All arguments and all output are the same in every run. A long command stops at gates, files that the measurement
writes, so that what a poll finds does not depend on time."""

import base64
import io
import re
import tarfile

EXIT = r"exit(?:_code|ed)?\W{1,3}(?:with )?(?:code )?%d\b"
EXEC = r"\b(e_[0-9A-Za-z]+)"
ETAG = r"etag\W{1,4}([0-9A-Za-z_.:-]+)"
NEXT_SEQ = r"(?:next_seq|after_seq)\W{1,4}(\d+)"
CURSOR = r"cursor[\"'=: `]{1,4}([^\s\"'`,;)}\]]+)"
CHECKPOINT = r"\b(k_[0-9A-Za-z]+|cp_[0-9A-Za-z]+)"

SET_UP = r'''
import os
os.makedirs("big")
for n in range(1000):
    open(f"big/entry_{n:04}.txt", "w").write("x" * (n % 50))
count = 0
for d in range(8):
    os.makedirs(f"project/part_{d}/tests")
    for f in range(5):
        lines = [f"def step_{d}_{f}_{k}(value):\n    return value * {k + 1}\n" for k in range(6)]
        for k in (1, 4):
            lines[k] += f"    # TODO({count:03}): handle the empty case\n"
            count += 1
        open(f"project/part_{d}/module_{d}{f}.py", "w").write("\n".join(lines))
    open(f"project/part_{d}/tests/test_{d}.py", "w").write("def test():\n    assert True\n")
lines = [f"row {n:03}: total = base[{n}] * rate + {n * 7 % 31}" for n in range(1, 301)]
open("report.txt", "w").write("\n".join(lines) + "\n")
open("logo.bin", "wb").write(bytes((n * 37 + 11) % 256 for n in range(600)))
open("run_tests.py", "w").write("""
import sys
for n in range(290):
    state = "FAIL" if n in (40, 141, 242) else "ok"
    print(f"test_case_{n:03} (tests.suite_{n // 30}.Suite) ... {state}", flush=n % 10 == 0)
sys.stdout.flush()
for n in (40, 141, 242):
    print(f"FAIL: test_case_{n:03}\\n  AssertionError: {n} != {n + 1}", file=sys.stderr)
print("Ran 290 tests\\nFAILED (failures=3)", file=sys.stderr)
sys.exit(1)
""")
open("stages.sh", "w").write("""
# Writes a burst of lines, marks it, waits for its gate; the last burst ends the command.
name=$1; shift; stage=0
for lines in "$@"; do
    for n in $(seq "$lines"); do echo "[$name $stage.$n] compiling unit_$n.c with -O2 -Wall"; sleep 0.01; done
    touch "$name.mark.$stage"
    until [ -e "$name.gate.$stage" ]; do sleep 0.02; done
    stage=$((stage + 1))
done
echo "$name finished: 0 errors"
""")
print("all prepared")
'''


async def prepare(agent):
    text = await agent.aside("exec_run", command="python3 -", stdin=SET_UP)
    assert "all prepared" in text, text

    async def catalog_is_known():
        text = await agent.aside("tool_search", query="issue")
        return "issue_create" in text and "not known: " not in text

    await agent.until("the catalog is known", catalog_is_known)


async def short_command(agent):
    await agent.call(
        "exec_run", {"output": "Linux", "exit code": EXIT % 0}, command="uname -s && echo ready"
    )


async def failing_tests(agent):
    await agent.call(
        "exec_run",
        {
            "first line": "test_case_000 ",
            "failure": r"AssertionError: 242 != 243",
            "last line": r"FAILED \(failures=3\)",
            "exit code": EXIT % 1,
        },
        command="python3 run_tests.py",
    )


async def staged(agent, name: str, bursts: list[int]):
    """Starts a command of several bursts and polls once for each, then for its end."""
    words = " ".join(map(str, bursts))
    seen = await agent.call(
        "exec_run", {"running": "running"}, command=f"sh stages.sh {name} {words}", wait_s=1
    )
    exec_id = agent.find(seen, "exec id (exec_run)", EXEC)
    for stage in range(len(bursts)):
        await agent.until_exists(f"{name}.mark.{stage}")
        if stage > 0:
            seen = await poll(agent, seen, exec_id)
        await agent.aside("fs_write", path=f"{name}.gate.{stage}", content="")
    await agent.until_ended(exec_id)
    seen = await poll(agent, seen, exec_id)
    agent.find(seen, "exit code (exec_poll)", EXIT % 0)
    lines = [f"[{name} {stage}.{n}]" for stage, count in enumerate(bursts) for n in range(1, count + 1)]
    agent.saw("lines of output", lines + [f"{name} finished: 0 errors"])


async def poll(agent, seen, exec_id: str):
    """Reads on where the last result ended; a model that does not see where reads everything again."""
    after = agent.find(seen, "next_seq while running", NEXT_SEQ)
    cursor = {} if after is None else {"after_seq": int(after)}
    return await agent.call("exec_poll", exec_id=exec_id, wait_s=10, **cursor)


async def build_and_poll(agent):
    await staged(agent, "build", [3, 40])


async def five_polls(agent):
    await staged(agent, "job", [2, 8, 8, 8, 8])


async def all_pages(agent, tool: str, **arguments):
    """Follows cursors to the end, as a model does that needs the whole list."""
    seen = await agent.call(tool, **arguments)
    for _ in range(50):
        cursors = re.findall(CURSOR, seen.text)
        if not cursors:
            return
        seen = await agent.call(tool, **arguments, cursor=cursors[-1])
    raise AssertionError(f"{tool} has too many pages")


async def large_directory(agent):
    await all_pages(agent, "fs_list", path="big")
    agent.saw("entries", [f"entry_{n:04}.txt" for n in range(1000)])


async def source_tree(agent):
    await all_pages(agent, "fs_list", path="project", recursive=True)
    modules = [f"module_{d}{f}.py" for d in range(8) for f in range(5)]
    agent.saw("entries", modules + [f"part_{d}" for d in range(8)] + [f"test_{d}.py" for d in range(8)])


async def search(agent):
    await all_pages(agent, "fs_search", path="project", pattern=r"TODO\(\d+\)")
    agent.saw("matches", [f"TODO({n:03})" for n in range(80)])
    agent.saw("files", [f"module_{d}{f}.py" for d in range(8) for f in range(5)])


async def read_and_edit(agent):
    seen = await agent.call("fs_read", {"first line": "row 001:", "last line": "row 300:"}, path="report.txt")
    await edit(agent, seen, "report.txt", "row 150: total", "row 150: sum")


async def edit(agent, seen, path: str, old: str, new: str):
    """Edits a file only if it is still the one that the model saw."""
    etag = agent.find(seen, "etag", ETAG)
    same = {} if etag is None else {"if_match": etag}
    changed = {"changed line": re.escape(new.strip())}
    return await agent.call("fs_edit", changed, path=path, edits=[{"old": old, "new": new}], **same)


async def read_ranges(agent):
    for first, last in ((10, 40), (100, 140), (250, 300)):
        ends = {"first line": f"row {first:03}:", "last line": f"row {last:03}:"}
        await agent.call("fs_read", ends, path="report.txt", lines=f"{first}-{last}")


async def write_edit_read(agent):
    content = "".join(f"setting_{n} = {n}\n" for n in range(30))
    seen = await agent.call("fs_write", path="settings.ini", content=content)
    seen = await edit(agent, seen, "settings.ini", "setting_7 = 7\n", "setting_7 = 70\n")
    agent.find(seen, "etag", ETAG)
    await agent.call("fs_read", {"the new value": "setting_7 = 70"}, path="settings.ini")


async def batch(agent):
    operations = [
        {"op": "write", "path": "notes/one.txt", "content": "alpha one\nbeta one\n"},
        {"op": "edit", "path": "notes/one.txt", "edits": [{"old": "beta", "new": "gamma"}]},
        {"op": "read", "path": "notes/one.txt"},
        {"op": "copy", "path": "notes/one.txt", "to": "notes/two.txt"},
        {"op": "mkdir", "path": "notes/old"},
        {"op": "read", "path": "report.txt", "lines": "1-20"},
    ]
    await agent.call(
        "fs_batch",
        {"content of a read": "gamma one", "range of a read": "row 020:", "etag": ETAG},
        operations=operations,
    )


async def stat_binary(agent):
    seen = await agent.call("fs_stat", {"size": r"\b600\b"}, path="logo.bin")
    etag = agent.find(seen, "etag (fs_stat)", ETAG)
    content = base64.b64encode(bytes((n * 37 + 11) % 256 for n in range(600))).decode()
    await agent.call("fs_read", {"binary content": re.escape(content[:400])}, path="logo.bin")
    await agent.call("fs_stat", {"kind": "dir|project/"}, path="project")
    await agent.call("fs_delete", path="logo.bin", **({} if etag is None else {"if_match": etag}))


async def checkpoints(agent):
    seen = await agent.call("cell_checkpoint", action="create")
    checkpoint = agent.find(seen, "checkpoint id (create)", CHECKPOINT)
    change = "echo changed >> settings.ini; rm report.txt; echo new > added.txt"
    await agent.call("exec_run", command=change)
    await agent.call("cell_checkpoint", {"id": checkpoint}, action="list")
    changed = {"added": "added.txt", "deleted": "report.txt", "modified": "settings.ini"}
    await agent.call("cell_checkpoint", changed, action="diff", checkpoint=checkpoint)
    await agent.call("cell_checkpoint", action="restore", checkpoint=checkpoint)
    await agent.call("fs_stat", path="report.txt")


async def fork(agent):
    seen = await agent.call("cell_fork", {"cell ids": r"c_[0-9A-Za-z]+"}, cell="default", count=2)
    cells = list(dict.fromkeys(re.findall(r"\bc_[0-9A-Za-z]+", seen.text)))[-2:]
    for cell in cells:
        await agent.call("exec_run", {"last line": "row 300"}, cell=cell, command="tail -n 1 report.txt")
        await agent.call("cell_kill", cell=cell, force=True)


async def look_at_cells(agent):
    await agent.call("cell_list", {"cell id": r"\bc_[0-9A-Za-z]+"})
    await agent.call(
        "cell_info", {"isolation": r"(?i)seccomp|namespace|isolation", "limits": "(?i)memory"}, cell="default"
    )
    await agent.call("cell_attach", {"roots": r"/workspace\b|workspace:c_"}, cell="default")


async def list_execs(agent):
    for n in range(30):
        await agent.aside("exec_run", command=f"echo step {n:02}; [ {n} -lt 20 ]")
    seen = await agent.call("exec_list", limit=30)
    agent.saw("commands", [f"echo step {n:02}" for n in range(30)])
    agent.find(seen, "exit codes (exec_list)", EXIT % 1)
    if len(set(re.findall(EXEC, seen.text))) < 30:
        agent.lacks("exec ids (exec_list)")


PICTURE = """
import struct, zlib
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
class Picture:
    def _repr_png_(self):
        rows = b"".join(b"\\0" + bytes([0, y * 8, 90]) for y in range(30))
        head = struct.pack(">IIBBBBB", 1, 30, 8, 2, 0, 0, 0)
        return b"\\x89PNG\\r\\n\\x1a\\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
Picture()
"""


async def code(agent):
    loop = "for n in range(20):\n    print('line', n)\n{'sum': sum(range(100)), 'names': ['a', 'b']}"
    await agent.call("code_run", {"result": "4950", "printed": "line 19"}, code=loop)
    seen = await agent.call("code_run", code=PICTURE)
    if not seen.images:
        agent.lacks("image (code_run)")
    failing = "def half(n):\n    return n / 0\n\nprint('before')\nhalf(4)"
    await agent.call(
        "code_run", {"error": "ZeroDivisionError", "line": r"line\W{1,4}\d", "printed": "before"}, code=failing
    )


async def terminal(agent):
    seen = await agent.call(
        "exec_run", command="python3 -q", pty=True, wait_s=2, env={"TERM": "dumb", "PYTHON_BASIC_REPL": "1"}
    )
    exec_id = agent.find(seen, "exec id (exec_run)", EXEC)
    inputs = [
        ("6 * 7", r"(?<!\d)42(?!\d)"),
        ("import sys, math", ">>>"),
        ("math.factorial(12)", "479001600"),
        ("[n * n for n in range(12)]", r"100, 121\]"),
        ("'-'.join(['do', 'ne'])", "'do-ne'"),
    ]
    for text, answer in inputs:
        seen = await agent.call("exec_input", exec_id=exec_id, text=text + "\n", wait_s=2)
        for _ in range(5):
            if re.search(answer, seen.text):
                break
            seen = await poll(agent, seen, exec_id)
        else:
            agent.lacks(f"answer to {text}")
    await agent.call("exec_input", exec_id=exec_id, text="exit()\n", wait_s=2)
    await agent.until_ended(exec_id)


async def archives(agent):
    await agent.call(
        "fs_export", {"archive or link": r"H4sI|://|\.tar"}, path="project/part_0", compression="gzip"
    )
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for n in range(3):
            entry = tarfile.TarInfo(f"unpacked_{n}.txt")
            entry.size = 10
            archive.addfile(entry, io.BytesIO(b"0123456789"))
    # The header has the time of packing, the same in every run.
    data = bytearray(packed.getvalue())
    data[4:8] = bytes(4)
    await agent.call("fs_import", path="imported", archive=base64.b64encode(data).decode())
    await agent.call("fs_list", {"file": "unpacked_2.txt"}, path="imported")


async def search_tools(agent):
    await agent.call("tool_search", {"tool": "issue_create"}, query="open an issue")
    await agent.call("tool_search", {"tool": "release_notes"}, query="what changed between two releases")
    whole = {"tool": "issue_close", "argument": "reason"}
    await agent.call("tool_search", whole, query="close an issue", detail="full", limit=1)


ALL = [
    ("a short command", short_command),
    ("failing tests, 300 lines", failing_tests),
    ("a build of 40 lines, polled", build_and_poll),
    ("a long job, five polls", five_polls),
    ("a directory of 1,000 entries", large_directory),
    ("a source tree, recursively", source_tree),
    ("a search with 80 matches", search),
    ("read 300 lines, then edit", read_and_edit),
    ("read three ranges", read_ranges),
    ("write, edit, read", write_edit_read),
    ("a batch of six operations", batch),
    ("stat, read and delete a binary file", stat_binary),
    ("checkpoint, list, diff, restore", checkpoints),
    ("fork into two cells", fork),
    ("cell_list, cell_info, cell_attach", look_at_cells),
    ("a list of 30 execs", list_execs),
    ("code: a result, an image, an error", code),
    ("a REPL with five inputs", terminal),
    ("export and import", archives),
    ("tool_search", search_tools),
]
