"""The journal: every line of the unit, of systemd about it and of the kernel, as it comes.

A view on a ``LineStore``: a line is read back and styled only when it is on screen, so that a million lines cost no
more to draw than a page. While it follows, it stays at the end; scrolled back, it never moves.
"""

from __future__ import annotations

import asyncio
from typing import ClassVar, Final

from rich.cells import cell_len
from textual.binding import Binding, BindingType
from textual.cache import LRUCache
from textual.content import Content
from textual.events import Click
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip

from tui.gauge import Gauge
from tui.keyed import keys_of
from tui.keys import bindings, first_key
from tui.lines import Filter, LineStore, Search
from tui.text import clip, safe, uncoloured
from tui.units import Zone
from tui.widgets.linerow import line_row, take_apart
from tui.widgets.rows import Drawn, Row
from watch.lines import ERROR, WARNING

_FRESH: Final = 10.0
"""Seconds: a line that is older when it comes is read up."""

_STRIPS: Final = 1024
"""Drawn lines kept: several screens full, also of a very tall terminal."""

_SEVERITIES: Final = {0: "", WARNING: "warnings and worse", ERROR: "errors and worse"}


class Journal(Drawn, can_focus=True):
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("journal")]

    pane: ClassVar[str] = "journal"
    label: ClassVar[str] = "Journal"
    tab: ClassVar[str] = "Journal"

    class Opened(Message):
        """The operator wants to see this line whole."""

        def __init__(self, index: int) -> None:
            super().__init__()
            self.index = index

    class ProcessWanted(Message):
        """The operator wants to choose whose lines are shown."""

    def __init__(self, store: LineStore, zone: Zone) -> None:
        super().__init__(id=self.pane)
        self.store = store
        self.following = True
        self.backlog: float | None = None
        self.search: Search | None = None
        self._zone = zone
        self._cursor = 0
        self._from = 0
        self._new = 0
        self._known = 0
        self._counted = 0
        self._named = 0
        self._names = 8
        self._width = 0
        self._moving = False
        self._jumping = False
        self._searching = False
        self._titled = ("", "")
        self._gauge = Gauge()
        self._strips: LRUCache[tuple[object, ...], Strip] = LRUCache(_STRIPS)

    # -- what comes in

    def catch_up(self, now: float = 0.0) -> None:
        """Show what was added to the store since the last time; one call a flush. ``now``: on the host, UTC seconds;
        lines much older are read up, and no flood."""
        count = len(self.store.shown)
        before, self._known = self._known, count
        if len(self.store.names) != self._named:
            self._named = len(self.store.names)
            self._measure()
            self.refresh_bindings()
        came = max(0, len(self.store) - self._counted)
        self._gauge.add(came if not came or now - self.store.fetch(len(self.store) - 1).at < _FRESH else 0)
        if len(self.store) == self._counted:
            self._retitle()
        else:
            self._counted = len(self.store)
            self._find_more()
            self._grown(before, count)

    def look_at(self, store: LineStore, backlog: float | None) -> None:
        """Show the lines of this store. ``backlog``: how much of a long back-log has been read meanwhile; None: these
        are all. Both end with the same line, so what was chosen stays chosen."""
        self.backlog = backlog
        if store is self.store:
            return
        if self.is_mounted and self.app.screen is not self.screen:
            return  # a line is shown whole: its place is one in the store that it was opened from
        below = len(self.store.shown) - self._cursor
        wanted, self.store = self.store.filter, store
        self._known = self._counted = self._named = 0
        self._strips.clear()
        self._known = len(store.shown)
        if not self.following:
            self._cursor = max(0, self._known - below)
            self._set_height(self._known)
            self._go(self._top_for(self._cursor))
        if wanted != store.filter:
            self.choose(wanted)
        elif self.search is not None:
            self.find(self.search.wanted, jump=False)
        self.refresh()

    def begin_again(self) -> None:
        """The store holds other lines: a replay has gone to another time. What was chosen stays chosen where it can."""
        self._known = self._counted = self._named = self._new = 0
        self._cursor = min(self._cursor, max(0, len(self.store.shown) - 1))
        self._set_height(len(self.store.shown))
        if self.search is not None:
            self.find(self.search.wanted, jump=False)
        self.refresh()
        self._retitle()

    @property
    def shown_lines(self) -> int:
        """How many lines of the store the pane has taken notice of, shown or filtered out."""
        return self._counted

    def _grown(self, before: int, count: int) -> None:
        self._set_height(count)
        if self.following:
            self._cursor = max(0, count - 1)
            top = self.scroll_offset.y
            self._go(self.max_scroll_y)
            if self.scroll_offset.y == top:
                self._refresh_rows(before, count)
        else:
            self._new += count - before
            self._refresh_rows(before, count)
        self._retitle()

    def _measure(self) -> None:
        """The column of process names is as wide as the longest of them, within reason."""
        width = min(16, max(8, *(cell_len(safe(name)) for name in self.store.names)))
        if width != self._names:
            self._names = width
            self._strips.clear()
            self.refresh()

    # -- drawing

    def render_lines(self, crop: Region) -> list[Strip]:
        self._width = self.inner.width
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        width = self._width or self.inner.width
        row = y + self.scroll_offset.y
        if row >= len(self.store.shown):
            return Strip.blank(width, self.ground)
        index = self.store.shown[row]
        base = "" if self.following or row != self._cursor else "cursor" if self.has_focus else "cursor-blurred"
        key = (index, self._from, width, base, self.search.wanted if self.search is not None else "")
        strip = self._strips.get(key)
        if strip is None:
            strip = self._strips[key] = self.strip(self._row(index, width, base), width)
        return strip

    def notify_style_update(self) -> None:
        self._strips.clear()
        super().notify_style_update()

    def _row(self, index: int, width: int, base: str) -> Row:
        store = self.store
        return line_row(
            store.line(index),
            store.loudness(index),
            store.process(index),
            width=width,
            names=self._names,
            start=self._from,
            zone=self._zone,
            search=self.search,
            base=base,
        )

    def _refresh_rows(self, first: int, last: int) -> None:
        top = self.scroll_offset.y
        first, last = max(first, top), min(last, top + self.size.height)
        if first < last:
            self.refresh(Region(0, first - top, self.size.width, last - first))

    # -- title

    def show_zone(self, at: float) -> None:
        """Name the zone of the times, as it is at ``at``."""
        self._zone_name = self._zone.name(at)
        self._retitle()

    _zone_name = ""

    def _retitle(self) -> None:
        store = self.store
        shown, total = len(store.shown), len(store)
        parts = ["following" if self.following else f"line {self._cursor + 1:,}" if shown else "no line"]
        if self.backlog is not None:
            parts.append(f"the newest; {self.backlog:.0%} of the back-log read")
        parts.append(
            (f"{total:,} lines" if total else "no lines yet") if shown == total else f"{shown:,} of {total:,} lines"
        )
        chosen = store.filter
        parts.extend(filter(None, (_SEVERITIES[chosen.loudness],)))
        if chosen.process is not None:
            parts.append(f"only {safe(chosen.process) or 'unnamed'}")
        if chosen.own:
            parts.append("with our own requests")
        if self._gauge.floods(self.size.height):
            parts.append(f"{self._gauge.rate:,.0f} lines/s, not each is drawn")
        if self.search is not None:
            parts.append(self._search_words(self.search))
        if self._zone_name:
            parts.append(f"times {self._zone_name}")
        below = ""
        if not self.following:
            below = f"+{self._new:,} new, {self._follow_key()} follows" if self._new else ""
        titled = (f"{self.label} ── " + " · ".join(parts), below)
        if titled != self._titled:
            self._titled = titled
            self.border_title = Content(titled[0])
            self.border_subtitle = Content(titled[1])

    def _search_words(self, search: Search) -> str:
        shown = self.store.shown
        place = search.place(shown[self._cursor]) if shown and self._cursor < len(shown) else 0
        words = f"/{clip(safe(search.wanted), 24)}: "
        words += f"{place:,} of {search.count:,}" if place else f"{search.count:,} found" if search.count else "none"
        return words if search.done else f"{words}, {search.share * 100:.0f} % searched"

    def _follow_key(self) -> str:
        name = "journal.follow"
        return self.app.get_key_display(Binding(first_key(name, keys_of(self.app, name)), ""))

    # -- moving

    def _set_height(self, count: int) -> None:
        """Tell the scroll bar, without laying out the whole screen anew for every line that comes."""
        self.set_reactive(Journal.virtual_size, Size(self.size.width, count))
        if self.is_mounted:
            self.vertical_scrollbar.window_virtual_size = count

    def _go(self, top: int) -> None:
        self._moving = True
        try:
            self.scroll_to(y=top, animate=False, immediate=True, force=True)
        finally:
            self._moving = False

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if self._moving or round(old_value) == round(new_value):
            return
        count = len(self.store.shown)
        top, height = self.scroll_offset.y, max(1, self.size.height)
        if top >= self.max_scroll_y and (self.following or new_value > old_value):
            self._follow()  # still at the end: the pane grew; or back there with the wheel
        else:
            self.following = False
            self._cursor = min(max(self._cursor, top), top + height - 1, max(0, count - 1))
            self._moved()

    def on_resize(self) -> None:
        self._width = self.inner.width
        self._strips.clear()
        self._set_height(len(self.store.shown))
        self._go(self.max_scroll_y if self.following else self._top_for(self._cursor))

    def on_focus(self) -> None:
        self._refresh_rows(self._cursor, self._cursor + 1)

    def on_blur(self) -> None:
        self._refresh_rows(self._cursor, self._cursor + 1)

    def _top_for(self, row: int) -> int:
        """The scroll position that shows a row, moving as little as possible."""
        top, height = self.scroll_offset.y, max(1, self.size.height)
        if row < top:
            return row
        return row - height + 1 if row >= top + height else top

    def move_to(self, row: int) -> None:
        """Put the cursor on a row of those shown. The last one is followed from there on."""
        count = len(self.store.shown)
        if not count:
            return
        row = min(max(0, row), count - 1)
        if row == count - 1 and row >= self._cursor and not self.search:
            self._follow()
            return
        old, self._cursor = self._cursor, row
        self.following = False
        self._go(self._top_for(row))
        self._refresh_rows(old, old + 1)
        self._refresh_rows(row, row + 1)
        self._moved()

    def move_to_line(self, index: int) -> None:
        self.move_to(self.store.row(index))

    def _follow(self) -> None:
        self.following = True
        self._new = 0
        self._cursor = max(0, len(self.store.shown) - 1)
        self._go(self.max_scroll_y)
        self.refresh()
        self._moved()

    def _moved(self) -> None:
        self._retitle()
        self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "follow":
            return not self.following
        if action in ("open", "copy", "up", "down", "page_up", "page_down", "top"):
            return bool(self.store.shown)
        if action == "process":
            return len(self.store.names) > 1
        return super().check_action(action, parameters)

    def action_follow(self) -> None:
        self._follow()

    def action_down(self) -> None:
        self.move_to(self._cursor + 1)

    def action_up(self) -> None:
        self.move_to(self._cursor - 1)

    def action_page_down(self) -> None:
        self.move_to(self._cursor + max(1, self.size.height - 1))

    def action_page_up(self) -> None:
        self.move_to(self._cursor - max(1, self.size.height - 1))

    def action_top(self) -> None:
        self.move_to(0)

    def action_left(self) -> None:
        self._shift(-1)

    def action_right(self) -> None:
        self._shift(1)

    def _shift(self, way: int) -> None:
        """Half a screen sideways, no further than the longest line in sight has text."""
        step = max(10, self.inner.width // 2)
        start = max(0, self._from + way * step)
        if start > self._from:
            top = self.scroll_offset.y
            rows = self.store.shown[top : top + self.size.height]
            longest = max((len(take_apart(self.store.line(index).text).message) for index in rows), default=0)
            start = min(start, max(self._from, longest - step))
        if start != self._from:
            self._from = start
            self.refresh()

    def on_click(self, event: Click) -> None:
        offset = event.get_content_offset(self)
        row = (offset.y if offset is not None else -1) + self.scroll_offset.y
        if offset is not None and 0 <= row < len(self.store.shown):
            self.move_to(row)
            if event.chain == 2:
                self.action_open()

    # -- one line

    @property
    def current(self) -> int | None:
        """Index of the line under the cursor; None if none is shown."""
        shown = self.store.shown
        return shown[min(self._cursor, len(shown) - 1)] if shown else None

    def action_open(self) -> None:
        if self.current is not None:
            self.post_message(self.Opened(self.current))

    def action_copy(self) -> None:
        if self.current is not None:
            self.app.copy_to_clipboard(safe(uncoloured(self.store.line(self.current).text)))
            self.app.notify("The line was copied.", timeout=2, markup=False)

    # -- filter

    def action_severity(self) -> None:
        steps = list(_SEVERITIES)
        following = steps[(steps.index(self.store.filter.loudness) + 1) % len(steps)]
        self.choose(Filter(following, self.store.filter.process, self.store.filter.own))

    def action_own(self) -> None:
        chosen = self.store.filter
        self.choose(Filter(chosen.loudness, chosen.process, not chosen.own))

    def action_process(self) -> None:
        self.post_message(self.ProcessWanted())

    def choose(self, wanted: Filter) -> None:
        """Change the filter; the line under the cursor stays where it is, or the nearest one that is shown."""
        self.run_worker(self._refilter(wanted), group="filter", exclusive=True)

    async def _refilter(self, wanted: Filter) -> None:
        index = self.current
        for _ in self.store.refilter(wanted):
            await asyncio.sleep(0)
        if self.store.filter != wanted:
            return
        count = self._known = len(self.store.shown)
        self._set_height(count)
        self._new = 0
        if self.following or index is None:
            self._cursor = max(0, count - 1)
            self._go(self.max_scroll_y)
        else:
            self._cursor = min(self.store.row(index), max(0, count - 1))
            self._go(min(self._top_for(self._cursor), self.max_scroll_y))
        self.refresh()
        self._moved()
        if self.search is not None:
            self.find(self.search.wanted, jump=False)

    # -- search

    def find(self, wanted: str, *, jump: bool = True) -> None:
        """Search the lines shown; empty: end the search. It goes on in the background, newest lines first."""
        self.workers.cancel_group(self, "search")
        self.search = Search(self.store, wanted) if wanted else None
        self._jumping = jump and bool(wanted)
        self._strips.clear()
        self.refresh()
        self._moved()
        if self.search is not None:
            self.run_worker(self._search(self.search), group="search", exclusive=True)

    async def _search(self, search: Search) -> None:
        self._searching = True
        while search is self.search and not search.done:
            search.step()
            if self._jumping:
                self._jump(search)
            self._retitle()
            await asyncio.sleep(0)
        if search is self.search:
            self._searching = self._jumping = False  # what is found from now on does not pull the reader away

    def _jump(self, search: Search) -> None:
        """To the first line found: the newest while following, else the next one from the cursor on."""
        index = self.current
        found: int | None = None
        if index is not None and self.following:
            found = search.newest
        elif index is not None and (search.done or search.passed(self._cursor)):
            found = search.after(index - 1)
        if found is not None:
            self._jumping = False
            self.move_to_line(found)

    def _find_more(self) -> None:
        """Search what came since the search ended."""
        if self.search is not None and self.search.behind and not self._searching:
            self.run_worker(self._search(self.search), group="search", exclusive=True)

    @property
    def found(self) -> int:
        return self.search.count if self.search is not None else 0

    def step(self, way: int) -> None:
        """To the next line found (1) or the one before (-1)."""
        index = self.current
        if self.search is None or index is None:
            return
        found = self.search.after(index) if way > 0 else self.search.before(index)
        if found is not None:
            self.move_to_line(found)
