"""What the scripted model does, and what it has to see: one plan per job that agents do.

Markers such as `early-42` are computed by the command (`early-$((6*7))`), so that a client that
shows the command itself does not show the marker. Every check is on what the model was shown.
"""

import re

from model.conversation import Call
from model.director import Unmet

EXEC_ID = r"\b(e_[0-9a-z]{10})\b"
CHECKPOINT_ID = r"\b(k_[0-9a-z]{10})\b"
NEXT_SEQ = r"(?:next_seq|after_seq)[\"'`\s:=]*(\d+)"
ETAG = r"etag[\"'`\s:=]*([0-9a-f]{16,64})"
# The instructions name the tool for every job.
TOOLS_OF_JOBS = ("exec_run", "exec_poll", "fs_read", "cell_checkpoint", "code_run")
# Claude Code moves larger results to a file, which other clients cut.
LARGEST_RESULT = 40_000
MOST_POLLS = 20
# A snapshot from before the deadline would miss output at some of these.
WAITS = (1, 1.7, 2.4, 3.1)


def call(tool, **arguments):
    return Call(tool, arguments)


def expect(condition, wanted):
    """Ends the plan unless the condition holds."""
    if not condition:
        raise Unmet(f"not so: {wanted}")


def expect_marker(agent, seen, marker, times=1):
    """The marker is there as often as the client shows a result."""
    times *= agent.client.forms
    found = seen.text.count(marker)
    expect(found == times, f"{marker} is shown {times} times, not {found}")


def expect_exit_code(seen, code):
    found = seen.find(r"exit[_ ]code[\"\s:=]*(-?\d+)")
    expect(found == str(code), f"exit code {code}")


def found(seen, pattern, what):
    """What a model reads off a result to use it in the next call."""
    value = seen.find(pattern)
    expect(value is not None, f"{what} is shown")
    return value


def connect(agent):
    """Tools and instructions reach the model, in schemas that it can follow."""
    listed = agent.server_tools()
    expect(len(listed) >= 20, f"the server lists its tools: {sorted(listed)}")
    for name in listed:
        expect(agent.is_named(name), f"the model knows of the tool {name}")
    if agent.client.shows_instructions:
        for name in TOOLS_OF_JOBS:
            expect(name in agent.instructions(), f"the instructions name {name}")
        expect(agent.is_shown(agent.instructions()), "the model is shown the instructions")
    # Clients that defer tools show a schema once it is asked for.
    yield call("exec_run", command="true")
    for name, schema in listed.items():
        tool = agent.find_tool(name)
        if tool is None:
            continue
        for path, node in nodes(tool.schema):
            expect("enum" not in node or "type" in node, f"the enum {path} of {name} has a type")
        # Not every client passes on what a schema has as a default.
        if not set(schema.get("properties", {})) <= set(tool.schema.get("properties", {})):
            # A tool of the client's own, of the same name.
            continue
        for argument, stated in schema.get("properties", {}).items():
            shown = tool.schema["properties"][argument].get("description", "")
            expect(
                "default" not in stated or "default" in shown,
                f"the description of {argument} of {name} states its default: {shown!r}",
            )


def nodes(schema, path=""):
    """Every object within a schema, with its path."""
    if isinstance(schema, dict):
        yield path, schema
        for key, value in schema.items():
            yield from nodes(value, f"{path}/{key}")
    elif isinstance(schema, list):
        for index, value in enumerate(schema):
            yield from nodes(value, f"{path}/{index}")


def run(agent):
    """Output, errors and the exit code of a command."""
    seen = yield call("exec_run", command="echo out-$((6*7)); echo err-$((6*7)) >&2; exit 3")
    expect_marker(agent, seen, "out-42")
    expect_marker(agent, seen, "err-42")
    expect_exit_code(seen, 3)


def large_output(agent):
    """A long output arrives cut, within what the client shows, and with nothing made up."""
    seen = yield call("exec_run", command="seq 1 20000")
    expect(re.search(r"\b20000\b", seen.lines), "the end of the output is shown")
    expect(re.search(r"\b2\n3\n", seen.lines), "the beginning of the output is shown")
    expect(len(seen.text) < LARGEST_RESULT, "the result is small")
    expect(not re.search(r"\[stderr\]|\"stderr\":\s*\"[^\"]", seen.text), "no stderr")
    expect_exit_code(seen, 0)


