"""What somebody names as a file, or leaves in a folder, and is none."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from watch.audit import read_audit
from watch.benchmarks.result import BadResult, read_result
from watch.catalogue import load
from watch.config import ConfigError, load_config
from watch.explain import CannotExplain, explain
from watch.regular import opened, whole


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(path))


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _loop(path: Path) -> None:
    path.symlink_to(path.name)


KINDS = [_pipe, _socket, _device, _loop, Path.mkdir]


@pytest.mark.parametrize("make", KINDS)
def test_nothing_but_a_file_is_opened(tmp_path: Path, make: Callable[[Path], None]) -> None:
    path = tmp_path / "x"
    make(path)
    with pytest.raises(OSError, match=r"it is a|symbolic links|No such device"):
        opened(path)


def test_a_file_that_is_too_large(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"12345")
    assert whole(path, 5) == b"12345"
    with pytest.raises(OSError, match="more than"):
        whole(path, 4)


@pytest.mark.parametrize("make", KINDS)
def test_a_configuration_that_is_none(tmp_path: Path, make: Callable[[Path], None]) -> None:
    path = tmp_path / "x"
    make(path)
    with pytest.raises(ConfigError, match="x: "):
        load_config(path)


@pytest.mark.parametrize("make", [_pipe, _socket, _device, _loop])
def test_a_saved_log_that_is_none(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "x")
    with pytest.raises(CannotExplain, match="cannot be read"):
        explain([tmp_path / "x"])


def test_a_name_that_can_be_none() -> None:
    with pytest.raises(CannotExplain, match="too long"):
        explain([Path("x" * 300)])


def test_rows_of_ones_own_that_are_no_file(tmp_path: Path) -> None:
    (tmp_path / "findings").mkdir()
    for make in (_pipe, _device, _loop):
        make(tmp_path / "findings" / f"{make.__name__}.toml")
    os.mkfifo(tmp_path / "findings.toml")
    assert load(tmp_path).by_id


@pytest.mark.parametrize("nested", ["a = " + "[" * 10_000, "a = " + "{a = " * 10_000])
def test_tables_that_are_nested_without_end(tmp_path: Path, nested: str) -> None:
    for name in ("firstlight.toml", "findings.toml"):
        (tmp_path / name).write_text(f"[[row]]\n{nested}\n")
    with pytest.raises(ConfigError, match="nested too deep"):
        load_config(tmp_path / "firstlight.toml")
    assert "nested too deep" in " ".join(load(tmp_path).problems)


@pytest.mark.parametrize("make", KINDS)
def test_an_audit_log_that_is_none(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "audit.jsonl")
    with pytest.raises(OSError, match=r"it is a|symbolic links|No such device"):
        read_audit(tmp_path / "audit.jsonl")


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_a_result_that_is_nested_without_end(opening: bytes) -> None:
    with pytest.raises(BadResult, match="cut short or is not JSON"):
        read_result(opening * 100_000)
