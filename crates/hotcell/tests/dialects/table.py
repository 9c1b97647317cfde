"""Writes the comparison of a suite on the original and on Hotcell, as Markdown.

    table.py TITLE HOTCELL.jsonl ORIGINAL.jsonl > PAGE.md

The files are what the suite printed for each target. A check that fails on Hotcell, or on the
original without a reason or with one and passes there, is an error: the table would not be true."""

import json
import sys
from pathlib import Path
from typing import Any

HEADINGS = {
    "tool": "Tools",
    "default": "Defaults",
    "bound": "Bounds",
    "error": "Errors",
    "config": "Configuration",
    "concurrency": "Concurrent use",
    "restart": "Restarts",
    "fault": "Faults of the original",
    "planned": "What the original had planned",
}

Result = dict[str, Any]


def read(path: str) -> dict[str, Result]:
    lines = Path(path).read_text().splitlines()
    return {result["name"]: result for result in map(json.loads, lines)}


def untrue(hotcell: dict[str, Result], original: dict[str, Result]) -> list[str]:
    """Why the results make no true table."""
    found = [f"{name}: only one target ran it" for name in hotcell.keys() ^ original.keys()]
    found += [f"{name}: fails on Hotcell" for name, each in hotcell.items() if not each["ok"]]
    for name, each in original.items():
        if not each["ok"] and not each.get("original"):
            found.append(f"{name}: fails on the original, and nothing says why")
        if each["ok"] and each.get("original"):
            found.append(f"{name}: passes on the original, though it says why not")
    return found


def cell(text: str) -> str:
    return text.replace("|", "\\|")


def word(result: Result) -> str:
    return "yes" if result["ok"] else "no"


def row(hotcell: Result, original: Result) -> str:
    why = "" if original["ok"] else f": {original['original']}"
    columns = [f"`{hotcell['name']}`", hotcell["about"], word(original) + why, word(hotcell)]
    return f"| {' | '.join(map(cell, columns))} |"


def table(title: str, hotcell: dict[str, Result], original: dict[str, Result]) -> str:
    common = sum(each["ok"] for each in original.values())
    lines = [
        f"# {title}",
        "",
        "This page is generated from the results of one suite that was run on both.",
        f"Of its {len(hotcell)} checks the original passes {common} and Hotcell all.",
        "What passes on both is the common contract; what fails on the original is done better.",
    ]
    for kind, heading in HEADINGS.items():
        names = [name for name, each in hotcell.items() if each["kind"] == kind]
        if names:
            lines += ["", f"## {heading}", "", "| check | what holds | original | Hotcell |"]
            lines += ["|---|---|---|---|"]
            lines += [row(hotcell[name], original[name]) for name in names]
    return "\n".join(lines) + "\n"


def main() -> int:
    title, of_hotcell, of_original = sys.argv[1:]
    hotcell, original = read(of_hotcell), read(of_original)
    if why := untrue(hotcell, original):
        print("\n".join(why), file=sys.stderr)
        return 1
    sys.stdout.write(table(title, hotcell, original))
    return 0


sys.exit(main())
