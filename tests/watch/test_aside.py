"""Files kept beside the history."""

from __future__ import annotations

from pathlib import Path

from probes.operate.orders import File
from watch.aside import keep_aside
from watch.revisions import split_files


def test_they_can_be_read_back(tmp_path: Path) -> None:
    files = (File("/etc/systemd/system/v.service", "a\n"), File("/etc/systemd/system/v.service.d/1.conf", "b\n"))
    path = keep_aside("root@llm-two:22", "v.service", "ab12", files, folder=tmp_path)
    assert split_files(path.read_text(), [file.path for file in files]) == files
    assert path.stat().st_mode & 0o077 == 0


def test_names_lead_nowhere_else(tmp_path: Path) -> None:
    path = keep_aside("../..", "/etc/x", "../y", (File("/a", ""),), folder=tmp_path)
    assert path.resolve().is_relative_to(tmp_path.resolve())
    assert len(path.relative_to(tmp_path).parts) == 3
