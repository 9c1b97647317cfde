"""What a user of mcp-background-job can rely on, and what is no longer wrong with it.

Every command in these checks is harmless even if it is let through: the original runs it
unconfined."""

import sys

import harness
from background_job_checks import busy, config, errors, faults, together, tools

sys.exit(harness.main([tools, errors, config, busy, together, faults]))
