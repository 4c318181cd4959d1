"""Benchmarks through the keys, measuring nothing: what is offered when, what is asked, what is armed, what is shown
and compared. What is really measured is tried on the real host (``tests/host/test_bench_screen.py``)."""

from __future__ import annotations

from dataclasses import replace as replaced
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from rich.cells import cell_len

from probes.bench.orders import MEASURED
from probes.host import HostError, LinkDown
from tests.tui import acting, benching, views
from tests.tui.benching import BASELINE, NGRAM, Led, filled, sweep
from tests.tui.benching import benching as bench_with
from tests.tui.showing import Showing, showing
from tui.benchmarks.choose import AskMeasure, PresetScreen
from tui.benchmarks.compare import CompareScreen, comparison_rows
from tui.benchmarks.live import BenchScreen
from tui.benchmarks.results import ResultsScreen
from tui.operations.confirm import Confirm
from tui.scene import Scene
from tui.widgets.curve import Curve, curves
from tui.widgets.figures import level_rows, rows_of
from tui.words.benchmarks import in_a_line, of_this_load
from watch.benchmarks.cost import cost
from watch.benchmarks.presets import shipped
from watch.config import Preset
from watch.history import Benchmark
from watch.view import View


def loading() -> View:
    return replace(views.loading(), unit_reading=acting.unit())


async def to_the_question(shown: Showing, key: str, preset: str = "quick") -> AskMeasure:
    await shown.press(key)
    await shown.until(lambda: isinstance(shown.app.screen, PresetScreen))
    screen = shown.app.screen
    assert isinstance(screen, PresetScreen)
    screen.list.move(screen.list.names.index(preset))
    await shown.press("enter")
    await shown.until(lambda: isinstance(shown.app.screen, AskMeasure))
    ask = shown.app.screen
    assert isinstance(ask, AskMeasure)
    return ask


async def armed(shown: Showing, led: Led) -> None:
    await to_the_question(shown, "B")
    await shown.press("tab", "enter")
    await shown.until(lambda: "benchmark armed: quick" in shown.text())


# ----- what is offered


async def test_it_is_offered_the_moment_the_load_is_ready() -> None:
    async with bench_with(picture=loading()) as (shown, _):
        assert "b Benchmark" not in shown.footer()
        await shown.press("b")
        assert shown.app.screen is shown.app.watching
        await shown.look(acting.serving())
        await shown.until(lambda: "b Benchmark" in shown.footer())
        assert "b measures how fast it is" in shown.text()


@pytest.mark.parametrize("picture", [loading(), acting.serving()])
async def test_a_read_only_watch_measures_nothing(picture: View) -> None:
    """A benchmark loads the server."""
    async with bench_with(picture=picture, read_only=True) as (shown, led):
        for word in ("Benchmark", "Arm benchmark"):
            assert word not in shown.footer()
        await shown.press("b", "B")
        assert shown.app.screen is shown.app.watching
        assert "measures how fast" not in shown.text()
        assert led.begun == []


async def test_a_lost_link_hides_it() -> None:
    async with bench_with() as (shown, _):
        await shown.look(replace(acting.serving(), link=views.link_lost().link))
        await shown.until(lambda: "b Benchmark" not in shown.footer())
        await shown.press("b")
        assert shown.app.screen is shown.app.watching


async def test_a_replay_shows_what_was_measured_and_nothing_else() -> None:
    async with showing(benching.done(), status=views.REPLAY) as shown:
        assert "b Benchmark" in shown.footer()
        for word in ("Arm benchmark", "Compare"):
            assert word not in shown.footer()
        await shown.press("b")
        assert isinstance(shown.app.screen, BenchScreen)
        assert "▼ Worse than the baseline" in shown.text()
        for word in ("Measure again", "Cancel it", "Compare"):
            assert word not in shown.footer()
        await shown.press("x", "B", "c", "b")
        assert isinstance(shown.app.screen, BenchScreen)
        await shown.press("escape")
        assert shown.app.screen is shown.app.watching
    async with showing(acting.serving()) as shown:
        assert "Benchmark" not in shown.footer(), "there is none, and none can be begun"


