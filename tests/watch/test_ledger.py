"""Which files a load was started with, as the history is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from probes.readings import GpuReading, JournalLine, Reading, UnitFile, UnitReading
from watch.history import History
from watch.keeping import Keeper
from watch.ledger import Ledger
from watch.redact import Redactor
from watch.state import WatchState

UNIT = "vllm.service"
ONE = """# /etc/systemd/system/vllm.service
[Service]
ExecStart=/opt/vllm serve /models/a --port 8000 --api-key sk-secret
"""
TWO = ONE.replace("8000", "9000")


class Watch:
    def __init__(self, path: Path) -> None:
        self.history = History.open(path)
        self.state = WatchState("host", UNIT)
        self.ledger = Ledger(self.state, Keeper(self.history))
        self.at = 1000.0

    def take(self, *readings: Reading) -> None:
        for reading in readings:
            self.ledger.see(reading)
            if isinstance(reading, JournalLine):
                self.state.apply_lines([reading])
            else:
                self.state.apply(reading)
            self.ledger.keep()

    def unit(self, invocation: str, **how: object) -> UnitReading:
        self.at += 5
        return UnitReading(
            at=self.at,
            unit=UNIT,
            load="loaded",
            active="active",
            sub="running",
            invocation=invocation,
            started=self.at - 1,
            main_pid=7,
            **how,  # type: ignore[arg-type]
        )

    def file(self, text: str, **environment: str) -> UnitFile:
        files = {"/etc/vllm.env": "".join(f"{name}={value}\n" for name, value in environment.items())}
        return UnitFile(at=self.at, unit=UNIT, text=text, environment=files if environment else {})

    def says(self, invocation: str, text: str) -> JournalLine:
        self.at += 1
        return JournalLine(at=self.at, text=text, unit=UNIT, invocation=invocation, pid=7)

    def starts(self, invocation: str) -> JournalLine:
        return self.says(invocation, "INFO 11-30 05:00:00 [api_server.py:1] vLLM API server version 0.25.1")

    def texts(self) -> dict[str, str]:
        """The unit's text by invocation, as it would be brought back."""
        known = {revision.id: revision.text for revision in self.history.revisions("host", UNIT)}
        return {load.invocation: known.get(load.revision, "") for load in self.history.loads("host", UNIT)}


@pytest.fixture
def watch(tmp_path: Path) -> Watch:
    return Watch(tmp_path / "history.sqlite")


def test_the_text_is_kept_exact_and_the_environment_without_secrets(watch: Watch, tmp_path: Path) -> None:
    watch.take(
        watch.unit("a"), watch.file(ONE, HF_TOKEN="abcdef0123", DB_PASSWORD="hunter2", TP="8"), watch.starts("a")
    )
    (revision,) = watch.history.revisions("host", UNIT)
    assert revision.text == ONE
    assert revision.environment == {"/etc/vllm.env": "HF_TOKEN=***\nDB_PASSWORD=***\nTP=8\n"}
    watch.history.close()
    for file in (one for one in tmp_path.rglob("*") if one.is_file()):
        assert b"hunter2" not in file.read_bytes()
        assert b"abcdef0123" not in file.read_bytes()
        assert file.stat().st_mode & 0o077 == 0


def test_a_change_of_an_environment_file_is_another_revision(watch: Watch) -> None:
    watch.take(watch.unit("a"), watch.file(ONE, TP="8"), watch.starts("a"))
    watch.take(watch.unit("b"), watch.file(ONE, TP="4"), watch.starts("b"))
    assert len(watch.history.revisions("host", UNIT)) == 2


def test_an_edit_while_a_server_runs_is_no_part_of_its_revision(watch: Watch) -> None:
    watch.take(watch.unit("a"), watch.file(ONE), watch.starts("a"))
    watch.take(watch.unit("a", needs_reload=True), watch.file(TWO))
    watch.take(watch.unit("a"), watch.file(TWO), watch.says("a", "INFO:     Application startup complete."))
    assert watch.texts() == {"a": ONE}
    watch.take(watch.unit("b"), watch.file(TWO), watch.starts("b"))
    assert watch.texts() == {"a": ONE, "b": TWO}


def test_a_start_without_the_reload_is_one_with_the_old_text(watch: Watch) -> None:
    watch.take(watch.unit("a"), watch.file(ONE), watch.starts("a"))
    watch.take(watch.unit("a", needs_reload=True), watch.file(TWO))
    watch.take(watch.unit("b", needs_reload=True), watch.file(TWO), watch.starts("b"))
    assert watch.texts() == {"a": ONE, "b": ONE}


def test_a_watch_that_came_after_an_edit_does_not_take_the_new_text_for_what_runs(watch: Watch) -> None:
    argv = ("/usr/bin/python3", "/opt/vllm", "serve", "/models/a", "--port", "8000", "--api-key", "sk-secret")
    watch.take(watch.unit("a", server_argv=argv), watch.file(TWO), watch.starts("a"))
    assert watch.texts() == {"a": ""}
    watch.take(watch.unit("a", server_argv=argv), watch.file(ONE), watch.starts("a"))
    assert watch.texts() == {"a": ONE}


def test_a_start_that_said_nothing_of_a_model_is_kept_with_its_text(watch: Watch) -> None:
    bad = "[Service]\nExecStart=/no/such/program\n"
    watch.take(watch.unit("a"), watch.file(bad), watch.says("a", "vllm.service: Failed at step EXEC spawning"))
    assert watch.texts() == {"a": bad}


def test_a_recording_has_no_secret_of_an_environment_file() -> None:
    file = UnitFile(
        at=1.0, unit=UNIT, text=ONE, environment={"/e": "export HF_TOKEN=abcdef0123\nMY_KEY=hunter2\nTP=8\n"}
    )
    line, kept = Redactor().encode(file)
    assert kept.environment == {"/e": "export HF_TOKEN=***\nMY_KEY=***\nTP=8\n"}
    assert b"hunter2" not in line
    assert b"abcdef0123" not in line


def test_versions_are_of_the_load_they_were_seen_with(watch: Watch) -> None:
    watch.take(watch.unit("a", server_packages={"torch": "2.9.0+cu128", "vllm": "0.25.1"}), watch.file(ONE))
    watch.take(watch.starts("a"), GpuReading(at=watch.at, devices=(), driver="580.95.05"))
    (revision,) = watch.history.revisions("host", UNIT)
    assert revision.versions == {"torch": "2.9.0+cu128", "vllm": "0.25.1", "driver": "580.95.05"}
    # the next start may be of another environment: what is installed there is not known yet
    watch.take(watch.unit("b"), watch.starts("b"))
    versions = {load.invocation: load.versions for load in watch.history.loads("host", UNIT)}
    assert versions["a"]["torch"] == "2.9.0+cu128"
    assert versions["b"] == {"vllm": "0.25.1", "driver": "580.95.05"}


def test_what_becomes_known_without_a_change_of_the_load_is_told(watch: Watch) -> None:
    watch.take(watch.unit("a"), watch.file(ONE), watch.starts("a"))
    assert not watch.ledger.behind
    watch.ledger.see(GpuReading(at=watch.at, devices=(), driver="580.95.05"))
    assert watch.ledger.behind
    watch.ledger.keep()
    assert not watch.ledger.behind
    assert watch.history.revisions("host", UNIT)[0].versions["driver"] == "580.95.05"
