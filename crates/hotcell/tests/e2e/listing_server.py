"""A server of tools whose list is that of a file. When the file changes, so does the list."""

import json
import os
import sys
import threading
import time

place = sys.argv[1]
lock = threading.Lock()


def say(message):
    with lock:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def tools():
    with open(place) as file:
        return json.load(file)


def watch():
    seen = os.stat(place).st_mtime_ns
    while True:
        time.sleep(0.05)
        now = os.stat(place).st_mtime_ns
        if now != seen:
            seen = now
            say({"method": "notifications/tools/list_changed"})


threading.Thread(target=watch, daemon=True).start()
for line in sys.stdin:
    asked = json.loads(line)
    method, params = asked.get("method"), asked.get("params") or {}
    if "id" not in asked:
        continue
    if method == "initialize":
        result = {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": "listing", "version": "1"},
        }
    elif method == "tools/list":
        result = {"tools": tools()}
    elif method == "tools/call":
        text = json.dumps({params["arguments"].get("key", "key"): 1})
        result = {"content": [{"type": "text", "text": text}]}
    else:
        say({"id": asked["id"], "error": {"code": -32601, "message": "no such method"}})
        continue
    say({"id": asked["id"], "result": result})
