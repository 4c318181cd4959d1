"""What more than one command takes, in the same words."""

from __future__ import annotations

from typing import Annotated

import typer

Words = Annotated[
    list[str],
    typer.Argument(
        metavar="NAME | TARGET UNIT",
        help="A deployment of the configuration; or user@host, an alias of ssh_config or local, and a systemd unit.",
    ),
]
Endpoint = Annotated[
    str | None,
    typer.Option(metavar="URL", help="The server, as the host reaches it. Default: from the unit's own arguments."),
]
User = Annotated[
    bool | None, typer.Option("--user/--no-user", help="A unit of the user's own service manager, or not.")
]
Record = Annotated[
    bool | None,
    typer.Option("--record/--no-record", help="Keep what is seen in a session file. Default: as configured, yes."),
]
Json = Annotated[bool, typer.Option("--json", help="JSON instead of text.")]
