"""Values as JSON or as text, and never more of them than fits."""

import json
import os
import unittest

import cell


class Values(cell.CellTest):
    def form(self, code, **how):
        outcome = self.warm(code, **how)
        self.assertEqual(outcome.report["status"], "ok", outcome)
        return outcome.form, outcome.result

    def test_json_where_nothing_is_lost(self):
        for code, expected in [
            ("[1, 'a', None, True, 2.5, {'k': (1, 2)}]", [1, "a", None, True, 2.5, {"k": [1, 2]}]),
            ("2 ** 64 - 1", 2**64 - 1),
            ("'line\\nline'", "line\nline"),
            ("'\\x00\\u2028'", "\x00\u2028"),
            ("[]", []),
            ("{}", {}),
            ("''", ""),
            ("False", False),
            ("0.1", 0.1),
            ("class S(str): pass\nS('s')", "s"),
            ("frozenset([2, 1])", [1, 2]),
            ("import ipaddress\nipaddress.ip_address('10.0.0.1')", "10.0.0.1"),
            ("import uuid\nuuid.UUID(int=1)", "00000000-0000-0000-0000-000000000001"),
            ("import datetime\ndatetime.timedelta(hours=1)", "1:00:00"),
        ]:
            with self.subTest(code):
                self.assertEqual(self.form(code), ("json", expected))

    def test_text_where_json_would_lose_something(self):
        for code, expected in [
            ("float('nan')", "nan"),
            ("[1.0, float('inf')]", "[1.0, inf]"),
            ("{1: 'a'}", "{1: 'a'}"),
            ("{(1, 2): 3}", "{(1, 2): 3}"),
            ("2 ** 70", str(2**70)),
            ("[2 ** 70]", "[%d]" % 2**70),
            ("[-2 ** 63 - 1]", "[%d]" % (-(2**63) - 1)),
            ("'\\ud800'", "'\\ud800'"),
            ("['\\ud800']", "['\\ud800']"),
            ("b'\\xff'", "b'\\xff'"),
            ("bytearray(b'a')", "bytearray(b'a')"),
            ("range(3)", "range(0, 3)"),
            ("a = [1]; a.append(a); a", "[1, [...]]"),
            ("d = {}; d['d'] = d; d", "{'d': {...}}"),
            ("int", "<class 'int'>"),
            ("len", "<built-in function len>"),
            ("class A:\n    def __repr__(self): return 'me'\n[A()]", "[me]"),
        ]:
            with self.subTest(code):
                self.assertEqual(self.form(code), ("repr", expected))

    def test_types_are_told_by_what_they_are(self):
        lies = (
            "class L:\n    @property\n    def __class__(self): return dict\n"
            "    def __repr__(self): return 'liar'\nL()"
        )
        outcome = self.warm(lies)
        self.assertEqual((outcome.form, outcome.result), ("repr", "liar"))
        self.assertEqual(outcome.report["result_type"], "L")
        self.assertEqual(self.warm("1, 2").report["result_type"], "tuple")
        raising = "class L:\n    @property\n    def __class__(self): raise OSError\nL()"
        self.assertIn("L object at", self.warm(raising).result)

    def test_containers_that_lie(self):
        for code, expected in [
            ("class D(dict):\n    def items(s): raise ValueError\n    def __len__(s): return 10 ** 9\nD(a=1)", {"a": 1}),
            ("class L(list):\n    def __iter__(s):\n        while True: yield 1\nL([1])", [1]),
            ("class T(tuple):\n    _fields = ('a', 'b')\n    def __len__(s): return 2\nT((1,))", [1]),
            ("class S(str):\n    def __str__(s): return 5\n    def __len__(s): return -1\nS('s')", "s"),
            ("class S(set):\n    def __iter__(s):\n        while True: yield 1\nS([1])", [1]),
            ("class I(int):\n    def __int__(s): return 'x'\nI(4)", 4),
        ]:
            with self.subTest(code):
                self.assertEqual(self.form(code), ("json", expected))
        code = "class M(type):\n    @property\n    def __name__(c): raise ValueError\nclass A(metaclass=M): pass\nA()"
        self.assertEqual(self.warm(code).report["result_type"], "A")

    def test_any_attribute_is_not_taken_for_a_picture(self):
        code = (
            "class Any:\n    def __getattr__(self, n): return lambda *a: b'x'\n"
            "    def __repr__(self): return 'any'\nAny()"
        )
        outcome = self.warm(code)
        self.assertEqual((outcome.result, outcome.report["artifacts"]), ("any", []))

    def test_repr_that_misbehaves(self):
        code = "class A:\n    def __repr__(self): %s\nA()"
        self.assertIn("its repr raised ValueError: no", self.value(code % "raise ValueError('no')"))
        self.assertIn("its repr raised TypeError", self.value(code % "return 5"))
        self.assertIn("nested too deeply", self.value(code % "return repr(self)"))
        hidden = "class E(Exception):\n    def __str__(self): raise KeyError\n" + code % "raise E()"
        self.assertIn("its repr raised E", self.value(hidden))
        ended = self.warm(code % "raise SystemExit(3)")
        self.assertEqual(ended.report["status"], "error", ended)
        self.assertEqual(self.value("10 ** 5000"), "1" + "0" * 5000)

    def test_depth(self):
        code = "x = 1\nfor _ in range(%d): x = [x]\nx"
        self.assertEqual(self.form(code % 90)[0], "json")
        self.assertEqual(self.form(code % 120)[0], "repr")
        for depth in (5000, 200000):
            form, text = self.form(code % depth)
            self.assertIn(form, ("repr", "preview"))
            self.assertIn("[", text + "[")
        mapping = "x = {}\nfor _ in range(3000): x = {'a': x}\nx"
        self.assertEqual(self.form(mapping)[0], "repr")

    def test_a_doubling_structure_ends(self):
        code = "x = [1]\nfor _ in range(60): x = [x, x]\nx"
        form, text = self.form(code)
        self.assertEqual(form, "preview")
        self.assertLess(len(text), 20000)


