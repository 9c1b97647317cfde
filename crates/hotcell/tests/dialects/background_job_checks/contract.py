"""The tools of the original as they are on its wire."""

from typing import Any

TEXT = {"type": "string"}
# The arguments of each tool as the original shows them, without titles and descriptions.
ARGUMENTS: dict[str, dict[str, Any]] = {
    "execute_command": {"command": TEXT},
    "list_jobs": {},
    "get_job_status": {"job_id": TEXT},
    "get_job_output": {"job_id": TEXT},
    "tail_job_output": {
        "job_id": TEXT,
        "lines": {"type": "integer", "default": 50, "minimum": 1, "maximum": 1000},
    },
    "interact_with_job": {"job_id": TEXT, "input": TEXT},
    "kill_job": {"job_id": TEXT},
}
RESULTS = {
    "execute_command": {"job_id"},
    "list_jobs": {"jobs"},
    "get_job_status": {"status"},
    "get_job_output": {"stdout", "stderr"},
    "tail_job_output": {"stdout", "stderr"},
    "interact_with_job": {"stdout", "stderr"},
    "kill_job": {"status"},
}
READING = ["list_jobs", "get_job_status", "get_job_output", "tail_job_output"]
ACTING = ["execute_command", "interact_with_job"]
