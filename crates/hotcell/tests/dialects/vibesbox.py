"""What a user of vibesbox can rely on, and what is no longer wrong with it."""

import os
import sys

import harness
from vibesbox_checks import (
    confinement,
    errors,
    faults,
    original_list,
    output,
    processes,
    rules,
    together,
    tools,
)

# Most checks need commands that the original did not allow, such as `sleep` and `trap`. Those of
# `original_list` leave this out.
os.environ["HOTCELL_POLICY_PROFILE"] = "allowlist"
sys.exit(
    harness.main(
        [tools, processes, errors, rules, original_list, output, confinement, together, faults]
    )
)