# ----- asking and running


async def test_it_asks_once_and_no_single_key_says_yes() -> None:
    async with bench_with() as (shown, led):
        await to_the_question(shown, "b")
        for key in ("b", "B", "y", "Y", "space", "tab", "right"):
            await shown.press(key)
            assert led.begun == []
        await shown.press("escape")
        await shown.until(lambda: isinstance(shown.app.screen, PresetScreen))  # another preset, perhaps
        await shown.press("escape")
        await shown.until(lambda: shown.app.screen is shown.app.watching)
        await to_the_question(shown, "b", "sweep")
        await shown.press("tab", "enter")
        await shown.until(lambda: led.begun != [])
        (order,) = led.begun
        assert (order.preset, len(order.levels), order.unit) == ("sweep", 4, views.UNIT)
        await shown.until(lambda: isinstance(shown.app.screen, BenchScreen))


async def test_others_at_work_are_warned_of_before() -> None:
    quiet = replace(acting.serving(), serving=replace(views.serving_figures(), running=0.0, waiting=0.0))
    async with bench_with(picture=quiet) as (shown, led):
        ask = await to_the_question(shown, "b")
        assert "requests of others" not in shown.text()
        await shown.press("tab")
        assert ask.buttons.at == 1
        await shown.look(acting.serving())
        await shown.until(lambda: "3 requests of others at work" in shown.text())
        assert ask.buttons.at == 0, "what turns up while yes is chosen is read first"
        assert led.begun == []


async def test_a_server_that_is_gone_meanwhile_cannot_be_measured() -> None:
    async with bench_with() as (shown, led):
        await to_the_question(shown, "b")
        await shown.look(views.failed())
        await shown.until(lambda: "not ready any more" in shown.text())
        await shown.press("tab", "enter")
        await shown.until(lambda: isinstance(shown.app.screen, PresetScreen))
        assert led.begun == []


async def test_it_is_followed_to_its_verdict() -> None:
    async with bench_with() as (shown, led):
        await to_the_question(shown, "b")
        await shown.press("tab", "enter")
        await shown.until(lambda: led.begun != [])
        (order,) = led.begun
        led.say(order, "level", "begun", "run 1 of 1", part=1, concurrency=16, total=96)
        led.say(order, "progress", "", part=1, concurrency=16, done=34, total=96)
        await shown.until(lambda: "34 of 96 requests" in shown.text())
        await shown.press("escape")
        await shown.until(lambda: "benchmark quick 34/96" in shown.text())
        led.say(order, "verdict", "", "n-gram: 0.87 × baseline", facts={"word": "worse", "baseline": "1"})
        led.say(order, "end", "done", "measured")
        led.ended.set()
        await shown.until(lambda: "▼ benchmark: worse than the baseline" in shown.text())
        assert "n-gram: 0.87 × baseline" in shown.text(), "it closes the load's story"
        await shown.press("b")
        await shown.until(lambda: "b Measure again" in shown.footer())
        await shown.press("b")
        await shown.until(lambda: isinstance(shown.app.screen, PresetScreen))


async def test_cancelling_asks_too() -> None:
    async with bench_with(picture=benching.running()) as (shown, led):
        await shown.press("b", "x")
        await shown.until(lambda: isinstance(shown.app.screen, Confirm))
        assert "ann@laptop's benchmark sweep" in shown.text()
        await shown.press("enter")
        await shown.until(lambda: isinstance(shown.app.screen, BenchScreen))
        assert led.cancelled == 0
        await shown.press("x")
        await shown.until(lambda: isinstance(shown.app.screen, Confirm))
        await shown.press("tab", "enter")
        await shown.until(lambda: led.cancelled == 1)


async def test_what_cannot_be_begun_says_why() -> None:
    async with bench_with() as (shown, led):
        led.error = HostError("the login was refused", "Log in again.")
        await to_the_question(shown, "b")
        await shown.press("tab", "enter")
        await shown.until(lambda: "Refused" in shown.text() and "the login was refused" in shown.text())
        await shown.press("b")
        await shown.until(lambda: isinstance(shown.app.screen, PresetScreen))


