"""The command line: what may be typed, and nothing else. Each command's work is in ``tui/commands``, imported when it
is asked for: ``--version`` and ``explain`` never load the screen."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from probes.version import __version__
from tui import cli_bench, cli_checks, cli_headless, cli_sessions, collecting
from tui.cli_options import Endpoint, Record, User, Words
from tui.exits import Ending, Exit, table

EXITS = f"""Exit status:

\b
{table()}"""

app = typer.Typer(
    name="firstlight",
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)

Speed = Annotated[float, typer.Option(min=0.01, max=1000.0, metavar="N", help="Times as fast as it happened.")]


def main() -> None:
    """The entry point. Bad input is one sentence with its remedy on standard error and a status of ``tui/exits.py``."""
    from tui.settings import hoisted

    collecting.after_start()
    if sys.stdout is None:  # closed by whoever began us
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    try:
        try:
            app(hoisted(sys.argv[1:]), prog_name="firstlight")
        finally:
            sys.stdout.flush()  # here, not when the interpreter ends: there is somebody to tell now
    except Ending as ending:
        ending.tell()
        sys.exit(ending.status)
    except KeyboardInterrupt:
        sys.exit(Exit.INTERRUPTED)
    except BrokenPipeError:
        sys.stderr.close()  # whoever read our output has seen enough; nothing is left to be flushed into it
        sys.exit(Exit.OK)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT) or error.filename is not None:
            raise
        Ending(Exit.UNREADABLE, f"what it has to say cannot be written: {error.strerror}", "Make room there.").tell()
        os._exit(Exit.UNREADABLE)  # what is left in the buffer cannot be written either


def _version(wanted: bool) -> None:
    if wanted:
        print(f"firstlight {__version__}")
        raise typer.Exit


@app.callback(epilog=EXITS)
def firstlight(
    ctx: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="This configuration instead of ~/.config/firstlight/firstlight.toml."),
    ] = None,
) -> None:
    """Watch a large model being deployed, from systemctl start to its first token.

    Without a command, in a terminal: choose what to watch.
    """
    from tui.settings import choose

    choose(config)
    if ctx.invoked_subcommand is None:
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            print(ctx.get_help(), file=sys.stderr)
            raise typer.Exit(Exit.USAGE)
        from tui.commands.start import run

        raise typer.Exit(run())


@app.command(epilog="\b\nExample:\n  firstlight watch root@llm-two kimi-k25-int4-ngram\n  firstlight watch kimi")
def watch(
    words: Words,
    endpoint: Endpoint = None,
    user: User = None,
    record: Record = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Read the journal from here, as journalctl --since. Default: this load's first line."
        ),
    ] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Take every action on the host away.")] = False,
    daemon: Annotated[
        bool, typer.Option("--daemon", help="Go on in the background, without a terminal: see firstlight attach.")
    ] = False,
) -> None:
    """Watch a unit on a host, or a configured deployment."""
    from tui.commands.named import named
    from tui.commands.screen import configuration
    from tui.commands.watch import run

    config = configuration()
    found = named(config, words, endpoint=endpoint, user=user)
    if daemon:
        from tui.commands.daemon import begin

        raise typer.Exit(begin(found, record=record, since=since))
    raise typer.Exit(run(found.deployment, config, name=found.name, record=record, since=since, read_only=read_only))


@app.command(epilog="\b\nExample:\n  firstlight demo --speed 10")
def demo(speed: Speed = 30.0) -> None:
    """Watch a real recorded load come to ready. Needs no host, no network and no GPU."""
    from tui.commands.demo import run

    raise typer.Exit(run(speed))


@app.command(
    epilog="\b\nExample:\n  firstlight replay ~/.local/state/firstlight/sessions/…-llm-two-vllm.jsonl.gz --speed 20"
)
def replay(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A session file, plain or gzip.")],
    speed: Speed = 1.0,
) -> None:
    """Show a recorded watch again, on the same screen."""
    from tui.commands.replay import run

    raise typer.Exit(run(file, speed))


@app.command(
    epilog="\b\nExample:\n  journalctl -u vllm -o export > vllm.export\n  firstlight explain vllm.export --json"
    "\n  ssh llm-two journalctl -u vllm -o export | firstlight explain -"
)
def explain(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE", help="Logs, journals (any format), unit files, folders, pipes; - for standard input."
        ),
    ],
    json: Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")] = False,
    at: Annotated[
        float | None,
        typer.Option(min=0.0, metavar="SECONDS", help="As it stood that long after the load began."),
    ] = None,
    unit: Annotated[
        str, typer.Option(metavar="NAME", help="Of a journal of several units, this one. Default: the model server.")
    ] = "",
) -> None:
    """Say what saved logs show.

    How far the load came, what is wrong, and why.
    """
    from tui.commands.explain import run

    raise typer.Exit(run(files, as_json=json, at=at, unit=unit))


cli_bench.add(app)
cli_checks.add(app)
cli_headless.add(app)
cli_sessions.add(app)
