"""``firstlight`` alone: what is offered, and what comes of choosing it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from probes.host import LinkRefused
from probes.servers import Server
from probes.ssh_aliases import aliases
from tests.tui.showing import press
from tui.screens.start import Chosen, UnitsScreen
from tui.start import Start, Trouble
from tui.widgets.searchline import SearchLine
from watch.config import Deployment
from watch.history import History, LoadRecord
from watch.load_key import Key
from watch.offers import Offers, offers

NOW = 1_789_916_400.0
KIMI = Deployment(target="root@llm-two", unit="kimi-k25-int4-ngram", fallback="vllm-kimi-k25-int4")
GLM = Deployment(target="llm-three", unit="glm-5.service", user=True)


def load(target: str, unit: str, outcome: str = "ready", ago: float = 86_400.0, cause: str = "") -> LoadRecord:
    key = Key(target=target, unit=unit, model="/m", arguments="")
    at = NOW - ago
    return LoadRecord(key=key, invocation="", started=at - 4920, ended=at, outcome=outcome, cause=cause)  # type: ignore[arg-type]


LOADS = [
    load("root@llm-two", "kimi-k25-int4-ngram.service"),
    load("ops@llm-four", "qwen3-235b.service", "failed", 3600.0, "oom-weights"),
    load("local", "vllm-small", "stopped", 86_400.0 * 40),
]
OFFERS = offers(
    {"kimi": KIMI, "glm": GLM},
    LOADS,
    ["llm-two", "gpu-a", "gpu-b"],
    local=True,
    config="~/.config/firstlight/firstlight.toml",
)
SERVERS = (
    Server(
        unit="kimi-k25-int4-ngram.service",
        active="active",
        sub="running",
        enabled="enabled",
        engine="vllm",
        model="/srv/models/Kimi-K2.5-INT4",
    ),
    Server(
        unit="glm-5.service",
        active="failed",
        sub="failed",
        enabled="disabled",
        engine="sglang",
        model="/srv/models/GLM-5",
    ),
    Server(unit="mine.service", user=True, active="inactive", sub="dead", enabled="static", engine="vllm"),
)


async def ask(target: str) -> Sequence[Server]:
    if target == "gpu-a":
        raise LinkRefused("gpu-a refuses this login", "Offer another key: ssh-add")
    return () if target == "gpu-b" else SERVERS


class Running:
    def __init__(self, app: Start, pilot: Pilot[Any]) -> None:
        self.app, self.pilot = app, pilot

    def text(self) -> str:
        return "\n".join(strip.text for strip in self.app.screen._compositor.render_strips())

    async def press(self, *keys: str) -> None:
        await press(self.pilot, *keys)

    async def until(self, true: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not true():
                await self.pilot.pause(0.005)
        await self.pilot.pause()

    async def type(self, text: str) -> None:
        await self.press(*({"@": "at", "-": "minus", ".": "full_stop"}.get(char, char) for char in text), "enter")


@asynccontextmanager
async def started(what: Offers = OFFERS, size: tuple[int, int] = (120, 35), **options: Any) -> AsyncIterator[Running]:
    app = Start(what, ask, now=NOW, **options)
    async with app.run_test(size=size) as pilot:
        shown = Running(app, pilot)
        await shown.until(lambda: app.start.choices.option_count > 0)
        yield shown


async def test_deployments_come_first_with_how_their_last_load_went() -> None:
    async with started() as shown:
        text = shown.text()
        kimi = next(line for line in text.splitlines() if " kimi " in line)
        assert "root@llm-two" in kimi
        assert "kimi-k25-int4-ngram" in kimi
        assert "✔ ready in 82 min, 24 h ago" in kimi
        assert "not watched yet" in next(line for line in text.splitlines() if " glm " in line)
        assert "✖ failed 60 min ago: oom-weights" in text
        assert text.index("Deployments of ~/.config") < text.index("Watched before") < text.index("Units of a host")
        await shown.press("enter")
        assert shown.app.return_value == Chosen(KIMI, "kimi")


async def test_a_unit_watched_before() -> None:
    async with started() as shown:
        await shown.press("j", "j", "enter")
    assert shown.app.return_value == Chosen(Deployment(target="ops@llm-four", unit="qwen3-235b.service"))


async def test_a_host_is_asked_for_its_units() -> None:
    async with started() as shown:
        await shown.press("G", "k", "k", "k", "k", "enter")  # llm-two
        await shown.until(lambda: "Units of llm-two that look like model servers" in shown.text())
        text = shown.text()
        assert "kimi-k25-int4-ngram" in text
        assert "active (running), enabled, vllm, /srv/models/Kimi-K2.5-INT4" in text
        assert "user unit" in text
        await shown.press("j", "j", "enter")
    assert shown.app.return_value == Chosen(Deployment(target="llm-two", unit="mine.service", user=True))


async def test_a_host_that_cannot_be_reached_is_one_sentence_and_another_can_be_chosen() -> None:
    async with started() as shown:
        await shown.press("h")
        await shown.type("gpu-a")
        await shown.until(lambda: "gpu-a refuses this login. Offer another key: ssh-add." in shown.text())
        assert "kimi" in shown.text()
        await shown.press("h")
        await shown.type("root@gpu-c")
        await shown.until(lambda: isinstance(shown.app.screen, UnitsScreen) and "Units of root@gpu-c" in shown.text())
        await shown.press("escape")
        await shown.until(lambda: "What shall be watched?" in shown.text())


async def test_a_host_without_such_units_and_a_unit_that_is_typed() -> None:
    async with started() as shown:
        await shown.press("slash")
        await shown.type("gpu-b")
        await shown.until(lambda: "No unit of gpu-b looks like a model server." in shown.text())
        await shown.press("enter")
        await shown.type("vllm")
    assert shown.app.return_value == Chosen(Deployment(target="gpu-b", unit="vllm"))


@pytest.mark.parametrize("name", ["vllm*", "-all", "a/b", "$(id)", "two words"])
async def test_what_can_be_no_unit_is_said_here_and_another_can_be_typed(name: str) -> None:
    async with started() as shown:
        await shown.press("slash")
        await shown.type("gpu-b")
        await shown.until(lambda: "No unit of gpu-b" in shown.text())
        await shown.press("enter")
        shown.app.screen.query_one(SearchLine).value = name
        await shown.press("enter")
        await shown.until(lambda: f"{name} is no name of a unit. Names of units have letters" in shown.text())
        assert shown.app.return_value is None
        await shown.press("enter")
        await shown.type("vllm")
    assert shown.app.return_value == Chosen(Deployment(target="gpu-b", unit="vllm"))


async def test_the_demo_and_nothing_at_all() -> None:
    async with started(Offers()) as shown:
        await shown.press("G", "enter")
    assert shown.app.return_value == Chosen()
    async with started(Offers()) as shown:
        await shown.press("h", "escape", "q")
    assert shown.app.return_value is None


async def test_what_could_not_be_watched_is_said_until_another_is_chosen() -> None:
    async with started(trouble=Trouble("llm-two has no unit x", "Did you mean vllm?")) as shown:
        assert "llm-two has no unit x Did you mean vllm?" in shown.text()


async def test_hostile_names_are_shown_and_not_obeyed() -> None:
    bad = "x\x1b[31m[red]\u202e"
    what = offers(
        {bad: Deployment(target=bad, unit=bad)}, [load(bad, bad + "2", "failed", 1.0, bad)], [bad], config=bad
    )
    async with started(what) as shown:
        assert "\x1b" not in shown.text()
        assert "[red]" in shown.text()


async def test_keys_can_be_changed_here_too() -> None:
    async with started(keys={"start.host": "x"}) as shown:
        await shown.press("x")
        assert "Host:" in shown.text()


# ----- where it comes from


def test_the_last_load_of_each_unit(tmp_path: Path) -> None:
    with History.open(tmp_path / "h.sqlite") as history:
        for at, outcome in ((1.0, "ready"), (3.0, "failed"), (2.0, "ready")):
            key = Key(target="h", unit="u", model="m", arguments="")
            history.record_load(LoadRecord(key=key, invocation=f"{at}", started=at, outcome=outcome))  # type: ignore[arg-type]
        history.record_load(
            LoadRecord(key=Key(target="h", unit="v", model="", arguments=""), invocation="v", started=9.0)
        )
        assert [(one.key.unit, one.started, one.outcome) for one in history.latest()] == [
            ("v", 9.0, "loading"),
            ("u", 3.0, "failed"),
        ]
        assert len(history.latest(limit=1)) == 1


def test_what_is_offered_is_offered_once() -> None:
    assert [one.name for one in OFFERS.deployments] == ["kimi", "glm"]
    assert [one.deployment.target for one in OFFERS.recent] == ["ops@llm-four", "local"]
    assert OFFERS.hosts == ("root@llm-two", "llm-three", "ops@llm-four", "local", "llm-two", "gpu-a", "gpu-b")
    assert offers({}, []) == Offers()


def test_aliases_of_ssh_config(tmp_path: Path) -> None:
    config = tmp_path / "config"
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "a.conf").write_text("Host inner\nInclude ../config\n")  # a circle
    config.write_text(
        'Include more/*.conf\nHost one two # words\nHost *.example !not\nhost = "three"\n  HostName one.example\n'
        'Match host x\nHost one -oProxyCommand=x "broken\n\xff\n'
    )
    assert aliases(config) == ("inner", "one", "two", "three", '"broken') or aliases(config)[:4] == (
        "inner", "one", "two", "three",
    )  # fmt: skip
    assert not any(name.startswith("-") or "*" in name or "!" in name for name in aliases(config))
    assert aliases(tmp_path / "absent") == ()


# ----- how it looks

SIZES = {"200x50": (200, 50), "120x35": (120, 35), "80x24": (80, 24)}


@pytest.mark.parametrize("size", SIZES)
def test_the_list(snap_compare: Callable[..., bool], size: str) -> None:
    assert snap_compare(Start(OFFERS, ask, now=NOW), terminal_size=SIZES[size])


@pytest.mark.parametrize("size", SIZES)
def test_the_units_of_a_host(snap_compare: Callable[..., bool], size: str) -> None:
    async def before(pilot: Pilot[Any]) -> None:
        app = pilot.app
        assert isinstance(app, Start)
        app.start.show_units("root@llm-two")
        while "Units of" not in str(getattr(app.screen, "said", "") and app.screen.said._text):  # type: ignore[attr-defined]
            await pilot.pause(0.005)
        await pilot.pause()

    assert snap_compare(Start(OFFERS, ask, now=NOW), terminal_size=SIZES[size], run_before=before)


def test_after_trouble(snap_compare: Callable[..., bool]) -> None:
    trouble = Trouble("The host key of llm-two has CHANGED: SHA256:abc is not the one in known_hosts.", "Ask why.")
    assert snap_compare(Start(OFFERS, ask, now=NOW, trouble=trouble), terminal_size=SIZES["80x24"])
