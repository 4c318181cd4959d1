"""A library that the loader does not know is not searched for with a compiler."""

from __future__ import annotations

import ctypes.util
import subprocess
import sys
from pathlib import Path

import pytest

from probes.libraries import CACHE, known_libraries


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What ctypes itself was asked for."""
    names: list[str] = []
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    monkeypatch.setattr(ctypes.util, "find_library", lambda name: names.append(name) or f"lib{name}.so.1")
    return names


def test_what_the_loader_knows_is_found_as_ever_and_nothing_else_is_searched(asked: list[str], tmp_path: Path) -> None:
    cache = tmp_path / "ld.so.cache"
    cache.write_bytes(b"glibc-ld.so.cache1.1\0libnettle.so.8\0/lib/libnettle.so.8\0")
    with known_libraries(cache):
        found = [ctypes.util.find_library(name) for name in ("nettle", "oqs", "nett", "libnettle")]
    assert found == ["libnettle.so.1", None, None, None]
    assert asked == ["nettle"]
    assert ctypes.util.find_library("oqs") == "liboqs.so.1"


def test_where_the_loader_has_no_cache_or_looks_elsewhere_too_nothing_changes(
    asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with known_libraries(tmp_path / "none"):
        ctypes.util.find_library("oqs")
    (tmp_path / "cache").write_bytes(b"libc.so.6\0")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/lib")
    with known_libraries(tmp_path / "cache"):
        ctypes.util.find_library("oqs")
    assert asked == ["oqs", "oqs"]


@pytest.mark.skipif(not CACHE.exists(), reason="needs glibc's cache of libraries")
def test_a_host_over_ssh_is_opened_without_a_compiler() -> None:
    script = """
import sys
ran = []
sys.addaudithook(lambda event, args: ran.append(args[0]) if event == "subprocess.Popen" else None)
from probes.hosts import open_host
open_host("llm-two")
print("asyncssh" in sys.modules, {*ran} <= {"/sbin/ldconfig"})
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True"]
