"""The list of what may be watched, and the list of a host's units."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.events import Resize
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from probes.host import HostError
from probes.servers import Server
from probes.unit import NAMES, is_name
from tui.keys import bindings
from tui.leaving import Page
from tui.options import Options
from tui.screens.ask import AskLine
from tui.signs import STATES
from tui.text import clip, content, pad, safe
from tui.units import about
from tui.widgets.footer import Footer
from tui.widgets.rows import Row, Rows, paragraph
from watch.config import Deployment
from watch.offers import Offer, Offers

Asks = Callable[[str], Awaitable[Sequence[Server]]]
"""The units of a host that look like model servers. Raises HostError."""

_MOST: Final = (18, 26, 40)
"""Cells of a name, a host and a unit, where there is room."""
_LEAST: Final = 8
_OUTCOME: Final = 30
"""Cells kept free for outcomes: of a longer one it is the cause that is cut."""
_GAP: Final = 2
_HUES: Final = {"ready": "$fl-ok", "failed": "$fl-error", "stalled": "$fl-warn"}


@dataclass(frozen=True, slots=True)
class Chosen:
    """What is to be watched. ``deployment`` None: the demo. ``name``: of the deployment in the configuration."""

    deployment: Deployment | None = None
    name: str = ""


class Choices(Options, inherit_bindings=False):
    """A list with keys from the table."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings("start")]

    def __init__(self) -> None:
        super().__init__(id="choices", markup=False)

    def fill(self, rows: Sequence[tuple[Content, str | None]]) -> None:
        """Rows of (text, id); without an id it is a title, which cannot be chosen. The highlight stays where it was."""
        before = self.highlighted
        self.clear_options()
        self.add_options([Option(text, id=id, disabled=id is None) for text, id in rows])
        first = next((at for at, (_, id) in enumerate(rows) if id is not None), None)
        self.highlighted = before if before is not None and before < len(rows) else first

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "back":
            return isinstance(self.screen, UnitsScreen)
        return super().check_action(action, parameters)

    def action_host(self) -> None:
        if isinstance(self.screen, StartScreen | UnitsScreen):
            self.screen.type_one()

    def action_back(self) -> None:
        if isinstance(self.screen, UnitsScreen):
            self.screen.dismiss(None)


class _Said(Rows):
    """A question or what went wrong, in as many rows as it needs."""

    def __init__(self) -> None:
        super().__init__(id="said")
        self._text, self._style = "", "text"

    def say(self, text: str, style: str = "text") -> None:
        self._text, self._style = text, style
        self.on_resize()

    def on_resize(self) -> None:
        width = self.size.width
        if width > 0:
            rows = paragraph(self._text, width - 2, self._style, indent=1, hang=2)[:4]
            self.styles.height = len(rows)
            self.fill(rows)


class _Listing(Page[str | None]):
    """A sentence, a list, a footer."""

    AUTO_FOCUS = "#choices"

    def __init__(self) -> None:
        super().__init__()
        self.said = _Said()
        self.choices = Choices()

    def compose(self) -> ComposeResult:
        yield Rows(id="masthead")
        yield self.said
        yield self.choices
        yield Footer()

    def on_mount(self) -> None:
        self._draw()

    def on_resize(self, event: Resize) -> None:
        self._draw()

    def _draw(self) -> None:
        self.query_one("#masthead", Rows).fill([Row()(" firstlight", "strong accent")])
        self.lay()

    def lay(self) -> None:
        """Fill the list for this width."""
        raise NotImplementedError


class StartScreen(_Listing):
    """``said``: what went wrong before, one sentence."""

    def __init__(self, offers: Offers, ask: Asks, now: float, said: str = "") -> None:
        super().__init__()
        self._offers = offers
        self._ask = ask
        self._now = now
        self._trouble = said

    def lay(self) -> None:
        if self._trouble:
            self.said.say(f"✖ {self._trouble}", "error")
        else:
            self.said.say("What shall be watched?")
        width = self.choices.scrollable_content_region.width - 2
        if width <= 0:
            return
        offers = self._offers
        every = [*offers.deployments, *offers.recent]
        outcomes = [outcome(one, self._now) for one in every]
        wide = columns(every, min(_OUTCOME, max(map(cell_len, outcomes), default=0)), width - 2)
        lines = [_line(one, told, wide, width - 2) for one, told in zip(every, outcomes, strict=True)]
        rows: list[tuple[Content, str | None]] = []

        def section(title: str, found: Sequence[tuple[Content, str]]) -> None:
            if found:
                rows.extend([*([(Content(""), None)] if rows else []), (content(clip(safe(title), width)), None)])
                rows.extend((Content("  ") + text, id) for text, id in found)

        named = len(offers.deployments)
        section(f"Deployments of {offers.config}", [(text, f"d{at}") for at, text in enumerate(lines[:named])])
        section("Watched before", [(text, f"r{at}") for at, text in enumerate(lines[named:])])
        hosts = [(Content(clip(safe(host), width - 2)), f"h{at}") for at, host in enumerate(offers.hosts)]
        section("Units of a host", [*hosts, (Content("another host …"), "host")])
        section("Without a host", [(Content("demo: a recorded load, played"), "demo")])
        self.choices.fill(rows)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        id = event.option_id or ""
        if id == "host":
            self.type_one()
        elif id == "demo":
            self.app.exit(Chosen())
        elif id.startswith("h"):
            self.show_units(self._offers.hosts[int(id[1:])])
        elif id:
            among = self._offers.deployments if id.startswith("d") else self._offers.recent
            offer = among[int(id[1:])]
            self.app.exit(Chosen(offer.deployment, offer.name))

    def type_one(self) -> None:
        """Let a host be typed."""

        def typed(host: str | None) -> None:
            if host:
                self.show_units(host)

        self.app.push_screen(AskLine("Host:", "user@host, an alias of ssh_config, or local"), typed)

    def show_units(self, host: str) -> None:
        """The units of a host; what keeps it from being asked is said here, and another can be chosen."""

        def left(trouble: str | None) -> None:
            self._trouble = trouble or ""
            self.lay()

        self.app.push_screen(UnitsScreen(host, self._ask, self._now), left)


