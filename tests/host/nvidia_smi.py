#!/usr/bin/python3
"""Stands in for nvidia-smi on the real host: plays a recorded ``--query-gpu`` stream of two H200s.

Reads /etc/nvidia-smi.tape: the recorded CSV, header first, no units, a row a line, two rows a second of the load; and
/etc/nvidia-smi.json, if it is there: ``{"speed": 10, "lines": [[5, "text"], …], "end": 7, "status": 255, "hang": 9}``
(after so many rows: print that line instead of the row, end with that status, print nothing more for ever).

Understands ``--query-gpu=FIELDS --format=csv[,noheader][,nounits] [-l S | -lms MS]`` with any fields: what was not
recorded is ``[N/A]``. Anything else is refused as nvidia-smi refuses it.
"""

from __future__ import annotations

import csv
import json
import sys
import time
from pathlib import Path

TAPE = Path("/etc/nvidia-smi.tape")
ORDERS = Path("/etc/nvidia-smi.json")
UNITS = {"memory": " MiB", "utilization": " %", "power": " W", "clocks": " MHz"}
ALSO = {"clocks.current.sm": "clocks.sm"}  # two names of one field


def main() -> int:
    query, formats, pause, follow = "", set[str](), 0.0, False
    args = iter(sys.argv[1:])
    for arg in args:
        name, _, value = arg.partition("=")
        if name == "--query-gpu":
            query = value
        elif name == "--format":
            formats = set(value.split(","))
        elif name in {"-l", "-lms", "--loop", "--loop-ms"}:
            follow = True
            pause = float(value or next(args)) * (0.001 if name.endswith("ms") else 1)
        else:
            print(f"Invalid combination of input arguments. Please run 'nvidia-smi -h' for help. ({arg})")
            return 1
    if not query:
        print("NVIDIA-SMI has failed because it was asked for something that was not recorded.")
        return 9
    orders = json.loads(ORDERS.read_text()) if ORDERS.exists() else {}
    rows = list(csv.reader(TAPE.read_text().splitlines(), skipinitialspace=True))
    recorded = [name.split(" [")[0] for name in rows.pop(0)]
    recorded = [ALSO.get(name, name) for name in recorded]
    fields = [ALSO.get(name.strip(), name.strip()) for name in query.split(",")]
    lines = {int(at): text for at, text in orders.get("lines", [])}
    devices = len({row[recorded.index("index")] for row in rows})
    if "noheader" not in formats:
        print(", ".join(fields), flush=True)
    for number, row in enumerate(rows):
        if number == orders.get("end"):
            return int(orders.get("status", 0))
        if number == orders.get("hang"):
            time.sleep(10_000)
        values = dict(zip(recorded, row, strict=True))
        shown = lines.get(number) or ", ".join(show(values.get(field), field, formats) for field in fields)
        print(shown, flush=True)
        if (number + 1) % devices == 0:
            if not follow:
                return 0
            time.sleep(pause / float(orders.get("speed", 1)))
    time.sleep(10_000 if follow else 0)
    return 0


def show(value: str | None, field: str, formats: set[str]) -> str:
    if value is None:
        return "[N/A]"
    unit = "" if "nounits" in formats else UNITS.get(field.partition(".")[0], "")
    return value + (unit if value.replace(".", "").isdigit() else "")


if __name__ == "__main__":
    sys.exit(main())
