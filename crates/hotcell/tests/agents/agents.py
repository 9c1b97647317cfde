#!/usr/bin/env python3
"""Drives real clients with a scripted model.

  agents.py run PROGRAM CLIENT [SCENARIO]    runs the scenarios, or one of them, with a client
  agents.py project PROGRAM CLIENT           has the client fix a project, which the user applies
  agents.py list                             lists clients and scenarios

Clients are found in the directory HOTCELL_TEST_AGENTS, and Node in HOTCELL_TEST_CLIENTS; scripts/prepare.sh
installs both. Cells are those of HOTCELL_STATE_DIR, or else of a state directory in a scratch directory.
With HOTCELL_TEST_KEEP=1 the scratch directory stays: it has every request that the model got.
"""

import json
import sys
from pathlib import Path

import plans
import project
from clients import MODULES, find_client
from session import MOST_SHOWN, Session


def main(arguments):
    match arguments:
        case ["list"]:
            print("clients:", *MODULES)
            print("scenarios:", *(plan.__name__ for plan in plans.FIRST + plans.SECOND))
            return 0
        case ["run", program, client, *scenario] if client in MODULES and len(scenario) <= 1:
            action = run
        case ["project", program, client, *scenario] if client in MODULES and not scenario:
            action = project.run
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    with Session(Path(program).resolve(), find_client(client)) as session:
        action(session, *scenario)
    return report(client, session.outcomes)


def run(session, scenario=None):
    """Holds the conversations: all, or only what one scenario needs."""
    session.client.configure(session.program)
    own = session.client.own_plans
    chosen = [plan for plan in own + plans.FIRST if scenario in (None, plan.__name__)]
    if scenario == "reconnect":
        chosen = [plans.interrupted]
    session.converse(chosen)
    if plans.interrupted in chosen:
        session.converse(plans.SECOND)
    tokens = {"progressToken" in call.get("_meta", {}) for call in session.log.calls()}
    known = session.client.sends_progress_token
    session.check("progress_token", tokens - {known} and f"known: {known}, seen: {tokens}")


def report(client, outcomes):
    """Says how every scenario went, and of failures what the model saw."""
    failed = [outcome for outcome in outcomes if outcome.failure]
    for outcome in outcomes:
        print(f"{'FAILED' if outcome.failure else 'ok    '} {client} {outcome.name}")
    for outcome in failed:
        print(f"\n== {client} {outcome.name}: {outcome.failure}")
        for step in outcome.steps:
            print(f"-> {step.call.tool} {shorten(json.dumps(step.call.arguments))}")
            if step.seen is not None:
                print(f"<- {len(step.seen.text)} characters, {len(step.seen.images)} images:")
                print(shorten(step.seen.text))
    print(f"\n{client}: {len(outcomes) - len(failed)} of {len(outcomes)} scenarios passed")
    return 1 if failed else 0


def shorten(text):
    if len(text) <= MOST_SHOWN:
        return text
    return f"{text[: MOST_SHOWN // 2]} […] {text[-MOST_SHOWN // 2 :]}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
