"""The lock files: complete, hashed, and silent about where packages come from."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
GROUPS = PROJECT["dependency-groups"]
WEB = PROJECT["project"]["optional-dependencies"]["web"]
WANTED = {
    "requirements.lock": PROJECT["project"]["dependencies"] + GROUPS["build"],
    "requirements-web.lock": PROJECT["project"]["dependencies"] + GROUPS["build"] + WEB,
    "requirements-dev.lock": PROJECT["project"]["dependencies"] + GROUPS["build"] + GROUPS["dev"] + WEB,
}
LOCKS = pytest.mark.parametrize("name", list(WANTED))


def pins(name: str) -> dict[str, str]:
    """Package to version."""
    return dict(re.findall(r"^([a-z0-9-]+)==(\S+) ", (ROOT / name).read_text(), re.M))


@LOCKS
def test_every_requirement_is_pinned_within_its_bounds(name: str) -> None:
    pinned = pins(name)
    for text in WANTED[name]:
        wanted = Requirement(text)
        assert wanted.name.lower() in pinned, f"{text}: make lock"
        assert wanted.specifier.contains(pinned[wanted.name.lower()]), f"{text}: make lock"


@LOCKS
def test_every_pin_has_hashes(name: str) -> None:
    entries = re.split(r"^(?=\S)", (ROOT / name).read_text(), flags=re.M)[1:]
    assert entries
    assert [entry.split()[0] for entry in entries if "--hash=sha256:" not in entry] == []


@LOCKS
def test_no_index_host_and_no_path_is_named(name: str) -> None:
    text = (ROOT / name).read_text()
    assert re.findall(r"://|--(?:extra-)?index-url|--find-links|--trusted-host|\s/\w+/", text) == []


def test_both_pin_the_same_versions() -> None:
    runtime, development = pins("requirements.lock"), pins("requirements-dev.lock")
    assert runtime.items() <= development.items()


def test_the_build_backend_of_the_lock_is_the_one_that_builds() -> None:
    backend = {Requirement(text).name for text in PROJECT["build-system"]["requires"]}
    assert backend <= {Requirement(text).name for text in GROUPS["build"]}