async def test_a_preset_that_cannot_be_measured_cannot_be_chosen() -> None:
    async with bench_with(presets={"mine": Preset(concurrency=())}) as (shown, _):
        await shown.press("b")
        await shown.until(lambda: isinstance(shown.app.screen, PresetScreen))
        await shown.press("G")
        assert "measures nothing" in shown.text()
        assert "Choose" not in shown.footer()
        await shown.press("enter")
        assert isinstance(shown.app.screen, PresetScreen)


# ----- armed


async def test_armed_it_begins_by_itself_whatever_screen_is_open() -> None:
    async with bench_with(picture=loading()) as (shown, led):
        assert "B Arm benchmark" in shown.footer()
        await armed(shown, led)
        await shown.press("question_mark")
        shown.source.look(replace(acting.serving(), benchmark=shown.app.watching.picture.benchmark))  # type: ignore[union-attr]
        await shown.until(lambda: led.begun != [])
        (order,) = led.begun
        assert order.preset == "quick"
        led.say(order, "end", "done", "measured")
        led.ended.set()
        await shown.press("escape")
        await shown.look(acting.serving())
        assert len(led.begun) == 1, "once"


async def test_b_again_disarms_it() -> None:
    async with bench_with(picture=loading()) as (shown, led):
        await armed(shown, led)
        await shown.press("B")
        await shown.until(lambda: "benchmark armed" not in shown.text())
        await shown.look(acting.serving())
        await shown.until(lambda: "b Benchmark" in shown.footer())
        assert led.begun == []


async def test_a_failed_load_leaves_it_armed_for_the_next() -> None:
    async with bench_with(picture=loading()) as (shown, led):
        await armed(shown, led)
        kept = shown.app.watching.picture.benchmark  # type: ignore[union-attr]
        await shown.look(replace(views.failed(), unit_reading=acting.unit("failed"), benchmark=kept))
        assert "benchmark armed: quick" in shown.text()
        assert led.begun == []
        shown.source.look(replace(acting.serving(), benchmark=kept))
        await shown.until(lambda: len(led.begun) == 1)


async def test_it_stays_armed_over_a_lost_link() -> None:
    async with bench_with(picture=loading()) as (shown, led):
        await armed(shown, led)
        led.error = LinkDown("gone")
        kept = shown.app.watching.picture.benchmark  # type: ignore[union-attr]
        shown.source.look(replace(acting.serving(), benchmark=kept))
        await shown.until(lambda: led.error is None)
        bencher = shown.app.bencher
        assert bencher is not None
        await shown.until(lambda: bencher.armed is not None)
        assert led.begun == []
        bencher._not_before = 0.0  # as when the seconds between two tries are over
        shown.source.look(replace(acting.serving(), benchmark=kept))
        await shown.until(lambda: len(led.begun) == 1)


async def test_another_operators_comes_first() -> None:
    async with bench_with(picture=loading()) as (shown, led):
        await armed(shown, led)
        led.theirs = benching.bench(run="theirs", state="done")
        kept = shown.app.watching.picture.benchmark  # type: ignore[union-attr]
        shown.source.look(replace(acting.serving(), benchmark=kept))
        await shown.until(lambda: len(led.begun) == 1)
        assert led.theirs is None


async def test_a_backlog_that_is_still_read_begins_nothing() -> None:
    """An earlier load was ready in it."""
    async with bench_with(picture=loading()) as (shown, led):
        await armed(shown, led)
        source = shown.source
        source.state = replaced(source.state, backlog=0.4)
        kept = shown.app.watching.picture.benchmark  # type: ignore[union-attr]
        await shown.look(replace(acting.serving(), benchmark=kept))
        assert led.begun == []
        source.state = replaced(source.state, backlog=None)
        shown.source.look(replace(acting.serving(), benchmark=kept))
        await shown.until(lambda: len(led.begun) == 1)


