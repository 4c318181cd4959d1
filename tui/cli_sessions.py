"""The command lines of what is done with recordings: sessions, report, export."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tui.amounts import amount
from tui.spans import span


class Outcome(StrEnum):
    READY = "ready"
    FAILED = "failed"
    STALLED = "stalled"
    STOPPED = "stopped"
    LOADING = "loading"
    UNKNOWN = "unknown"
    RECORDING = "recording"
    UNREADABLE = "unreadable"


def _span(text: str) -> float:
    try:
        return span(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def _amount(text: str) -> int:
    try:
        return amount(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def _size(text: str) -> tuple[int, int]:
    columns, _, rows = text.lower().partition("x")
    if not (columns.isdigit() and rows.isdigit() and 20 <= int(columns) <= 1000 and 5 <= int(rows) <= 500):
        raise typer.BadParameter(f"{text!r} is no size of a screen: write 160x45, from 20x5 to 1000x500")
    return int(columns), int(rows)


File = Annotated[
    Path, typer.Argument(metavar="FILE", help="A session file, or the name of one in the folder of recordings.")
]
Output = Annotated[Path | None, typer.Option("-o", "--output", metavar="OUT", help="Write there; - is the terminal.")]

sessions_app = typer.Typer(invoke_without_command=True, rich_markup_mode=None, add_completion=False)


def add(app: typer.Typer) -> None:
    """Add the commands to the program."""
    app.add_typer(sessions_app, name="sessions", epilog=_SESSIONS)
    app.command(epilog="\b\nExample:\n  firstlight report 20261130T013929Z-llm-two-vllm --markdown -o -")(report)
    app.command(epilog=_EXPORT)(export)


_SESSIONS = (
    "\b\nExamples:\n  firstlight sessions --outcome failed --unit vllm\n  firstlight sessions prune --older-than 30d"
)

_EXPORT = (
    "\b\nExamples:\n"
    "  firstlight export FILE --list\n"
    "  firstlight export FILE --series gpu.memory --series io.read_rate --csv -o load.csv\n"
    "  firstlight export FILE --cast load.cast --speed 60\n"
    "  firstlight export FILE --svg screen.svg --at 20m"
)


@sessions_app.callback()
def sessions(
    context: typer.Context,
    outcome: Annotated[list[Outcome] | None, typer.Option(help="Only those that ended so; may be repeated.")] = None,
    unit: Annotated[str | None, typer.Option(metavar="TEXT", help="Only units whose name has this in it.")] = None,
    target: Annotated[str | None, typer.Option(metavar="TEXT", help="Only hosts whose name has this in it.")] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object a line instead of a table.")] = False,
) -> None:
    """List the recordings that are kept, newest first."""
    if context.invoked_subcommand is not None:
        return
    from tui.commands.sessions import run

    raise typer.Exit(run([one.value for one in outcome or ()], unit or "", target or "", as_json=json))


@sessions_app.command(epilog="\b\nExample:\n  firstlight sessions prune --older-than 30d --larger-than 2G")
def prune(
    older_than: Annotated[
        float | None, typer.Option(parser=_span, metavar="TIME", help="Recordings that ended so long ago: 30d, 12h.")
    ] = None,
    larger_than: Annotated[
        int | None, typer.Option(parser=_amount, metavar="SIZE", help="Recordings that are larger: 2G, 500M.")
    ] = None,
    outcome: Annotated[list[Outcome] | None, typer.Option(help="Only those that ended so; may be repeated.")] = None,
    unit: Annotated[str | None, typer.Option(metavar="TEXT", help="Only units whose name has this in it.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Delete recordings that are too old or too large.

    Says which before it does.
    """
    from tui.commands.sessions import prune as work

    raise typer.Exit(work(older_than, larger_than, [one.value for one in outcome or ()], unit or "", yes=yes))


def report(
    file: File,
    html: Annotated[bool, typer.Option("--html", help="One HTML page that needs nothing else (the default).")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Markdown, for a ticket or a chat.")] = False,
    output: Output = None,
    utc: Annotated[bool, typer.Option("--utc", help="All times in UTC instead of this machine's zone.")] = False,
    since: Annotated[
        float | None,
        typer.Option("--from", parser=_span, metavar="TIME", help="Only from so long after its beginning."),
    ] = None,
    until: Annotated[
        float | None, typer.Option("--to", parser=_span, metavar="TIME", help="Only up to so long after its beginning.")
    ] = None,
) -> None:
    """Tell what a recording shows.

    Outcome, phases, findings, what was asked and done, plots, benchmark.
    """
    from tui.commands.report import run

    raise typer.Exit(run(file, html=html, markdown=markdown, output=output, utc=utc, since=since, until=until))


def export(
    file: File,
    series: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Figures over time; may be repeated. See --list.")
    ] = None,
    names: Annotated[bool, typer.Option("--list", help="Which series there are in this recording.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Series as CSV, a line a point (the default).")] = False,
    json: Annotated[bool, typer.Option("--json", help="Series as JSON.")] = False,
    cast: Annotated[
        Path | None, typer.Option(metavar="OUT", help="The screen as asciicast v3, for asciinema play.")
    ] = None,
    svg: Annotated[Path | None, typer.Option(metavar="OUT", help="The screen at one moment, as SVG.")] = None,
    at: Annotated[
        float | None, typer.Option(parser=_span, metavar="TIME", help="Of --svg: so long after the beginning.")
    ] = None,
    since: Annotated[
        float | None, typer.Option("--from", parser=_span, metavar="TIME", help="From so long after the beginning on.")
    ] = None,
    until: Annotated[
        float | None, typer.Option("--to", parser=_span, metavar="TIME", help="Up to so long after the beginning.")
    ] = None,
    speed: Annotated[float, typer.Option(min=0.1, max=1000.0, help="Of --cast: times as fast as it happened.")] = 30.0,
    size: Annotated[str, typer.Option(metavar="COLSxROWS", help="Of --cast and --svg.")] = "160x45",
    output: Output = None,
) -> None:
    """Write figures, a film or a picture out of a recording.

    Figures over time; the screen as a film, or one picture of it.
    """
    from tui.commands.export import run

    wanted = [part for one in series or () for part in one.split(",") if part]
    raise typer.Exit(
        run(
            file,
            series=wanted,
            names=names,
            as_json=json,
            as_csv=csv,
            cast=cast,
            svg=svg,
            at=at,
            since=since or 0.0,
            until=until,
            speed=speed,
            size=_size(size),
            output=output,
        )
    )
