"""Does whole tasks with the tools of real servers, once by code through Hotcell and once by calls of the tools
themselves, and writes down all that a model would have written and read.

usage: tasks.py HOTCELL INSTALLED OUT    HOTCELL is the program, INSTALLED where the packages of the servers are;
                                         OUT gets a JSON document that the example `tokens` counts.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from list import Client, handshake

TRIES = 20
PAUSE_S = 3
FIVE = ["everything", "filesystem", "git", "memory", "sqlite"]
REGIONS = ["north", "south", "east", "west"]
ANIMALS = ["ant", "bee", "cat", "dog", "elk", "fox", "gnu", "hen", "ibis", "jay"]


def prepare(place):
    """The same files, database and repository for everybody."""
    files = place / "files"
    (files / "src").mkdir(parents=True)
    sales = ["day,region,product,count,price"]
    for n in range(3600):
        day, product = f"2026-{n % 12 + 1:02}-{n % 28 + 1:02}", f"part-{n * 7919 % 613}"
        sales.append(f"{day},{REGIONS[n * 31 % 4]},{product},{n * 17 % 23 + 1},{n * 13 % 97 + 0.5:.2f}")
    (files / "sales.csv").write_text("\n".join(sales) + "\n")
    stock = ["part,place,amount"] + [f"part-{n},shelf-{n * 7 % 40},{n * 11 % 90}" for n in range(150)]
    (files / "stock.csv").write_text("\n".join(stock) + "\n")
    for n in range(40):
        lines = [f"def step_{n}_{line}(value):\n    return value * {line + 1}\n" for line in range(8)]
        lines[n % 8] += f"    # TODO: look at case {n}\n" * (n % 3)
        (files / "src" / f"module_{n:02}.py").write_text("\n".join(lines))
    fill = (
        "import sqlite3, sys\n"
        "base = sqlite3.connect(sys.argv[1])\n"
        "base.execute('create table customers (id integer primary key, name text, city text)')\n"
        "base.execute('create table orders (id integer primary key, customer_id integer, cents integer)')\n"
        "base.executemany('insert into customers values (?, ?, ?)',"
        " [(n, f'customer {n}', f'city {n % 9}') for n in range(60)])\n"
        "base.executemany('insert into orders values (?, ?, ?)',"
        " [(n, n * n % 60, n * 997 % 5000) for n in range(900)])\n"
        "base.commit()\n"
    )
    subprocess.run([sys.executable, "-c", fill, str(place / "shop.db")], check=True)
    repository = place / "repository"
    repository.mkdir()
    git(repository, "init", "-q")
    for n in range(120):
        (repository / "notes.txt").write_text(f"note {n}\n")
        git(repository, "add", "notes.txt")
        author = ANIMALS[n * n % 7]
        git(repository, "-c", f"user.name={author}", "-c", f"user.email={author}@example.com",
            "commit", "-q", "-m", f"Note {n}")


def git(repository, *arguments):
    dates = {"GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z", "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z"}
    env = {"PATH": os.environ["PATH"], "HOME": str(repository), "GIT_CONFIG_NOSYSTEM": "1", **dates}
    subprocess.run(["git", "-C", str(repository), *arguments], check=True, env=env)


def tasks(place):
    """Each task: what is searched for, the code that is written, and the calls that do the same."""
    files, repository = place / "files", str(place / "repository")
    stock = (files / "stock.csv").read_text().split()[1:]
    rows = ", ".join("('{}', '{}', {})".format(*row.split(",")) for row in stock)
    sums = [(n, n * 3) for n in range(10)]
    names = [{"name": name, "entityType": "animal", "observations": [f"lives in room {n}"]}
             for n, name in enumerate(ANIMALS)]
    knows = [{"from": one, "to": other, "relationType": "knows"} for one, other in zip(ANIMALS, ANIMALS[1:])]
    totals = (
        "select c.name, sum(o.cents) as cents from customers c join orders o on o.customer_id = c.id"
        " group by c.id order by cents desc limit 5"
    )
    return [
        {
            "task": "add up a table of 50,000 tokens", "servers": ["filesystem"],
            "searches": [{"query": "read a text file", "limit": 2}],
            "code": [
                "import csv\nfrom collections import Counter\nfrom tools.filesystem import read_text_file\n"
                "sums = Counter()\n"
                f"for row in csv.DictReader(read_text_file(path='{files}/sales.csv')['content'].splitlines()):\n"
                "    sums[row['region']] += int(row['count']) * float(row['price'])\n"
                "dict(sums)"
            ],
            "direct": [("filesystem", "read_text_file", {"path": f"{files}/sales.csv"})],
            "right": "north",
        },
        {
            "task": "count marks in 40 files", "servers": ["filesystem"],
            "searches": [{"query": "list files of a directory"}, {"query": "read a text file"}],
            "code": [
                "from tools.filesystem import list_directory, read_text_file\n"
                f"listed = list_directory(path='{files}/src')['content'].splitlines()\n"
                "names = [line.split('] ')[1] for line in listed]\n"
                f"found = {{name: read_text_file(path='{files}/src/' + name)['content'].count('TODO')"
                " for name in names}\n"
                "sum(found.values()), max(found, key=found.get)"
            ],
            "direct": [("filesystem", "list_directory", {"path": f"{files}/src"})]
            + [("filesystem", "read_text_file", {"path": f"{files}/src/module_{n:02}.py"}) for n in range(40)],
            "right": "39",
        },
        {
            "task": "the best customers of a database", "servers": ["sqlite"],
            "searches": [{"query": "tables of a database and their columns"}, {"query": "run a select query"}],
            "code": [
                "from tools.sqlite import list_tables, describe_table\nimport ast\n"
                "{t['name']: describe_table(table_name=t['name']) for t in ast.literal_eval(list_tables())}",
                f"from tools.sqlite import read_query\nread_query(query={totals!r})",
            ],
            "direct": [
                ("sqlite", "list_tables", {}),
                ("sqlite", "describe_table", {"table_name": "customers"}),
                ("sqlite", "describe_table", {"table_name": "orders"}),
                ("sqlite", "read_query", {"query": totals}),
            ],
            "right": "customer",
        },
        {
            "task": "remember ten animals and ask for one", "servers": ["memory"],
            "searches": [{"query": "remember animals and how they are related"}, {"query": "look up an animal"}],
            "code": [
                "from tools.memory import create_entities, create_relations, open_nodes\n"
                f"animals = {ANIMALS!r}\n"
                "create_entities(entities=[{'name': a, 'entityType': 'animal', 'observations':"
                " [f'lives in room {n}']} for n, a in enumerate(animals)])\n"
                "create_relations(relations=[{'from': a, 'to': b, 'relationType': 'knows'}"
                " for a, b in zip(animals, animals[1:])])\n"
                "open_nodes(names=['cat'])"
            ],
            "direct": [
                ("memory", "create_entities", {"entities": names}),
                ("memory", "create_relations", {"relations": knows}),
                ("memory", "open_nodes", {"names": ["cat"]}),
            ],
            "right": "room 2",
        },
        {
            "task": "ten sums", "servers": ["everything"],
            "searches": [{"query": "add two numbers"}],
            "code": [
                f"from tools.everything import get_sum\n[get_sum(a=a, b=b) for a, b in {sums!r}]"
            ],
            "direct": [("everything", "get-sum", {"a": a, "b": b}) for a, b in sums],
            "right": "36",
        },
        {
            "task": "one sum", "servers": ["everything"],
            "searches": [{"query": "add two numbers"}],
            "code": ["from tools.everything import get_sum\nget_sum(a=2, b=40)"],
            "direct": [("everything", "get-sum", {"a": 2, "b": 40})],
            "right": "42",
        },
        {
            "task": "load a file into a table", "servers": ["filesystem", "sqlite"],
            "searches": [{"query": "read a text file"}, {"query": "create a table and insert rows in sqlite"}],
            "code": [
                "import csv\nfrom tools.filesystem import read_text_file\n"
                "from tools.sqlite import create_table, write_query, read_query\n"
                "create_table(query='create table stock (part text, place text, amount integer)')\n"
                f"rows = list(csv.reader(read_text_file(path='{files}/stock.csv')['content'].splitlines()))[1:]\n"
                "values = ', '.join(f\"('{a}', '{b}', {c})\" for a, b, c in rows)\n"
                "write_query(query=f'insert into stock values {values}')\n"
                "read_query(query='select count(*), sum(amount) from stock')"
            ],
            "direct": [
                ("filesystem", "read_text_file", {"path": f"{files}/stock.csv"}),
                ("sqlite", "create_table", {"query": "create table stock (part text, place text, amount integer)"}),
                ("sqlite", "write_query", {"query": f"insert into stock values {rows}"}),
                ("sqlite", "read_query", {"query": "select count(*), sum(amount) from stock"}),
            ],
            "right": "150",
        },
        {
            "task": "commits of each author", "servers": ["git"],
            "searches": [{"query": "history of a git repository"}],
            "code": [
                "import re\nfrom collections import Counter\nfrom tools.git import git_log\n"
                f"log = git_log(repo_path='{repository}', max_count=500)\n"
                "dict(Counter(re.findall(r'Author: .*?\"?(\\w+)', str(log))))"
            ],
            "direct": [("git", "git_log", {"repo_path": repository, "max_count": 500})],
            "right": "ant",
        },
        {
            "task": "a wrong path, then the right one", "servers": ["filesystem"],
            "searches": [{"query": "read a text file"}],
            "code": [
                f"from tools.filesystem import read_text_file\nread_text_file(path='{files}/stok.csv', head=3)",
                f"from tools.filesystem import read_text_file\nread_text_file(path='{files}/stock.csv', head=3)",
            ],
            "direct": [
                ("filesystem", "read_text_file", {"path": f"{files}/stok.csv", "head": 3}),
                ("filesystem", "read_text_file", {"path": f"{files}/stock.csv", "head": 3}),
            ],
            "right": "shelf-0",
        },
    ]


def declared(installed, place, names):
    """The servers with their commands as they run here."""
    servers = json.loads((pathlib.Path(__file__).parent / "servers.json").read_text())
    found = {}
    for name in names or servers:
        server = servers[name]
        command = [part.replace("{scratch}", str(place)) for part in server["command"]]
        command[0] = str(installed / command[0])
        env = dict(server.get("env", {}))
        if name == "sqlite":
            command[-1] = str(place / "shop.db")
        if name == "memory":
            env["MEMORY_FILE_PATH"] = str(place / "memory.json")
        found[name] = {"command": command, "env": env, "cwd": str(place)}
    return found


class Hotcell:
    """Hotcell with these servers, as a client sees it."""

    def __init__(self, program, place, servers):
        lines = ["[toolbox]", "pass_through_tokens = 0"]
        for name, server in servers.items():
            env = ", ".join(f"{json.dumps(key)} = {json.dumps(value)}" for key, value in server["env"].items())
            lines += [
                f"[toolbox.{name}]", f"command = {json.dumps(server['command'][0])}",
                f"args = {json.dumps(server['command'][1:])}", f"env = {{ {env} }}",
                f"cwd = {json.dumps(server['cwd'])}", "timeout_s = 120",
            ]
        (place / "hotcell.toml").write_text("\n".join(lines) + "\n")
        allowed = json.dumps([f"{name.replace('-', '_')}.*" for name in servers])
        (place / "policy.toml").write_text(f'[[rule]]\nid = "bench"\nverdict = "allow"\ntool = {allowed}\n')
        env = {
            "PATH": os.environ["PATH"], "HOME": str(place), "HOTCELL_STATE_DIR": str(place / "state"),
            "HOTCELL_POLICY_FILE": str(place / "policy.toml"),
        }
        self.log = open(place / "stderr", "w+b")
        command = [str(program), "serve", "--config", str(place / "hotcell.toml"), "--tools", "code"]
        self.client = Client(command, env, place, self.log)
        handshake(self.client)
        # A server that was too slow to start is started again.
        for _ in range(TRIES):
            if "not known: " not in self.call("tool_search", {"query": "anything"}):
                break
            time.sleep(PAUSE_S)

    def definitions(self):
        return self.client.ask("tools/list", {})["tools"]

    def call(self, tool, arguments):
        answer = self.client.ask("tools/call", {"name": tool, "arguments": arguments})
        return "\n".join(block.get("text", "") for block in answer["content"])

    def close(self):
        self.client.process.stdin.close()
        self.client.process.wait(timeout=60)
        self.log.close()


def by_code(program, installed, names):
    """What is written and read when each task that these servers can do is done by code."""
    done = []
    with tempfile.TemporaryDirectory(prefix="hc") as scratch:
        place = pathlib.Path(scratch)
        prepare(place)
        hotcell = Hotcell(program, place, declared(installed, place, names))
        try:
            fixed = hotcell.definitions()
            for task in tasks(place):
                if names and not set(task["servers"]) <= set(names):
                    continue
                turns = []
                for search in task["searches"]:
                    turns.append(("search", json.dumps(search), hotcell.call("tool_search", search)))
                for code in task["code"]:
                    shown = hotcell.call("code_run", {"code": code, "timeout_s": 120, "wait_s": 50})
                    turns.append(("code", json.dumps({"code": code}), shown))
                check(task, turns)
                done.append({"task": task["task"], "turns": turns})
        finally:
            hotcell.close()
            subprocess.run([str(program), "gc"], env={"PATH": os.environ["PATH"], "HOME": scratch,
                "HOTCELL_STATE_DIR": str(place / "state")}, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL, check=False)
    return fixed, done


def by_calls(installed):
    """What is written and read when each task is done by calls of the tools themselves."""
    done = []
    with tempfile.TemporaryDirectory(prefix="hc") as scratch:
        place = pathlib.Path(scratch)
        prepare(place)
        clients = {}
        with open(place / "stderr", "w+b") as log:
            for name, server in declared(installed, place, FIVE).items():
                env = {"PATH": os.environ["PATH"], "HOME": scratch, **server["env"]}
                clients[name] = Client(server["command"], env, server["cwd"], log)
                handshake(clients[name])
            for task in tasks(place):
                turns = []
                for server, tool, arguments in task["direct"]:
                    answer = clients[server].ask("tools/call", {"name": tool, "arguments": arguments})
                    shown = "\n".join(block.get("text", "") for block in answer["content"])
                    turns.append((f"{server}.{tool}", json.dumps(arguments), shown))
                if task["task"] not in ("add up a table of 50,000 tokens", "count marks in 40 files"):
                    check(task, turns)
                done.append({"task": task["task"], "turns": turns})
            for client in clients.values():
                client.close()
    return done


def check(task, turns):
    if task["right"] not in turns[-1][2]:
        raise SystemExit(f"{task['task']}: {task['right']!r} is not in what came: {turns}")


def main():
    program, installed, out = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
    single = {}
    for name in FIVE:
        print(f"tasks with {name} alone", file=sys.stderr)
        fixed, single[name] = by_code(program, installed, [name])
    report = {"fixed": fixed, "five_servers": FIVE}
    report["one"] = [task for done in single.values() for task in done]
    print("tasks with five servers", file=sys.stderr)
    report["five"] = by_code(program, installed, FIVE)[1]
    print("tasks by calls", file=sys.stderr)
    report["calls"] = by_calls(installed)
    print("tasks with all servers", file=sys.stderr)
    report["all"] = by_code(program, installed, None)[1]
    out.write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
