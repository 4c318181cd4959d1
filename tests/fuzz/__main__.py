"""``python -m tests.fuzz [NAME …] [--seconds N]``: every decoder, or those named, each for that long."""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections.abc import Callable

from hypothesis import HealthCheck, given, seed, settings

from tests.fuzz.decoders import DECODERS, Decoder, check
from tests.fuzz.inputs import inputs


class _Run:
    def __init__(self, decoder: Decoder) -> None:
        self.decoder = decoder
        self.count = 0
        self.slowest = 0.0

    @property
    def one(self) -> Callable[[tuple[bytes, list[int]]], None]:
        def one(what: tuple[bytes, list[int]]) -> None:
            self.count += 1
            start = time.monotonic()
            check(self.decoder, *what)
            self.slowest = max(self.slowest, time.monotonic() - start)

        return one


def main() -> int:
    asked = argparse.ArgumentParser(prog="fuzz")
    asked.add_argument("names", nargs="*", metavar="NAME", help=", ".join(DECODERS))
    asked.add_argument("--seconds", type=float, default=60.0)
    asked.add_argument("--seed", type=int, default=int(time.time()))
    args = asked.parse_args()
    if unknown := sorted(set(args.names) - set(DECODERS)):
        print(f"no decoder named {', '.join(unknown)}; there are: {', '.join(DECODERS)}", file=sys.stderr)
        return 2
    failed = 0
    for name in args.names or DECODERS:
        run = _Run(DECODERS[name])
        began, number = time.monotonic(), args.seed
        wanted = settings(max_examples=300, database=None, deadline=None, suppress_health_check=list(HealthCheck))
        try:
            while time.monotonic() - began < args.seconds:
                seed(number)(wanted(given(inputs(run.decoder))(run.one)))()
                number += 1
            print(f"{name:16} {run.count:8,} inputs, slowest {run.slowest * 1000:.0f} ms", flush=True)
        except Exception:  # noqa: BLE001 whatever it is, it is what was looked for
            failed += 1
            print(f"{name:16} FAILED (--seed {number})\n{traceback.format_exc()}", flush=True)
    print(f"{len(args.names or DECODERS) - failed} passed, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
