"""The command line of benchmarks: ``firstlight bench …``."""

from __future__ import annotations

from typing import Annotated

import typer

from tui.cli_options import Endpoint, Json, User, Words
from tui.exits import BENCHED, table

EXITS = f"""Exit status:

\b
{table(BENCHED)}"""

bench = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Measure a server, keep results, compare them.")

MaybeWords = Annotated[
    list[str] | None,
    typer.Argument(metavar="[NAME | TARGET UNIT]", help="Of this deployment. Default: of all."),
]
WorseBy = Annotated[
    float | None,
    typer.Option(
        "--worse-by", metavar="PERCENT", min=0.0, help="Less output tokens per second than that is worse. Default: 5."
    ),
]


def add(app: typer.Typer) -> None:
    """Put these commands into the program."""
    app.add_typer(bench, name="bench", epilog=EXITS)


@bench.command(
    epilog=f"\b\nExample:\n  firstlight bench run kimi --preset sweep\n"
    f"  firstlight bench run root@llm-two vllm --wait-ready\n\n{EXITS}"
)
def run(
    words: Words,
    preset: Annotated[
        str, typer.Option(metavar="NAME", help="How to measure: see bench presets. Default: the deployment's.")
    ] = "",
    wait_ready: Annotated[
        bool, typer.Option("--wait-ready", help="Wait until the load is ready, however long it takes; then measure.")
    ] = False,
    repeats: Annotated[
        int | None, typer.Option(min=1, max=20, metavar="N", help="Each load so often. Default: the preset's.")
    ] = None,
    worse_by: WorseBy = None,
    endpoint: Endpoint = None,
    user: User = None,
    record: Annotated[
        bool | None,
        typer.Option("--record/--no-record", help="Keep what is seen in a session file. Default: as configured, yes."),
    ] = None,
    json: Json = False,
) -> None:
    """Measure a ready server with its own `vllm bench serve`.

    The result is kept, and compared with the baseline.

    It runs on the server's host and goes on without us: when the link is lost or this is interrupted, the same command
    finds it again.
    """
    from tui.commands.bench import run as run_it

    raise typer.Exit(
        run_it(
            words,
            preset=preset,
            wait_ready=wait_ready,
            repeats=repeats,
            worse_by=worse_by,
            endpoint=endpoint,
            user=user,
            record=record,
            as_json=json,
        )
    )


@bench.command(epilog="\b\nExample:\n  firstlight bench cancel kimi")
def cancel(words: Words, user: User = None) -> None:
    """End the benchmark that runs on a unit, whoever began it."""
    from tui.commands.bench import cancel as cancel_it

    raise typer.Exit(cancel_it(words, user=user))


@bench.command("list", epilog="\b\nExample:\n  firstlight bench list kimi\n  firstlight bench list --json | jq '.[0]'")
def list_(
    words: MaybeWords = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, metavar="N", help="At most so many.")] = 30,
    json: Json = False,
) -> None:
    """Say what has been measured, newest first.

    * marks the baseline of each deployment.
    """
    from tui.commands.bench_kept import list_kept

    raise typer.Exit(list_kept(words or [], limit=limit, as_json=json))


@bench.command(epilog="\b\nExample:\n  firstlight bench baseline 12")
def baseline(run: Annotated[str, typer.Argument(metavar="RUN", help="As bench list numbers it.")]) -> None:
    """Make a result the baseline of its deployment.

    Later ones are compared with it.
    """
    from tui.commands.bench_kept import set_baseline

    raise typer.Exit(set_baseline(run))


@bench.command(
    epilog="\b\nExample:\n  firstlight bench compare 12 15\n"
    "  firstlight bench compare before.json after-1.json,after-2.json --worse-by 3\n\n" + EXITS
)
def compare(
    sides: Annotated[
        list[str],
        typer.Argument(
            metavar="A B …",
            help="Runs as bench list numbers them, or result files of `vllm bench serve`; with commas: repeats of one.",
        ),
    ],
    worse_by: WorseBy = None,
    json: Json = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Markdown instead of text.")] = False,
) -> None:
    """Say whether B is better than A.

    At which loads, how sure that is, and what else differs.
    """
    from tui.commands.bench_kept import compare_sides

    raise typer.Exit(compare_sides(sides, worse_by=worse_by, as_json=json, as_markdown=markdown))


@bench.command(epilog="\b\nExample:\n  firstlight bench presets")
def presets() -> None:
    """Say which ways to measure there are; * marks the default."""
    from tui.commands.bench_kept import list_presets

    raise typer.Exit(list_presets())