async def test_leaving_asks_where_something_is_armed() -> None:
    async with bench_with(picture=loading()) as (shown, led):
        await armed(shown, led)
        await shown.press("q")
        await shown.until(lambda: isinstance(shown.app.screen, Confirm))
        assert "--wait-ready" in shown.text()
        await shown.press("enter")
        await shown.until(lambda: shown.app.screen is shown.app.watching)
        assert shown.app._exit is False
        await shown.press("q")
        await shown.until(lambda: isinstance(shown.app.screen, Confirm))
        await shown.press("tab", "enter")
        await shown.until(lambda: shown.app._exit)


async def test_nothing_armed_leaves_at_once() -> None:
    async with bench_with() as (shown, _):
        await shown.press("q")
        assert shown.app._exit


# ----- comparing


async def test_without_a_history_nothing_is_compared() -> None:
    async with bench_with() as (shown, _):
        assert "c Compare" not in shown.footer()


async def test_one_is_compared_with_the_baseline(tmp_path: Path) -> None:
    with filled(tmp_path / "h") as history:
        async with bench_with(history=history, size=(120, 50)) as (shown, _):
            await shown.press("c")
            await shown.until(lambda: isinstance(shown.app.screen, ResultsScreen))
            await shown.press("j", "j")
            assert "Enter compares run 2 with the baseline" in shown.text()
            await shown.press("enter")
            await shown.until(lambda: isinstance(shown.app.screen, CompareScreen))
            assert "▼ Worse: n-gram: 0.87 × baseline output tokens per second" in shown.text()
            assert "async scheduling" in shown.text()
            assert "A64" in shown.text()
            await shown.press("y")
            assert "n-gram against baseline" in shown.app.clipboard
            await shown.press("escape")
            await shown.until(lambda: isinstance(shown.app.screen, ResultsScreen))
            assert "Enter compares run 2 with the baseline" in shown.text(), "where it was"


async def test_marked_ones_are_compared_and_stepped_through(tmp_path: Path) -> None:
    with filled(tmp_path / "h") as history:
        async with bench_with(history=history, size=(120, 50)) as (shown, _):
            await shown.press("c")
            await shown.until(lambda: isinstance(shown.app.screen, ResultsScreen))
            await shown.press("j", "space", "m", "m")
            assert "Enter compares runs 2, 3 with the baseline" in shown.text()
            await shown.press("enter")
            await shown.until(lambda: isinstance(shown.app.screen, CompareScreen))
            assert "1 of 2" in shown.text()
            await shown.press("n")
            await shown.until(lambda: "2 of 2" in shown.text())
            assert "? No verdict" in shown.text()
            assert "38 of its 40 requests failed" in shown.text()


async def test_another_preset_gets_no_verdict_and_says_which(tmp_path: Path) -> None:
    with filled(tmp_path / "h") as history:
        async with bench_with(history=history) as (shown, _):
            await shown.press("c", "enter")
            await shown.until(lambda: isinstance(shown.app.screen, CompareScreen))
            assert "? No verdict" in shown.text()
            assert "different presets: sweep and standard" in shown.text()


async def test_the_baseline_is_set_with_a_key(tmp_path: Path) -> None:
    with filled(tmp_path / "h") as history:
        async with bench_with(history=history) as (shown, _):
            await shown.press("c", "j", "j", "asterisk")
            await shown.until(lambda: "* run 2" in shown.text())
            found = history.baseline(views.TARGET, views.UNIT)
            assert found is not None
            assert found.id == 2
            assert "Make baseline" not in shown.footer()


async def test_a_history_that_breaks_is_said(tmp_path: Path) -> None:
    history = filled(tmp_path / "h")
    async with bench_with(history=history) as (shown, _):
        history.close()
        await shown.press("c")
        await shown.until(lambda: isinstance(shown.app.screen, ResultsScreen))
        assert "Cannot" in shown.text() or "cannot" in shown.text() or "closed" in shown.text()


# ----- words and rows


def test_a_benchmark_of_an_earlier_start_says_nothing_of_this_one() -> None:
    view = benching.done(invocation="an earlier one")
    assert of_this_load(view) is None
    assert in_a_line(view) == ("", "")
    assert view.load is not None
    assert of_this_load(benching.done(invocation=view.load.invocation)) is not None


WORDS = st.text(max_size=40)


