"""What is installed is held against the lock, and a known hole ends the audit: asked of a stand-in for OSV."""

from __future__ import annotations

import base64
import hashlib
import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import Distribution, PathDistribution
from pathlib import Path
from typing import Any

import pytest

from tests.audit import LOCK, PIP_AUDIT, Unasked, ask, audit, changed, differing, pins, verdict

HASH = "--hash=sha256:" + "0" * 64
TWO = f"""alpha==1.0 \\
    {HASH}
beta==2.0 ; python_version >= '3' \\
    {HASH}
    # via alpha
gamma==3.0 ; sys_platform == 'nowhere' \\
    {HASH}
"""


def package(folder: Path, name: str, version: str, **files: str) -> Distribution:
    """Installed in ``folder``, as pip does it."""
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    rows = [f"{info.name}/RECORD,,"]
    for path, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
        (folder / f"{path}.py").write_text(text)
        rows.append(f"{path}.py,sha256={digest},{len(text)}")
    (info / "RECORD").write_text("\n".join(rows) + "\n")
    return PathDistribution(info)


def test_pins_are_those_that_hold_here() -> None:
    assert pins(TWO) == {"alpha": "1.0", "beta": "2.0"}
    everything = pins(LOCK.read_text())
    assert {"textual", "pytest", "textual-serve"} <= everything.keys()
    assert ("colorama" in everything) == (sys.platform == "win32")


def test_another_version_and_a_missing_package_are_told(tmp_path: Path) -> None:
    alpha, other = package(tmp_path, "Alpha", "1.1"), package(tmp_path, "other", "9")
    assert differing(pins(TWO), [alpha, other]) == [
        "alpha 1.1 is installed, the lock says 1.0",
        "beta is not installed",
    ]
    assert differing({"alpha": "1.1"}, [alpha, other]) == []


def test_a_changed_and_a_missing_file_are_told(tmp_path: Path) -> None:
    dist = package(tmp_path, "alpha", "1.0", one="a = 1\n", two="b = 2\n", three="c = 3\n")
    assert list(changed(dist)) == []
    (tmp_path / "one.py").write_text("a = 9\n")
    (tmp_path / "two.py").unlink()
    assert list(changed(dist)) == [f"alpha: {name}.py is not the file that was installed" for name in ("one", "two")]


def test_what_a_service_does_not_know_is_counted() -> None:
    said: list[dict[str, Any]] = [
        {"name": "alpha", "version": "1.0", "vulns": [{"id": "PYSEC-1", "fix_versions": ["1.1", "2.0"]}]},
        {"name": "beta", "version": "2.0", "vulns": []},
        {"name": "gamma", "skip_reason": "not found"},
    ]
    assert verdict(said) == (["alpha 1.0: PYSEC-1, mended in 1.1, 2.0"], 1)


@pytest.fixture
def osv() -> Iterator[str]:
    """A stand-in for OSV: it knows of one hole, in beta 2.0."""
    hole = {
        "id": "PYSEC-2026-1",
        "summary": "words",
        "affected": [
            {
                "package": {"name": "beta", "ecosystem": "PyPI"},
                "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "2.1"}]}],
                "versions": ["2.0"],
            }
        ],
    }

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            found = asked["package"]["name"] == "beta" and asked["version"] == "2.0"
            body = json.dumps({"vulns": [hole]} if found else {}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1/query"
        server.shutdown()
        thread.join()


@pytest.mark.skipif(not PIP_AUDIT.exists(), reason="pip-audit is not installed: make audit")
def test_a_known_hole_ends_it_and_none_does_not(tmp_path: Path, osv: str) -> None:
    lock = tmp_path / "requirements.lock"
    lock.write_text(TWO)
    assert audit(["osv"], lock, osv) == (False, "beta 2.0: PYSEC-2026-1, mended in 2.1")
    lock.write_text(TWO.replace("beta==2.0", "beta==2.1"))
    good, said = audit(["osv"], lock, osv)
    assert good
    assert said == "no known hole in 2 packages, by OSV"


@pytest.mark.skipif(not PIP_AUDIT.exists(), reason="pip-audit is not installed: make audit")
def test_nobody_to_ask_is_said_and_fails_nothing(tmp_path: Path) -> None:
    lock = tmp_path / "requirements.lock"
    lock.write_text(TWO)
    nobody = "http://127.0.0.1:9/v1/query"
    with pytest.raises(Unasked):
        ask("osv", lock, nobody)
    good, said = audit(["osv"], lock, nobody)
    assert good
    assert said.startswith("known holes left out: nobody could be asked (OSV: ")
