"""The command lines of what works without a screen, or with a screen elsewhere: wait, serve-status, attach, web."""

from __future__ import annotations

import typing
from enum import StrEnum
from typing import Annotated, Any

import typer
from typer.core import TyperCommand
from typer.exceptions import TyperException

from tui.cli_options import Endpoint, Record, User, Words
from tui.exits import WAITED, Waited, table
from tui.spans import span

if typing.TYPE_CHECKING:
    from typer._click import Context


class Wanted(StrEnum):
    READY = "ready"


class _ForScripts(TyperCommand):
    """A wrong command line has a status of its own: 2 says something else here."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: Context | None = None, **extra: Any
    ) -> Context:
        try:
            return super().make_context(info_name, args, parent, **extra)
        except TyperException as error:
            error.exit_code = Waited.USAGE
            raise


def _span(text: str) -> float:
    try:
        return span(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def add(app: typer.Typer) -> None:
    """Add the commands to the program."""
    app.command(cls=_ForScripts, epilog=_WAIT)(wait)
    app.command(name="serve-status", epilog=_SERVE_STATUS)(serve_status)
    app.command(epilog=_ATTACH)(attach)
    app.command(epilog=_WEB)(web)


_WAIT = f"""Exit status, this command's own:

\b
{table(WAITED)}

\b
Example:
  systemctl restart --no-block vllm && firstlight wait local vllm --timeout 2h && ./open-traffic"""


def wait(
    words: Words,
    wanted: Annotated[Wanted, typer.Option("--for", help="What to wait for.")] = Wanted.READY,
    timeout: Annotated[
        float, typer.Option(parser=_span, metavar="TIME", help="Give up after that long: 90s, 15m, 2h.")
    ] = "2h",  # type: ignore[assignment]
    stall_grace: Annotated[
        float, typer.Option(parser=_span, metavar="TIME", help="How long a stall may last before it is an outcome.")
    ] = "0s",  # type: ignore[assignment]
    patience: Annotated[
        float, typer.Option(parser=_span, metavar="TIME", help="How long the host may be out of reach.")
    ] = "60s",  # type: ignore[assignment]
    json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
    endpoint: Endpoint = None,
    user: User = None,
    record: Annotated[bool, typer.Option("--record", help="Keep what is seen in a session file.")] = False,
    since: Annotated[str | None, typer.Option(metavar="TIME", help="Read the journal from here.")] = None,
) -> None:
    """Wait until a deployment is ready, for scripts.

    A line whenever something changes, then an exit status.

    What happened before is read first, so it may be begun at any time.
    """
    from tui.commands.wait import Limits, run

    limits = Limits(timeout=timeout, stall_grace=stall_grace, patience=patience)
    raise typer.Exit(run(words, limits, endpoint=endpoint, user=user, since=since, record=record, as_json=json))


_SERVE_STATUS = """\b
Example:
  firstlight serve-status                                  # every deployment of the configuration
  firstlight serve-status root@llm-two vllm --listen 127.0.0.1:9111
  curl -s localhost:9110/startupz | jq .deployments[].phase"""


def serve_status(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME… | TARGET UNIT]",
            help="Deployments, or a host and a unit. Default: all of the configuration.",
        ),
    ] = None,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where to serve; port 0 takes any that is free.")
    ] = "127.0.0.1:9110",
    allow_remote: Annotated[
        bool,
        typer.Option("--allow-remote", help="Listen where other machines reach it: nobody is asked for a password."),
    ] = False,
    endpoint: Endpoint = None,
    user: User = None,
) -> None:
    """Serve health checks and metrics of deployments.

    For Prometheus and others, of loads and servers alike, from the outside.

    /livez: none has failed. /readyz: all serve. /startupz: all have become ready. Each tells all it knows as JSON;
    /livez/NAME and so on are about one. /metrics is for Prometheus; docs/prometheus has alert rules and a dashboard.
    """
    from tui.commands.serve_status import run

    raise typer.Exit(run(words or [], listen, allow_remote=allow_remote, endpoint=endpoint, user=user))


_ATTACH = """\b
Example:
  firstlight watch --daemon kimi       # goes on when the terminal is closed
  firstlight attach kimi               # from here, and from there
  firstlight attach kimi --stop"""


def attach(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME | TARGET UNIT]", help="Which watch. Default: the only one."),
    ] = None,
    stop: Annotated[bool, typer.Option("--stop", help="End the watch; its recording is complete then.")] = False,
    listing: Annotated[bool, typer.Option("--list", help="Say which watches go on in the background.")] = False,
) -> None:
    """Show a watch that goes on in the background.

    Beside others who look at it.

    It is shown from its beginning, as if the terminal had been there. Acting on the host is for firstlight watch.
    """
    from tui.commands.attach import run

    raise typer.Exit(run(words or [], stop=stop, listing=listing))


_WEB = """\b
Example:
  firstlight web kimi --listen 127.0.0.1:8088
  ssh -L 8088:127.0.0.1:8088 jump-host      # from another machine, through SSH"""


def web(
    words: Words,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where to serve; port 0 takes any that is free.")
    ] = "127.0.0.1:8088",
    allow_remote: Annotated[
        bool, typer.Option("--allow-remote", help="Listen where other machines reach it, over plain HTTP.")
    ] = False,
    endpoint: Endpoint = None,
    user: User = None,
    record: Record = None,
) -> None:
    """Show a watch in browsers, to look at.

    Nothing on the host can be changed from there.

    Prints the address with a token in it, new each time (or what FIRSTLIGHT_WEB_TOKEN has); without it nothing is
    shown. A watch that goes on in the background is shown as it is; else one is begun.
    """
    from tui.commands.web import run

    raise typer.Exit(run(words, listen, allow_remote=allow_remote, endpoint=endpoint, user=user, record=record))
