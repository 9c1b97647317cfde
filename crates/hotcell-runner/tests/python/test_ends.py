"""How runs end: exceptions, exits, threads, files left open, and where code finds what it imports."""

import gzip
import os
import shutil
import subprocess
import tempfile
import unittest

import cell


class Errors(cell.CellTest):
    def failed(self, code, kind, line=None, how="warm", exit_code=1):
        outcome = getattr(self, how)(code)
        self.assertEqual(outcome.report["status"], "error", outcome)
        self.assertEqual(outcome.error["type"], kind, outcome)
        self.assertEqual(outcome.error["line"], line, outcome)
        self.assertEqual(outcome.code, exit_code, outcome)
        self.assertNotIn("hotcell", outcome.error["traceback"])
        self.assertNotIn("Traceback", outcome.err)
        return outcome.error

    def test_frames_show_the_code_and_nothing_of_the_runner(self):
        code = "def f():\n    return {}['k']\n\nf()"
        for how in ("warm", "cold"):
            error = self.failed(code, "KeyError", 2, how)
            text = error["traceback"]
            self.assertTrue(text.startswith("Traceback (most recent call last):\n"), text)
            self.assertIn('File "<code>", line 4, in <module>\n    f()', text)
            self.assertIn("    return {}['k']", text)
            self.assertTrue(text.endswith("KeyError: 'k'"))
            self.assertEqual(error["message"], "'k'")

    def test_syntax_errors_have_line_and_caret(self):
        error = self.failed("a = 1\nif a\n    b", "SyntaxError", 2)
        self.assertIn("if a\n", error["traceback"])
        self.assertIn("^", error["traceback"])
        self.assertNotIn("Traceback", error["traceback"])
        self.failed("  x = 1", "IndentationError", 1)
        self.failed("return 5", "SyntaxError", 1)
        self.failed("x = 'abc", "SyntaxError", 1)

    def test_chains(self):
        code = "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise RuntimeError('b') from e"
        text = self.failed(code, "RuntimeError", 4)["traceback"]
        self.assertIn("ZeroDivisionError: division by zero", text)
        self.assertIn("direct cause", text)
        code = "try:\n    1 / 0\nexcept ZeroDivisionError:\n    raise RuntimeError('b')"
        self.assertIn("During handling", self.failed(code, "RuntimeError", 4)["traceback"])

    def test_a_long_chain_ends(self):
        code = "e = None\nfor i in range(3000):\n    n = ValueError(i); n.__cause__ = e; e = n\nraise e"
        self.failed(code, "ValueError", 4)
        code = "a = ValueError('a'); b = ValueError('b'); a.__context__ = b; b.__context__ = a\nraise a"
        self.failed(code, "ValueError", 2)

    def test_groups(self):
        code = "def f(): raise KeyError('inner')\ntry:\n    f()\nexcept KeyError as e:\n    k = e\n"
        code += "raise ExceptionGroup('all', [k, ValueError('v')])"
        if self.value("import sys\nlist(sys.version_info[:2])") < [3, 11]:
            self.skipTest("no exception groups")
        text = self.failed(code, "ExceptionGroup", 6)["traceback"]
        for part in ("KeyError: 'inner'", "ValueError: v", "all (2 sub-exceptions)"):
            self.assertIn(part, text)

    def test_recursion(self):
        text = self.failed("def f(n): return f(n + 1)\nf(0)", "RecursionError", 1)["traceback"]
        self.assertLess(len(text), 6000)
        error = self.warm("def a(): b()\ndef b(): a()\na()").error
        self.assertEqual(error["type"], "RecursionError")
        self.assertLess(len(error["traceback"]), 6000)

    def test_types_are_kept(self):
        self.failed("import json\njson.loads('{')", "json.decoder.JSONDecodeError", 2)
        self.failed("class Mine(Exception): pass\nraise Mine", "Mine", 2)
        self.failed("assert 1 == 2, 'no'", "AssertionError", 1)
        self.failed("import nothing_of_this_name", "ModuleNotFoundError", 1)
        self.failed("undefined_name", "NameError", 1)

    def test_str_that_raises(self):
        code = "class E(Exception):\n    def __str__(self): raise ValueError\nraise E"
        self.assertIn("raised ValueError", self.failed(code, "E", 3)["message"])

    def test_await_leaves_out_the_loop(self):
        code = "import asyncio\nasync def f():\n    raise OSError('x')\nawait f()"
        text = self.failed(code, "OSError", 3)["traceback"]
        self.assertNotIn("asyncio", text)
        self.assertIn("await f()", text)

    def test_sources_that_are_no_source(self):
        for code in ("a\x00b", "'\ud800'\n\ud800"):
            outcome = self.warm(code)
            self.assertEqual(outcome.report["status"], "error")
            self.assertEqual(outcome.code, 1)
        deep = self.warm("(" * 5000 + ")" * 5000)
        self.assertEqual(deep.report["status"], "error")
        self.assertEqual(self.warm("x = " + "+".join(["1"] * 900)).report["status"], "ok")

    def test_interrupt(self):
        self.failed("raise KeyboardInterrupt", "KeyboardInterrupt", 1, exit_code=130)
        code = "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nfor _ in range(10 ** 8): pass"
        outcome = self.warm(code)
        self.assertEqual((outcome.code, outcome.error["type"]), (130, "KeyboardInterrupt"))


