"""A server of a model for tests of benchmarks: /v1/models, /v1/completions, /metrics of a real one, and its ways to
refuse."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

RECORDING = Path(__file__).parent.parent / "recordings/cpu-ngram"
PAGES = tuple(RECORDING / name for name in ("metrics-first.txt", "metrics-last.txt"))


class ModelServer(ThreadingHTTPServer):
    """``key``: the one that it asks for; ``served``: the name at /v1/completions; ``running``: how many it says it
    has."""

    daemon_threads = True

    def __init__(self, port: int = 0, pages: Sequence[Path] = PAGES) -> None:
        super().__init__(("127.0.0.1", port), _Asked)
        self.key = ""
        self.models = [{"id": "tiny", "root": "/opt/models/tiny", "parent": None, "max_model_len": 2048}]
        self.served = {"tiny"}
        self.running = 0
        self.pages = [page.read_text() for page in pages]
        self.asked: list[str] = []

    @property
    def port(self) -> int:
        return int(self.server_address[1])


class _Asked(BaseHTTPRequestHandler):
    server: ModelServer

    def _answer(self, status: int, body: str) -> None:
        data = body.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        server, path = self.server, self.path.partition("?")[0]
        server.asked.append(path)
        if path == "/metrics":
            page = server.pages[0] if len(server.pages) == 1 else server.pages.pop(0)
            busy = f'vllm:num_requests_running{{engine="0",model_name="tiny"}} {server.running}.0'
            kept = [line for line in page.splitlines() if not line.startswith("vllm:num_requests_running")]
            self._answer(200, "\n".join([*kept, busy]) + "\n")
        elif path == "/health":
            self._answer(200, "")
        elif server.key and self.headers.get("Authorization") != f"Bearer {server.key}":
            self._answer(401, '{"error": "Unauthorized"}')
        elif path == "/v1/models":
            self._answer(200, json.dumps({"object": "list", "data": server.models}))
        else:
            self._answer(200, "")

    def do_POST(self) -> None:
        server = self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server.asked.append(self.path.partition("?")[0])
        if server.key and self.headers.get("Authorization") != f"Bearer {server.key}":
            self._answer(401, '{"error": "Unauthorized"}')
        elif body["model"] not in server.served:
            self._answer(404, json.dumps({"error": {"message": f"The model `{body['model']}` does not exist."}}))
        else:
            self._answer(200, json.dumps({"choices": [{"text": " three"}]}))

    def log_message(self, *_: object) -> None: ...


@contextmanager
def model_server() -> Iterator[ModelServer]:
    server = ModelServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
