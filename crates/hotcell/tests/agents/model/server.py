"""The model as an HTTP server: finds the wire format of a request by its path."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from . import anthropic_messages, gemini_generate, openai_chat, openai_responses
from .conversation import Reply

MODELS = {
    "object": "list",
    "has_more": False,
    "models": [],
    "data": [{"id": "scripted", "object": "model", "type": "model", "created": 1}],
}


class ModelServer:
    """Serves `answer`, a function from a turn to a reply, until it is closed."""

    def __init__(self):
        self.answer = None
        self.requests = []
        handler = type("Handler", (ModelRequest,), {"model": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def write_requests(self, path):
        """Writes down every request, for whoever looks into a failure."""
        with path.open("w") as file:
            for endpoint, body in self.requests:
                entry = {"endpoint": endpoint, "body": body.decode(errors="replace")}
                file.write(json.dumps(entry) + "\n")

    def close(self):
        self._server.shutdown()
        self._server.server_close()


class ModelRequest(BaseHTTPRequestHandler):
    """One connection of a client."""

    protocol_version = "HTTP/1.1"

    def log_message(self, format, *args):  # noqa: A002 - the name is the base class's
        pass

    def do_HEAD(self):
        self.send(b"", "text/plain")

    def do_GET(self):
        self.send_json(MODELS)

    def do_POST(self):
        path = self.path.partition("?")[0]
        body = self.read_body()
        self.model.requests.append((path, body))
        if path.endswith(("/count_tokens", ":countTokens")):
            return self.send_json({"input_tokens": 100, "totalTokens": 100})
        wire = find_wire(path)
        if wire is None:
            return self.send_json({"error": {"message": f"no such endpoint: {path}"}}, 404)
        request = json.loads(body)
        turn = wire.parse(request)
        turn.is_streaming = turn.is_streaming or "streamGenerateContent" in path
        reply = wanted_json(request) or self.model.answer(turn)
        kind = "text/event-stream" if turn.is_streaming else "application/json"
        self.send(wire.write(turn, reply).encode(), kind)

    def read_body(self):
        if self.headers.get("transfer-encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("content-length") or 0))
        body = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def send_json(self, value, status=200):
        self.send(json.dumps(value).encode(), "application/json", status)

    def send(self, body, kind, status=200):
        try:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True


def find_wire(path):
    """The wire format of an endpoint, or None."""
    if path.endswith("/messages"):
        return anthropic_messages
    if path.endswith("/responses"):
        return openai_responses
    if path.endswith("/chat/completions"):
        return openai_chat
    if path.endswith("enerateContent"):
        return gemini_generate
    return None


def wanted_json(request):
    """The answer to a question of Gemini CLI about the conversation, which takes only JSON."""
    config = request.get("generationConfig") or {}
    if not config.get("responseJsonSchema") and not config.get("responseSchema"):
        return None
    answer = {"reasoning": "scripted", "next_speaker": "user", "model_choice": "flash"}
    return Reply(text=json.dumps(answer))
