"""The first two lines: is it moving, when will it be ready, is anything wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from rich.cells import cell_len

from tui.scene import Scene
from tui.signs import LINKS, STATES
from tui.text import clip, safe
from tui.units import about, between, elapsed
from tui.widgets.rows import Row, Rows
from tui.words import benchmarks
from tui.words.actions import in_a_line
from watch.view import Progress, View

_LOUD: Final = {"ready": "badge-ready", "stalled": "badge-stalled", "failed": "badge-failed"}
_GAP: Final = 3


class Header(Rows):
    """Two lines, as many facts as fit, the most important ones always."""

    def __init__(self, *, id: str = "header") -> None:
        super().__init__(id=id)
        self._scene: Scene | None = None

    def show(self, scene: Scene) -> None:
        self._scene = scene
        self.fill(header(scene, self.inner.width))

    def on_resize(self) -> None:
        if self._scene is not None:
            self.show(self._scene)


class Piece(NamedTuple):
    """``rank``: 0 is always shown; the highest goes first where room is short. ``right``: stands at the right edge."""

    rank: int
    row: Row
    right: bool = False


def header(scene: Scene, width: int) -> list[Row]:
    """Both lines in ``width`` cells: what the first one has no room for leads the second."""
    view = scene.view
    loud = "lost" if scene.link_lost else _LOUD.get(view.state, "")
    badge = _badge(scene, loud)
    pieces = [
        Piece(0, _names(view, width - 2 - _GAP - _width(badge))),
        Piece(0, badge),
        Piece(1, _progress(view)),
        Piece(1, _action(view)),
        Piece(1, _benchmark(view)),
        Piece(2, _elapsed(view)),
        Piece(3, _forecast(scene)),
        Piece(5, _link(scene), right=True),
        Piece(4, _backlog(scene), right=True),
        Piece(6, _others(scene), right=True),
        Piece(6, _recording(scene), right=True),
        Piece(1, _mode(scene), right=True),
    ]
    top, left_out = _compose([piece for piece in pieces if piece.row], width)
    if loud:
        top = Row([(text, loud) for text, _ in top], loud)
    headline = _headline(scene)
    if loud and not scene.link_lost and _width(headline) + _GAP + _width_of(left_out) > width - 2:
        left_out = [piece for piece in left_out if piece.rank <= 1]  # why it failed comes before how the link is
    if scene.status.label and not loud:
        left_out.append(Piece(7, Row()(clip(safe(scene.status.label), width // 2), "muted"), right=True))
    bottom, _ = _compose(left_out, width, middle=headline)
    return [top, bottom]


def _compose(pieces: Sequence[Piece], width: int, middle: Row | None = None) -> tuple[Row, list[Piece]]:
    """One line with a blank at either end, and the pieces that found no room in it. ``middle`` is cut to the room that
    is left between the two sides."""
    room = width - 2
    kept: list[Piece] = []
    left_out: list[Piece] = []
    for piece in sorted(pieces, key=lambda piece: piece.rank):
        need = _width(piece.row) + (_GAP if kept else 0)
        if piece.rank == 0 or need <= room:
            kept.append(piece)
            room -= need
        else:
            left_out.append(piece)
    left = [piece.row for piece in pieces if piece in kept and not piece.right]
    right = [piece.row for piece in pieces if piece in kept and piece.right]
    if middle is not None and middle and room - _GAP >= min(30, _width(middle)):
        text, style = middle[0]
        left.append(Row()(clip(text, room - (_GAP if kept else 0)), style))
    line = Row()(" ", "")
    for number, row in enumerate(left):
        line(" " * _GAP if number else "", "").extend(row)
    tail = Row()
    for number, row in enumerate(right):
        tail(" " * _GAP if number else "", "").extend(row)
    if tail:
        line(" " * max(1, width - 1 - _width(line) - _width(tail)), "").extend(tail)
    return line, [piece for piece in pieces if piece in left_out]


def _names(view: View, room: int) -> Row:
    """Who is watched, in the room that the state leaves: the state has its place whatever the names are."""
    unit = safe(view.unit).removesuffix(".service") or "no unit"
    target = clip(safe(view.target), room * 2 // 5)
    return Row()(clip(unit, room - 3 - cell_len(target)), "strong")(" @ ", "muted")(target)


def _badge(scene: Scene, loud: str) -> Row:
    view = scene.view
    sign = STATES[view.state]
    if scene.link_lost and view.link is not None:
        link = LINKS[view.link.state]
        since = elapsed(view.now - view.link.since)
        if view.load is None and view.state == "unknown":
            return Row()(f"{link.sign} NO LINK {since}", "strong")  # there was none yet to be lost
        return Row()(f"{link.sign} {link.word} {since}", "strong")(f"   last known: {sign.word}", "lost")
    if loud:
        return Row()(f"{sign.sign} {sign.word}", "strong")
    return Row()(f" {sign.sign} {sign.word} ", sign.style)


def _progress(view: View) -> Row:
    row = Row()
    if view.state in ("loading", "stalled", "failed") and view.phase != "n/a":
        preposition = "in " if view.state == "failed" else ""
        row(f"{preposition}{view.phase}", "strong")
        progress = view.load.progress if view.load is not None else None
        if progress is not None and progress.total and view.state != "failed":
            row(f" {count(progress)}", "strong")
    return row


def count(progress: Progress) -> str:
    """``38/64``; the unit follows where there is room."""
    return f"{progress.done:,.0f}/{progress.total:,.0f}" if progress.unit != "bytes" else ""


def _action(view: View) -> Row:
    """What an operator is doing to the unit, or has failed to do."""
    if view.action is None:
        return Row()
    text, style = in_a_line(view.action, view.now)
    return Row()(text, style)


def _benchmark(view: View) -> Row:
    """A benchmark that is armed or runs, or what it said of this load."""
    return Row()(*benchmarks.in_a_line(view))


def _elapsed(view: View) -> Row:
    load = view.load
    if load is None:
        return Row()
    late = "≥ " if load.attached_late else ""
    if view.state == "ready":
        ready = next((phase.started for phase in load.phases if phase.name == "ready" and phase.started), load.ended)
        if ready is None:
            return Row()
        return Row()("loaded in ", "muted")(f"{late}{elapsed(ready - load.started)}")(
            f", ready for {elapsed(view.now - ready)}", "muted"
        )
    if view.state in ("failed", "stopped"):
        ended = load.ended if load.ended is not None else view.now
        return Row()("after ", "muted")(f"{late}{elapsed(ended - load.started)}")(
            _ago(view.now - ended) if load.ended is not None else "", "muted"
        )
    return Row()(f"{late}{elapsed(view.now - load.started)}")(" elapsed", "muted")


def _forecast(scene: Scene) -> Row:
    view = scene.view
    forecast = view.forecast
    if forecast is None or view.state not in ("loading", "stalled") or scene.link_lost:
        return Row()
    now = view.now
    zone = scene.zone
    if forecast.middle <= now:
        return Row()("ready ", "muted")("any moment now", "strong")(
            f", by {zone.clock(forecast.high, seconds=False)} {zone.name(forecast.high)}", "muted"
        )
    left = forecast.middle - now
    clock = zone.clock(forecast.middle, seconds=left < 120)
    return (
        Row()("ready ≈ ", "muted")(f"{clock} {zone.name(forecast.middle)}", "strong")(", in ", "muted")(
            about(left), "strong"
        )
    )(f" ({between(max(0.0, forecast.low - now), forecast.high - now)})", "muted")


def _link(scene: Scene) -> Row:
    link = scene.view.link
    if link is None:
        return Row()
    sign = LINKS.get(link.state, LINKS["connecting"])
    row = Row()
    if link.state == "up":
        row(f"{sign.sign} ", sign.style)("link ", "muted")("up" if link.rtt_ms is None else f"{link.rtt_ms:.0f} ms")
    elif link.state == "connecting":
        row(f"{sign.sign} connecting", "warn")
    elif link.retry_in is not None:
        row(f"tries again in {about(link.retry_in)}", "strong")
    else:
        return Row()
    return row


def _backlog(scene: Scene) -> Row:
    """A long back-log is being read behind what is shown: what is said is not the last word yet."""
    share = scene.status.backlog
    return Row() if share is None else Row()(f"reading back-log {share:.0%}", "warn")


def _others(scene: Scene) -> Row:
    """Who else looks at this watch."""
    others = scene.status.others
    if not others:
        return Row()
    more = f" +{len(others) - 1}" if len(others) > 1 else ""
    return Row()("with ", "muted")(clip(safe(others[0]), 30) + more)


def _recording(scene: Scene) -> Row:
    status = scene.status
    if status.recording_error:
        return Row()("✖ not recording", "error")
    if status.recording:
        return Row()("● ", "error")("rec", "muted")
    return Row()


def _mode(scene: Scene) -> Row:
    status = scene.status
    if status.mode == "live":
        return Row()
    speed = f" {status.speed:g}×" if status.speed != 1 else ""
    ended = " ended" if status.ended else ""
    return Row()(f" {status.mode.upper()}{speed}{ended} ", "find")


def _headline(scene: Scene) -> Row:
    view = scene.view
    link = view.link
    if scene.fault:
        return Row()(safe(scene.fault), "strong error")
    if scene.link_lost and link is not None:
        text = " ".join(filter(None, (link.reason, link.remedy)))
        return Row()(safe(text) or "The way to the host is lost; firstlight keeps trying.")
    if scene.status.recording_error:
        return Row()(safe(scene.status.recording_error), "error")
    return Row()(safe(view.headline), "muted" if view.state in ("loading", "unknown") else "text")


def _width_of(pieces: Sequence[Piece]) -> int:
    return sum(_width(piece.row) + _GAP for piece in pieces)


def _width(row: Row) -> int:
    return cell_len(row.text)


def _ago(seconds: float) -> str:
    return f", {about(seconds)} ago" if seconds >= 1 else ", just now"