def long_job(agent):
    """Commands that outlive `wait_s`: early output, how to go on, then the rest exactly once."""
    commands = [
        call("exec_run", command=gated(f"early{n}", "go", f"late{n}", 7), wait_s=wait_s)
        for n, wait_s in enumerate(WAITS)
    ]
    results = yield commands
    followed = []
    for n, seen in enumerate(results):
        expect_marker(agent, seen, f"early{n}-42")
        expect(f"late{n}-42" not in seen.text, "the command is still running")
        next_seq = int(found(seen, NEXT_SEQ, "the next_seq to go on with"))
        expect(next_seq > 0, "next_seq counts the output that was shown")
        followed.append((found(seen, EXEC_ID, "the exec id"), next_seq))
    yield call("exec_run", command="touch go")
    for n, (exec_id, next_seq) in enumerate(followed):
        polled = yield from poll_to_end(exec_id, next_seq)
        expect("early" not in polled.text, "nothing is shown twice")
        expect_marker(agent, polled, f"late{n}-42")
        expect_exit_code(polled, 7)


def gated(before, gate, after, code):
    """A command that prints after a while, waits for a file, prints again and exits."""
    wait = f"while [ ! -e {gate} ]; do sleep 0.05; done"
    return f"sleep 0.5; echo {before}-$((6*7)); {wait}; echo {after}-$((6*7)); exit {code}"


def poll_to_end(exec_id, next_seq):
    """Reads on as a model does, until an exit code is shown; all that was seen."""
    together = None
    for _ in range(MOST_POLLS):
        seen = yield call("exec_poll", exec_id=exec_id, after_seq=next_seq, wait_s=10)
        if together is None:
            together = seen
        else:
            together.text += "\n" + seen.text
        if seen.find(r"exit[_ ]code[\"\s:=]*(-?\d+)") is not None:
            return together
        next_seq = int(found(seen, NEXT_SEQ, "the next_seq to go on with"))
    raise Unmet(f"{exec_id} has not ended after {MOST_POLLS} polls: {together.text!r}")


def edit(agent):
    """A file is written, read, changed under its etag and read again."""
    yield call("fs_write", path="notes.txt", content="alpha\nbeta\n")
    read = yield call("fs_read", path="notes.txt")
    expect("alpha" in read.text and "beta" in read.text, "the content is shown")
    etag = found(read, ETAG, "the etag of a file that was read")
    changed = yield call(
        "fs_edit", path="notes.txt", edits=[{"old": "beta", "new": "gamma"}], if_match=etag
    )
    newer = found(changed, ETAG, "the etag of a file that was edited")
    expect(newer != etag, "the etag has changed")
    read = yield call("fs_read", path="notes.txt")
    expect("gamma" in read.text and "beta" not in read.text, "the change is shown")
    stale = yield call("fs_write", path="notes.txt", content="lost\n", if_match=etag)
    expect("conflict" in stale.text, "a write over a change is refused")
    read = yield call("fs_read", path="notes.txt")
    expect("gamma" in read.text, "the refused write has changed nothing")


DRAW = """
import struct, zlib
class Picture:
    def _repr_png_(self):
        chunk = lambda kind, data: (struct.pack(">I", len(data)) + kind + data
                                    + struct.pack(">I", zlib.crc32(kind + data)))
        head = struct.pack(">IIBBBBB", 40, 30, 8, 2, 0, 0, 0)
        rows = b"".join(b"\\0" + bytes([200, 30, 90]) * 40 for _ in range(30))
        return (b"\\x89PNG\\r\\n\\x1a\\n" + chunk(b"IHDR", head)
                + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
print("drawn", 6 * 7)
Picture()
"""


def image(agent):
    """An image that code makes reaches the model as an image."""
    seen = yield call("code_run", code=DRAW)
    expect_marker(agent, seen, "drawn 42")
    expect(re.search(r"[\w./-]+\.png", seen.text), "the file of the image is named")
    if agent.client.shows_images:
        expect(len(seen.images) == 1, "one image is shown")
        picture = seen.images[0]
        expect(picture.mime == "image/png", f"the image is a PNG, not {picture.mime}")
        size = (picture.data[16:20], picture.data[20:24])
        size = tuple(int.from_bytes(number, "big") for number in size)
        expect(size == (40, 30), f"the image is 40x30, not {size}")


def undo(agent):
    """Files go back to a checkpoint; what still runs is named, and ended only when told to."""
    yield call("fs_write", path="kept.txt", content="as it was\n")
    made = yield call("cell_checkpoint", action="create")
    checkpoint = found(made, CHECKPOINT_ID, "the id of the checkpoint")
    command = "echo spoiled > kept.txt; while [ ! -e undone ]; do sleep 0.05; done"
    running = yield call("exec_run", command=command, wait_s=1)
    exec_id = found(running, EXEC_ID, "the exec id")
    listed = yield call("cell_checkpoint", action="list")
    expect(checkpoint in listed.text, "the checkpoint is listed")
    refused = yield call("cell_checkpoint", action="restore", checkpoint=checkpoint)
    expect("conflict" in refused.text, "files that are in use do not go back")
    expect(exec_id in refused.text, "the exec that is in the way is named")
    expect("force" in refused.text, "the way to go back all the same is named")
    yield call("cell_checkpoint", action="restore", checkpoint=checkpoint, force=True)
    read = yield call("fs_read", path="kept.txt")
    expect("as it was" in read.text and "spoiled" not in read.text, "the file is back")


