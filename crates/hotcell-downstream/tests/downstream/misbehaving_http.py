"""A server of tools by HTTP that tells its port, wants a token, and does what servers should not do."""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def tell(self, status, kind="application/json", body=b"", **headers):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        try:
            self.wfile.write(body)
        except OSError:
            self.close_connection = True

    def answer(self, id, result):
        self.tell(200, body=json.dumps({"jsonrpc": "2.0", "id": id, "result": result}).encode())

    def stream(self, pieces):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        try:
            for piece in pieces:
                self.wfile.write(piece)
        except OSError:
            pass
        self.close_connection = True

    def do_GET(self):
        self.tell(405)

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        method, id, params = message.get("method"), message.get("id"), message.get("params") or {}
        if self.path.startswith("/elsewhere"):
            self.tell(307, Location="/mcp")
        elif self.headers.get("Authorization") != "Bearer " + sys.argv[1]:
            self.tell(401, **{"WWW-Authenticate": "Bearer"})
        elif method == "initialize":
            self.answer(id, {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "misbehaving", "version": "1"},
            })
        elif method == "tools/list":
            names = ["headers", "big", "big_event", "endless_event", "event"]
            self.answer(id, {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in names]})
        elif method == "tools/call":
            self.call(id, params["name"], params.get("arguments") or {})
        elif id is None:
            self.tell(202)
        else:
            self.tell(400, body=b"what is that?", kind="text/plain")

    def call(self, id, name, arguments):
        def text(words):
            return {"content": [{"type": "text", "text": words}]}

        def event(words):
            return b"data: " + json.dumps({"jsonrpc": "2.0", "id": id, "result": text(words)}).encode() + b"\n\n"

        if name == "headers":
            self.answer(id, {"content": [], "structuredContent": dict(self.headers), "new": 1})
        elif name == "big":
            self.answer(id, text("y" * arguments["bytes"]))
        elif name == "event":
            self.stream([b": hello\n\n", event("by an event")])
        elif name == "big_event":
            self.stream([event("y" * arguments["bytes"])])
        elif name == "endless_event":
            def endless():
                while True:
                    yield b"data: " + b"x" * 65536 + b"\n"
            self.stream(endless())


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
