"""The audit log."""

from __future__ import annotations

from pathlib import Path

from probes.readings import OperatorAction
from watch.audit import Audit, actions, read_audit


def step(outcome: str = "done", **how: object) -> OperatorAction:
    values: dict[str, object] = {"at": 1.0, "action": "restart", "step": "end", "unit": "vllm.service", "who": "ann"}
    return OperatorAction(outcome=outcome, **{**values, **how})  # type: ignore[arg-type]


def test_who_did_what_and_how_it_ended(tmp_path: Path) -> None:
    path = tmp_path / "state" / "audit.jsonl"
    audit = Audit("llm-two", path)
    audit.write(step("begun", step="begin"))
    for second in range(100):
        audit.write(step("wait", step="stop", at=float(second)))
    audit.write(step(detail="--api-key sk-0123456789abcdefghijkl", undo="bring it back"))
    begun, done = read_audit(path)
    assert (begun.target, begun.who, begun.action, begun.unit, begun.outcome) == (
        "llm-two", "ann", "restart", "vllm.service", "begun",
    )  # fmt: skip
    assert (done.outcome, done.undo) == ("done", "bring it back")
    assert "sk-0123" not in path.read_text()
    assert path.stat().st_mode & 0o077 == 0
    assert audit.reason == ""


def test_two_watches_write_to_one_log_and_nothing_is_ever_taken_out(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    one, two = Audit("a", path), Audit("b", path)
    one.write(step())
    before = path.read_bytes()
    two.write(step())
    one.write(step("failed"))
    assert path.read_bytes().startswith(before)
    assert [entry.target for entry in read_audit(path)] == ["a", "b", "a"]
    assert [entry.outcome for entry in read_audit(path, target="a")] == ["done", "failed"]
    assert [entry.outcome for entry in read_audit(path, limit=1)] == ["failed"]


def test_going_back_from_a_fallback_is_not_another_fallback(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    audit = Audit("a", path)
    for at, unit, other in ((1.0, "new.service", "old.service"), (3.0, "old.service", "new.service"),
                            (5.0, "new.service", "old.service")):  # fmt: skip
        said = f"fallback of {unit}, {other} instead"
        audit.write(step("begun", at=at, action="fallback", step="begin", unit=unit, detail=said, id=f"{at}"))
        audit.write(step("done", at=at + 1, action="fallback", unit=unit, id=f"{at}"))
    assert [one.action for one in actions(read_audit(path))] == ["fallback", "undo fallback", "fallback"]


def test_lines_that_are_none_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    audit = Audit("a", path)
    audit.write(step())
    with path.open("ab") as file:
        file.write(b'{"at": 1, "who"\n\xff\n')
    audit.write(step("failed"))
    assert [entry.outcome for entry in read_audit(path)] == ["done", "failed"]
    assert read_audit(tmp_path / "none") == ()


def test_a_log_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    audit = Audit("a", tmp_path / "file" / "audit.jsonl")
    audit.write(step())
    assert "audit.jsonl" in audit.reason
