"""One long-lived ``sh`` on the host that answers what it is asked: a channel per probe, no login per sample.

The script reads asks, one a line, from its standard input and ends each answer with a line of its own: the nonce and
a status. The nonce is new each time, so that nothing an answer may contain (a unit's text, a process' name) ends it.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

from probes.host import CommandTimeout, Host, Stream
from probes.probe import ProbeFailed, words

_BEGIN = "nonce=$1; shift\n"
_LOOP = r"""
printf '\n%s up\n' "$nonce"
while IFS= read -r ask; do
answer "$ask" </dev/null
printf '\n%s %s\n' "$nonce" "$?"
done
"""

MAX_ANSWER = 8 << 20


class Answer(NamedTuple):
    status: int
    output: bytes


class Asker:
    """Asks one thing after the other. Not to be used by two tasks at once."""

    def __init__(self, stream: Stream, nonce: str) -> None:
        self._stream = stream
        self._chunks = aiter(stream)
        self._end = b"\n" + nonce.encode() + b" "
        self._buffer = b""

    async def ask(self, ask: str, *, limit: float = 20.0) -> Answer:
        """The answer. ``ask``: one line. ``limit``: real seconds.

        Raises CommandTimeout (what runs on the host may still run: leave the context), ProbeFailed when the script
        has ended, LinkDown when the link has.
        """
        if "\n" in ask:
            raise ValueError("an ask is one line")
        await self._stream.write(ask.encode("utf-8", "surrogateescape") + b"\n")
        try:
            async with asyncio.timeout(limit):
                return await self._answer()
        except TimeoutError:
            raise CommandTimeout(f"No answer within {limit:g} s") from None

    async def hello(self, limit: float) -> None:
        """Wait until the script is there."""
        try:
            async with asyncio.timeout(limit):
                await self._answer()
        except TimeoutError:
            raise CommandTimeout(f"The host's shell did not start within {limit:g} s") from None

    async def _answer(self) -> Answer:
        seen = 0
        while True:
            mark = self._buffer.find(self._end, max(seen - len(self._end), 0))
            if mark >= 0:
                stop = self._buffer.find(b"\n", mark + len(self._end))
                if stop >= 0:
                    status = self._buffer[mark + len(self._end) : stop]
                    output, self._buffer = self._buffer[:mark], self._buffer[stop + 1 :]
                    return Answer(int(status) if status.isdigit() and len(status) < 4 else 0, output)
            seen = len(self._buffer) if mark < 0 else mark
            try:
                self._buffer += await anext(self._chunks)
            except StopAsyncIteration:
                status_code = await self._stream.wait()
                why = words(self._stream.stderr) or f"exit status {status_code}"
                raise ProbeFailed(f"The host's shell ended: {why}", state="ended") from None
            if len(self._buffer) > MAX_ANSWER:
                raise ProbeFailed(f"An answer of more than {MAX_ANSWER >> 20} MiB was given up")


@asynccontextmanager
async def asking(
    host: Host, script: str, arguments: Sequence[str] = (), *, limit: float = 20.0
) -> AsyncIterator[Asker]:
    """Start ``script`` on the host: sh that defines a function ``answer``, which is given the ask as ``$1`` and writes
    to standard output. ``arguments`` are ``$1`` … of the script, outside of ``answer``. Ends with the context."""
    nonce = secrets.token_hex(12)
    async with host.stream(["sh", "-c", _BEGIN + script + _LOOP, "sh", nonce, *arguments], stdin=True) as stream:
        asker = Asker(stream, nonce)
        await asker.hello(limit)
        yield asker


def asked(argv: Sequence[str]) -> tuple[str, str, tuple[str, ...]] | None:
    """Of a command that ``asking`` starts: its script, its nonce and the script's arguments. None for any other; for
    a server that plays a host instead of being one."""
    if len(argv) < 5 or argv[0] != "sh" or not (argv[2].startswith(_BEGIN) and argv[2].endswith(_LOOP)):
        return None
    return argv[2][len(_BEGIN) : -len(_LOOP)], argv[4], tuple(argv[5:])
