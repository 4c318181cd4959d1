"""Python tracebacks in a stream of lines from many processes.

A traceback may have a log head on every line, a process prefix, or nothing; several may be open at once, one a
process. What is printed between the lines of one by others (an orphan's progress bar, say) does not end it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from probes.readings import JournalLine
from watch.heads import Head

MARKER = "Traceback (most recent call last)"
PATIENCE = 200
"""An open traceback that has had no line for so many lines of others is closed."""
KEPT = 24
"""Lines of one message that are kept after an exception's first."""
OPEN_AT_ONCE = 64

_FRAME = re.compile(r'^\s*File "(?P<file>[^"]{1,500})", line (?P<line>\d+), in (?P<name>.{1,200})$')
_RAISED = re.compile(r"^(?P<type>[A-Za-z_][\w.]*)(?:: ?(?P<text>.*))?$", re.DOTALL)
_EXCEPTION_NAME = re.compile(
    r"(?:Error|Exception|Interrupt|Exit|Warning|Timeout|Iteration|Group|Fault|Failure|Refused|Denied|NotFound|Empty)\d*$"
)
_LONE = re.compile(r"^(?P<type>[A-Za-z_][\w.]*(?:Error|Exception)): (?P<text>.*)$", re.DOTALL)
_CHAINED = re.compile(r"^(?:During handling of the above exception|The above exception was the direct cause)")
_GROUP = re.compile(r"^[ +|]*\| ?")
_BAR = re.compile(r"\d+%(?: Completed \||\|)")
_IGNORED = re.compile(r"Exception ignored in|Exception in thread|--- Logging error ---|Exception in ASGI application")
_PROCESS = re.compile(r"^Process [\w.:-]+:\s*$")


@dataclass(frozen=True)
class Frame:
    file: str
    line: int
    name: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}, in {self.name}"


@dataclass
class Block:
    """One traceback, from its first line on. ``level``: of its log head, "" where it was not logged."""

    key: int
    level: str
    place: str
    process: str
    heading: str
    first: JournalLine
    chain: int
    """number of the tracebacks that belong together ("During handling of …")"""
    frames: list[Frame] = field(default_factory=list)
    code: list[str] = field(default_factory=list)
    raised: int = 0
    kept: int = 0
    last: int = 0
    chained: bool = False

    @property
    def uncaught(self) -> bool:
        """Printed by Python itself at the end of a process, not by a logger."""
        return not self.level and not _IGNORED.search(self.heading)

    @property
    def telling(self) -> Frame | None:
        """The frame that says most: the last one inside of the engine, else the last."""
        for frame in reversed(self.frames):
            if "/vllm/" in frame.file or "/sglang/" in frame.file:
                return frame
        return self.frames[-1] if self.frames else None

    def text(self) -> str:
        """Frames and source lines, for ``near``."""
        return "\n".join(str(frame) for frame in self.frames) + "\n" + "\n".join(self.code)


@dataclass(frozen=True)
class Step:
    """What a line is to a traceback. ``raised``: an exception (``type``, ``text``); ``detail``: more of its message;
    ``lone``: an exception's line without a traceback."""

    what: Literal["opened", "body", "raised", "detail", "lone"]
    block: Block | None = None
    type: str = ""
    text: str = ""


