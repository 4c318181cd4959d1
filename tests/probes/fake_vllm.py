#!/usr/bin/env python3
"""A `vllm` of which only `bench serve` works: it prints what a real one printed and leaves what a real one left, or
fails in the way that the file ``mode`` beside it names. It notes how it was called in the file ``calls``.

Modes: good, slow (goes on for ever), asks (twenty requests of the server at once), and the failures of the issue: see
``FAILURES`` and ``main``. ``serve`` starts ``model_server.py`` from beside it, for hosts of which the tests see no more
than files.
"""

import http.client
import json
import os
import sys
import time
import urllib.parse
from pathlib import Path

HERE = Path(os.environ.get("FAKE_VLLM") or Path(__file__).resolve().parent)
OPTIONS = [
    *("--base-url", "--backend", "--endpoint", "--model", "--served-model-name", "--tokenizer", "--tokenizer-mode"),
    *("--trust-remote-code", "--dataset-name", "--random-input-len", "--random-output-len", "--num-prompts"),
    *("--max-concurrency", "--request-rate", "--burstiness", "--save-result", "--result-dir", "--result-filename"),
    *("--metadata", "--seed", "--temperature", "--ignore-eos", "--num-warmups", "--percentile-metrics"),
    *("--metric-percentiles", "--ready-check-timeout-sec"),
]
NEWER = {"--num-warmups", "--temperature", "--ready-check-timeout-sec"}
FAILURES = {
    "no-bench": (2, "vllm: error: argument subparser: invalid choice: 'bench' (choose from 'chat', 'serve')"),
    "no-module": (1, "ModuleNotFoundError: No module named 'datasets'"),
    "no-tokenizer": (
        1,
        "OSError: We couldn't connect to 'https://huggingface.co' to load the files, and couldn't find them in the"
        " cached files.",
    ),
    "disk-full": (1, "OSError: [Errno 28] No space left on device"),
    "not-ready": (1, "ValueError: Initial test run failed - Please make sure benchmark arguments are correctly"
                  " specified. Error: Traceback (most recent call last):"),
}  # fmt: skip


def value(argv: list[str], name: str) -> str:
    return argv[argv.index(name) + 1]


def serve(argv: list[str]) -> int:
    from model_server import ModelServer

    server = ModelServer(int(value(argv, "--port")), sorted(HERE.glob("metrics-*.txt")))
    server.key = value(argv, "--api-key") if "--api-key" in argv else ""
    print("INFO:     Application startup complete.", flush=True)
    server.serve_forever()
    return 0


def main(argv: list[str]) -> int:
    if argv[0] == "serve":
        return serve(argv)
    mode = (HERE / "mode").read_text().strip()
    kept = {name: os.environ[name] for name in ("OPENAI_API_KEY", "HF_HUB_OFFLINE", "PYTHONUNBUFFERED", "NO_PROXY")
            if name in os.environ}  # fmt: skip
    with (HERE / "calls").open("a") as calls:
        calls.write(json.dumps({"argv": argv, "environment": kept, "uid": os.getuid(), "folder": os.getcwd()}) + "\n")
    if mode in ("no-bench", "no-module"):
        print(FAILURES[mode][1], file=sys.stderr)
        return FAILURES[mode][0]
    if argv[2].startswith("--help"):
        if mode.startswith("old") and argv[2] == "--help=all":
            print("vllm bench serve: error: argument -h/--help: ignored explicit argument 'all'", file=sys.stderr)
            return 2
        offered = [name for name in OPTIONS if not (mode.startswith("old") and name in NEWER)]
        offered = [name for name in offered if not (mode == "old-concurrency" and name == "--max-concurrency")]
        print("usage: vllm bench serve [options]\n\noptions:")
        print("\n".join(f"  {name} VALUE  about it" for name in offered))
        return 0
    if mode in FAILURES:
        print("Namespace(subparser='bench')", flush=True)
        if mode == "disk-full":
            (Path(value(argv, "--result-dir")) / value(argv, "--result-filename")).write_bytes(b'{"date": "2026')
        print(FAILURES[mode][1], file=sys.stderr)
        return FAILURES[mode][0]
    sys.stdout.buffer.write((HERE / "log").read_bytes().partition(b"=====")[0])
    sys.stdout.flush()
    if mode == "asks":
        where = urllib.parse.urlsplit(value(argv, "--base-url"))
        asks = [http.client.HTTPConnection(where.hostname or "", where.port, timeout=20) for _ in range(20)]
        for one in asks:
            one.connect()
        for one in asks:
            one.request("GET", "/v1/models", headers={"Authorization": f"Bearer {os.environ.get('OPENAI_API_KEY')}"})
        answers = [one.getresponse().status for one in asks]
        (HERE / "answers").write_text(json.dumps(answers))
    while mode == "slow":
        time.sleep(0.1)
    if mode == "none":
        return 0
    print("=" * 12 + " Serving Benchmark Result " + "=" * 12)
    result = json.loads((HERE / "result").read_text())
    entries = argv[argv.index("--metadata") + 1 :] if "--metadata" in argv else []
    for entry in entries:
        if "=" not in entry or entry.startswith("--"):
            break
        key, _, text = entry.partition("=")
        result[key] = text
    if "--max-concurrency" in argv:
        result["max_concurrency"] = int(value(argv, "--max-concurrency"))
    data = json.dumps(result).encode()
    if mode == "cut":
        data = data[: len(data) // 2]
    (Path(value(argv, "--result-dir")) / value(argv, "--result-filename")).write_bytes(data)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