def number_as_text(agent):
    """A number that is written as a text is taken as the number."""
    seen = yield call("exec_run", command="echo number-$((6*7))", wait_s="5")
    if not (agent.client.checks_arguments and "wait_s" in seen.text):
        expect_marker(agent, seen, "number-42")


def null_arguments(agent):
    """An optional argument that is null is as good as absent."""
    seen = yield call("exec_run", command="echo null-$((6*7))", cwd=None, env=None, wait_s=None)
    if not (agent.client.checks_arguments and "cwd" in seen.text):
        expect_marker(agent, seen, "null-42")


def empty_cell(agent):
    """An empty `cell` means the default cell."""
    seen = yield call("exec_run", command="echo cell-$((6*7))", cell="")
    expect_marker(agent, seen, "cell-42")


def refusal(agent):
    """A refusal names the argument and the value, and the next call works."""
    seen = yield call("exec_run", command="true", colour=1)
    expect("colour" in seen.text, "the refusal names the argument")
    seen = yield call("exec_run", command="echo next-$((6*7))")
    expect_marker(agent, seen, "next-42")
    seen = yield call("exec_run", command="true", wait_s="soon")
    expect("wait_s" in seen.text, "the refusal names the argument")
    if not agent.client.checks_arguments:
        expect("soon" in seen.text, "the refusal shows the value")
    seen = yield call("exec_run", command="echo again-$((6*7))")
    expect_marker(agent, seen, "again-42")
    seen = yield call("fs_read", path="absent.txt")
    expect("absent.txt" in seen.text, "the refusal names the file")
    seen = yield call("cell_checkpoint", action="restore", checkpoint="k_0000000000")
    expect("k_0000000000" in seen.text, "the refusal names the checkpoint")
    expect("`hotcell " not in seen.text, "hints name tools, not commands for people")


def question(agent):
    """A program that asks is seen to ask, and answers in the same call."""
    command = "printf 'Your name? '; read name; echo hello-$name-$((6*7))"
    seen = yield call("exec_run", command=command, pty=True, wait_s=20)
    expect("Your name?" in seen.text, "the question is shown")
    waits = re.search("waiting.for.input", seen.text)
    expect(waits, "the program is said to wait for input")
    exec_id = found(seen, EXEC_ID, "the exec id")
    seen = yield call("exec_input", exec_id=exec_id, text="Ada\n")
    expect("hello-Ada-42" in seen.text, "the answer of the program is shown")
    seen = yield call("exec_run", command="python3 -q", pty=True, wait_s=20)
    expect(">>>" in seen.text, "the prompt is shown")
    exec_id = found(seen, EXEC_ID, "the exec id")
    seen = yield call("exec_input", exec_id=exec_id, text="6*7\n")
    expect(re.search(r"\b42\b", seen.lines), "the result of 6*7 is shown")
    yield call("exec_cancel", exec_id=exec_id)


def default_wait(agent):
    """A command that takes long is handed back before the client gives up, without being told to."""
    seen = yield call("exec_run", command=gated("begun", "enough", "over", 0))
    expect_marker(agent, seen, "begun-42")
    exec_id = found(seen, EXEC_ID, "the exec id")
    yield call("exec_run", command="touch enough")
    polled = yield from poll_to_end(exec_id, 0)
    expect_marker(agent, polled, "over-42")


def interrupted(agent):
    """The server is killed while a command runs."""
    seen = yield call("exec_run", command=gated("before", "resume", "after", 9), wait_s=3)
    agent.memory["exec_id"] = found(seen, EXEC_ID, "the exec id")
    agent.kill_server()
    if not agent.client.survives_lost_server:
        return
    # Clients differ in what they say now, and in whether they start the server again.
    seen = yield call("exec_poll", exec_id=agent.memory["exec_id"], after_seq=0)
    expect(seen.text, "the model is told something")


def reconnect(agent):
    """A new server goes on with what the killed one had started."""
    exec_id = agent.memory.get("exec_id")
    expect(exec_id, "a command was running when the server was killed")
    early = yield call("exec_poll", exec_id=exec_id, after_seq=0)
    expect_marker(agent, early, "before-42")
    next_seq = int(found(early, NEXT_SEQ, "the next_seq to go on with"))
    yield call("exec_run", command="touch resume")
    polled = yield from poll_to_end(exec_id, next_seq)
    expect("before-42" not in polled.text, "nothing is shown twice")
    expect_marker(agent, polled, "after-42")
    expect_exit_code(polled, 9)


# One conversation each: starting a client is what takes long.
FIRST = [
    connect,
    run,
    large_output,
    long_job,
    edit,
    image,
    undo,
    number_as_text,
    null_arguments,
    empty_cell,
    refusal,
    question,
    default_wait,
    interrupted,
]
SECOND = [reconnect]
