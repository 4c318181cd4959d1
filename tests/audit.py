"""``make audit``: what is installed is what the lock pins, unchanged and without known holes.

Of known holes pip-audit asks PyPI, and OSV where PyPI does not answer. Where neither can be asked, that is said and is
no failure; a hole, another version than the lock's, or a changed file is one.
"""

from __future__ import annotations

import argparse
import base64
import csv
import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

from packaging.markers import Marker
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "requirements-dev.lock"
"""The widest of them: what it pins holds for the others too (tests/test_setup.py)."""
PIP_AUDIT = ROOT / ".venv/audit/bin/pip-audit"
SERVICES = {"pypi": "PyPI", "osv": "OSV"}
LIMIT = 180.0
"""Seconds that a service may take for all packages."""


class Unasked(Exception):
    """Why a service said nothing, as the end of a sentence."""


def pins(lock: str) -> dict[str, str]:
    """Package to version, of those whose marker holds here."""
    found = re.findall(r"^([A-Za-z0-9._-]+)==(\S+)(?: ; (.+?))?(?: --hash| \\?$)", lock, re.M)
    return {
        canonicalize_name(name): version for name, version, marker in found if not marker or Marker(marker).evaluate()
    }


def differing(pinned: dict[str, str], installed: Iterable[Distribution]) -> list[str]:
    """Where what is installed is not what is pinned, each as a sentence."""
    there: dict[str, str] = {canonicalize_name(one.name): one.version for one in installed}
    return [
        f"{name} {there[name]} is installed, the lock says {version}" if name in there else f"{name} is not installed"
        for name, version in pinned.items()
        if there.get(name) != version
    ]


def changed(dist: Distribution) -> Iterator[str]:
    """Files of it that are gone or not those that were installed, by the hashes of its RECORD."""
    for path, digest, _ in csv.reader((dist.read_text("RECORD") or "").splitlines()):
        if digest.startswith("sha256="):
            file = Path(str(dist.locate_file(path)))
            wanted = base64.urlsafe_b64decode(digest.removeprefix("sha256=") + "=")
            if not file.is_file() or hashlib.sha256(file.read_bytes()).digest() != wanted:
                yield f"{dist.name}: {path} is not the file that was installed"


def ask(service: str, lock: Path, osv: str = "") -> list[dict[str, Any]]:
    """What a service says of each package: ``name``, ``version``, ``vulns``, or ``skip_reason``. Raises Unasked."""
    if not PIP_AUDIT.exists():
        raise Unasked("pip could not install pip-audit")
    command = [str(PIP_AUDIT), "--vulnerability-service", service, "--format", "json", "--progress-spinner", "off"]
    command += ["--disable-pip", "--require-hashes", "--requirement", str(lock), *(["--osv-url", osv] if osv else [])]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
        said: list[dict[str, Any]] = json.loads(done.stdout)["dependencies"]
    except subprocess.TimeoutExpired:
        raise Unasked(f"it took longer than {LIMIT:g} s") from None
    except (ValueError, LookupError):
        why = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise Unasked(why if len(why) < 100 else "it cannot be reached") from None
    if all("skip_reason" in one for one in said):
        raise Unasked("what answers there knows none of the packages")
    return said


def verdict(said: list[dict[str, Any]]) -> tuple[list[str], int]:
    """The holes, each as a line; how many packages the service does not know."""
    holes = [
        f"{one['name']} {one['version']}: {hole['id']}, mended in {', '.join(hole['fix_versions']) or 'no version yet'}"
        for one in said
        for hole in one.get("vulns", ())
    ]
    return holes, sum("skip_reason" in one for one in said)


def audit(services: Iterable[str], lock: Path = LOCK, osv: str = "") -> tuple[bool, str]:
    """Whether no hole is known, as far as somebody could be asked, and what is to be said of it."""
    unasked = []
    for service in services:
        try:
            said = ask(service, lock, osv)
        except Unasked as reason:
            unasked.append(f"{SERVICES[service]}: {reason}")
            continue
        holes, unknown = verdict(said)
        if holes:
            return False, "\n".join(holes)
        left = f"; of {unknown} more it knows nothing" if unknown else ""
        return True, f"no known hole in {len(said) - unknown} packages, by {SERVICES[service]}{left}"
    return True, f"known holes left out: nobody could be asked ({'; '.join(unasked)})"


def main() -> int:
    asked = argparse.ArgumentParser(prog="audit")
    asked.add_argument("--ask", choices=list(SERVICES), action="append", help="of known holes; else all in turn")
    args = asked.parse_args()
    pinned = pins(LOCK.read_text())
    installed = [one for one in distributions() if canonicalize_name(one.name) in pinned]
    wrong = differing(pinned, installed)
    for dist in installed:
        wrong += changed(dist)
    if not wrong:
        print(f"audit: {len(installed)} packages are those of the lock, and their files as they were installed")
    good, said = audit(args.ask or SERVICES)
    print(f"audit: {said}")
    for one in wrong:
        print(f"audit: {one}", file=sys.stderr)
    if wrong:
        print("audit: make clean, then the target again, installs all anew", file=sys.stderr)
    return int(bool(wrong) or not good)


if __name__ == "__main__":
    sys.exit(main())