class UnitsScreen(_Listing):
    """The units of one host that look like model servers. Answers with what went wrong, or None."""

    def __init__(self, host: str, ask: Asks, now: float) -> None:
        super().__init__()
        self._host = host
        self._ask = ask
        self._now = now
        self._servers: Sequence[Server] | None = None
        self._trouble = ""

    def on_mount(self) -> None:
        super().on_mount()
        self.run_worker(self._find(), group="find")

    async def _find(self) -> None:
        try:
            self._servers = await self._ask(self._host)
        except HostError as error:
            self.dismiss(" ".join(part.rstrip(".") + "." for part in (error.reason, error.remedy) if part))
            return
        self.lay()
        self.choices.focus()

    def lay(self) -> None:
        host = safe(self._host)
        found = self._servers
        if found is None:
            self.said.say(f"asking {host} …", "muted")
        elif self._trouble:
            self.said.say(f"✖ {self._trouble}", "error")
        elif found:
            self.said.say(f"Units of {host} that look like model servers")
        else:
            self.said.say(f"No unit of {host} looks like a model server.", "warn")
        width = self.choices.scrollable_content_region.width - 2
        if width > 0:
            rows: list[tuple[Content, str | None]] = [
                (Content(self._row(one, width)), f"u{at}") for at, one in enumerate(found or ())
            ]
            self.choices.fill([*rows, (Content("another unit …"), "unit")])

    def _row(self, one: Server, width: int) -> str:
        state = f"{one.active} ({one.sub})" if one.sub and one.sub != one.active else one.active
        told = [state, one.enabled, "user unit" if one.user else "", one.engine, one.model]
        unit = pad(safe(_stem(one.unit)), max(24, width // 3))
        return clip(f"{unit} {safe(', '.join(part for part in told if part))}", width)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        id = event.option_id or ""
        if id == "unit":
            self.type_one()
        elif id and self._servers:
            one = self._servers[int(id[1:])]
            self.app.exit(Chosen(Deployment(target=self._host, unit=one.unit, user=one.user)))

    def type_one(self) -> None:
        """Let a unit be typed."""

        def typed(unit: str | None) -> None:
            self._trouble = f"{safe(unit)} is no name of a unit. {NAMES}" if unit and not is_name(unit) else ""
            if self._trouble:
                self.lay()
            elif unit:
                self.app.exit(Chosen(Deployment(target=self._host, unit=unit)))

        self.app.push_screen(AskLine("Unit:", "as systemctl takes it"), typed)


def columns(offers: Sequence[Offer], outcome: int, width: int) -> tuple[int, int, int]:
    """Cells of names, hosts and units beside outcomes of so many cells: what they need, less where that is too much,
    the widest first."""
    needed = [
        max((cell_len(safe(text)) for text in texts), default=0)
        for texts in zip(
            *((one.name, one.deployment.target, _stem(one.deployment.unit)) for one in offers), strict=True
        )
    ] or [0, 0, 0]
    wide = [min(need, most) for need, most in zip(needed, _MOST, strict=True)]
    while sum(wide) + 3 * _GAP + outcome > width and max(wide) > _LEAST:
        wide[wide.index(max(wide))] -= 1
    return wide[0], wide[1], wide[2]


def _line(offer: Offer, told: str, wide: tuple[int, int, int], width: int) -> Content:
    one = offer.deployment
    texts = (offer.name, one.target, _stem(one.unit))
    left = "".join(pad(safe(text), cells) + " " * _GAP for text, cells in zip(texts, wide, strict=True) if cells)
    hue = _HUES.get(offer.last.outcome, "") if offer.last is not None else "$fl-muted"
    return Content(left) + Content.styled(clip(told, max(0, width - cell_len(left))), hue)


def _stem(unit: str) -> str:
    return unit.removesuffix(".service")


def outcome(offer: Offer, now: float) -> str:
    """How its last load went, in words: ``✔ ready in 82 min, 3 d ago``, ``✖ failed 1 h ago: oom-weights``."""
    load = offer.last
    if load is None:
        return "not watched yet"
    sign = STATES[load.outcome].sign
    took = f" in {about(load.seconds)}" if load.seconds is not None else ""
    cause = f": {safe(load.cause)}" if load.cause and load.outcome == "failed" else ""
    when = load.ended or load.started
    return f"{sign} {load.outcome}{took}{',' if took else ''} {about(now - when)} ago{cause}"
