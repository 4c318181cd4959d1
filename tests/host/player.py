#!/usr/bin/python3
"""Stands in for vLLM on the real host: prints a recorded load, byte for byte, and serves as the recorded server did.

    PLAYER_TAPE=/opt/tapes/NAME.jsonl [PLAYER_SPEED=10] vllm serve MODEL [--host H] [--port N] …

It takes vLLM's own command line, so that units look like real ones, and its orders from the environment:

``PLAYER_TAPE``   lines of {"t": seconds since the start, "b": bytes as Latin-1}; what ``tape.py`` makes
``PLAYER_SPEED``  how many seconds of the tape in one second
``PLAYER_METRICS``  a file that /metrics answers with
``PLAYER_EXIT``   exit with this status at the end of the tape; without it it serves on until SIGTERM

As recorded: the port is bound from the start and refuses until ``Application startup complete.`` was printed; each
answered request is a line in the log; after ``EngineDeadError`` /health is 503; SIGTERM ends it with status 0.
Files in the model folder are read piece by piece while the tape plays, so that storage counters move.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

READY = b"Application startup complete."
DEAD = b"EngineDeadError"


class Server(ThreadingHTTPServer):
    allow_reuse_address = True
    daemon_threads = True
    dead = False
    page = b""


class Answer(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/health":
            status, body = (503 if self.server.dead else 200), b""
        elif path == "/metrics" and self.server.page:
            status, body = 200, self.server.page
        elif path == "/version":
            status, body = 200, b'{"version":"0.32.0"}'
        else:
            status, body = 404, b'{"detail":"Not Found"}'
        # uvicorn's access line, before the answer as uvicorn has it
        reason = {200: "OK", 404: "Not Found", 503: "Service Unavailable"}[status]
        peer = "{}:{}".format(*self.client_address)
        say(f'INFO:     {peer} - "GET {self.path} HTTP/1.1" {status} {reason}\n')
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; version=0.0.4" if path == "/metrics" else "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def say(what: str | bytes) -> None:
    data = what.encode() if isinstance(what, str) else what
    while data:
        data = data[os.write(1, data) :]


def nibble(folder: Path, seconds: float) -> None:
    """Read all of the folder's files once, evenly over this time."""
    files = [file for file in sorted(folder.rglob("*")) if file.is_file()] if folder.is_dir() else []
    pieces = [(file, at) for file in files for at in range(0, file.stat().st_size, 1 << 20)]
    for file, at in pieces:
        with file.open("rb") as source:
            source.seek(at)
            source.read(1 << 20)
        time.sleep(seconds / len(pieces))


def main() -> int:
    asked = argparse.ArgumentParser()
    asked.add_argument("serve")
    asked.add_argument("model", type=Path)
    asked.add_argument("--host", default="127.0.0.1")
    asked.add_argument("--port", type=int, default=8000)
    args, _ = asked.parse_known_args()

    speed = float(os.environ.get("PLAYER_SPEED", "1"))
    pieces = [json.loads(line) for line in Path(os.environ["PLAYER_TAPE"]).read_text().splitlines()]
    pieces = [(piece["t"], piece["b"].encode("latin-1")) for piece in pieces]
    server = Server((args.host, args.port), Answer, bind_and_activate=False)
    server.server_bind()  # bound, and not listening yet
    if metrics := os.environ.get("PLAYER_METRICS"):
        server.page = Path(metrics).read_bytes()
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    if pieces:
        threading.Thread(target=nibble, args=(args.model, pieces[-1][0] / speed), daemon=True).start()

    began = time.monotonic()
    seen = b""
    for at, data in pieces:
        time.sleep(max(0.0, began + at / speed - time.monotonic()))
        say(data)
        seen = seen[-200:] + data
        if READY in seen:
            server.server_activate()
            threading.Thread(target=server.serve_forever, daemon=True).start()
            seen = b""
        server.dead = server.dead or DEAD in data
    if "PLAYER_EXIT" in os.environ:
        return int(os.environ["PLAYER_EXIT"])
    threading.Event().wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
