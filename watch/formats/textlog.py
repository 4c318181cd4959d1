"""Text logs of any size: what a service printed, as it is or as journalctl or a container's runtime shows it.

The bytes are cut into blocks of about 1 MiB at places that only depend on the bytes themselves, so that it does not
matter how they arrive. With a sieve a block is searched as a whole, and only lines that mean something (and the
lines after a traceback's first) become readings; the others are only counted.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Iterator

from probes.readings import JournalLine, Reading
from watch.formats.stamps import Stamp, Stamps
from watch.sieve import Sieve

BLOCK = 1 << 20
LONGEST = 8 << 20
"""A line longer than this is given in pieces."""
FOLLOW = 16
"""Lines after the last that looks like a traceback's that are taken whatever they hold."""
_ESCAPES = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_BEGINS = re.compile(rb"Traceback \(most recent call last\)|validation errors? for |^usage: ", re.MULTILINE)
_INDENTED = re.compile(rb'(?:^|"|[\])] ) {2,}\S')
_BENCH = re.compile(
    r"Namespace\([^)]*(?:subparser='bench'|bench_type=)|Starting initial single prompt test run|"
    r"Serving Benchmark Result|vllm/benchmarks/|benchmark_serving\.py"
)
_NOISE = re.compile(r"^-- (?:Journal begins|Logs begin|Boot |Reboot |No entries|cursor: )|^Hint: ")


def follows(line: bytes) -> bool:
    """Whether a line (bare, with a head, or in a record of JSON) may be one of a traceback: its first, a frame, a line
    of source."""
    return _INDENTED.search(line) is not None or b"raceback (most" in line or b"validation error" in line


class Blocks:
    """Cuts a stream of bytes at ends of lines, by the bytes alone. The last block has no newline at its end."""

    def __init__(self, size: int = BLOCK) -> None:
        self._size = size
        self._parts: list[bytes] = []
        self._have = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        self._parts.append(data)
        self._have += len(data)
        if self._have < self._size:
            return
        buffer = b"".join(self._parts)
        start = 0
        while len(buffer) - start >= self._size:
            end = buffer.find(b"\n", start + self._size - 1)
            if end < 0:
                if len(buffer) - start < LONGEST:
                    break
                end = start + LONGEST - 1
            yield buffer[start : end + 1]
            start = end + 1
        self._parts = [buffer[start:]] if start < len(buffer) else []
        self._have = len(buffer) - start

    def close(self) -> bytes:
        rest = b"".join(self._parts)
        self._parts, self._have = [], 0
        return rest


class TextLog:
    """Feed it blocks of whole lines, in order. ``year_before``: see ``Stamps``. ``bench``: it is what the benchmark
    client printed."""

    def __init__(
        self, name: str, *, year_before: float, sieve: Sieve | None = None, bench: bool = False, before: int = 0
    ) -> None:
        self.name = name
        self.lines = before
        """lines so far, empty ones too, with those before the first that is read"""
        self.stamped = 0
        """lines that had a time"""
        self._sieve = sieve
        self._stamps = Stamps(year_before)
        self._now = 0.0
        self._any_time = False
        self._speaker = Stamp()
        self._follow = 0
        self._bench = bench

    def block(self, block: bytes) -> list[Reading]:
        if not block:
            return []
        first = self.lines + 1
        self.lines += block.count(b"\n") + (not block.endswith(b"\n"))
        if self._sieve is None:
            picked: Iterable[tuple[int, bytes]] = enumerate(_split(block), first)
        else:
            picked = self._pick(block, first, self._sieve)
        out: list[Reading] = []
        for number, raw in picked:
            line = self._line(number, raw)
            if line is not None:
                out.append(line)
        return out

    def _pick(self, block: bytes, first: int, sieve: Sieve) -> Iterator[tuple[int, bytes]]:
        """The telling lines of a block with their numbers; its last one too, so that time goes on."""
        plain = _ESCAPES.sub(b"", block) if b"\x1b" in block else block
        shown = _split(block) if plain is not block else None
        number, at = first, 0
        end = 0
        for start, end in self._spans(plain, sieve):
            number += plain.count(b"\n", at, start)
            at = start
            yield number, shown[number - first] if shown is not None else plain[start:end]
        last = plain.rfind(b"\n", 0, len(plain) - 1) + 1
        if last > end:
            text = shown[-1] if shown is not None else plain[last:].removesuffix(b"\n")
            yield self.lines, text

    def _spans(self, block: bytes, sieve: Sieve) -> Generator[tuple[int, int], None, None]:
        """Spans of the lines to take. After a traceback begins, so many lines whatever they hold."""
        done = 0
        if self._follow:
            done = yield from self._run(block, 0)
        while done < len(block):
            again = False
            for start, end in sieve.lines(block[done:] if done else block):
                begin, stop = done + start, done + end
                yield begin, stop
                if _BEGINS.search(block, begin, stop):
                    self._follow = FOLLOW
                    done = yield from self._run(block, stop + 1)
                    again = True
                    break
            if not again:
                return

    def _run(self, block: bytes, start: int) -> Generator[tuple[int, int], None, int]:
        """Every line from ``start`` on while ``_follow`` lasts; returns where it stopped."""
        while self._follow and start < len(block):
            end = block.find(b"\n", start)
            if end < 0:
                end = len(block)
            yield start, end
            self._follow = FOLLOW if follows(block[start : start + 400]) else self._follow - 1
            start = end + 1
        return start

    def _line(self, number: int, raw: bytes) -> JournalLine | None:
        text = raw.decode("utf-8", "backslashreplace")
        if text.endswith("\r"):
            text = text[:-1]
        if not text or _NOISE.match(text):
            return None
        stamp = self._stamps.journal(text)
        timed = False
        if stamp is not None:
            self._speaker = stamp
            if stamp.at is not None:
                self._tick(stamp.at)
                timed = True
            text = text[stamp.start :]
        who = self._speaker if self._speaker.who else Stamp()
        if not timed:
            own = self._stamps.own(text)
            if own is not None:
                self._tick(own)
                timed = True
            else:
                guessed = self._stamps.bar(text, self._now) if "%" in text else None
                if guessed is not None:
                    self._now = guessed
        self.stamped += timed
        if not self._bench and _BENCH.search(text):
            self._bench = True
        ident = "vllm-bench" if self._bench and not who.who else who.ident
        return JournalLine(
            at=self._now,
            text=text,
            source="other" if ident == "vllm-bench" else who.source,
            pid=who.pid,
            ident=ident,
            ref=f"{self.name}:{number}",
            timed=timed,
        )

    def _tick(self, at: float) -> None:
        if not self._any_time or at > self._now or self._now - at > 3600:
            self._now = at
        self._any_time = True


def _split(block: bytes) -> list[bytes]:
    lines = block.split(b"\n")
    if lines and not lines[-1]:
        lines.pop()
    return lines


def is_bench(head: bytes) -> bool:
    """Whether a log begins as the benchmark client's does, and not as a server's."""
    text = head.decode("utf-8", "replace")
    found = _BENCH.search(text)
    return found is not None and not re.search(
        r"API server version|serving model|non-default args|Initializing a V\d|Launch(?:ing)? .*server",
        text[: found.start()],
    )
