"""What a load lists of its arguments, taken in and laid beside what its unit asks for: the difference is a finding."""

from __future__ import annotations

from watch.asked import Asked, from_config, from_list, lost, method
from watch.findings import Findings
from watch.load import Load
from watch.marks import Mark


class Comparing:
    """``asked``: both sides. What differs is told once a load."""

    def __init__(self, asked: Asked, findings: Findings) -> None:
        self._asked, self._findings = asked, findings
        self._told: set[tuple[int, str]] = set()

    def listed(self, load: Load, mark: Mark, text: str, at: float, ref: str, *, present: bool) -> None:
        """The line lists what was asked for, or what was accepted. ``present``: of the load that runs now."""
        values = from_config(text) if mark.reads == "config" else from_list(text)
        known = method(values)
        if mark.reads == "config":
            load.method = known or load.method
            load.cpu = values.get("device_config", "") == "cpu"
            load.eager = {"True": True, "False": False}.get(values.get("enforce_eager", ""), load.eager)
            if values.get("model"):
                load.facts["model"] = values["model"]
        elif known and not load.method:
            load.method = known
        if not present:
            return
        if mark.reads == "config":
            self._asked.config, self._asked.config_ref = values, ref
        else:
            self._asked.args, self._asked.args_ref = values, ref
        self.compare(load, at)

    def compare(self, load: Load, at: float) -> None:
        """What was asked for and not got is a finding, once."""
        for view in lost(self._asked.views()):
            if (load.number, view.key) not in self._told:
                self._told.add((load.number, view.key))
                self._findings.note(
                    "asked-differs",
                    {"what": f"{view.key}: asked {view.asked}, got {view.got}"},
                    load=load.number,
                    at=at,
                    phase=load.phase,
                    refs=[view.ref] if view.ref else [],
                )
