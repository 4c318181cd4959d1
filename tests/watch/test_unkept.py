"""The tape of a watch that nobody reads back: secrets go, figures pass, nothing is kept."""

from __future__ import annotations

import pytest

from probes.readings import GpuDevice, GpuReading, JournalLine, UnitFile
from watch.redact import Redactor
from watch.unkept import Unkept


def test_secrets_go_and_figures_pass() -> None:
    tape = Unkept(Redactor(["internal-[0-9]+"]))
    line = JournalLine(at=1.0, text="HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz012345 internal-77")
    _, kept = tape.keep(line)
    assert "hf_abc" not in kept.text
    assert "internal-77" not in kept.text
    assert tape.clean(line) == kept
    _, unit = tape.keep(UnitFile(at=1.0, unit="x", text="Environment=OPENAI_API_KEY=sk-abcdefghijklmnopqrstuvwx"))
    assert "sk-abc" not in unit.text
    gpu = GpuReading(at=1.0, devices=(GpuDevice(index=0, used_mib=3.0),))
    assert tape.keep(gpu) == (0, gpu)


def test_nothing_is_kept() -> None:
    tape = Unkept(Redactor())
    place, _ = tape.keep(JournalLine(at=1.0, text="x"))
    with pytest.raises(ValueError, match="no lines"):
        tape.read(place)
    assert (tape.path, tape.recording, tape.stopped) == (None, False, "")
