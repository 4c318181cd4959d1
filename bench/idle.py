"""Share of a core while nothing arrives but the one-second samples."""

from __future__ import annotations

from bench.figures import Figure
from bench.terminal import Terminal
from bench.watched import cpu_share, host, needs, start, unit, watching

SECONDS = 30.0


def figures() -> list[Figure]:
    needs("top", "procps")
    with host() as (machine, home):
        service = unit(machine, "ExecStart=/bin/sh -c 'echo loading; exec sleep 600'\n")
        start(service)
        with watching(service, home) as terminal:
            terminal.until("loading")
            cpu_share(terminal, 5)  # the first seconds are not idle
            ours = cpu_share(terminal, SECONDS)
    with Terminal(["top", "-d", "1"]) as terminal:
        cpu_share(terminal, 2)
        floor = cpu_share(terminal, SECONDS)
    return [
        Figure(
            name="idle, share of a core",
            value=ours * 100,
            unit="%",
            floor=floor * 100,
            floor_name="top -d 1",
            goal="≤ 3 %",
            good=ours <= 0.03,
        )
    ]
