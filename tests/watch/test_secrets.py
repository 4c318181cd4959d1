"""Secrets planted wherever a watch can meet one, and then looked for in every file that it leaves."""

from __future__ import annotations

import gzip
from pathlib import Path

import msgspec

from probes.readings import JournalLine, OperatorAction, Reading, UnitFile, UnitReading
from tests.watch.fed import ListFeed
from tests.watch.test_redact import HF, PLAIN, PLANTED, SK
from watch.audit import Audit
from watch.history import Benchmark, History
from watch.keeping import Keeper
from watch.ledger import Ledger
from watch.plan import plan
from watch.redact import Redactor
from watch.session import SessionReader, SessionWriter, new_header
from watch.session.shelf import remember, summary_of
from watch.state import WatchState
from watch.telling import gather, html, markdown
from watch.watching import Watching

OWN = "internal-0a1b2c3d"
"""What a pattern of the operator's own calls a secret."""

UNIT = "vllm.service"
TEXT = (
    f"# /etc/systemd/system/{UNIT}\n[Service]\nEnvironment=HF_TOKEN={PLAIN}\nExecStart=vllm serve /m --api-key {SK}\n"
)
SECRETS = (HF, SK, PLAIN, OWN)


def everything() -> list[Reading]:
    """Every kind of reading with secrets in it, around a load that the history keeps."""
    load = [
        UnitReading(at=1.0, unit=UNIT, load="loaded", active="active", invocation="a", started=1.0),
        UnitFile(at=1.0, unit=UNIT, text=TEXT, environment={"/etc/vllm.env": f"API_KEY={PLAIN}\nX={OWN}\n"}),
        JournalLine(at=2.0, text=f"(APIServer pid=1) INFO vLLM API server version 0.11 {OWN}", invocation="a", pid=1),
        JournalLine(
            at=2.0,
            text=f"(APIServer pid=1) INFO non-default args: {{'model': '/m', 'api_key': ['{PLAIN}']}}",
            invocation="a",
            pid=1,
        ),
        JournalLine(at=3.0, text=f"ValueError: the token {HF} is not valid; {OWN}", invocation="a", pid=1),
        JournalLine(at=4.0, text="(APIServer pid=1) INFO Application startup complete.", invocation="a", pid=1),
    ]
    own = [JournalLine(at=2.0, text=f"licence {OWN}"), OperatorAction(at=5.0, action="restart", detail=OWN, who=OWN)]
    return [*load, *PLANTED, *own]


async def test_no_file_that_a_watch_leaves_holds_a_secret(tmp_path: Path) -> None:
    """``before`` is left out: what stands there is what a roll-back writes back to the host, so it is exact; it never
    leaves this machine's state folder by itself, and only its owner can enter it."""
    redactor = Redactor([r"internal-[0-9a-f]{8}"])
    sessions = tmp_path / "sessions"
    writer = SessionWriter(new_header("ops@llm-two", UNIT, 1.0), where=sessions, redactor=redactor)
    with History.open(tmp_path / "history.sqlite") as history:
        state = WatchState("ops@llm-two", UNIT)
        ledger = Ledger(state, Keeper(history), redactor)
        watching = Watching(ListFeed([everything()]), state, writer, ledger=ledger)
        audit = Audit("ops@llm-two", tmp_path / "audit.jsonl", redactor)
        async for _ in watching.batches():
            pass
        for reading in everything():
            if isinstance(reading, OperatorAction):
                audit.write(msgspec.structs.replace(reading, outcome="done"))
        await watching.stop()
        path = writer.close()
        assert path is not None
        view = state.view(6.0)
        remember(path, summary_of(view, 1.0, 6.0))
        with SessionReader(path) as reader:
            tale = gather(reader, lambda: WatchState("ops@llm-two", UNIT), history)
        path.with_name("report.html").write_text(html(tale))
        path.with_name("report.md").write_text(markdown(tale))
        (revision,) = history.revisions("ops@llm-two", UNIT)
        assert revision.text == TEXT  # exact, for whoever rolls back
        assert revision.environment == {"/etc/vllm.env": "API_KEY=***\nX=***\n"}
        history.record_benchmark(
            redactor.clean(Benchmark(target="t", unit="u", at=1.0, run="r", preset="p", result={"api_key": PLAIN}))
        )

    before = tmp_path / "before"
    files = [one for one in tmp_path.rglob("*") if one.is_file() and before not in one.parents]
    assert {one.name for one in files} >= {"history.sqlite", "audit.jsonl", "report.html", ".summaries.json", path.name}
    for one in files:
        data = one.read_bytes()
        data = gzip.decompress(data) if one.suffix == ".gz" else data
        for secret in SECRETS:
            assert secret.encode() not in data, f"{secret} in {one.name}"
        assert one.stat().st_mode & 0o077 == 0 or one.name.startswith("report"), one
    exact = list(before.rglob("*.txt"))
    assert len(exact) == 1
    assert exact[0].stat().st_mode & 0o077 == 0
    assert exact[0].parent.stat().st_mode & 0o077 == 0


def test_without_its_exact_text_a_revision_is_not_rolled_back_to(tmp_path: Path) -> None:
    from probes.operate.orders import File, UnitFiles

    with History.open(tmp_path / "history.sqlite") as history:
        history.keep_revision("t", UNIT, TEXT, 1.0, redacted=Redactor().text(TEXT))
        (revision,) = history.revisions("t", UNIT)
        assert revision.text == TEXT
        for one in (tmp_path / "before").rglob("*.txt"):
            one.unlink()
        (revision,) = history.revisions("t", UNIT)
    assert PLAIN not in revision.text
    where = f"/etc/systemd/system/{UNIT}"
    now = UnitFiles(unit=UNIT, files=(File(where, "[Service]\nExecStart=vllm serve /n\n"),), load="loaded")
    refused = plan(now, [File(where, revision.text)]).refused
    assert "***" in refused or "secret" in refused


def test_a_text_without_secrets_needs_no_file_of_its_own(tmp_path: Path) -> None:
    text = "[Service]\nExecStart=vllm serve /m\n"
    with History.open(tmp_path / "history.sqlite") as history:
        history.keep_revision("t", UNIT, text, 1.0, redacted=Redactor().text(text))
    assert not (tmp_path / "before").exists()
