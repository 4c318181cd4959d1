"""The real host and what stands on it. Where it cannot run, its tests are skipped with the reason; with
FIRSTLIGHT_REQUIRE_HOST=1, as in CI, a skipped one has failed."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from pathlib import Path

import pytest

from tests.host.machine import KEY, CannotBoot, Machine, obstacle
from tests.host.proxy import Proxy
from tests.host.service import Service, fresh_name

HERE = Path(__file__).parent
REQUIRED = os.environ.get("FIRSTLIGHT_REQUIRE_HOST") == "1"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.host)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    vllm_left_out = item.get_closest_marker("vllm") and os.environ.get("FIRSTLIGHT_VLLM") != "1"
    if REQUIRED and report.skipped and not vllm_left_out:
        report.outcome = "failed"
        report.longrepr = f"must run here, and was skipped: {report.longrepr}"
    return report


@pytest.fixture(scope="session")
def boot() -> Iterator[Callable[..., Machine]]:
    """Boots one more host, powered off at the end of the run: for tests that harm theirs."""
    booted: list[Machine] = []

    def one(name: str = "llm-three", binds: tuple[Path, ...] = (), journal: Path | None = None) -> Machine:
        if reason := obstacle():
            pytest.skip(reason)
        machine = Machine(name, binds, journal)
        try:
            machine.boot()
        except CannotBoot as error:
            pytest.skip(str(error))
        booted.append(machine)
        return machine

    yield one
    for machine in booted:
        machine.power_off()


@pytest.fixture(scope="session")
def machine(boot: Callable[..., Machine]) -> Machine:
    """The host of the run, named ``llm-two``."""
    return boot("llm-two")


class Keyring:
    """The operator's own .ssh, made for one test: known_hosts, the key, and the names in its config."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.folder = home / ".ssh"
        self.folder.mkdir(mode=0o700)
        self.config = self.folder / "config"
        self.known_hosts = self.folder / "known_hosts"
        self.config.touch()
        self.known_hosts.touch()

    def add(self, alias: str, port: int, host_key: str, user: str = "root") -> str:
        """Make ``alias`` reach 127.0.0.1:``port``, where this host key is expected; the alias."""
        with self.config.open("a") as config:
            config.write(
                f"Host {alias}\n  HostName 127.0.0.1\n  Port {port}\n  User {user}\n"
                f"  IdentityFile {KEY}\n  IdentitiesOnly yes\n"
            )
        if host_key:
            with self.known_hosts.open("a") as known:
                known.write(f"[127.0.0.1]:{port} {host_key}\n")
        return alias

    def files(self) -> list[Path]:
        """Every file in the operator's home."""
        return [path for path in self.home.rglob("*") if path.is_file()]


@pytest.fixture
def keyring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Keyring:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    return Keyring(home)


@pytest.fixture
def target(machine: Machine, keyring: Keyring) -> str:
    """The host as an operator names it: an alias of ssh_config."""
    return keyring.add(machine.name, machine.port, machine.host_key)


@pytest.fixture
async def proxy(machine: Machine, keyring: Keyring) -> AsyncIterator[Proxy]:
    """A way to the host that can be made worse; the alias ``far`` goes through it."""
    async with Proxy(machine.port) as proxy:
        keyring.add("far", proxy.port, machine.host_key)
        yield proxy


@pytest.fixture
async def service(machine: Machine) -> AsyncIterator[Service]:
    """A unit of a name of its own, stopped at the end."""
    service = Service(machine, fresh_name())
    yield service
    await machine.do("systemctl", "stop", service.name, check=False)
    await machine.do("systemctl", "reset-failed", service.name, check=False)
