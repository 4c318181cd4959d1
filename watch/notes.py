"""What operators wrote into the session."""

from __future__ import annotations

from collections import deque

from probes.readings import Note
from watch.view import NoteView

KEPT = 500
"""Notes remembered: more than anybody writes; a bound for what a hostile file holds."""

LONGEST = 2000
"""Characters of a note."""


class Notes:
    def __init__(self) -> None:
        self._notes: deque[NoteView] = deque(maxlen=KEPT)

    def apply(self, reading: Note) -> None:
        self._notes.append(NoteView(at=reading.at, text=reading.text[:LONGEST], who=reading.who[:200]))

    def views(self) -> tuple[NoteView, ...]:
        return tuple(self._notes)
