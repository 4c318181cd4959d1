"""What ``bench.sh`` and `vllm bench serve` say while they run, as readings: progress bars, milestones, first errors."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping

from probes.bench.orders import BenchOrder
from probes.command import plain
from probes.readings import BenchReading

_WORD = re.compile(r"@firstlight\t([^\t]*)\t(\d{1,9})\t(\d{1,12}(?:\.\d{1,9})?)\t([a-z]{1,20})\t([a-z]{1,20})\t(.*)")
_BAR = re.compile(r"^\s*\d{1,3}%\|.*\| (\d{1,9})/(\d{1,9}) \[")
_ERROR = re.compile(r"^Error (\d+): (.*)")
_RAISED = re.compile(r"^(?:[\w.]+\.)?\w*(?:Error|Exception|Exit|Interrupt)\b(?:: .*)?$")
_MAIN = "Starting main benchmark run"
_TABLE = "============ Serving Benchmark Result"

DISK_FULL = "the host's disk is full"
NO_TOKENIZER = (
    "the tokenizer is not there without a network: start the server from a local path, or with --tokenizer PATH"
)

CAUSES: tuple[tuple[str, str], ...] = (
    (r"No space left on device", DISK_FULL),
    (
        r"couldn't connect to 'https://huggingface\.co'|offline mode is enabled|LocalEntryNotFoundError"
        r"|Can't load tokenizer|Unable to load tokenizer|is not a local folder|Incorrect path_or_model_id",
        NO_TOKENIZER,
    ),
    (r"Initial test run failed", "the server did not answer the first request"),
    (r"No module named '[^']*'", "vLLM's benchmarks need more there: pip install 'vllm[bench]'"),
    (r"unrecognized arguments|invalid choice|expected one argument", "this vLLM does not know one of the options"),
    (r"Permission denied", "a file there is not ours to read or write"),
)
"""What a failure is called, by what is said: (pattern, sentence)."""


class Told:
    """``follow.Teller`` for a benchmark. Bytes are taken once, however often they come again from the first on."""

    def __init__(self, order: BenchOrder) -> None:
        self._order = order
        self._taken = 0
        self._skip = 0
        self._rest = b""
        self._part = 0
        self._at = 0.0
        """of the last word of the steps: vLLM's lines have no time that can be trusted"""
        self._measuring = False
        self._shown = 0
        self._last: deque[str] = deque(maxlen=40)
        self.first_error = ""
        self._error_open = False
        self.ended = False

    @property
    def before_any_run(self) -> bool:
        """Nothing was measured yet."""
        return self._part == 0

    def restart(self) -> None:
        self._skip = self._taken

    def feed(self, data: bytes) -> Iterator[BenchReading]:
        skipped = min(self._skip, len(data))
        self._skip -= skipped
        data = data[skipped:]
        self._taken += len(data)
        *lines, self._rest = re.split(rb"[\r\n]", self._rest + data)
        self._rest = self._rest[-65536:]
        for raw in lines:
            line = raw.decode("utf-8", "backslashreplace").rstrip()
            found = _WORD.fullmatch(line)
            if found is not None:
                if found[1] == self._order.id:
                    yield from self._word(float(found[3]), found[4], found[5], found[6])
            elif line:
                yield from self._line(line)

    def word(self, at: float, step: str, outcome: str, detail: str) -> BenchReading:
        return self.reading(at, step, outcome, detail)

    def reading(self, at: float, stage: str, outcome: str, text: str, **more: object) -> BenchReading:
        order = self._order
        level = order.levels[self._part - 1] if 0 < self._part <= len(order.levels) else None
        values: dict[str, object] = {
            "part": self._part,
            "parts": len(order.levels),
            "concurrency": level.concurrency if level else 0,
            "repeat": level.repeat if level else 0,
            "total": level.prompts if level else None,
        }
        return BenchReading(
            at=at,
            run=order.id,
            stage=stage,
            outcome=outcome,
            text=plain(text, 500),
            unit=order.unit,
            who=order.who,
            preset=order.preset,
            **{**values, **more},  # type: ignore[arg-type]
        )

    # ----- words of the steps

    def _word(self, at: float, step: str, outcome: str, words: str) -> Iterator[BenchReading]:
        self._at = at
        if step == "level":
            if outcome == "begun":
                self._part = int(words) if words.isdecimal() else self._part + 1
                self._measuring, self._shown, self._error_open = False, 0, False
                self.first_error = ""
                self._last.clear()
            level = self._order.levels[self._part - 1] if 0 < self._part <= len(self._order.levels) else None
            what = f"concurrency {level.concurrency}" if level else ""
            words = f"run {self._part} of {len(self._order.levels)}: {what}"
        elif step == "end":
            self.ended = True
            if outcome == "failed":
                words = self._explained(words)
        yield self.reading(at, step, outcome, words)

    def _explained(self, words: str) -> str:
        """With the cause, where one is said among the last lines."""
        said = list(self._last)
        for pattern, sentence in CAUSES:
            line = next((line for line in reversed(said) if re.search(pattern, line)), None)
            if line is not None or re.search(pattern, words):
                known = words if sentence in words else f"{words}: {sentence}"
                return known + (f" ({plain(line, 200)})" if line is not None else "")
        if any(sentence in words for _, sentence in CAUSES):
            return words
        raised = next((line for line in reversed(said) if _RAISED.match(line)), said[-1] if said else "")
        return f"{words}: {plain(raised, 300)}" if raised and raised not in words else words

    # ----- lines of vLLM's

    def _line(self, line: str) -> Iterator[BenchReading]:
        bar = _BAR.match(line)
        if bar is not None:
            if self._measuring:
                yield from self._progress(int(bar[1]), int(bar[2]))
            return
        self._last.append(line[:1000])
        if line.startswith("Warming up with"):
            yield self.reading(self._at, "level", "wait", "warming up")
        elif _MAIN in line:
            self._measuring, self._shown = True, 0
            yield self.reading(self._at, "progress", "begun", "measuring", done=0)
        elif line.startswith(_TABLE):
            self._measuring = self._error_open = False
        elif (error := _ERROR.match(line)) is not None:
            self._error_open = error[1] == "0"
            if self._error_open and not self.first_error:
                self.first_error = plain(error[2], 300)
        elif self._error_open and _RAISED.match(line):
            self.first_error = plain(line, 300)

    def _progress(self, done: int, total: int) -> Iterator[BenchReading]:
        """At most a hundred a run: a bar may move ten times a second for an hour."""
        if done <= self._shown or (done < total and (done - self._shown) * 100 < total):
            return
        self._shown = done
        yield self.reading(self._at, "progress", "", "measuring", done=done, total=total)


def environment(values: Mapping[str, str]) -> bytes:
    """The file ``environment`` of ``bench.sh``."""
    return "".join(f"{name}={value}\n" for name, value in values.items() if "\n" not in value).encode(
        "utf-8", "surrogateescape"
    )
