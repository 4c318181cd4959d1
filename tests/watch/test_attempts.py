"""``systemctl show`` and the journal tell of the same loads, each in its own time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from probes.readings import JournalLine, Reading, UnitReading
from watch.state import WatchState

T = 1_789_895_520.0
UNIT = "vllm.service"


def invocation(number: int) -> str:
    return f"{number:032x}"


def crash_loop(loads: int, ends: list[str]) -> tuple[list[JournalLine], list[UnitReading]]:
    """Loads that come to nothing, one a second: what the journal holds of them, and what ``systemctl show`` says at
    each moment between."""
    lines: list[JournalLine] = []
    shown: list[UnitReading] = []
    for number in range(1, loads + 1):
        at, ended = T + number, ends[number % len(ends)]

        def systemd(after: float, text: str, at: float = at, number: int = number) -> None:
            lines.append(
                JournalLine(at=at + after, text=text, source="systemd", unit=UNIT, invocation=invocation(number))
            )

        def show(after: float, active: str, sub: str, result: str, at: float = at, number: int = number) -> None:
            gone = 0.0 if result == "success" and sub == "running" else at + 0.5
            shown.append(
                UnitReading(
                    at=at + after, unit=UNIT, load="loaded", active=active, sub=sub, result=result, started=at,
                    active_since=at, invocation=invocation(number), main_pid=7 if sub == "running" else 0,
                    main_exited=gone, state_changed=gone or at, restarts=number - 1,
                )
            )  # fmt: skip

        systemd(0.0, f"Started {UNIT} - vLLM.")
        show(0.1, "active", "running", "success")
        lines.append(
            JournalLine(at=at + 0.2, text="loading", pid=7, unit=UNIT, invocation=invocation(number), source="unit")
        )
        show(0.3, "active", "running", "success")
        if ended == "fails":
            systemd(0.5, f"{UNIT}: Main process exited, code=exited, status=1/FAILURE")
            systemd(0.5, f"{UNIT}: Failed with result 'exit-code'.")
            show(0.6, "activating", "auto-restart", "exit-code")
            systemd(0.7, f"{UNIT}: Scheduled restart job, restart counter is at {number}.")
        else:
            systemd(0.4, f"Stopping {UNIT} - vLLM...")
            systemd(0.5, f"{UNIT}: Deactivated successfully.")
            systemd(0.5, f"Stopped {UNIT} - vLLM.")
            show(0.6, "inactive", "dead", "success")
    return lines, shown


def told(readings: list[Reading]) -> list[tuple[int, str, str, str]]:
    state = WatchState("host", UNIT)
    for reading in readings:
        state.apply(reading)
    return [(load.number, load.invocation, load.state, load.phase) for load in state.view(T + 100).loads]


@given(
    ends=st.lists(st.sampled_from(["fails", "stopped"]), min_size=1, max_size=3),
    ahead=st.lists(st.floats(0.0, 4.0), min_size=1, max_size=20),
    asked=st.lists(st.booleans(), min_size=1, max_size=20),
)
def test_what_systemd_shows_ahead_of_the_journal_changes_no_load(
    ends: list[str], ahead: list[float], asked: list[bool]
) -> None:
    """The journal is read beside it, and may come seconds later; and systemd is not asked at each moment. Loads keep
    their order, and each has its own end."""
    lines, shown = crash_loop(6, ends)
    moments: list[tuple[float, Reading]] = [(line.at, line) for line in lines]
    came = 0.0
    for number, one in enumerate(shown):
        if not asked[number % len(asked)]:
            continue
        came = max(came, one.at - ahead[number % len(ahead)])
        moments.append((came, one))
    mixed = [reading for _, reading in sorted(moments, key=lambda moment: moment[0])]
    assert told(mixed) == told([*lines])
