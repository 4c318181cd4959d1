"""One load: from the start attempt to ready, as its marks tell it.

Phases follow one another in the order of ``watch.words``; a load moves forward, never back, with three exceptions that
vLLM itself makes: kernels that are prepared before the KV cache is sized, drafts that are loaded after the main model
(SGLang: after everything), and ``torch.compile`` that turns out not to happen.
"""

from __future__ import annotations

from dataclasses import dataclass

from watch.bars import Bar
from watch.marks import Mark
from watch.progress import Track, track
from watch.words import PHASES, Phase, State

Speaker = int | str
"""Who speaks: a pid, or a process' name where the log gives no pid."""

ORDER: dict[Phase, int] = {phase: index for index, phase in enumerate(PHASES)}
ORDER["n/a"] = -1
NO_WEIGHTS = frozenset(("none", "ngram", "ngram_gpu", "suffix"))
"""Methods of speculation that load no weights of their own."""
READ = "all shards are read; weights are being repacked and placed: nothing is printed until `Model loading took`"


@dataclass(slots=True)
class Span:
    """A phase of this load. ``own``: how many of its own marks were seen (none: it only follows from the one before).
    ``explicit``: its start was printed, not inferred. ``closed``: its end was."""

    name: Phase
    started: float
    ended: float | None = None
    own: int = 0
    explicit: bool = False
    closed: bool = False
    note: str = ""
    track: Track | None = None
    paused: bool = False
    """it only follows so far, and its own beginning will be printed"""


