"""Folders of sockets leave nothing behind, however their process ended."""

from __future__ import annotations

import signal
import stat
import subprocess
import sys
from pathlib import Path

from probes.own_folder import OwnFolder

HOLD = "import sys; from probes.own_folder import OwnFolder; print(OwnFolder(sys.argv[1]).path, flush=True); input()"


def test_what_a_killed_process_left_goes_and_what_lives_stays(tmp_path: Path) -> None:
    (tmp_path / "firstlight-other").mkdir()
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        left = Path(process.stdout.readline().strip())
        (left / "http-1").touch()
        mine = OwnFolder(tmp_path)
        assert left.exists(), "its process lives"
        assert stat.S_IMODE(mine.path.stat().st_mode) == 0o700
        process.send_signal(signal.SIGKILL)
    assert left.exists()
    other = OwnFolder(tmp_path)
    assert not left.exists()
    assert mine.path.exists()
    mine.remove()
    other.remove()
    assert [path.name for path in tmp_path.iterdir()] == ["firstlight-other"]
