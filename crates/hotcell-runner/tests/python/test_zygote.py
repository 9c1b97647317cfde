"""The zygote: what its children share, which is nothing, and whose children they are."""

import os
import tempfile
import threading

import cell


class Zygotes(cell.CellTest):
    imports = ("json", "random", "no_such_module", "nothing.below", "decimal")

    def test_children_belong_to_the_parent_of_the_zygote(self):
        code = "import os\n[os.getppid(), os.getpid(), os.getsid(0)]"
        parent, pid, session = self.value(code)
        self.assertEqual(parent, os.getpid())
        self.assertNotEqual(parent, self.zygote.process.pid)
        self.assertEqual(session, pid)

    def test_the_pid_is_told_by_the_kernel(self):
        child = self.zygote.child()
        self.assertEqual(child.message, b"ready")
        with open("/proc/%d/stat" % child.pid) as file:
            self.assertEqual(file.read().rsplit(")", 1)[1].split()[1], str(os.getpid()))
        self.assertEqual(child.dismiss(), 0)

    def test_what_was_imported_is_there(self):
        code = "import sys\n['decimal' in sys.modules, 'sqlite3' in sys.modules]"
        self.assertEqual(self.value(code), [True, False])

    def test_nothing_is_shared(self):
        code = "import json, builtins\nseen = [hasattr(json, 'mark'), hasattr(builtins, 'mark'), 'mark' in globals()]\njson.mark = builtins.mark = mark = 1\nseen"
        for _ in range(3):
            self.assertEqual(self.value(code), [False, False, False])

    def test_random_state_is_the_own_of_each_child(self):
        code = "import random, uuid, tempfile, os\n[random.random(), str(uuid.uuid4()), next(tempfile._get_candidate_names())]"
        ahead = [self.zygote.child() for _ in range(4)]
        seen = [c.run(cell.Given(self.order(code), None, self.cwd)).result for c in ahead]
        for column in zip(*seen):
            self.assertEqual(len(set(column)), 4, column)

    def test_environment_is_replaced(self):
        seen = self.value("import os\ndict(os.environ)", env={"ONLY": "this"})
        added = {"MPLBACKEND": "Agg", "HOTCELL_RESULTS": self.results}
        self.assertEqual(seen, dict(added, ONLY="this"))

    def test_null_keeps_the_environment(self):
        order = dict(self.order("import os\nos.environ['SECRET']"), env=None)
        outcome = self.zygote.child().run(cell.Given(order, None, self.cwd))
        self.assertEqual(outcome.result, "zygote")

    def test_dumpable_again_and_hidden_before(self):
        child = self.zygote.child()
        # A process that is not dumpable has its files in /proc owned by root.
        if os.getuid() != 0:
            self.assertEqual(os.stat("/proc/%d/mem" % child.pid).st_uid, 0)
        code = "import ctypes\nctypes.CDLL(None).prctl(3, 0, 0, 0, 0)"
        self.assertEqual(child.run(cell.Given(self.order(code), None, self.cwd)).result, 1)

    def test_control_groups(self):
        files = [tempfile.TemporaryFile() for _ in range(3)]
        child = self.zygote.child([file.fileno() for file in files])
        self.assertEqual(child.message, b"ready")
        for file in files:
            file.seek(0)
            self.assertEqual(file.read(), b"0")
            file.close()
        self.assertEqual(child.dismiss(), 0)

    def test_a_control_group_that_refuses(self):
        with open(os.devnull, "rb") as file:
            child = self.zygote.child([file.fileno()])
        self.assertTrue(child.message.startswith(b"failed: "), child.message)
        self.assertEqual(child.wait(), 70)
        self.assertEqual(self.value("1"), 1)

    def test_a_message_that_is_not_run(self):
        child = self.zygote.child()
        child.control.send(b"walk")
        self.assertTrue(child.control.recvmsg(200, 200)[0].startswith(b"failed: "))
        self.assertEqual(child.wait(), 70)

    def test_messages_that_are_not_fork(self):
        self.zygote.control.send(b"spoon")
        cell.send(self.zygote.control, b"knife", [0, 1])
        self.zygote.control.send(b"fork")
        self.assertEqual(self.value("1"), 1)

    def test_the_zygote_keeps_no_descriptors(self):
        directory = "/proc/%d/fd" % self.zygote.process.pid
        before = len(os.listdir(directory))
        for _ in range(5):
            self.zygote.child().dismiss()
        self.assertEqual(len(os.listdir(directory)), before)

    def test_fifty_at_once(self):
        children = [self.zygote.child() for _ in range(50)]
        outcomes = [None] * 50

        def run(place):
            code = "import os, time\nx = %d\ntime.sleep(0.05)\nprint(x)\n[x, os.getpid()]" % place
            given = cell.Given(self.order(code), None, self.cwd)
            outcomes[place] = children[place].run(given)

        threads = [threading.Thread(target=run, args=(place,)) for place in range(50)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(cell.PATIENCE)
        for place, outcome in enumerate(outcomes):
            self.assertEqual(outcome.result, [place, children[place].pid], outcome)
            self.assertEqual(outcome.out, "%d\n" % place)

    def test_end(self):
        zygote = cell.Zygote()
        self.assertEqual(zygote.ready, b"ready")
        child = zygote.child()
        self.assertEqual(zygote.close(), 0)
        outcome = child.run(cell.Given(self.order("'alone'"), None, self.cwd))
        self.assertEqual(outcome.result, "alone")

    def test_nothing_beside_the_zygote_is_imported(self):
        before = os.getcwd()
        self.file("json.py", "raise SystemExit('imported')")
        self.file("decimal.py", "raise SystemExit('imported')")
        os.chdir(self.cwd)
        try:
            zygote = cell.Zygote(("json", "decimal"))
        finally:
            os.chdir(before)
        self.assertEqual(zygote.ready, b"ready")
        self.assertEqual(zygote.close(), 0)

    def test_threads_signals_and_ids_work_in_a_child(self):
        code = (
            "import threading, signal, os, time\n"
            "t = threading.Thread(target=lambda: None); t.start(); t.join()\n"
            "lock = threading.RLock()\nwith lock:\n    with lock: pass\n"
            "[threading.get_native_id() == os.getpid(),"
            " signal.getsignal(signal.SIGINT) is signal.default_int_handler,"
            " signal.getsignal(signal.SIGTERM) == signal.SIG_DFL, threading.active_count()]"
        )
        self.assertEqual(self.value(code), [True, True, True, 1])


if __name__ == "__main__":
    cell.main()
