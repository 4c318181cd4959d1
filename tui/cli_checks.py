"""The command lines that ask a host or the audit log once and print: doctor, audit."""

from __future__ import annotations

from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="JSON instead of text.")]


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
    endpoint: Annotated[
        str | None,
        typer.Option(metavar="URL", help="The server, as the host reaches it. Default: from the unit's own arguments."),
    ] = None,
    user: Annotated[
        bool | None, typer.Option("--user/--no-user", help="A unit of the user's own service manager, or not.")
    ] = None,
    json: Json = False,
) -> None:
    """Say what stands in the way of watching a unit and acting on it, each with its remedy. Changes nothing."""
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
    """Say who did what to which unit, when and with which outcome, as kept on this machine."""
    from tui.commands.audit import run

    raise typer.Exit(run(words or [], since=since, steps=steps, as_json=json))
