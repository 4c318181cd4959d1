"""The watch screen through its keys, at the three sizes: panes, zoom, findings, help, palette; loud when it must be."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from textual.command import CommandPalette

import themes
from tests.tui import views
from tests.tui.showing import Showing, make_app, showing
from tui.alerts import Alerts
from tui.keys import BadKey, table
from tui.screens.finding import FindingScreen
from tui.screens.help import HelpScreen
from tui.screens.watch import shape
from tui.widgets.pane import Pane
from watch.state import Changes
from watch.view import SourceView, View

SIZES = {"wide": (200, 50), "middle": (120, 35), "single": (80, 24)}


def panes(shown: Showing) -> list[str]:
    """Panes that are displayed, in their order."""
    return [
        str(widget.id) for widget in shown.app.watching.query("#panes > *") if widget.display and widget.size.height > 0
    ]


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
async def test_panes_lie_as_the_size_allows(size: tuple[int, int]) -> None:
    async with showing(size=size) as shown:
        single = size == SIZES["single"]
        assert panes(shown) == (["journal"] if single else ["load", "gpu", "storage", "findings", "journal"])
        assert ("1 Load" in shown.text()) == single


def test_shapes() -> None:
    assert [shape(*size) for size in SIZES.values()] == list(SIZES)
    assert shape(300, 20) == "single"
    assert shape(90, 60) == "single"
    assert shape(150, 60) == "middle"


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
async def test_numbers_go_to_panes(size: tuple[int, int]) -> None:
    async with showing(size=size) as shown:
        for key, pane in (("1", "load"), ("2", "gpu"), ("3", "storage"), ("4", "findings"), ("5", "journal")):
            await shown.press(key)
            assert shown.app.focused is not None
            assert shown.app.focused.id == pane
            assert pane in panes(shown)
            assert (panes(shown) == [pane]) == (size == SIZES["single"])


@pytest.mark.parametrize("size", [SIZES["middle"], SIZES["single"]], ids=["middle", "single"])
async def test_tab_goes_round(size: tuple[int, int]) -> None:
    async with showing(size=size) as shown:
        order = []
        for _ in range(5):
            await shown.press("tab")
            assert shown.app.focused is not None
            order.append(shown.app.focused.id)
        assert order == ["load", "gpu", "storage", "findings", "journal"]
        await shown.press("shift+tab")
        assert shown.app.focused.id == "findings"
        await shown.press("J")
        assert shown.app.focused.id == "journal"


async def test_zoom_gives_a_pane_the_screen_and_back() -> None:
    async with showing(size=SIZES["middle"]) as shown:
        await shown.press("2", "z")
        assert panes(shown) == ["gpu"]
        assert "2 GPU" in shown.text()
        assert "GiB a GPU" in shown.text()  # there is room for the large plot now
        await shown.press("z")
        assert len(panes(shown)) == 5
        await shown.press("z", "escape")
        assert len(panes(shown)) == 5


async def test_zoom_is_not_offered_where_there_is_one_pane_anyway() -> None:
    async with showing(size=SIZES["single"]) as shown:
        await shown.press("z")
        assert "Zoom" not in shown.footer()


async def test_escape_goes_back_to_the_journal() -> None:
    async with showing(size=SIZES["middle"]) as shown:
        await shown.press("f")
        assert shown.app.focused is not None
        assert shown.app.focused.id == "findings"
        await shown.press("escape")
        assert shown.app.focused.id == "journal"


async def test_storage_gives_its_room_to_serving_once_ready() -> None:
    async with showing(size=SIZES["wide"]) as shown:
        await shown.press("3")
        await shown.look(views.ready())
        await shown.pilot.pause()
        assert panes(shown) == ["load", "gpu", "serving", "findings", "journal"]
        text = shown.text()
        assert "86.4 tok/s out" in text
        assert "124 ms" in text
        assert "2.43 tokens a step" in text
        await shown.look(views.loading())
        await shown.pilot.pause()
        assert "storage" in panes(shown)


async def test_findings_are_read_with_cause_advice_and_evidence() -> None:
    async with showing(views.failed(), size=SIZES["middle"]) as shown:
        await shown.press("f")
        assert "No room for CUDA graphs" in shown.text()
        await shown.press("enter")
        assert isinstance(shown.app.screen, FindingScreen)
        text = shown.text()
        for words in (
            "Finding 1 of 4",
            "fatal",
            "Weights and KV cache fill",
            "Lower --gpu-memory",
            "torch.OutOfMemoryError",
        ):
            assert words in text
        await shown.press("n")
        assert "follows from  No room for CUDA graphs" in shown.text()
        await shown.press("N", "N")
        assert "Finding 1 of 4" in shown.text()
        await shown.press("q")
        assert not isinstance(shown.app.screen, FindingScreen)
        await shown.press("j", "j", "enter")
        assert "systemd expands $free" in shown.text()
        await shown.press("escape", "G", "enter")
        assert "Finding 4 of 4" in shown.text()
        await shown.press("enter", "g", "enter")
        assert "Finding 1 of 4" in shown.text()


async def test_the_chosen_finding_stays_chosen_when_others_come() -> None:
    async with showing(size=SIZES["middle"]) as shown:
        await shown.press("f", "j")
        assert shown.app.watching.findings.current == views.ALLREDUCE
        await shown.look(views.failed())
        assert shown.app.watching.findings.current == views.ALLREDUCE


async def test_a_finding_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    async with showing(views.failed()) as shown:
        await shown.press("f", "enter", "y")
        assert "Lower --gpu-memory-utilization" in shown.app.clipboard
        assert "torch.OutOfMemoryError" in shown.app.clipboard


@pytest.mark.parametrize("key", ["question_mark", "f1"])
async def test_help_lists_every_key_and_closes(key: str) -> None:
    async with showing(size=(140, 90)) as shown:
        await shown.press(key)
        screen = shown.app.screen
        assert isinstance(screen, HelpScreen)
        text = "\n".join(row.text for row in screen.whole.rows)
        for row in table():
            assert row.id in text
            assert row.help.split(",")[0] in text
        await shown.press(key)
        assert not isinstance(shown.app.screen, HelpScreen)
        await shown.press(key, "escape", key, "q")
        assert not isinstance(shown.app.screen, HelpScreen)


async def test_help_is_read_with_the_keys_of_panes() -> None:
    async with showing(size=SIZES["single"]) as shown:
        await shown.press("question_mark")
        screen = shown.app.screen
        assert isinstance(screen, HelpScreen)
        await shown.until(lambda: screen.whole.max_scroll_y > 0)
        await shown.press("G")
        assert "Change nothing" in shown.text()
        await shown.press("g")
        assert "What every key does here" in shown.text()
        await shown.press("pagedown", "j", "k", "pageup")
        assert "What every key does here" in shown.text()


async def test_the_palette_runs_commands_by_name() -> None:
    async with showing() as shown:
        await shown.press("ctrl+p", "escape")
        await shown.press("colon")
        assert isinstance(shown.app.screen, CommandPalette)
        await shown.press(*"light")
        await shown.pilot.pause(0.3)  # the palette gathers matches for a while before it shows them
        await shown.press("enter")
        await shown.until(lambda: shown.app.theme == themes.LIGHT)


async def test_the_palette_offers_what_works_now() -> None:
    async with showing() as shown:
        titles = {command.title for command in shown.app.get_system_commands(shown.app.screen)}
        assert {"Whole line", "Search the journal", "Quit", "Theme: contrast"} <= titles
        assert "Follow the journal" not in titles  # it does already
        assert "Cause and advice" not in titles  # the findings have not the focus
        await shown.press("k")
        titles = {command.title for command in shown.app.get_system_commands(shown.app.screen)}
        assert "Follow the journal" in titles


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
async def test_quit(key: str) -> None:
    async with showing() as shown:
        await shown.press(key)
        assert shown.app._exit


async def test_the_source_is_closed_when_the_screen_is_left() -> None:
    async with showing() as shown:
        source = shown.source
        await shown.press("q")
    assert source.closed


@pytest.mark.parametrize(
    ("before", "after", "rings", "says"),
    [
        (views.loading, views.failed, True, "kimi-k25-int4-ngram.service @ llm-two: failed"),
        (views.loading, views.stalled, True, "stalled in weights"),
        (views.loading, views.ready, True, "ready"),
        (views.loading, views.link_lost, True, "link lost"),
        (views.link_lost, views.loading, False, "the link is back"),
    ],
)
async def test_loud_things_are_loud(
    before: Callable[[], View], after: Callable[[], View], rings: bool, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with showing(before(), alerts=Alerts(bell=True, desktop="osc9")) as shown:
        written: list[str] = []
        rung: list[bool] = []
        monkeypatch.setattr(shown.app, "_write", written.append)
        monkeypatch.setattr(shown.app, "bell", lambda: rung.append(True))
        await shown.look(after())
        assert bool(rung) == rings
        assert len(written) == 1
        assert says in written[0]


async def test_a_replay_is_not_loud(monkeypatch: pytest.MonkeyPatch) -> None:
    async with showing(views.loading(), status=views.REPLAY, alerts=Alerts()) as shown:
        rung: list[bool] = []
        monkeypatch.setattr(shown.app, "bell", lambda: rung.append(True))
        await shown.look(views.failed())
        assert rung == []


@pytest.mark.parametrize("size", [(20, 5), (40, 10), (3, 2), (500, 150)])
async def test_any_terminal_at_all(size: tuple[int, int]) -> None:
    async with showing(views.failed(), size=size) as shown:
        await shown.press("1", "2", "3", "4", "enter", "escape", "5", "enter", "escape", "question_mark", "escape", "p")
        await shown.pilot.resize_terminal(120, 35)
        await shown.press("escape")
        assert "FAILED" in shown.text()


async def test_what_a_value_is_worth_is_seen_by_its_age() -> None:
    fresh = views.loading()
    old = msgspec.structs.replace(fresh, now=fresh.now + 14)
    async with showing(fresh) as shown:
        assert "old" not in shown.text()
        await shown.look(old)
        text = shown.text()
        assert "0:14 old" in text
        gpu = shown.app.watching.gpu
        assert "muted" in {style for _, style in gpu.rows[0]}


async def test_a_replay_at_speed_is_not_old_for_it() -> None:
    view = msgspec.structs.replace(views.demo(), now=views.NOW + 14)
    async with showing(view, status=views.DEMO) as shown:
        assert "old" not in shown.text()
        assert "DEMO 30×" in shown.text()


async def test_a_missing_source_says_why_and_the_other_panes_live() -> None:
    async with showing(views.no_gpu()) as shown:
        text = shown.text()
        assert "nvidia-smi is not on this host." in text
        assert "148 MB/s" in text
        assert "38 of 64 shards" in text


async def test_a_source_without_a_pane_says_in_the_load_what_is_wrong_with_it() -> None:
    view = msgspec.structs.replace(
        views.waiting(),
        sources=(
            SourceView(
                probe="journal",
                state="failed",
                reason="No right to read the journal of this unit",
                remedy="Add the user to the group systemd-journal.",
                since=views.NOW,
                last=views.NOW,
            ),
        ),
    )
    async with showing(view, rows=[]) as shown:
        text = " ".join(shown.text().split())
        assert "⚠ No right to read the journal" in text
        assert "systemd-journal." in text


async def test_why_the_link_is_lost_is_never_cut_for_good() -> None:
    async with showing(views.link_lost()) as shown:
        load = " ".join("".join(text for text, _ in row).strip() for row in shown.app.watching.load.rows)
        assert "No answer to keepalives for 15 s. The load on the host goes on;" in load
        assert "will be read from where it stopped." in load


async def test_nothing_is_painted_while_nothing_changes() -> None:
    async with showing() as shown:
        await shown.pilot.pause()
        painted: list[str] = []
        for widget in shown.app.watching.query("*"):
            refresh = widget.refresh

            def note(
                *regions: object, _id: str = str(widget.id), _refresh: object = refresh, **options: object
            ) -> object:
                painted.append(_id)
                return _refresh(*regions, **options)  # type: ignore[operator]

            widget.refresh = note  # type: ignore[method-assign, assignment]
        for _ in range(3):
            shown.app.flush()
            await shown.pilot.pause()
        assert painted == []
        shown.app.source.picture = msgspec.structs.replace(views.loading(), now=views.NOW + 1)  # type: ignore[attr-defined]
        shown.app.flush()
        assert set(painted) == {"header", "load"}  # the clocks


async def test_hostile_words_are_shown_not_obeyed() -> None:
    bad = "\x1b]52;c;eA==\x07[bold red]x[/] [/nope] \u202e"
    view = views.failed()
    assert view.load is not None
    finding = msgspec.structs.replace(
        views.OOM, title=bad, cause=bad, advice=bad, evidence=(bad,), ranks=(bad,), id=bad
    )
    running = msgspec.structs.replace(view.load.phases[-2], note=bad)
    view = msgspec.structs.replace(
        view,
        model=bad,
        headline=bad,
        engine=bad,
        version=bad,
        findings=(finding,),
        load=msgspec.structs.replace(view.load, phases=(*view.load.phases[:-2], running)),
    )
    async with showing(view, size=SIZES["wide"]) as shown:
        await shown.press("f", "enter")
        for screen in shown.app.screen_stack[1:]:
            for widget in screen.query(Pane):
                for row in widget.rows:
                    assert "\x1b" not in widget.strip(row, 100).text
        text = shown.text()
        assert "\x1b" not in text
        assert "[bold red]x[/] [/nope]" in text


async def test_a_watch_that_breaks_off_says_so_and_stays() -> None:
    app = make_app(views.loading(), views.lines())
    source = app.source
    assert isinstance(source, views.Fixed)
    async with app.run_test(size=(120, 35)) as pilot:
        shown = Showing(app, pilot, source)
        await shown.until(lambda: len(app.store) == 60)
        source.fail(OSError("the session file is gone"))
        await shown.until(lambda: "The watch broke off: the session file is gone" in shown.text())
        await shown.press("k", "2")


async def test_an_operators_keys_replace_those_of_the_table() -> None:
    async with showing(keys={"journal.follow": "F", "watch.zoom": "ctrl+o"}) as shown:
        await shown.press("k")
        assert "F Follow" in shown.footer()
        await shown.press("G")
        assert not shown.journal.following
        await shown.press("F")
        assert shown.journal.following
        await shown.press("ctrl+o")
        assert panes(shown) == ["journal"]
        await shown.press("question_mark")
        assert "F" in next(row for row in shown.app.screen.whole.rows if "journal.follow" in row.text).text  # type: ignore[attr-defined]


def test_keys_that_cannot_be_are_refused_before_the_screen_opens() -> None:
    with pytest.raises(BadKey):
        make_app(views.loading(), keys={"watch.zoom": "s"})


async def test_no_colour_means_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with showing(views.failed()) as shown:
        assert shown.app.theme == themes.PLAIN
        for strip in shown.app.screen._compositor.render_strips():
            for segment in strip:
                if segment.style is not None:
                    for colour in (segment.style.color, segment.style.bgcolor):
                        assert colour is None or colour.is_default, segment


@pytest.mark.parametrize("theme", [theme.name for theme in themes.themes()])
async def test_every_theme_dresses_every_pane(theme: str) -> None:
    async with showing(views.failed(), theme=theme) as shown:
        await shown.press("f", "enter", "escape", "p", "escape", "slash", "escape", "question_mark", "escape")
        assert shown.app.theme == theme


async def test_other_themes_do_not_stop_the_app() -> None:
    async with showing() as shown:
        for name in ("nord", "ansi-light", "textual-dark"):
            shown.app.theme = name
            await shown.pilot.pause()
        assert "38 of 64 shards" in shown.text()


async def test_samples_alone_wait_for_the_tick() -> None:
    async with showing() as shown:
        picture = msgspec.structs.replace(views.loading(), now=views.NOW + 1)
        shown.source.look(picture, Changes.GPU | Changes.IO)
        await shown.pilot.pause(0.05)
        assert shown.app.watching.picture is not picture
        await shown.until(lambda: shown.app.watching.picture is picture, limit=3)