class Budget(cell.CellTest):
    """checked() in every run holds the bound of the report; here is what goes over it."""

    def big(self, code, limit=20000):
        outcome = self.warm(code, limit=limit)
        self.assertEqual(outcome.report["status"], "ok", outcome)
        self.assertEqual(outcome.form, "preview", outcome)
        return outcome

    def whole(self, outcome, mode="r"):
        path = outcome.report["result_file"]
        self.assertTrue(path.startswith(self.results + "/"), path)
        self.assertNotIn(path, [a["path"] for a in outcome.report["artifacts"]])
        with open(path, mode) as file:
            return file.read()

    def test_what_fits_is_whole(self):
        outcome = self.warm("list(range(1000))", limit=20000)
        self.assertEqual((outcome.form, outcome.report["result_file"]), ("json", None))
        self.assertFalse(os.path.exists(self.results))

    def test_list(self):
        outcome = self.big("[{'id': i, 'name': 'n%d' % i} for i in range(5000)]")
        for part in ("list of 5000 items (dict)", "'id'", "n0", "n4999"):
            self.assertIn(part, outcome.result)
        self.assertEqual(len(json.loads(self.whole(outcome))), 5000)
        self.assertLess(len(outcome.result), 3000)

    def test_mapping(self):
        outcome = self.big("{'k%d' % i: list(range(i)) for i in range(300)}")
        for part in ("dict of 300 keys", "'k0'", "280 more keys"):
            self.assertIn(part, outcome.result)
        self.assertEqual(len(json.loads(self.whole(outcome))["k299"]), 299)

    def test_text(self):
        outcome = self.big("'start' + 'é\\n' * 50000 + 'end'")
        for part in ("str of 100008 characters, 50001 lines", "start", "end"):
            self.assertIn(part, outcome.result)
        self.assertEqual(len(self.whole(outcome)), 100008)

    def test_repr(self):
        outcome = self.big("class A:\n    def __repr__(self): return 'x' * 10 ** 6\nA()")
        self.assertIn("A of 1000000 characters", outcome.result)
        self.assertEqual(len(self.whole(outcome)), 10**6)

    def test_bytes(self):
        outcome = self.big("bytes(range(256)) * 400")
        self.assertIn("bytes of length 102400", outcome.result)
        self.assertEqual(self.whole(outcome, "rb"), bytes(range(256)) * 400)

    def test_numbers_as_keys(self):
        outcome = self.big("{i: i for i in range(20000)}")
        self.assertIn("19999: 19999}", outcome.result)
        self.assertTrue(outcome.report["result_file"].endswith("result.txt"))

    def test_exception_text(self):
        outcome = self.warm("raise ValueError('head' + 'x' * 10 ** 6 + 'tail')", limit=20000)
        error = outcome.error
        self.assertEqual(error["type"], "ValueError")
        for text in (error["message"], error["traceback"]):
            self.assertIn("head", text)
            self.assertTrue(text.endswith("tail"))
        names = [os.path.basename(a["path"]) for a in outcome.report["artifacts"]]
        self.assertEqual(names, ["error.txt"])
        with open(os.path.join(self.results, "error.txt")) as file:
            self.assertGreater(len(file.read()), 10**6)

    def test_long_names(self):
        code = "E = type('E' * 100000, (Exception,), {})\nraise E('x' * 100000)"
        self.assertLessEqual(len(self.warm(code, limit=5000).error["type"]), 256)
        outcome = self.warm("type('A' * 100000, (), {})()", limit=5000)
        self.assertLessEqual(len(outcome.report["result_type"]), 256)

    def test_escapes_count_as_written(self):
        for code in ("'\\x01' * 9000", "['\\x01' * 9000]", "'\\x01' * 4000"):
            self.big(code, limit=20000)

    def test_tiny_budgets(self):
        for limit in (20, 60, 200, 400, 1000, 3000):
            for code in ("list(range(9000))", "raise ValueError('é' * 9000)", "'x' * 900", "5"):
                with self.subTest((limit, code)):
                    outcome = self.warm(code, limit=limit)
                    expected = "error" if "raise" in code else "ok"
                    self.assertEqual(outcome.report["status"], expected)

    def test_many_artifacts(self):
        code = (
            "import os\nos.makedirs(os.environ['HOTCELL_RESULTS'])\n"
            "for i in range(300):\n    open(os.environ['HOTCELL_RESULTS'] + '/f%d' % i, 'w').close()\n"
        )
        outcome = self.warm(code, limit=8000)
        self.assertEqual(outcome.report["status"], "ok", outcome)
        self.assertTrue(outcome.report["artifacts"])

    def test_results_that_cannot_be_written(self):
        self.file(".results", "in the way")
        outcome = self.big("list(range(90000))")
        self.assertIn("not written to a file", outcome.result)
        self.assertIsNone(outcome.report["result_file"])


@unittest.skipUnless(cell.has("pandas"), "no pandas here")
class BigTables(cell.CellTest):
    imports = ("numpy", "pandas")

    def test_frame(self):
        code = "import pandas as pd\npd.DataFrame({'a': range(9000), 'b': 'text'})"
        outcome = self.warm(code, limit=20000)
        for part in ("DataFrame of 9000 rows x 2 columns", "a: int64", "8999,text"):
            self.assertIn(part, outcome.result)
        with open(os.path.join(self.results, "result.csv")) as file:
            self.assertEqual(len(file.readlines()), 9001)

    def test_array(self):
        outcome = self.warm("import numpy as np\nnp.zeros((300, 200))", limit=20000)
        self.assertIn("ndarray of shape 300 x 200, float64", outcome.result)


if __name__ == "__main__":
    cell.main()