@given(
    WORDS, WORDS, WORDS,
    st.sampled_from(["armed", "running", "done", "failed", "refused", "cancelled", "unknown"]),
    st.sampled_from(["better", "worse", "level", "mixed", "refused", "baseline", "", "x"]),
    st.integers(20, 180), st.booleans(),
)  # fmt: skip
def test_nothing_a_server_says_breaks_its_rows(
    preset: str, error: str, fact: str, state: str, word: str, width: int, alone: bool
) -> None:
    level = benching.level(1, 16, float("inf"), level=fact, unusable=error)
    view = benching.running(
        preset=preset, first_error=error, text=error, state=state, word=word, verdict=fact, warnings=(error,),
        differs=((fact, error, preset),), levels=(level, *benching.LEVELS), failed=3, who=fact, ended=benching.T,
    )  # fmt: skip
    rows = rows_of(Scene(view), width, alone=alone)
    assert rows
    in_a_line(view)


@pytest.mark.parametrize("width", range(30, 200, 7))
def test_figures_fit_their_width(width: int) -> None:
    for row in level_rows(benching.LEVELS, width):
        assert cell_len(row.text) <= width or width < 48
    assert "output tok/s" in level_rows(benching.LEVELS, width)[0].text


FLOATS = st.floats(allow_nan=True, allow_infinity=True)


@given(st.lists(st.tuples(FLOATS.map(abs), FLOATS.map(abs), st.just("4")), max_size=5), st.integers(20, 90))
def test_any_points_can_be_drawn(points: list[tuple[float, float, str]], width: int) -> None:
    bounded = [one for one in points if not one[0] > 1e12 and not one[1] > 1e12]
    rows = curves([Curve("A", tuple(bounded)), Curve("B", tuple(bounded[:1]))], width, 10)
    assert len(rows) in (0, 10)


def test_curves_are_told_apart_without_colour() -> None:
    lines = [
        Curve("A", ((96.0, 10.4, "1"), (1630.0, 39.3, "64"))),
        Curve("B", ((84.0, 11.9, "1"), (1412.0, 45.3, "64"))),
    ]
    text = "\n".join(row.text for row in curves(lines, 80, 16))
    for name in ("A64", "B64"):
        assert name in text


def test_what_a_preset_costs() -> None:
    ours = shipped()
    assert cost("quick", ours["quick"], ()).seconds is None
    kept = Benchmark(target="t", unit="u", at=0.0, run="r", preset="sweep", result=sweep("none", BASELINE))
    found = cost("quick", ours["quick"], (kept,))
    # 96 requests of 256 tokens at 802 a second, and the start
    assert found.seconds == pytest.approx(15 + 96 * 256 / 802)
    assert not found.measured
    low = cost("mine", Preset(concurrency=(8,), prompts=10, output_len=100), (
        replace(kept, result=sweep("none", {16: 800.0})),))  # fmt: skip
    assert low.seconds == pytest.approx(15 + 1000 / 400), "half the load, half the speed"


def test_the_whole_of_a_comparison_at_every_width(tmp_path: Path) -> None:
    from watch.benchmarks.keep import compare_kept
    from watch.benchmarks.told import summaries

    a, b = (
        Benchmark(id=number, target="t", unit="u", at=0.0, run=str(number), preset="sweep", result=sweep(name, speeds))
        for number, (name, speeds) in enumerate((("none", BASELINE), ("ngram", NGRAM)), 1)
    )
    found = compare_kept(None, a, b)
    for width in (60, 76, 116, 150, 196):
        text = "\n".join(row.text for row in comparison_rows(found, (summaries(a), summaries(b)), width, 30))
        for word in ("Worse", "concurrency 64", "0.87", "What else differs", "one run each"):
            assert word in text, width


def test_where_it_runs_decides_what_ends_it() -> None:
    def said(**facts: str) -> str:
        view = benching.running(facts=facts)
        return " ".join(row.text.strip() for row in rows_of(Scene(view), 80, alone=False))

    assert "leaving firstlight, does not end it" in said()
    assert "through the SSH connection, and ends with that" in said(**{MEASURED: "through the SSH tunnel from laptop"})
