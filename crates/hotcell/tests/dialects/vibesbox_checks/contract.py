"""The tools of the original as they are on its wire."""

from typing import Any

# The arguments of each tool, without titles and descriptions.
ARGUMENTS: dict[str, dict[str, Any]] = {
    "execute_command": {
        "command": {"type": "string", "maxLength": 10000},
        "shell": {"type": "string", "default": "/bin/sh"},
        "timeout": {"type": "integer", "default": 30, "minimum": 1, "maximum": 300},
        "stream": {"type": "boolean", "default": True},
    },
    "manage_process": {
        "action": {"type": "string"},
        "pid": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
        "signal": {"type": "string", "default": "SIGTERM"},
    },
    "health": {},
}
REQUIRED = {"execute_command": ["command"], "manage_process": ["action"], "health": []}
EXECUTED = {"success", "exit_code", "stdout", "stderr", "truncated", "error"}
LISTED = {"pid", "command", "started_at", "status"}
MOST_ENDED = 100
MOST_LINES = 100

# The block list: a command for each pattern, and the pattern that its refusal names.
BLOCKED = [
    ("rm -rf /", r"rm -rf /"),
    ("dd if=/dev/zero of=/tmp/zeros", r"dd if=/dev/zero"),
    (":(){ :|:& };:", r":\(\)\{ ?:\|:& ?\};:"),
    ("chmod -R 777 /", r"chmod -R 777 /"),
    ("mkfs /dev/sda", r"mkfs.*"),
    ("mkfs.ext4 /dev/sda", r"mkfs.*"),
    ("echo x > /dev/sda", r"> /dev/sda"),
]
