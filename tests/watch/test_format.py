"""The format of session files: read back for ever, and by other tools."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from probes.readings import AnyReading
from watch.session import FORMAT, SessionReader
from watch.state import WatchState

TESTS = Path(__file__).parent.parent
ROOT = TESTS.parent
DATA = TESTS / "data"

KINDS = {1: 14}
"""How many kinds of readings a file of each version has: all there were."""


def needs(tool: str) -> str:
    found = shutil.which(tool)
    if found is None:
        pytest.skip(f"no {tool} here: apt-get install {tool}")
    return found


def test_a_file_of_every_version_is_kept() -> None:
    assert {int(path.name.removeprefix("session-v").split(".")[0]) for path in DATA.glob("session-v*")} == set(
        range(1, FORMAT + 1)
    )


@pytest.mark.parametrize("version", range(1, FORMAT + 1))
def test_a_file_of_every_version_is_read_back_whole(version: int) -> None:
    path = DATA / f"session-v{version}.jsonl.gz"
    lines = gzip.decompress(path.read_bytes()).splitlines()
    with SessionReader(path) as reader:
        readings = [reading for _, reading in reader]
        assert reader.notes() == []
        assert len(readings) == len(lines) - 1
        assert reader.header.firstlight == version
        assert (reader.header.target, reader.header.unit) == ("llm-two", "vllm-tiny-ngram.service")
        assert len({type(reading) for reading in readings}) == KINDS[version]
    state = WatchState("llm-two", "vllm-tiny-ngram.service")
    for reading in readings:
        state.apply(reading)
    view = state.view(readings[-1].at)
    assert (view.engine, view.version, view.state) == ("vLLM", "0.32.0", "stopped")
    assert [note.text for note in view.notes] == ["handed over to the night shift"]
    assert view.gpu is not None
    assert any(finding.id == "unset-variable" for finding in view.findings)


def test_every_kind_is_documented() -> None:
    text = (ROOT / "docs/session-format.md").read_text()
    for kind in AnyReading.__args__:
        tag = str(kind.__struct_config__.tag)
        assert f"| `{tag}` |" in text or tag == "backlog", tag


def test_a_later_version_is_said_and_read(tmp_path: Path) -> None:
    later = tmp_path / "later.jsonl"
    head, *rest = gzip.decompress((DATA / "session-v1.jsonl.gz").read_bytes()).splitlines()
    changed = {**json.loads(head), "firstlight": FORMAT + 1, "version": "9.9"}
    more = b'{"kind":"of-tomorrow","at":1796007659.0,"what":[1,2]}'
    later.write_bytes(b"\n".join([json.dumps(changed).encode(), more, *rest]) + b"\n")
    with SessionReader(later) as reader:
        assert len(list(reader)) == len(rest)
        notes = " ".join(reader.notes())
    assert f"by firstlight 9.9 in format {FORMAT + 1}, newer than" in notes
    assert "1 reading of a kind not known here is left out" in notes


def test_zgrep_and_jq_read_it() -> None:
    path = DATA / "session-v1.jsonl.gz"
    found = subprocess.run([needs("zgrep"), "-c", '"kind":"note"', str(path)], capture_output=True, text=True)
    assert found.stdout.strip() == "1"
    jq = needs("jq")
    text = gzip.decompress(path.read_bytes())
    done = subprocess.run([jq, "-r", 'select(.kind == "note") | .text'], input=text, capture_output=True, check=True)
    assert done.stdout.decode().strip() == "handed over to the night shift"


def test_it_opens_in_lnav(tmp_path: Path) -> None:
    lnav = needs("lnav")
    home = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "TERM": "dumb", "TZ": "UTC"}
    installed = subprocess.run(
        [lnav, "-i", str(ROOT / "docs/lnav/firstlight.json")], env=home, capture_output=True, text=True, timeout=60
    )
    assert installed.returncode == 0, installed.stderr
    query = ";SELECT kind, count(*) AS n FROM firstlight_session WHERE kind IS NOT NULL GROUP BY kind"
    done = subprocess.run(
        [lnav, "-n", "-c", query, "-c", ":write-json-to -", str(DATA / "session-v1.jsonl.gz")],
        env=home,
        capture_output=True,
        text=True,
        timeout=60,
    )
    counts = {row["kind"]: row["n"] for row in json.loads(done.stdout)}
    with SessionReader(DATA / "session-v1.jsonl.gz") as reader:
        kinds = [str(type(reading).__struct_config__.tag) for _, reading in reader]
    assert counts == {kind: kinds.count(kind) for kind in set(kinds)}
    shown = subprocess.run(
        [lnav, "-n", str(DATA / "session-v1.jsonl.gz")], env=home, capture_output=True, text=True, timeout=60
    )
    assert "2026-11-30T03:00:59.732 journal   Starting vllm-tiny-ngram.service" in shown.stdout
