"""Drives the program with the official Python client.

    python_client.py run PROGRAM stdio|http modern|legacy [SCENARIO...]

Runs every scenario, or those named, and tells of each how it went."""

import sys
import traceback

import anyio

import scenarios
from servers import HttpSite, StdioSite

SITES = {"stdio": StdioSite, "http": HttpSite}


async def run(site, chosen: list[str]) -> int:
    failed = 0
    wanted = [each for each in scenarios.ALL if not chosen or each.__name__ in chosen]
    assert wanted, f"there is no scenario named {chosen}"
    for number, scenario in enumerate(wanted):
        try:
            await scenario(site, f"cell-{number}")
            print("ok", scenario.__name__, flush=True)
        except Exception as error:
            failed += 1
            print("FAILED", scenario.__name__, cause(error), flush=True)
    site.close()
    print(f"{len(wanted) - failed} of {len(wanted)} scenarios passed", flush=True)
    return 1 if failed else 0


def cause(error: BaseException) -> str:
    """What failed, without the groups of tasks around it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return "".join(traceback.format_exception(error))


def main() -> int:
    verb, program, transport, era, *rest = sys.argv[1:]
    site = SITES[transport](program, era)
    if verb == "run":
        return anyio.run(run, site, rest)
    assert verb == "vanish", verb
    cell, url = rest
    if url:
        site.process, site.url = "of another", url
    anyio.run(scenarios.vanish, site, cell)
    return 0


sys.exit(main())
