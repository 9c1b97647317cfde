"""The agent fixes a failing test of a project in its cell; the user reviews the change and applies it."""

import subprocess

from plans import call, expect, expect_exit_code

BROKEN = """def mean(numbers):
    return sum(numbers) / (len(numbers) + 1)
"""
TEST = """import unittest

from mean import mean


class MeanTest(unittest.TestCase):
    def test_mean_of_three(self):
        self.assertEqual(mean([1, 2, 6]), 3)


unittest.main()
"""
FILES = {"mean.py": BROKEN, "test_mean.py": TEST, ".gitignore": "__pycache__\n"}
CHANGE = """-    return sum(numbers) / (len(numbers) + 1)
+    return sum(numbers) / len(numbers)
"""


def fix_project(agent):
    """The project is there at once: the model sees it, sees the test fail, and fixes it."""
    listed = yield call("exec_run", command="ls")
    expect("test_mean.py" in listed.text, "the first `ls` shows the project")
    failed = yield call("exec_run", command="python3 test_mean.py")
    expect("AssertionError" in failed.text, "the test fails")
    expect_exit_code(failed, 1)
    read = yield call("fs_read", path="mean.py")
    expect("len(numbers) + 1" in read.text, "the source is shown")
    edits = [{"old": "(len(numbers) + 1)", "new": "len(numbers)"}]
    yield call("fs_edit", path="mean.py", edits=edits)
    passed = yield call("exec_run", command="python3 test_mean.py")
    expect_exit_code(passed, 0)
    # What the user will be asked to apply.
    shown = yield call("workspace_diff")
    expect("mean.py" in shown.text, "workspace_diff names the changed file")
    expect("-    return sum(numbers) / (len(numbers) + 1)" in shown.text, "and shows the change")


def run(session):
    """Makes the project, has the client work in it, and does what its user does afterwards."""
    directory = session.client.project
    for name, content in FILES.items():
        (directory / name).write_text(content)
    git(session, "init", "--quiet")
    git(session, "add", ".")
    git(session, "commit", "--quiet", "--message", "Add mean")
    session.client.configure(session.program)
    session.converse([fix_project])
    status, diff = git(session, "status", "--short"), git(session, "diff")
    session.check("real_files_are_unchanged", status + diff)
    reviewed = session.hotcell("diff")
    session.check("user_reviews", None if CHANGE in reviewed else f"hotcell diff:\n{reviewed}")
    applied = session.hotcell("apply")
    status, diff = git(session, "status", "--short"), git(session, "diff")
    lines = [line for line in diff.splitlines(keepends=True) if line[0] in "+-"]
    exact = status == " M mean.py\n" and "".join(lines[2:]) == CHANGE
    session.check("git_diff_shows_that_change", None if exact else f"{applied}{status}{diff}")
    session.check("test_passes", fails(session))


def fails(session):
    """Why the test of the real project fails; None if it passes."""
    finished = subprocess.run(
        ["python3", "-B", "test_mean.py"], cwd=session.client.project, capture_output=True, text=True
    )
    return None if finished.returncode == 0 else finished.stderr


def git(session, *arguments):
    """What git prints, with nobody's settings."""
    identity = ["-c", "user.name=user", "-c", "user.email=user@example.org"]
    finished = subprocess.run(
        ["git", *identity, *arguments],
        cwd=session.client.project,
        env=session.client.surroundings(),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return finished.stdout