class Tracebacks:
    """Feed it every line that may belong to one, in order; ``open`` says whether it needs to see all lines."""

    def __init__(self) -> None:
        self._blocks: dict[int, Block] = {}
        self._headings: dict[int, tuple[int, str]] = {}
        self._seen = 0
        self._chains = 0

    @property
    def open(self) -> bool:
        return bool(self._blocks)

    def close(self) -> None:
        self._blocks.clear()
        self._headings.clear()

    def take(self, line: JournalLine, head: Head) -> Step | None:
        self._seen += 1
        key = head.pid or line.pid
        message = head.message
        block = self._blocks.get(key)
        if MARKER in message:
            return self._begin(key, line, head, block)
        if self._blocks and self._seen % 64 == 0:
            for other in [b for b in self._blocks.values() if self._seen - b.last > PATIENCE]:
                del self._blocks[other.key]
        if block is None:
            return self._outside(key, message)
        if head.level != block.level or (head.level and head.place != block.place):
            if head.level:  # another record of the same process: a logger writes one as a whole
                del self._blocks[key]
            elif _BAR.search(message):
                return None
            return self._outside(key, message)
        if not head.level and _BAR.search(message):
            return None
        block.last = self._seen
        return self._inside(block, message)

    def passes(self, line: JournalLine, head: Head) -> bool:
        """``take`` for a line that is nothing to any traceback while none is open. False: nothing was done, it is one
        for ``take``."""
        message = head.message
        if self._blocks or MARKER in message or "Error: " in message or "Exception: " in message:
            return False
        self._seen += 1
        self._remember(head.pid or line.pid, message)
        return True

    def _begin(self, key: int, line: JournalLine, head: Head, before: Block | None) -> Step:
        chained = before is not None and before.chained
        if not chained:
            self._chains += 1
        at, heading = self._headings.pop(key, (0, ""))
        if self._seen - at > 3:
            heading = ""
        glued = head.message[: head.message.index(MARKER)].strip()
        block = Block(
            key=key,
            level=head.level,
            place=head.place,
            process=head.process,
            heading=before.heading if chained and before is not None else (glued or heading),
            first=line,
            chain=self._chains,
            last=self._seen,
        )
        self._blocks[key] = block
        if len(self._blocks) > OPEN_AT_ONCE:
            oldest = min(self._blocks.values(), key=lambda b: b.last)
            del self._blocks[oldest.key]
        return Step("opened", block)

    def _outside(self, key: int, message: str) -> Step | None:
        self._remember(key, message)
        lone = _LONE.match(message)
        if lone is not None and not message.startswith(("INFO", "WARNING", "ERROR", "CRITICAL", "DEBUG")):
            return Step("lone", None, lone["type"], lone["text"])
        return None

    def _remember(self, key: int, message: str) -> None:
        """It may be what a traceback stands under."""
        self._headings[key] = (self._seen, message[:200])
        if len(self._headings) > 4 * OPEN_AT_ONCE:
            self._headings.pop(next(iter(self._headings)))

    def _inside(self, block: Block, message: str) -> Step | None:
        bare = _GROUP.sub("", message) if message.lstrip().startswith(("|", "+")) else message
        if _CHAINED.match(bare):
            block.chained = True
            return Step("body", block)
        if not block.raised:
            if not bare.strip() or bare[0] in " \t":
                self._body(block, bare)
                return Step("body", block)
            raised = _RAISED.match(bare)
            if raised is None or not (raised["text"] is not None or _EXCEPTION_NAME.search(raised["type"])):
                if block.frames and len(block.code) < KEPT:
                    block.code.append(bare[:300])  # a source line without its indentation
                    return Step("body", block)
                del self._blocks[block.key]
                return self._outside(block.key, message)
            block.raised = 1
            return Step("raised", block, raised["type"], raised["text"] or "")
        if not bare.strip():
            return Step("body", block)
        again = _RAISED.match(bare)
        if again is not None and _EXCEPTION_NAME.search(again["type"]) and ":" in bare and bare[0] not in " \t":
            block.raised += 1
            return Step("raised", block, again["type"], again["text"] or "")
        block.kept += 1
        if block.kept > KEPT or re.match(r"^(?:INFO|WARNING|ERROR|DEBUG|CRITICAL):", bare) or _PROCESS.match(bare):
            del self._blocks[block.key]
            return self._outside(block.key, message)
        return Step("detail", block, "", bare)

    def _body(self, block: Block, text: str) -> None:
        frame = _FRAME.match(text)
        if frame is not None:
            block.frames.append(Frame(frame["file"], int(frame["line"]), frame["name"]))
            if len(block.frames) > 400:
                del block.frames[100:200]
        elif text.strip(" ^~\t") and len(block.code) < 400:
            block.code.append(text.strip()[:300])
