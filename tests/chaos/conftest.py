"""Faults on the real host: how many of them, and with which seed.

FIRSTLIGHT_CHAOS_ROUNDS (1: the short form) and FIRSTLIGHT_CHAOS_SEED say so; ``make chaos`` sets them. A failed test
names its seed, and with the same one the same faults come in the same order with the same pauses.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.chaos import footprint
from tests.chaos.account import Account
from tests.host.conftest import (
    Keyring,
    boot,
    keyring,
    machine,
    proxy,
    pytest_runtest_makereport,
    service,
    target,
)
from tests.host.machine import Machine
from tests.host.service import Service

__all__ = ["boot", "keyring", "machine", "proxy", "pytest_runtest_makereport", "service", "target"]

HERE = Path(__file__).parent
ROUNDS = int(os.environ.get("FIRSTLIGHT_CHAOS_ROUNDS", "1"))
SEED = int(os.environ.get("FIRSTLIGHT_CHAOS_SEED", "1"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.host)
            item.add_marker(pytest.mark.chaos)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", range(SEED, SEED + ROUNDS))


@pytest.fixture
def chance(request: pytest.FixtureRequest, seed: int) -> random.Random:
    """What is random in this test: the same for the same seed, whatever else runs."""
    name: Callable[[], str] | str = request.node.originalname
    return random.Random(f"{seed} {name}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if footprint.SEEN:
        terminalreporter.section("memory and open files before the faults, and what was more of them after")
        for line in footprint.SEEN:
            terminalreporter.write_line(line)


@pytest.fixture
async def account(machine: Machine, service: Service) -> Account:
    """What the host says of itself, begun before anything of ours is on it."""
    return await Account(machine, service).begin()


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config) -> None:
    """A folder of the test's own for whatever is temporary, its name short: sockets lie in it."""
    folder = tempfile.mkdtemp(prefix="fl-")
    monkeypatch.setenv("TMPDIR", folder)
    monkeypatch.setattr(tempfile, "tempdir", folder)
    pytestconfig.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))  # after hosts that were booted in it


@pytest.fixture
def small_disk(keyring: Keyring) -> Iterator[Path]:
    """The state folder on a disk of 100 KB."""
    state = keyring.home / ".local/state/firstlight"
    state.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=104k,mode=700", "tmpfs", str(state)], check=True)
    yield state
    subprocess.run(["umount", "--lazy", str(state)], check=True)
