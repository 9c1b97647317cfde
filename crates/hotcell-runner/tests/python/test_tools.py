"""Every way to call a tool, against a peer that answers, is late, fails, hangs up or lies."""

import socket
import struct
import time

import cell
from cell import Failure, HangUp, Peer, Silence


def refuse(**arguments):
    raise Failure({"code": "denied", "message": "not you", "hint": "ask"})


def terse(**arguments):
    raise Failure({"code": "failed", "message": "", "hint": None})


def silent(**arguments):
    raise Silence


def hang_up(**arguments):
    raise HangUp


def servers():
    issues = {"n": 0}

    def create_issue(title, **more):
        issues["n"] += 1
        return {"number": issues["n"], "title": title, "more": more}

    return {
        "github": {
            "create_issue": create_issue,
            "list_issues": lambda page=1: [{"page": page, "n": n} for n in range(3)],
            "refuse": refuse,
            "terse": terse,
            "silent": silent,
            "hang_up": hang_up,
        },
        "maths": {
            "add": lambda a, b: a + b,
            "echo": lambda **arguments: arguments,
            "slow": lambda s, v=None: (time.sleep(s), v)[1],
            "blob": lambda n: "x" * n,
        },
    }


class Calls(cell.CellTest):
    def tool(self, code):
        self.peer = Peer(servers())
        return self.warm(code, peer=self.peer)

    def gives(self, code, expected):
        outcome = self.tool(code)
        self.assertEqual(outcome.report["status"], "ok", outcome)
        self.assertEqual(outcome.result, expected)
        return outcome

    def test_forms_of_import(self):
        for code in (
            "from tools.maths import add\nadd(a=1, b=2)",
            "import tools.maths\ntools.maths.add(a=1, b=2)",
            "import tools\ntools.maths.add(a=1, b=2)",
            "from tools import maths\nmaths.add(a=1, b=2)",
            "import tools.maths as m\nm.add(**{'a': 1, 'b': 2})",
            "from tools.maths import *\nadd(a=1, b=2)",
            "import importlib\nimportlib.import_module('tools.maths').add(a=1, b=2)",
            "from tools.maths import add\nimport functools\nfunctools.partial(add, a=1)(b=2)",
        ):
            with self.subTest(code):
                self.gives(code, 3)

    def test_a_call_is_one_message(self):
        self.gives(
            "from tools.github import create_issue\ncreate_issue(title='é', labels=['a'])",
            {"number": 1, "title": "é", "more": {"labels": ["a"]}},
        )
        asked = [message for message in self.peer.seen if message["op"] == "call"]
        self.assertEqual(len(asked), 1)
        arguments = {"title": "é", "labels": ["a"]}
        self.assertEqual(asked[0]["arguments"], arguments)
        self.assertEqual((asked[0]["server"], asked[0]["tool"]), ("github", "create_issue"))

    def test_also_cold(self):
        code = "from tools.maths import add\nfrom tools import search\n[add(a=1, b=2), search('q')]"
        outcome = self.cold(code, peer=Peer(servers()))
        self.assertEqual(outcome.result, [3, "found q stub None 5"], outcome)

    def test_no_tool_no_message(self):
        self.gives("1", 1)
        self.assertEqual(self.peer.seen, [])

    def test_rich_arguments(self):
        code = (
            "from tools.maths import echo\nimport datetime, decimal, pathlib\n"
            "echo(d=datetime.date(2024, 1, 2), p=pathlib.Path('/a'), s={1}, t=(1, 2), x=decimal.Decimal('1.5'))"
        )
        self.gives(code, {"d": "2024-01-02", "p": "/a", "s": [1], "t": [1, 2], "x": "1.5"})
        names = {"self": 1, "positional": 2, "timeout": 3}
        self.gives("from tools.maths import echo\necho(**%r)" % names, names)
        self.gives("from tools.maths import echo\necho(by={1: 2})", {"by": {"1": 2}})
        for bad in ("object()", "float('nan')", "'\\ud800'", "b'x'"):
            outcome = self.tool("from tools.maths import echo\necho(good=1, bad=%s)" % bad)
            self.assertEqual(outcome.error["type"], "tools.ToolError", outcome)
            self.assertIn("argument bad", outcome.error["message"])
            self.assertEqual([m for m in self.peer.seen if m["op"] == "call"], [])

    def test_positional_arguments(self):
        error = self.tool("from tools.maths import add\nadd(1, 2)").error
        self.assertEqual(error["type"], "TypeError")
        self.assertIn("keyword arguments only: write add(name=value)", error["message"])
        error = self.tool("from tools.maths import add\nadd.start({'a': 1})").error
        self.assertIn("add(**arguments)", error["message"])

    def test_errors(self):
        code = (
            "from tools.github import refuse, terse\nfrom tools import ToolError\n"
            "out = []\nfor f in (refuse, terse):\n    try:\n        f()\n"
            "    except ToolError as e:\n        out.append([e.code, e.message, e.hint, str(e)])\nout"
        )
        self.gives(
            code,
            [
                ["denied", "not you", "ask", "not you (denied)\nhint: ask"],
                ["failed", "", None, "failed"],
            ],
        )
        error = self.tool("from tools.github import refuse\n\nrefuse(a=1)").error
        self.assertEqual((error["type"], error["line"]), ("tools.ToolError", 3))
        self.assertNotIn("hotcell", error["traceback"])
        self.gives("import pickle\nfrom tools import ToolError\npickle.loads(pickle.dumps(ToolError('a', 'b', 'c'))).hint", "c")

    def test_names_that_do_not_exist(self):
        for code, parts in (
            ("import tools.git_hub", ("no server git_hub", "github")),
            ("from tools import git_hub", ("no server git_hub", "github")),
            ("from tools.github import create_issues", ("no tool create_issues", "create_issue")),
            ("from tools.maths import nothing", ("no tool nothing", "add")),
        ):
            error = self.tool(code).error
            self.assertEqual(error["type"], "ModuleNotFoundError", code)
            for part in parts:
                self.assertIn(part, error["message"])
        error = self.tool("import tools.github\ntools.github.create_issues").error
        self.assertEqual(error["type"], "AttributeError")
        self.assertIn("create_issue", error["message"])
        self.gives("import tools, tools.github\n[hasattr(tools, 'x'), hasattr(tools.github, 'x')]", [False, False])
        self.gives("try:\n    import tools.nope\nexcept ImportError:\n    r = 1\nr", 1)

    def test_listing(self):
        self.gives("import tools\n[n for n in dir(tools) if n in ('github', 'maths', 'search')]", ["github", "maths", "search"])
        self.gives("import tools.maths\ntools.maths.__all__", ["add", "blob", "echo", "slow"])

    def test_search(self):
        self.gives("from tools import search\nsearch('issue', detail='full', server='github', limit=2)", "found issue full github 2")

    def test_started_calls_and_gather(self):
        code = (
            "from tools import gather\nfrom tools.maths import add\n"
            "calls = [add.start(a=i, b=1) for i in range(5)]\n"
            "[gather(*calls), gather(calls), calls[3].result(), calls[3].done(), gather()]"
        )
        self.gives(code, [[1, 2, 3, 4, 5], [1, 2, 3, 4, 5], 4, True, []])

    def test_answers_in_another_order(self):
        # One list, then eight calls that are all answered in reverse.
        code = (
            "import tools.maths\nfrom tools import gather\n"
            "gather(*[tools.maths.add.start(a=i, b=0) for i in range(8)])"
        )
        peer = Peer(servers())
        original = peer.answer

        def answer(message):
            if message["op"] == "list":
                peer.hold = 8
            return original(message)

        peer.answer = answer
        outcome = self.warm(code, peer=peer)
        self.assertEqual(outcome.result, list(range(8)), outcome)

    def test_gather_of_functions(self):
        code = (
            "from tools import gather\nfrom tools.maths import slow, add\n"
            "gather(lambda: slow(s=0.05, v=1) + 1, slow.start(s=0, v='b'), lambda: add.start(a=1, b=1), lambda: 7)"
        )
        self.gives(code, [2, "b", 2, 7])
        many = "from tools import gather\nfrom tools.maths import add\nsum(gather(*[lambda i=i: add(a=i, b=0) for i in range(200)]))"
        self.gives(many, 19900)

    def test_gather_raises_the_first_error_when_all_are_done(self):
        code = (
            "from tools import gather, ToolError\nfrom tools.maths import slow\nfrom tools.github import refuse\n"
            "done = []\ndef late():\n    slow(s=0.05); done.append(1)\n"
            "try:\n    gather(refuse.start(), late, lambda: 1 / 0)\nexcept ToolError as e:\n    r = [e.code, done]\nr"
        )
        self.gives(code, ["denied", [1]])
        error = self.tool("from tools import gather\nfrom tools.maths import add\ngather(add(a=1, b=2))").error
        self.assertIn("gather() takes calls such as", error["message"])

    def test_timeout(self):
        code = (
            "from tools.github import silent\nfrom tools.maths import add\nc = silent.start()\n"
            "try:\n    c.result(timeout=0.05)\nexcept TimeoutError as e:\n    r = str(e)\n"
            "[r, add(a=1, b=1), c.done()]"
        )
        outcome = self.tool(code)
        self.assertEqual(outcome.result[1:], [2, False], outcome)
        self.assertIn("github.silent", outcome.result[0])

    def test_async(self):
        code = (
            "import asyncio\nfrom tools.maths import add, slow\nfrom tools.github import refuse\n"
            "from tools import ToolError\n"
            "one = await add.start(a=1, b=1)\n"
            "many = await asyncio.gather(*[add.start(a=i, b=i) for i in range(20)])\n"
            "mixed = add(a=5, b=5)\n"
            "try:\n    await refuse.start()\nexcept ToolError as e:\n    code = e.code\n"
            "ticks = []\nasync def tick():\n    for i in range(3): ticks.append(i); await asyncio.sleep(0)\n"
            "late, _ = await asyncio.gather(slow.start(s=0.05, v='late'), tick())\n"
            "async def sequence():\n    return [await add.start(a=i, b=0) for i in range(50)]\n"
            "[one, many, mixed, code, ticks, late, sum(await sequence())]"
        )
        self.gives(code, [2, [2 * i for i in range(20)], 10, "denied", [0, 1, 2], "late", 1225])

    def test_async_waits_can_be_given_up(self):
        code = (
            "import asyncio\nfrom tools.maths import add\nfrom tools.github import silent\n"
            "async def wait(): return await silent.start()\n"
            "try:\n    await asyncio.wait_for(wait(), 0.05)\nexcept asyncio.TimeoutError:\n    r = 'gave up'\n"
            "[r, await add.start(a=1, b=1), add(a=2, b=2)]"
        )
        self.gives(code, ["gave up", 2, 4])

    def test_threads(self):
        code = (
            "import threading\nfrom tools.maths import add, blob\nout = []\n"
            "def work(k):\n    for i in range(50):\n        assert add(a=i, b=k) == i + k\n    out.append(len(blob(n=300000)))\n"
            "ts = [threading.Thread(target=work, args=(k,)) for k in range(8)]\n"
            "[t.start() for t in ts]; [t.join() for t in ts]\nout"
        )
        self.gives(code, [300000] * 8)
        asked = [message["tool"] for message in self.peer.seen if message["op"] == "call"]
        self.assertEqual((asked.count("add"), asked.count("blob")), (400, 8))

    def test_threads_and_coroutines_at_once(self):
        code = (
            "import threading, asyncio\nfrom tools.maths import add, slow\nout = []\n"
            "def work():\n    for i in range(100): out.append(add(a=i, b=0))\n"
            "t = [threading.Thread(target=work) for _ in range(3)]\n[x.start() for x in t]\n"
            "async def w(k): return sum([await add.start(a=k, b=i) for i in range(30)])\n"
            "r = await asyncio.gather(*[w(k) for k in range(5)])\n[x.join() for x in t]\n[sum(out), r]"
        )
        self.gives(code, [3 * 4950, [30 * k + 435 for k in range(5)]])

    def test_two_threads_wait_for_one_call(self):
        code = (
            "import threading\nfrom tools.maths import slow\nc = slow.start(s=0.1, v=5)\nout = []\n"
            "ts = [threading.Thread(target=lambda: out.append(c.result())) for _ in range(4)]\n"
            "[t.start() for t in ts]; [t.join() for t in ts]\nout"
        )
        self.gives(code, [5, 5, 5, 5])

    def test_large_both_ways(self):
        self.gives("from tools.maths import echo\nlen(echo(x='y' * 3000000)['x'])", 3000000)

    def test_the_host_goes_away(self):
        code = (
            "from tools import ToolError\nfrom tools.maths import add\nfrom tools.github import hang_up, silent\n"
            "waiting = silent.start()\nout = []\n"
            "for f in (hang_up, waiting.result, lambda: add(a=1, b=1)):\n"
            "    try:\n        f()\n    except ToolError as e:\n        out.append(e.code)\nout"
        )
        self.gives(code, ["unavailable"] * 3)
        awaited = (
            "from tools import ToolError\nfrom tools.github import hang_up\n"
            "try:\n    await hang_up.start()\nexcept ToolError as e:\n    r = e.code\nr"
        )
        self.gives(awaited, "unavailable")

    def test_a_forked_process_cannot_call(self):
        code = (
            "import os, multiprocessing\nfrom tools import ToolError\nfrom tools.maths import add\n%s"
            "def child(q):\n    try:\n        add(a=1, b=1); q.put('called')\n"
            "    except ToolError as e:\n        q.put([e.code, 'forked' in e.message])\n"
            "c = multiprocessing.get_context('fork'); q = c.Queue(); p = c.Process(target=child, args=(q,)); p.start()\n"
            "r = q.get(); p.join()\n[r, add(a=2, b=2)]"
        )
        for before in ("", "add(a=0, b=0)\n"):
            self.gives(code % before, [["unavailable", True], 4])

    def test_an_interrupt_while_waiting_loses_nothing(self):
        code = (
            "import os, signal\nfrom tools.github import silent\nfrom tools.maths import add\n"
            "signal.signal(signal.SIGALRM, lambda *a: 1 / 0)\nsignal.setitimer(signal.ITIMER_REAL, 0.05)\n"
            "try:\n    silent()\nexcept ZeroDivisionError:\n    r = 'stopped'\n[r, add(a=1, b=2)]"
        )
        self.gives(code, ["stopped", 3])

    def test_a_peer_that_talks_nonsense(self):
        for answer in (b"[]", b"{", b'{"id":"x"}', b"\xff", b'{"id":1,"ok":1'):
            peer = Peer(servers())

            def send(number, _, peer=peer, answer=answer):
                peer.ours.sendall(struct.pack(">I", len(answer)) + answer)
                peer.ours.shutdown(socket.SHUT_WR)

            peer.send = send
            outcome = self.warm("from tools.maths import add", peer=peer)
            self.assertEqual(outcome.error["type"], "ImportError", outcome)
        peer = Peer(servers())
        peer.send = lambda number, answer: Peer.send(peer, number, dict(answer, more=1)) or Peer.send(peer, 99, answer)
        outcome = self.warm("from tools.maths import add\nadd(a=1, b=1)", peer=peer)
        self.assertEqual(outcome.result, 2, outcome)

    def test_bytes_in_pieces(self):
        peer = Peer(servers())

        def send(number, answer):
            text = cell.json.dumps(dict(answer, id=number)).encode()
            for byte in struct.pack(">I", len(text)) + text:
                peer.ours.sendall(bytes([byte]))

        peer.send = send
        outcome = self.warm("from tools.maths import add\n[add(a=i, b=1) for i in range(3)]", peer=peer)
        self.assertEqual(outcome.result, [1, 2, 3], outcome)

    def test_one_call_starts_no_thread(self):
        self.gives("import threading, os\nfrom tools.maths import add\nadd(a=1, b=1)\nlen(os.listdir('/proc/self/task'))", 1)
        self.gives("import os\nfrom tools.maths import add\nawait add.start(a=1, b=1)\nlen(os.listdir('/proc/self/task'))", 2)


if __name__ == "__main__":
    cell.main()
