"""What a benchmark has measured, fetched from the host: vLLM's JSON whole, the metrics before and after."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from probes.bench.orders import DUTY, BenchOrder
from probes.host import Host
from probes.metrics import PageParser
from probes.operate.asked import ask
from probes.operate.files import frames
from probes.operate.orders import Rights
from probes.operate.scripts import PLACES
from probes.readings import UNDECODABLE, Sample

FETCH = (
    PLACES
    + r"""
shift 4
for name; do
  file=$results/$name
  [ -e "$file" ] || continue
  printf 'file\t%s\t%s\t\n' "$(wc -c <"$file")" "$name"
  cat -- "$file"
  printf '\n'
done
printf 'free\t0\t%s\t%s\n' "$base" "$(df -Pk -- "$base" 2>/dev/null | awk 'NR == 2 { print $4 }')"
"""
)
"""The named files of the results, and how many KiB are free beside them."""

LEFT = (
    PLACES
    + r"""
cd -- "$base" 2>/dev/null || exit 0
for one in *.results; do
  [ -s "$one/order.json" ] || continue
  printf 'file\t%s\t%s\t\n' "$(wc -c <"$one/order.json")" "${one%.results}"
  cat -- "$one/order.json"
  printf '\n'
done
"""
)
"""The orders of all benchmarks whose results have not been fetched."""

CLEAR = PLACES + 'rm -rf -- "$results" "$log" "$base/$id".[0-9]*\n'
"""Its own folder too: another user than root cannot remove that from among root's."""


class Measured(Struct, frozen=True, kw_only=True):
    """One run. ``result`` None: there is none, or it is cut short, and ``why`` says so."""

    result: dict[str, Any] | None = None
    why: str = ""
    began: float = 0.0
    ended: float = 0.0
    before: tuple[Sample, ...] = ()
    after: tuple[Sample, ...] = ()


async def fetch(host: Host, rights: Rights, order: BenchOrder, part: int) -> Measured:
    """Of run ``part``, from 1 on. Raises what ``Host.run`` does."""
    name = f"{part:02}"
    wanted = [f"{name}.{kind}" for kind in ("info", "before", "after", "json")]
    done = await ask(host, rights, FETCH, order.unit, *wanted, id=order.id, duty=DUTY, timeout=120.0)
    return measured(done.stdout, name, done.truncated)


def measured(answer: bytes, name: str, truncated: bool = False) -> Measured:
    """The answer to FETCH, whatever it holds."""
    found: dict[str, bytes] = {}
    free = ""
    for frame in frames(answer):
        if frame.kind == "free":
            free = frame.more
        else:
            found[frame.name] = frame.data
    began, ended, *_ = [*_numbers(found.get(f"{name}.info", b"")), 0.0, 0.0]
    result, why = _result(found.get(f"{name}.json"), truncated, free)
    parser = PageParser()
    return Measured(
        result=result,
        why=why,
        began=began,
        ended=ended,
        before=parser.parse(found.get(f"{name}.before", b"")),
        after=parser.parse(found.get(f"{name}.after", b"")),
    )


def _numbers(info: bytes) -> list[float]:
    out = []
    for word in info.decode("ascii", "replace").split("\t")[:2]:
        try:
            out.append(float(word))
        except ValueError:
            return []
    return out


def _result(data: bytes | None, truncated: bool, free: str) -> tuple[dict[str, Any] | None, str]:
    full = f"; its disk has {free} KiB left" if free.isdecimal() and int(free) < 1024 else ""
    if data is None:
        if truncated:
            return None, "The result has more than 16 MiB and was left on the host"
        return None, f"There is no result file on the host{full}"
    if not data.strip():
        return None, f"The result file is empty: vLLM ended before it wrote it{full}"
    try:
        value = msgspec.json.decode(data)
    except UNDECODABLE:
        return None, f"The result file is cut short after {len(data)} bytes, or is no JSON{full}"
    return (value, "") if isinstance(value, dict) else (None, "The result file holds something that is no result")


async def left(host: Host, rights: Rights, unit: str) -> tuple[BenchOrder, ...]:
    """Benchmarks of this unit of which results lie on the host: one that runs, or whose watcher never came back.
    Raises what ``Host.run`` does."""
    done = await ask(host, rights, LEFT, unit, duty=DUTY)
    found = []
    for frame in frames(done.stdout):
        try:
            order = msgspec.json.decode(frame.data, type=BenchOrder)
        except UNDECODABLE:
            continue
        if order.unit == unit and order.id == frame.name:
            found.append(order)
    return tuple(found)


async def clear(host: Host, rights: Rights, order: BenchOrder) -> None:
    """Nothing of it stays on the host. Raises what ``Host.run`` does."""
    await ask(host, rights, CLEAR, order.unit, id=order.id, duty=DUTY)
