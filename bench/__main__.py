"""``python -m bench [NAME …]``: every benchmark, or those named. ``--list`` says which there are.

A benchmark is a module of this package with ``def figures() -> list[Figure]``; its docstring's first line says what
it measures. It runs on this machine alone, over loopback, for a bounded time. ``--short`` runs ``def short()`` of
those that have one: the same with less.

It ends with 1 where a figure that must be reached (see ``Figure``) is not, or where something never came to its end;
never for a time. FIRSTLIGHT_REQUIRE_HOST: what cannot run here is a failure too.
"""

from __future__ import annotations

import argparse
import importlib
import os
import subprocess
import sys
import time

from bench.figures import Figure, Unable, table

NAMES = (
    "paint",
    "journal",
    "catalogue",
    "explain",
    "delay",
    "idle",
    "flood",
    "million",
    "deluge",
    "soak",
    "metrics",
    "machine",
    "recording",
    "status",
    "gpu",
)
SHORT = ("million", "deluge", "soak")


def main() -> int:
    asked = argparse.ArgumentParser(prog="bench")
    asked.add_argument("names", nargs="*", metavar="NAME")
    asked.add_argument("--list", action="store_true")
    asked.add_argument("--short", action="store_true", help=f"less of it; has one: {', '.join(SHORT)}")
    args = asked.parse_args()
    if unknown := sorted(set(args.names) - set(NAMES)):
        print(f"no benchmark named {', '.join(unknown)}; there are: {', '.join(NAMES)}", file=sys.stderr)
        return 2
    if args.short and (long := sorted(set(args.names) - set(SHORT))):
        print(f"no short form of {', '.join(long)}; there is one of: {', '.join(SHORT)}", file=sys.stderr)
        return 2
    all_figures: list[Figure] = []
    failed = False
    for name in args.names or (SHORT if args.short else NAMES):
        module = importlib.import_module(f"bench.{name}")
        title = (module.__doc__ or name).splitlines()[0]
        if args.list:
            print(f"{name:12} {title}")
            continue
        began = time.monotonic()
        try:
            figures = module.short() if args.short else module.figures()
        except Unable as reason:
            print(f"{name}: left out: {reason}", file=sys.stderr)
            failed = failed or os.environ.get("FIRSTLIGHT_REQUIRE_HOST") == "1"
            continue
        except (TimeoutError, subprocess.TimeoutExpired) as reason:  # the figures of the others are not lost for it
            print(f"{name}: FAILED: {reason}", file=sys.stderr)
            failed = True
            continue
        print(f"{name}: {title} ({time.monotonic() - began:.0f} s)", file=sys.stderr, flush=True)
        all_figures += figures
    if all_figures:
        load = " ".join(f"{one:.1f}" for one in os.getloadavg())
        print(f"{os.cpu_count()} cores, load average {load}, Python {sys.version.split()[0]}\n{table(all_figures)}")
    return int(failed or any(one.failed for one in all_figures))


if __name__ == "__main__":
    sys.exit(main())
