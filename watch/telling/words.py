"""Times, lengths and amounts as a report has them, and the sentences that both forms of it share."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo

from watch.telling.gather import Tale


def stamp(at: float, zone: tzinfo | None) -> str:
    """``2026-05-04 15:32:07 CEST``; ``zone`` None: this machine's own."""
    try:
        moment = datetime.fromtimestamp(at, UTC).astimezone(zone)
    except (OverflowError, ValueError, OSError):
        return "unknown"
    name = moment.tzname() or ""
    shown = name if name[:1].isalpha() else f"UTC{moment:%z}"
    return f"{moment:%Y-%m-%d %H:%M:%S} {shown}"


def clock(at: float, zone: tzinfo | None) -> str:
    """``15:32:07``"""
    return stamp(at, zone)[11:19]


def length(seconds: float | None) -> str:
    """``41:12``, ``1:02:12``, ``2 d 1:02:12``; ``–`` where it is not known."""
    if seconds is None:
        return "–"
    whole = max(0, round(seconds))
    days, whole = divmod(whole, 86_400)
    hours, whole = divmod(whole, 3600)
    minutes, whole = divmod(whole, 60)
    short = f"{hours}:{minutes:02d}:{whole:02d}" if hours or days else f"{minutes}:{whole:02d}"
    return f"{days} d {short}" if days else short


def figure(value: float) -> str:
    """A number with as many digits as mean something."""
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def scaled(value: float, unit: str) -> str:
    """With its unit, in the size that reads best: MiB and bytes in binary, rates in decimal."""
    if unit in ("MiB", "bytes"):
        value *= 1 << 20 if unit == "MiB" else 1
        for name, power in (("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)):
            if abs(value) >= 1 << power:
                return f"{figure(value / (1 << power))} {name}"
        return f"{figure(value)} B"
    if unit == "bytes/s":
        for name, scale in (("GB/s", 1e9), ("MB/s", 1e6), ("kB/s", 1e3)):
            if abs(value) >= scale:
                return f"{figure(value / scale)} {name}"
        return f"{figure(value)} B/s"
    return f"{figure(value)} {unit}".rstrip()


def outcome(tale: Tale) -> str:
    """One sentence: what became of the load."""
    view, load = tale.view, tale.load
    if load is None:
        return f"{view.headline[:1].upper()}{view.headline[1:]}."
    ready = ready_after(tale)
    least = "at least " if load.attached_late else ""
    if view.state in ("ready", "stopped") and ready is not None:
        after = "" if view.state == "ready" else f", then {view.headline}"
        return f"Ready after {least}{length(ready)}{after}."
    ran = (load.ended if load.ended is not None else tale.ended) - load.started
    word = view.headline[:1].upper() + view.headline[1:]
    return f"{word}, after {least}{length(ran)}."


def ready_after(tale: Tale) -> float | None:
    """Seconds from the start of the load to ready; None where it did not get there."""
    if tale.load is None:
        return None
    at = next((one.started for one in tale.load.phases if one.name == "ready" and one.started is not None), None)
    return at - tale.load.started if at is not None else None


def against(tale: Tale) -> str:
    """The time to ready beside those of the loads before; empty where there is nothing to compare."""
    ready = ready_after(tale)
    before = [one.seconds for one in tale.earlier if one.seconds is not None]
    if ready is None or not before:
        return ""
    usual = sorted(before)[len(before) // 2]
    many = "the load before" if len(before) == 1 else f"the median of the {len(before)} loads before"
    change = ready - usual
    if abs(change) < max(2.0, 0.02 * usual):
        return f"As long as {many} ({length(usual)})."
    more = "longer" if change > 0 else "shorter"
    return f"{length(abs(change))} {more} than {many} ({length(usual)})."
