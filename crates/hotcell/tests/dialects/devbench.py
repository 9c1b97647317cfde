"""What a user of MCP DevBench can rely on, and what is no longer wrong with it.

DEVBENCH_IMAGE names the image of containers; the machine's own programs unless given. Over stdio the
command is `hotcell serve --dialect devbench`, over HTTP the same with `--http 127.0.0.1:{port}`."""

import sys

import harness
from devbench_checks import config, errors, execs, faults, files, serving, together, tools

sys.exit(harness.main([tools, execs, files, errors, config, serving, together, faults]))
