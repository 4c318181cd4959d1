"""The command lines that ask a host or the audit log once and print: doctor, audit."""

from __future__ import annotations

from typing import Annotated

import typer

from tui.cli_options import Endpoint, Json, User


def add(app: typer.Typer) -> None:
    """Put these commands into the program."""
    app.command(
        epilog="\b\nExample:\n  firstlight doctor root@llm-two kimi-k25-int4-ngram\n  firstlight doctor kimi --json"
    )(doctor)
    app.command(epilog="\b\nExample:\n  firstlight audit kimi --since 7d\n  firstlight audit --json | jq .who")(audit)


def doctor(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME | TARGET [UNIT]", help="A deployment of the configuration; or a host, and a unit on it."
        ),
    ],
    endpoint: Endpoint = None,
    user: User = None,
    json: Json = False,
) -> None:
    """Say what stands in the way of watching a unit.

    And of acting on it, each with its remedy. Changes nothing.
    """
    from tui.commands.doctor import run

    raise typer.Exit(run(words, endpoint=endpoint, user=user, as_json=json))


def audit(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME | TARGET [UNIT]]", help="Of this deployment, host or unit. Default: of all."),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help='From then on: 2h, 7d (ago), 2026-11-30, "2026-11-30 14:00" (local time).'),
    ] = None,
    steps: Annotated[bool, typer.Option("--steps", help="Each step of each action.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Each entry as it is kept, one JSON object a line.")] = False,
) -> None:
    """Say who did what to which unit, and when.

    With its outcome, as kept on this machine.
    """
    from tui.commands.audit import run

    raise typer.Exit(run(words or [], since=since, steps=steps, as_json=json))