class Load:
    """The fold of one load. Times are UTC seconds of the readings; nothing here knows what time it is now."""

    def __init__(self, number: int, at: float, invocation: str = "") -> None:
        self.number = number
        self.invocation = invocation
        self.started = at
        self.first_line: float | None = None
        self.last_line: float | None = None
        self.telling_at: float | None = None
        self.gap_at: float | None = None
        self.ended: float | None = None
        self.engine = ""
        self.phase: Phase = "n/a"
        self.spans: dict[Phase, Span] = {}
        self.facts: dict[str, str] = {}
        self.method = ""
        """of speculation: empty while unknown, "none" when there is none"""
        self.eager: bool | None = None
        self.cpu = False
        """it runs on processors, without a GPU"""
        self.draft = False
        """a draft model's weights are loaded too"""
        self.attached_late = False
        self.begun = False
        """its beginning was seen (systemd's lines, or the first words of the server)"""
        self.banner_from: set[Speaker] = set()
        self.ready_line: float | None = None
        self.healthy_at: float | None = None
        self.stop_at: float | None = None
        self.failed_at: float | None = None
        self.failed_by: Speaker = ""
        self.restarts = 0
        self.result = ""
        """systemd's word for how it ended: success, exit-code, signal, oom-kill, timeout …"""
        self.exit = ""
        """as systemd says it: "exited, status=1/FAILURE" """
        self.told = False
        """its end was seen in its own lines or systemd's, so nothing printed after it moves it on; a status reading may
        have come before the lines that explain it"""
        self.telling_line = ""
        self._replaced_at: float | None = None
        """when another load took its place, while nothing of its own has told its end"""
        self._ended_by: dict[Phase, set[Speaker]] = {}
        self._printed: dict[str, set[Speaker]] = {}

    @property
    def over(self) -> bool:
        """It has ended, or cannot become ready any more."""
        return self.ended is not None or self.failed_at is not None or self.stop_at is not None

    @property
    def waiting(self) -> bool:
        """Nothing of it was seen yet."""
        return self.phase == "n/a" and self.first_line is None

    def begin(self, at: float) -> None:
        """Its beginning was seen."""
        self.begun = True
        self.started = min(self.started, at)

    def replaced(self, at: float) -> None:
        """Another load took its place."""
        if self.failed_at is None and self.stop_at is None and self.ready_line is None:
            self.stop_at = at
        self.end(at)
        self._replaced_at = at

    def _tell_itself(self) -> None:
        """Its own end is told after all, by lines that came later than the word of the load that took its place."""
        if self._replaced_at is not None:
            self.stop_at = None if self.stop_at == self._replaced_at else self.stop_at
            self.ended = None if self.ended == self._replaced_at else self.ended
            self._replaced_at = None

    # ------------------------------------------------------------------------------------------------ lines and marks

    def heard(self, at: float) -> None:
        """A line of this load's own processes."""
        if self.first_line is None and self.phase != "pre-start":
            self.first_line = at
        if self.last_line is None or at > self.last_line:
            self.last_line = at

    def mark(self, at: float, mark: Mark, fields: dict[str, str], speaker: Speaker, bar: Bar | None) -> bool:
        """Take in one mark. True: the load changed by it."""
        if mark.engine != "any":
            if self.engine and mark.engine != self.engine:
                return False
            self.engine = mark.engine
        self._learn(fields)
        if mark.banner:
            self.banner_from.add(speaker)
        if not self.begun and not self.attached_late and not mark.weak:
            self.begun = ORDER[mark.phase] <= ORDER["config"]
            self.attached_late = not self.begun
        if not mark.unit:
            self._printed.setdefault(mark.id, set()).add(speaker)
        waiting = mark.each and self._printed.get(mark.each, set()) - self._printed[mark.id]
        if mark.weak or waiting or self.method in mark.unless:
            return bool(fields)
        phase = self._phase(mark, speaker, bar)
        if phase == "stopping":
            return self._stopping(at, mark)
        if phase in ("ready", "serving"):
            return self.up(at, phase)
        if self._past_end(at) and not self._explains(at, mark, speaker):
            return bar is not None and phase == self.phase and self._bar(at, mark, bar, speaker)
        changed = self._move(at, phase, mark, fields, bar)
        if mark.event == "end" and phase != mark.instead:
            self._ended_by.setdefault(phase, set()).add(speaker)
        span = self.spans.get(phase)
        if span is not None and phase == self.phase:
            span.note = mark.note
            if bar is not None and mark.unit:
                changed = self._bar(at, mark, bar, speaker) or changed
        return changed

    def _past_end(self, at: float) -> bool:
        over = self.over_at
        return over is not None and (self.told or at > over)

    def _explains(self, at: float, mark: Mark, speaker: Speaker) -> bool:
        """A line of the traceback that follows the first word of the failure, from the process that failed."""
        if not mark.frame or self.stop_at is not None or self.failed_at is None:
            return False
        return speaker == self.failed_by and at - self.failed_at < 10.0

    def note(self) -> str:
        """What goes on now where nothing is printed, as the last mark tells it."""
        span = self.spans.get(self.phase)
        if span is None or span.ended is not None:
            return ""
        if span.track is not None and span.track.complete and self.phase in ("weights", "draft-weights"):
            return span.note or READ
        return span.note

    def _learn(self, fields: dict[str, str]) -> None:
        for name, value in fields.items():
            if name not in ("seconds", "rank"):
                self.facts[name] = value
        if "eager" in fields:
            self.eager = True

    def _phase(self, mark: Mark, speaker: Speaker, bar: Bar | None) -> Phase:
        """To which phase a mark belongs as things stand."""
        phase = mark.phase
        if mark.again and speaker in self._ended_by.get(phase, ()):
            return mark.again
        if mark.after and mark.instead:
            gate = self.spans.get(mark.after)
            open_yet = gate is not None and gate.ended is not None
            if not open_yet and any(ORDER[seen] < ORDER[mark.after] for seen in self.spans):
                return mark.instead
        if phase == "weights":
            if self.phase == "draft-weights" and mark.event != "start":
                return "draft-weights"
            if mark.unit and bar is not None and self._second_bar(bar, speaker):
                return "draft-weights"
        return phase

    def _second_bar(self, bar: Bar, speaker: Speaker) -> bool:
        """Whether this is a draft's bar: one from the same process, from 0, after the main one has ended."""
        span = self.spans.get("weights")
        if span is None or span.track is None or span.track.speaker != speaker or self.method in NO_WEIGHTS:
            return False
        return span.track.restarts(bar)

    def _bar(self, at: float, mark: Mark, bar: Bar, speaker: Speaker) -> bool:
        span = self.spans[self.phase]
        if span.track is None or (span.track.speaker == speaker and span.track.restarts(bar)):
            span.track = track(at, bar, mark.unit, speaker)
            return True
        if span.track.speaker != speaker and bar.done <= span.track.done:
            return False
        return span.track.add(at, bar)

    # ---------------------------------------------------------------------------------------------------- transitions

    def _move(self, at: float, phase: Phase, mark: Mark, fields: dict[str, str], bar: Bar | None) -> bool:
        if mark.event == "end" and ORDER[phase] < ORDER[self.phase] and self._later_copy(at, phase, mark):
            return True
        began = at
        if "seconds" in fields:
            began = at - _number(fields["seconds"])
        elif bar is not None and bar.elapsed:
            began = at - bar.elapsed
        changed = self.enter(phase, at, began=began, explicit=mark.event == "start")
        span = self.spans.get(phase)
        if span is None or phase != self.phase or mark.event != "end" or phase == mark.instead:
            return changed
        if span.closed:  # a copy from another rank: the slowest decides, unless the load has been elsewhere since
            if all(other.started <= span.started for other in self.spans.values() if other.own):
                span.ended = max(at, span.started)
            return changed
        if mark.backdate and not span.explicit:
            self._backdate(span, began)
        span.ended, span.closed, span.note = max(at, span.started), True, ""
        following = self._next(mark)
        if following is not None and ORDER[following] > ORDER[phase]:
            self.phase = following
            self.spans.setdefault(following, Span(following, span.ended, note=mark.note, paused=mark.pause))
        return True

    def enter(self, phase: Phase, at: float, *, began: float | None = None, explicit: bool = True) -> bool:
        """The load is seen in a phase. ``began``: when it must have begun, where that is earlier than now."""
        began = at if began is None else min(began, at)
        if ORDER[phase] < ORDER[self.phase] and not self._returns(phase):
            return False
        now = self.spans.get(self.phase)
        if now is not None and phase == self.phase:
            if explicit and not now.explicit and now.own == 0:
                now.started = at
            now.explicit, now.paused = now.explicit or explicit, False
            now.own += 1
            return False
        if now is None:
            if began < self.started and self.attached_late:
                self.started = began
        elif now.own == 0 and self.phase == "compile":  # it was expected, and did not happen
            began = min(began, now.started)
            del self.spans["compile"]
        elif now.own == 0 and ORDER[phase] < ORDER[self.phase]:  # it was expected, and something else came first
            del self.spans[now.name]
        elif now.ended is None:
            began = now.ended = max(began, now.started)
        else:
            began = max(began, now.ended)
        again = self.spans.get(phase)
        if again is None:
            self.spans[phase] = Span(phase, max(began, self.started), own=1, explicit=explicit)
        else:
            again.ended, again.closed, again.own = None, False, again.own + 1
        self.phase = phase
        self.draft = self.draft or phase == "draft-weights"
        return True

    def _returns(self, phase: Phase) -> bool:
        """The two ways back: SGLang loads a draft when everything else is done; and where kernels are prepared before
        the KV cache is sized, what seemed to be the warm-up was still profiling."""
        if phase == "draft-weights":
            return phase not in self.spans and ORDER[self.phase] < ORDER["ready"]
        sized = self.spans.get("kv-cache")
        if self.phase != "warmup" or (sized is not None and sized.own) or ORDER[phase] < ORDER["compile"]:
            return False
        del self.spans["warmup"]
        before = self._before("warmup")
        if before is None:
            before = self.spans["process-start"] = Span("process-start", self.started)
        if not before.closed:
            before.ended = None
        self.phase = before.name
        return ORDER[phase] >= ORDER[before.name]

    def _later_copy(self, at: float, phase: Phase, mark: Mark) -> bool:
        """Another rank ends the phase that the load has left by inference only: the slowest rank decides."""
        before, now = self.spans.get(phase), self.spans.get(self.phase)
        if before is None or now is None or now.own or not before.closed or self.phase != self._next(mark):
            return False
        now.started = before.ended = max(at, now.started)
        return True

    def _backdate(self, span: Span, began: float) -> None:
        """The phase was found out late (its bar came with its end): it has the length that its end line names."""
        start = max(began, self.started)
        before = self._before(span.name)
        if before is not None:
            start = max(start, before.ended if before.closed and before.ended is not None else before.started)
            if not before.closed and before.ended is not None and before.ended > start:
                before.ended = start
        span.started = start

    def _before(self, phase: Phase) -> Span | None:
        earlier = [span for span in self.spans.values() if ORDER[span.name] < ORDER[phase]]
        return max(earlier, key=lambda span: ORDER[span.name]) if earlier else None

    def _next(self, mark: Mark) -> Phase | None:
        if not mark.then:
            return None
        return "profile" if mark.then == "compile" and self.eager else mark.then

    # ------------------------------------------------------------------------------------------------ ready and endings

    def up(self, at: float, phase: Phase) -> bool:
        """It answers: ``ready`` or ``serving``."""
        if self.stop_at is not None or (self.ended is not None and at > self.ended):
            return False
        if phase == "serving" and self.ready_line is None and self.engine == "sglang" and not self.attached_late:
            return False  # its warm-up request of its own
        if self.failed_at is not None:
            if phase == "serving":
                return False
            if self.ended is None:
                self.failed_at = None  # it became ready: what looked like the end was none
        if self.ready_line is None:
            self.ready_line = at
            if phase == "serving":
                self.enter("ready", at, explicit=False)
        return self.enter(phase, at, explicit=phase == "ready")

    def _stopping(self, at: float, mark: Mark) -> bool:
        if self.failed_at is not None:
            return False
        if mark.event == "end":
            span = self.spans.get("stopping")
            if span is not None:
                span.ended = max(at, span.started)
            return span is not None
        return self.stop(at)

    def stop(self, at: float) -> bool:
        """It is being ended on request."""
        self._tell_itself()
        if self.stop_at is not None or self.failed_at is not None:
            return False
        self.stop_at, self.told = at, True
        was_up = self.ready_line is not None
        now = self.spans.get(self.phase)
        if now is not None and now.ended is None:
            now.ended = max(at, now.started)
        self.spans["stopping"] = Span("stopping", at, own=1, explicit=True)
        if was_up or now is None:
            self.phase = "stopping"
        return True

    def fail(self, at: float, *, speaker: Speaker = "", told: bool = True) -> bool:
        """It cannot become ready any more. Its phase stays the one it was in. ``speaker``: who said so first;
        ``told``: lines said so."""
        self._tell_itself()
        if self.stop_at is not None:
            return False
        self.told = self.told or told
        if self.failed_at is not None:
            return False
        self.failed_at, self.failed_by = at, speaker
        return True

    def end(self, at: float) -> bool:
        """Its processes are gone."""
        self._tell_itself()
        if self.ended is not None:
            return False
        self.ended = at
        return True

    @property
    def over_at(self) -> float | None:
        """When it was over: failed, stopped or gone, whichever came first."""
        return min((at for at in (self.failed_at, self.stop_at, self.ended) if at is not None), default=None)

    def state(self, *, probed: bool) -> State:
        """``probed``: /health is being asked, so the ready line alone is not enough."""
        if self.failed_at is not None:
            return "failed"
        if self.stop_at is not None or self.ended is not None:
            return "stopped"
        if self.ready_line is not None and (not probed or self.healthy_at is not None):
            return "ready"
        return "unknown" if self.phase == "n/a" else "loading"


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