class Exits(cell.CellTest):
    def test_system_exit(self):
        for code, number, status in [
            ("import sys\nsys.exit()", 0, "ok"),
            ("raise SystemExit(0)", 0, "ok"),
            ("exit(3)", 3, "error"),
            ("import sys\nsys.exit('why')", 1, "error"),
            ("raise SystemExit(257)", 1, "error"),
        ]:
            for how in (self.warm, self.cold):
                with self.subTest((code, how.__name__)):
                    outcome = how(code)
                    self.assertEqual((outcome.code, outcome.report["status"]), (number, status))
                    self.assertEqual(outcome.error is None, status == "ok")
        self.assertEqual(self.warm("import sys\nsys.exit('why')").err, "why\n")

    def test_no_report_after_a_hard_end(self):
        outcome = self.warm("print('before')\nimport os\nos._exit(4)")
        self.assertEqual((outcome.code, outcome.report, outcome.out), (4, None, "before\n"))
        outcome = self.warm("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
        self.assertEqual((outcome.code, outcome.report), (-9, None))

    def test_output_is_kept_when_the_run_is_ended(self):
        outcome = self.warm(
            "import os, sys, signal\nprint('out')\nprint('err', file=sys.stderr)\n"
            "os.kill(os.getpid(), signal.SIGKILL)"
        )
        self.assertEqual((outcome.out, outcome.err), ("out\n", "err\n"))

    def test_exit_handlers_threads_and_finalizers(self):
        code = (
            "import atexit, threading, time, weakref\n"
            "class A:\n    def __del__(self): print('del')\n"
            "a = A(); a.self = a\n"
            "atexit.register(print, 'atexit')\n"
            "told = threading.Event()\n"
            "def late():\n    told.wait(); time.sleep(0.2); print('thread')\n"
            "threading.Thread(target=late).start()\n"
            "threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()\n"
            "print('main', end=' '); told.set()\n'value'"
        )
        for how in (self.warm, self.cold):
            outcome = how(code)
            self.assertEqual(outcome.out, "main thread\natexit\ndel\n")
            self.assertEqual((outcome.code, outcome.result), (0, "value"))

    def test_files_that_were_left_open_are_written(self):
        code = (
            "f = open('a', 'w'); f.write('a')\n"
            "def g():\n    g.x = [open('b', 'wb')]; g.x[0].write(b'b')\ng()\n"
            "import gzip\nz = gzip.open('c', 'wt'); z.write('c')\n"
            "import held\n"
        )
        self.file("held.py", "f = open('d', 'w')\nf.write('d')\n")
        for how in (self.warm, self.cold):
            how(code)
            for name in ("a", "b", "d"):
                with open(os.path.join(self.cwd, name)) as file:
                    self.assertEqual(file.read(), name)
            with gzip.open(os.path.join(self.cwd, "c"), "rt") as file:
                self.assertEqual(file.read(), "c")
            for name in "abcd":
                os.remove(os.path.join(self.cwd, name))

    def test_a_forked_child_that_falls_off_the_end_reports_nothing(self):
        code = "import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)\nprint('here')\npid > 0"
        outcome = self.warm(code)
        self.assertEqual((outcome.result, outcome.out), (True, "here\nhere\n"))
        code = "import os\npid = os.fork()\nif pid == 0: raise ValueError('child')\nos.waitpid(pid, 0)[1] >> 8"
        outcome = self.warm(code)
        self.assertEqual((outcome.report["status"], outcome.result), ("ok", 1), outcome)
        self.assertIn("ValueError: child", outcome.err)

    def test_code_may_replace_what_it_likes(self):
        for code in (
            "import os\nos.write = os.getpid = os._exit = os.path.isdir = None\n[1]",
            "import sys\nsys.modules.clear()\n[1]",
            "import sys\nsys.modules['__main__'] = None\n[1]",
            "globals().clear()\n[1]",
            "import sys\nsys.meta_path.clear()\nsys.path.clear()\n[1]",
            "import builtins\ndel builtins.print, builtins.open\n[1]",
        ):
            with self.subTest(code):
                outcome = self.warm(code)
                self.assertEqual((outcome.code, outcome.result), (0, [1]), outcome)

    def test_a_replaced_stdout_does_no_harm(self):
        code = "import sys\nsys.stdout.close()\n1"
        self.assertEqual(self.warm(code).result, 1)
        self.assertEqual(self.warm("import sys\nsys.stdout = None\n2").result, 2)

    def test_standard_input(self):
        self.assertEqual(self.value("input() + input()", stdin=b"a\nb\n"), "ab")
        outcome = self.warm("input()")
        self.assertEqual(outcome.error["type"], "EOFError")


class Surroundings(cell.CellTest):
    def test_modules_of_the_working_directory_and_the_user(self):
        self.file("beside.py", "value = 'beside'")
        packages = os.path.join(self.cwd, "extra")
        os.mkdir(packages)
        self.file("extra/more.py", "value = 'more'")
        user = self.cold("import site\nsite.getusersitepackages()").result
        self.assertTrue(user.startswith(self.cwd), user)
        os.makedirs(user)
        self.file(os.path.join(user, "own.py"), "value = 'own'")
        env = {"PATH": os.environ["PATH"], "HOME": self.cwd, "PYTHONPATH": packages}
        code = "import beside, more, own, sys\n[beside.value, more.value, own.value, sys.path[0]]"
        for how in (self.warm, self.cold):
            outcome = how(code, env=env)
            self.assertEqual(outcome.result, ["beside", "more", "own", self.cwd], outcome)
        env["PYTHONNOUSERSITE"] = "1"
        self.assertEqual(self.warm("import own", env=env).error["type"], "ModuleNotFoundError")

    def test_nothing_beside_the_code_is_imported_by_the_runner(self):
        for name in ("traceback", "linecache", "atexit", "json", "os", "tools", "reprlib", "_json"):
            self.file(name + ".py", "print('shadow %s')" % name)
        outcome = self.cold("[1, 2]")
        self.assertEqual((outcome.result, outcome.out), ([1, 2], ""))

    def test_environment(self):
        env = {"A": "ü", "HOME": self.cwd}
        code = "import os, subprocess\n[dict(os.environ), subprocess.check_output('env', text=True)]"
        seen, inherited = self.value(code, env=dict(env, PATH=os.environ["PATH"]))
        self.assertEqual(seen["A"], "ü")
        self.assertNotIn("SECRET", seen)
        self.assertNotIn("SECRET", inherited)
        self.assertNotIn("OPENBLAS_NUM_THREADS", inherited)
        self.assertIn("A=ü", inherited)

    def test_descriptors(self):
        code = (
            "import os, subprocess\n"
            "mine = sorted(int(n) for n in os.listdir('/proc/self/fd'))\n"
            "theirs = subprocess.check_output(['ls', '/proc/self/fd'], text=True, close_fds=False)\n"
            "[len(mine), sorted(map(int, theirs.split()))]"
        )
        for how in (self.warm, self.cold):
            outcome = how(code)
            mine, theirs = outcome.result
            self.assertEqual(theirs, [0, 1, 2, 3], outcome)
            self.assertEqual(mine, 6, "streams, calls, report and the listing itself")

    def test_names_of_the_runner_are_not_in_the_way(self):
        left = self.value("[n for n in globals() if not n.startswith('__')]")
        self.assertEqual(left, [])
        self.assertEqual(self.value("import sys\n[sys.argv, __name__, 'part' in dir()]")[1:], ["__main__", False])

    def test_display_and_html(self):
        code = (
            "class P:\n    def _repr_html_(self): return '<b>é</b>'\n"
            "class S:\n    def _repr_svg_(self): return '<svg/>'\n"
            "display(S(), [1], 'text')\nP()"
        )
        outcome = self.warm(code)
        self.assertEqual(outcome.out, "[1]\n'text'\n")
        found = {a["mime"]: a for a in outcome.report["artifacts"]}
        self.assertEqual(sorted(found), ["image/svg+xml", "text/html"])
        with open(found["text/html"]["path"], encoding="utf-8") as file:
            self.assertEqual(file.read(), "<b>é</b>")
        self.assertEqual(found["text/html"]["bytes"], 9)

    def test_files_in_results_are_artifacts(self):
        code = (
            "import os\nd = os.environ['HOTCELL_RESULTS']\nos.makedirs(d + '/sub')\n"
            "open(d + '/sub/a.csv', 'w').write('1')\nos.symlink('/etc/passwd', d + '/link.txt')\n"
        )
        found = self.warm(code).report["artifacts"]
        path = os.path.join(self.results, "sub/a.csv")
        self.assertEqual(found, [{"path": path, "mime": "text/csv", "bytes": 1}])


@unittest.skipUnless(cell.has("matplotlib") and cell.has("PIL"), "no matplotlib here")
class Pictures(cell.CellTest):
    imports = ("matplotlib.pyplot",)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        # Looking for fonts is told of on a slow machine, and done once for each directory.
        cls.fonts = tempfile.mkdtemp(prefix="hotcell-fonts-")
        cls.addClassCleanup(shutil.rmtree, cls.fonts, True)
        cls.env = {"PATH": os.environ["PATH"], "MPLCONFIGDIR": cls.fonts}
        look = [cell.PYTHON, "-c", "import matplotlib.font_manager"]
        subprocess.run(look, env=cls.env, stderr=subprocess.DEVNULL, check=True)

    def pictures(self, code, how="warm"):
        outcome = getattr(self, how)(code, env=dict(self.env, HOME=self.cwd))
        self.assertEqual(outcome.report["status"], "ok", outcome)
        found = outcome.report["artifacts"]
        for each in found:
            self.assertEqual(each["mime"], "image/png")
            with open(each["path"], "rb") as file:
                self.assertEqual(file.read(4), b"\x89PNG")
            os.remove(each["path"])
        self.assertEqual(outcome.err, "")
        return [os.path.basename(each["path"]) for each in found]

    def test_figures(self):
        plot = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\n"
        for how in ("warm", "cold"):
            self.assertEqual(self.pictures(plot + "None", how), ["figure-1.png"])
            shown = plot + "plt.show()\nplt.figure()\nplt.plot([3])\nplt.show()"
            self.assertEqual(self.pictures(shown, how), ["figure-1.png", "figure-2.png"])
        self.assertEqual(self.pictures(plot + "plt.gcf()"), ["figure-1.png"])
        self.assertEqual(self.pictures(plot + "plt.savefig('x.png')\nplt.close()"), [])
        self.assertEqual(self.pictures(plot + "display(plt.gcf())"), ["figure-1.png"])

    def test_images(self):
        code = "from PIL import Image\nImage.new('RGB', (4, 4), 'red')"
        self.assertEqual(self.pictures(code), ["display-1.png"])


if __name__ == "__main__":
    cell.main()
