"""What a user of vibesbox can rely on, and what is no longer wrong with it."""

import sys

import harness
from vibesbox_checks import confinement, errors, faults, output, processes, rules, together, tools

sys.exit(
    harness.main([tools, processes, errors, rules, output, confinement, together, faults])
)
