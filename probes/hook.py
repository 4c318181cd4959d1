"""Doing what a hook says, on this machine: a command, a POST, a notification of the desktop.

Nothing here raises but for cancellation: why something did not work is the answer, one sentence; empty: it worked.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence

from probes.command import plain
from probes.version import __version__

LIMIT = 30.0
"""Seconds for one hook, then it is ended."""

GRACE = 2.0
"""Seconds between SIGTERM and SIGKILL."""

_TAIL = 400
"""Bytes of a command's output that are told when it fails."""


async def run(words: Sequence[str], variables: Mapping[str, str] | None = None, limit: float = LIMIT) -> str:
    """Run a command without a shell, in a session of its own; ``variables`` are added to our environment. Whatever it
    started besides lives on when it ends by itself, and is ended with it when its time is over."""
    with tempfile.TemporaryFile() as output:  # no pipe: what it leaves in the background may keep one open for ever
        try:
            process = await asyncio.create_subprocess_exec(
                *words,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, **(variables or {})},
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            return f"{words[0]} cannot be run: {getattr(error, 'strerror', None) or error}"
        try:
            async with asyncio.timeout(limit):
                status = await process.wait()
        except TimeoutError:
            return f"{words[0]} did not end within {limit:g} s and was killed{_said(output.fileno())}"
        finally:
            if process.returncode is None:
                await _end(process)
        if status < 0:
            return f"{words[0]} was killed by signal {-status}{_said(output.fileno())}"
        return f"{words[0]} ended with status {status}{_said(output.fileno())}" if status else ""


async def _end(process: asyncio.subprocess.Process) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except (ProcessLookupError, PermissionError):
            return
        try:
            async with asyncio.timeout(GRACE):
                await process.wait()
                return
        except TimeoutError:
            continue


def _said(file: int) -> str:
    """The end of what a command printed."""
    length = os.fstat(file).st_size
    text = os.pread(file, _TAIL, max(0, length - _TAIL)).decode("utf-8", "backslashreplace").strip()
    return f": {plain(' '.join(text.split()), _TAIL)}" if text else ""


async def post(url: str, body: bytes, limit: float = LIMIT) -> str:
    """POST JSON. An answer of 300 or more is a failure: a redirect is not followed, it would lead elsewhere. The
    address is not told, since many are secrets themselves."""
    import httpx

    headers = {"Content-Type": "application/json", "User-Agent": f"firstlight/{__version__}"}
    try:
        async with (
            asyncio.timeout(limit),
            httpx.AsyncClient(timeout=limit) as client,
            client.stream("POST", url, content=body, headers=headers) as answer,  # however long it is, it is not read
        ):
            return "" if answer.status_code < 300 else f"it answered with {answer.status_code}"
    except (TimeoutError, httpx.TimeoutException):
        return f"it did not answer within {limit:g} s"
    except httpx.ConnectError:
        return "it cannot be reached"
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
        return f"it could not be asked: {type(error).__name__}"


async def notify(title: str, text: str, limit: float = LIMIT) -> str:
    """Show a notification on this machine's desktop."""
    if sys.platform == "darwin":
        script = ("on run argv", "display notification (item 2 of argv) with title (item 1 of argv)", "end run")
        return await run(["osascript", *(word for line in script for word in ("-e", line)), title, text], limit=limit)
    if shutil.which("notify-send") is None:
        return "there is no notify-send on this machine (Debian: apt-get install libnotify-bin)"
    markup = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")  # its body is markup
    return await run(["notify-send", "--app-name=firstlight", "--", title, markup], limit=limit)
