"""A process that runs one order after another: what lives on in it, and what does not."""

import os
import signal
import unittest

import cell


class Turns:
    """The same whether the process was forked ahead of need or started for its session."""

    is_warm = True

    def setUp(self):
        super().setUp()
        self.session = self.open()

    def open(self):
        session = cell.Session(self, self.is_warm)

        def end():
            if session.control is not None:
                os.kill(session.pid, signal.SIGKILL)
                session.wait()

        self.addCleanup(end)
        return session

    def ran(self, code, **how):
        outcome = self.session.run(code, **how)
        self.assertIsNotNone(outcome.report, outcome)
        return outcome

    def value(self, code, **how):
        outcome = self.ran(code, **how)
        self.assertEqual((outcome.report["status"], outcome.code), ("ok", 0), outcome)
        return outcome.result

    def test_variables_live_on(self):
        self.value("import math\nx = [1]\ndef f(n): return n + len(x)\nclass C: y = 5")
        self.assertEqual(self.value("x.append(2)\n[f(1), C.y, math.floor(2.5), x]"), [3, 5, 2, [1, 2]])
        pids = {self.value("import os\nos.getpid()") for _ in range(20)}
        self.assertEqual(pids, {self.session.pid})

    def test_two_share_nothing(self):
        other = self.open()
        code = "seen = globals().get('kept', 0)\nkept = seen + 1\nimport json\njson.mark = 1\nseen"
        self.assertEqual([self.value(code) for _ in range(3)], [0, 1, 2])
        look = "import json\n['kept' in globals(), hasattr(json, 'mark')]"
        self.assertEqual(other.run(look).result, [False, False])

    def test_each_run_has_its_own_result_and_output(self):
        for n in range(3):
            outcome = self.ran("import sys\nprint('out %d')\nprint('err', file=sys.stderr)\n%d" % (n, n))
            self.assertEqual((outcome.result, outcome.out, outcome.err), (n, "out %d\n" % n, "err\n"))
        outcome = self.ran("pass")
        self.assertEqual((outcome.result, outcome.out, outcome.err), (None, "", ""))
        self.assertEqual(outcome.report["artifacts"], [])

    def test_an_error_keeps_the_variables(self):
        self.value("x = 1")
        outcome = self.ran("x = 2\n1 / 0\nx = 3")
        self.assertEqual((outcome.code, outcome.error["type"], outcome.error["line"]), (1, "ZeroDivisionError", 2))
        self.assertEqual(self.value("x"), 2)
        outcome = self.ran("x = 9\nx = (")
        self.assertEqual(outcome.error["type"], "SyntaxError")
        self.assertEqual(self.value("x"), 2)
        # Nothing of it is told again.
        self.assertIsNone(self.ran("x").error)

    def test_a_traceback_shows_the_code_of_earlier_runs(self):
        self.value("def boom():\n    raise ValueError('earlier line')")
        outcome = self.ran("y = 1\n\nboom()")
        self.assertEqual(outcome.error["line"], 3, outcome)
        for text in ("boom()", "raise ValueError('earlier line')"):
            self.assertIn(text, outcome.error["traceback"])
        self.assertNotIn("hotcell", outcome.error["traceback"])

    def test_exits_end_the_run_alone(self):
        self.value("x = 7")
        self.assertEqual(self.ran("import sys\nsys.exit(3)").code, 3)
        self.assertEqual(self.ran("raise SystemExit").code, 0)
        self.assertEqual(self.value("x"), 7)

    def test_the_end_of_the_process_ends_the_session(self):
        outcome = self.session.run("import os\nprint('before', flush=True)\nos._exit(5)")
        self.assertEqual((outcome.code, outcome.out, outcome.report), (5, "before\n", None))
        self.assertIsNone(self.session.control)

    def test_top_level_await_has_a_loop_for_each_run(self):
        for n in range(3):
            self.assertEqual(self.value("import asyncio\nawait asyncio.sleep(0, %d)" % n), n)

    def test_environment_and_directory_are_the_runs_own(self):
        look = "import os\n[os.environ.get('GIVEN'), os.environ.get('LEFT'), os.getcwd()]"
        self.value("import os, tempfile\nos.environ['LEFT'] = 'x'\nos.chdir('/')")
        env = {"PATH": os.environ["PATH"], "HOME": self.cwd, "GIVEN": "1"}
        self.assertEqual(self.value(look, env=env), ["1", None, self.cwd])
        self.assertEqual(self.value(look), [None, None, self.cwd])

    def test_the_path_does_not_grow(self):
        look = "import sys\nlist(sys.path)"
        first = self.value(look)
        self.value("sys.path.append('/added')")
        self.assertEqual(self.value(look), first + ["/added"])
        self.file("beside.py", "value = 3")
        self.assertEqual(self.value("import beside\nbeside.value"), 3)

    def test_input_is_the_runs_own(self):
        self.assertEqual(self.value("input()", stdin=b"one\nleft over\n"), "one")
        self.assertEqual(self.value("import sys\nsys.stdin.read()", stdin=b"two"), "two")
        self.assertEqual(self.value("sys.stdin.read()"), "")

    def test_streams_are_whole_again(self):
        self.value("import sys, io, logging\nlogging.basicConfig()\nlog = logging.getLogger()\nsys.stdout = io.StringIO()")
        self.assertEqual(self.ran("print('seen')").out, "seen\n")
        self.session.run("sys.stdout.close(); sys.stdin.close()")
        self.assertEqual(self.ran("print('again')").out, "again\n")
        self.session.run("import os\nos.close(1); os.close(0)")
        self.assertEqual(self.ran("print('and again')").out, "and again\n")
        self.assertIn("warned", self.ran("log.warning('warned')").err)

    def test_nothing_of_a_run_stays_open(self):
        look = "import os\nlen(os.listdir('/proc/self/fd'))"
        peer = lambda: cell.Peer({"s": {"f": lambda: 1}})
        call = "from tools.s import f\nimport asyncio\nasync def g(): return await f.start()\n"
        first = self.value(call + "f()\nawait g()\n" + look, peer=peer())
        for _ in range(5):
            self.value(call + "f()\nawait g()", peer=peer())
        seen = self.value(look)
        self.assertLessEqual(seen, first)

    def test_tools_are_called_on_the_runs_own_socket(self):
        peers = [cell.Peer({"s": {"f": (lambda n: lambda: n)(n)}}) for n in range(3)]
        seen = [self.value("from tools.s import f\n[f(), f()]", peer=peers[0])]
        seen.append(self.value("f()", peer=peers[1]))
        outcome = self.ran("call = f.start()\nf()", peer=peers[2])
        seen.append(outcome.result)
        self.assertEqual(seen, [[0, 0], 1, 2])
        self.assertEqual([t["calls"] for t in outcome.report["tools"]], [2])
        self.assertEqual(self.ran("1").report["tools"], [])

    def test_a_call_of_an_earlier_run_fails(self):
        def silent():
            raise cell.Silence

        peer = cell.Peer({"s": {"f": silent}})
        self.value("from tools.s import f\ncall = f.start()\n1", peer=peer)
        outcome = self.ran("call.result()")
        self.assertEqual(outcome.error["type"], "tools.ToolError", outcome)
        self.assertIn("has ended", outcome.error["message"])

    def test_what_servers_offer_is_asked_for_anew(self):
        self.value("from tools.s import f", peer=cell.Peer({"s": {"f": lambda: 1}}))
        peer = cell.Peer({"s": {"g": lambda: 2}})
        self.assertEqual(self.value("from tools.s import g\ng()", peer=peer), 2)

    def test_a_forked_child_speaks_for_nobody(self):
        code = (
            "import os, socket\nx = 1\n"
            "pid = os.fork()\n"
            "if pid == 0:\n"
            "    for fd in range(3, 64):\n"
            "        try: end = socket.socket(fileno=os.dup(fd))\n"
            "        except OSError: continue\n"
            "        if end.type == socket.SOCK_SEQPACKET: end.send(b'done e_1 0')\n"
            "    os._exit(0)\n"
            "os.waitpid(pid, 0)\n'own'"
        )
        self.assertEqual(self.value(code), "own")
        self.assertEqual(self.value("x"), 1)

    def test_a_child_that_comes_to_the_end_of_the_code_ends(self):
        code = "import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)\nx = 5"
        self.assertEqual(self.ran(code).code, 0)
        self.assertEqual(self.value("x"), 5)

    def test_a_closed_control_ends_the_session_and_not_the_run(self):
        code = (
            "import os, socket, stat\n"
            "for fd in range(3, 64):\n"
            "    try: own = stat.S_ISSOCK(os.fstat(fd).st_mode) and socket.socket(fileno=os.dup(fd))\n"
            "    except OSError: continue\n"
            "    if own and own.type == socket.SOCK_SEQPACKET: os.close(fd)\n"
            "own = None\n'done'"
        )
        outcome = self.session.run(code)
        self.assertEqual((outcome.code, outcome.result), (0, "done"), outcome)
        self.assertIsNone(self.session.control)

    def test_threads_live_on(self):
        code = (
            "import threading\ngo, seen = threading.Event(), []\n"
            "t = threading.Thread(target=lambda: (go.wait(), seen.append(1)))\nt.start()"
        )
        self.value(code)
        self.assertEqual(self.value("go.set()\nt.join()\nseen"), [1])

    def test_files_left_open_are_written(self):
        self.value("f = open('left.txt', 'w')\nf.write('text')")
        with open(os.path.join(self.cwd, "left.txt")) as file:
            self.assertEqual(file.read(), "text")
        self.value("f.write(' more')\nf.close()")

    def test_it_cannot_be_looked_into_while_it_waits(self):
        self.value("secret = 'x'")
        if os.getuid() != 0:
            self.assertEqual(os.stat("/proc/%d/mem" % self.session.pid).st_uid, 0)
        code = "import ctypes\nctypes.CDLL(None).prctl(3, 0, 0, 0, 0)"
        self.assertEqual(self.value(code), 1)

    def test_chance_goes_on(self):
        self.value("import random\nrandom.seed(1)")
        first = self.value("random.random()")
        self.assertNotEqual(self.value("random.random()"), first)
        self.value("random.seed(1)")
        self.assertEqual(self.value("random.random()"), first)

    def test_an_interrupt_keeps_the_variables(self):
        outcome = self.ran("import os, signal\nx = 4\nos.kill(os.getpid(), signal.SIGINT)\nx = 5")
        self.assertEqual((outcome.code, outcome.error["type"]), (130, "KeyboardInterrupt"))
        self.assertEqual(self.value("x"), 4)

    @unittest.skipUnless(cell.has("matplotlib"), "no matplotlib")
    def test_figures_are_each_runs_own(self):
        code = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\n1"
        for _ in range(2):
            names = [os.path.basename(a["path"]) for a in self.ran(code).report["artifacts"]]
            self.assertEqual(names, ["figure-1.png"])
        self.assertEqual(self.ran("2").report["artifacts"], [])


class Warm(Turns, cell.CellTest):
    pass


class Cold(Turns, cell.CellTest):
    is_warm = False


if __name__ == "__main__":
    cell.main()
