"""The history: what is kept comes back, two processes do no harm, a bad file gives one sentence."""

from __future__ import annotations

import math
import multiprocessing
import os
import sqlite3
import stat
import threading
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.watch.test_pieces import ANY_FLOAT, SEEN
from watch.forecast import LoadSoFar, forecast
from watch.history import MIGRATIONS, Benchmark, History, HistoryError, Key, LoadRecord, default_path, load_key
from watch.pieces import PhaseSeen, Point

KEY = Key(target="gpu-1", unit="vllm.service", model="/models/kimi", arguments="0123456789ab")
PHASES = (
    PhaseSeen("config", 110.0, 130.0),
    PhaseSeen("weights", 140.0, 900.0, tuple(Point(150.0 + n, n, 700, float(n)) for n in range(701))),
    PhaseSeen("api-start", 1000.0, 1010.0),
)


def record(invocation: str = "a1", **changes: object) -> LoadRecord:
    made = LoadRecord(
        key=KEY,
        invocation=invocation,
        started=100.0,
        first_line=110.0,
        ended=1010.0,
        outcome="ready",
        phases=PHASES,
        compile_cache_warm=True,
        versions={"vllm": "0.25.1"},
    )
    return msgspec.structs.replace(made, **changes)


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History.open(tmp_path / "state" / "history.sqlite")


def test_the_file_is_for_its_owner_alone(history: History) -> None:
    history.record_load(record())
    assert stat.S_IMODE(history.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(history.path.parent.stat().st_mode) == 0o700
    for beside in history.path.parent.iterdir():
        assert not stat.S_IMODE(beside.stat().st_mode) & 0o077
    assert default_path().name == "history.sqlite"


def test_only_a_file_is_made_private(tmp_path: Path) -> None:
    """Whatever stands or is linked where the history should be keeps its mode, and there is no history."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o666)
    pipe.chmod(0o666)
    path = tmp_path / "history.sqlite"
    path.symlink_to(pipe)
    with pytest.raises(HistoryError, match="no regular file"):
        History.open(path)
    assert stat.S_IMODE(pipe.stat().st_mode) == 0o666


@pytest.mark.parametrize(("kept", "asked"), [("vllm", "vllm.service"), ("vllm.service", "vllm")])
def test_a_unit_is_the_same_with_and_without_its_suffix(history: History, kept: str, asked: str) -> None:
    """systemctl takes both; what was kept under one name is found, replaced and compared under the other."""
    revision = history.keep_revision("gpu-1", kept, "[Service]", 100.0)
    load = record(revision=revision, key=msgspec.structs.replace(KEY, unit=kept))
    assert history.record_load(load) == history.record_load(
        msgspec.structs.replace(load, key=msgspec.structs.replace(KEY, unit=asked))
    )
    assert history.keep_revision("gpu-1", asked, "[Service]", 200.0) == revision
    assert len(history.loads("gpu-1", asked)) == len(history.latest()) == 1
    assert history.earlier(msgspec.structs.replace(KEY, unit=asked))
    assert [found.id for found in history.revisions("gpu-1", asked)] == [revision]
    assert history.known_good("gpu-1", asked) is not None
    given = {"target": "gpu-1", "at": 1.0, "preset": "quick", "result": {}}
    first = history.record_benchmark(Benchmark(unit=kept, run="a", **given))  # type: ignore[arg-type]
    second = history.record_benchmark(Benchmark(unit=asked, run="b", **given))  # type: ignore[arg-type]
    assert history.record_benchmark(Benchmark(unit=asked, run="a", **given)) == first  # type: ignore[arg-type]
    history.set_baseline(first)
    history.set_baseline(second)
    assert [found.run for found in history.benchmarks("gpu-1", asked) if found.baseline] == ["b"]
    for name in (kept, asked):
        baseline = history.baseline("gpu-1", name)
        assert baseline is not None
        assert baseline.id == second
    assert history.loads("gpu-1", "vllm.socket") == ()


def test_a_load_comes_back_thinned_and_makes_a_forecast(history: History) -> None:
    history.record_load(record())
    (earlier,) = history.earlier(KEY)
    assert (earlier.started, earlier.first_line, earlier.ready) == (100.0, 110.0, 1010.0)
    weights = earlier.phases[1]
    assert len(weights.points) <= 12
    assert (weights.points[0].done, weights.points[-1].done) == (0, 700)
    made = forecast(LoadSoFar(started=5000.0, now=5001.0, earlier=(earlier,)))
    assert made is not None
    assert made.low < 5910 < made.high


def test_recording_again_changes_nothing_and_adds_nothing(history: History) -> None:
    first = history.record_load(record(outcome="loading", ended=0.0, phases=PHASES[:1]))
    assert history.earlier(KEY) == ()
    assert history.record_load(record()) == first
    before = history.loads("gpu-1", "vllm.service")
    assert history.record_load(record()) == first
    assert history.loads("gpu-1", "vllm.service") == before
    assert len(before) == 1


def test_a_load_that_was_ready_stays_ready(history: History) -> None:
    history.record_load(record())
    history.record_load(record(outcome="failed", ended=9000.0, cause="oom", phases=PHASES[:1]))
    history.record_load(record(outcome="loading", ended=0.0, phases=()))
    (kept,) = history.loads("gpu-1", "vllm.service")
    assert (kept.outcome, kept.ended, kept.cause, len(kept.phases)) == ("ready", 1010.0, "", 3)
    assert kept.seconds == 910.0


def test_who_came_late_does_not_spoil_what_was_seen_whole(history: History) -> None:
    history.record_load(record())
    history.record_load(record(started=800.0, first_line=805.0, phases=PHASES[2:]))
    (kept,) = history.loads("gpu-1", "vllm.service")
    assert (kept.started, kept.first_line, len(kept.phases)) == (100.0, 110.0, 3)
    history.record_load(record("b2", started=2800.0, first_line=2805.0, ended=3000.0, phases=PHASES[2:]))
    history.record_load(record("b2", started=2100.0, first_line=2110.0, ended=3010.0))
    newest = history.loads("gpu-1", "vllm.service")[0]
    assert (newest.started, newest.first_line, len(newest.phases)) == (2100.0, 2110.0, 3)


def test_earlier_loads_are_those_of_the_key_most_recent_first(history: History) -> None:
    for number in range(4):
        shift = 10_000.0 * number
        history.record_load(record(f"i{number}", started=100 + shift, first_line=110 + shift, ended=1010 + shift))
    history.record_load(record("other", key=msgspec.structs.replace(KEY, arguments="ffffffffffff"), started=90_000.0))
    history.record_load(record("failed", outcome="failed", started=50_000.0, ended=50_100.0))
    assert [load.started for load in history.earlier(KEY)] == [30_100.0, 20_100.0, 10_100.0, 100.0]
    assert [load.started for load in history.earlier(KEY, before=20_100.0, limit=1)] == [10_100.0]


def test_without_systemd_the_start_names_the_load(history: History) -> None:
    assert history.record_load(record("")) == history.record_load(record("", cause="x"))
    assert history.record_load(record("", started=500.0)) != history.record_load(record(""))


def test_revisions_know_what_became_of_them(history: History) -> None:
    old = history.keep_revision("gpu-1", "vllm.service", "ExecStart=vllm serve a", 10.0)
    new = history.keep_revision("gpu-1", "vllm.service", "ExecStart=vllm serve b", 20.0)
    assert history.keep_revision("gpu-1", "vllm.service", "ExecStart=vllm serve a", 30.0) == old
    assert history.keep_revision("gpu-2", "vllm.service", "ExecStart=vllm serve a", 30.0) not in (old, new)
    history.record_load(record("one", revision=old))
    history.record_load(record("two", revision=new, outcome="failed", started=5000.0, ended=5100.0))
    assert [revision.id for revision in history.revisions("gpu-1", "vllm.service")] == [old, new]
    good, bad = history.revision(old), history.revision(new)
    assert good is not None
    assert bad is not None
    assert (good.known_good, good.load_seconds, good.last_outcome, good.loads) == (True, 910.0, "ready", 1)
    assert (bad.known_good, bad.load_seconds, bad.last_outcome) == (False, None, "failed")
    found = history.known_good("gpu-1", "vllm.service", before_revision=new)
    assert found is not None
    assert found.id == old
    assert history.known_good("gpu-1", "vllm.service", before_revision=old) is None
    assert history.revision(999) is None


def test_a_deployment_has_one_baseline(history: History) -> None:
    def result(run: str, at: float, **more: object) -> Benchmark:
        made = Benchmark(target="gpu-1", unit="vllm.service", at=at, run=run, preset="quick", result={"completed": 100})
        return msgspec.structs.replace(made, **more)

    first = history.record_benchmark(result("r1", 1.0, baseline=True))
    second = history.record_benchmark(result("r2", 2.0))
    elsewhere = history.record_benchmark(result("r3", 3.0, unit="other.service", baseline=True))
    assert [found.id for found in history.benchmarks("gpu-1", "vllm.service")] == [second, first]
    assert [found.id for found in history.benchmarks()] == [elsewhere, second, first]
    history.set_baseline(second)
    kept = history.baseline("gpu-1", "vllm.service")
    assert kept is not None
    assert kept.id == second
    assert history.record_benchmark(result("r2", 2.0, result={"completed": 7})) == second
    again = history.benchmark(second)
    assert again is not None
    assert (again.result, again.baseline) == ({"completed": 7}, True)
    assert history.baseline("gpu-1", "other.service") is not None
    with pytest.raises(KeyError):
        history.set_baseline(999)
    assert history.benchmark(999) is None


def _many(path: Path, who: int) -> None:
    for number in range(25):
        with History.open(path) as history:
            history.record_load(record(f"{who}-{number}", started=float(100 + number)))
            history.record_load(record("shared", started=float(50)))


def test_two_processes_write_at_once(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_many, args=(path, who)) for who in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    with History.open(path) as history:
        assert len(history.loads("gpu-1", "vllm.service", limit=100)) == 51


def test_threads_may_share_it(history: History) -> None:
    def write(who: int) -> None:
        for number in range(20):
            history.record_load(record(f"{who}-{number}"))

    threads = [threading.Thread(target=write, args=(who,)) for who in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(history.loads("gpu-1", "vllm.service", limit=100)) == 60


def test_a_damaged_file_gives_one_sentence_with_a_remedy(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    path.write_bytes(b"this is no database, however long it may be\n" * 200)
    with pytest.raises(HistoryError, match=r"damaged.*move it away"):
        History.open(path)


def test_a_file_damaged_later_does_not_raise_anything_else(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    with History.open(path) as history:
        for number in range(200):
            history.record_load(record(f"i{number}"))
    data = bytearray(path.read_bytes())
    data[4096 : len(data)] = b"\xff" * (len(data) - 4096)
    path.write_bytes(bytes(data))
    with pytest.raises(HistoryError, match="damaged"), History.open(path) as history:
        history.loads("gpu-1", "vllm.service")


def test_a_newer_file_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    History.open(path).close()
    database = sqlite3.connect(path)
    database.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    database.commit()
    database.close()
    with pytest.raises(HistoryError, match="newer firstlight"):
        History.open(path)


def test_an_older_file_is_brought_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    sqlite3.connect(path).close()
    with History.open(path) as history:
        assert history.loads("gpu-1", "vllm.service") == ()


def test_a_folder_that_cannot_be_made_gives_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HistoryError, match="cannot be written"):
        History.open(tmp_path / "file" / "history.sqlite")


def test_a_held_file_gives_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("watch.database.BUSY_SECONDS", 0.05)
    path = tmp_path / "history.sqlite"
    with History.open(path) as history:
        holder = sqlite3.connect(path, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(HistoryError, match="held by another"):
            history.record_load(record())
        holder.execute("ROLLBACK")
        holder.close()
        assert history.record_load(record()) > 0


def test_values_that_somebody_edited_are_taken_for_nothing(history: History) -> None:
    history.record_load(record())
    other = sqlite3.connect(history.path)
    other.execute("UPDATE loads SET phases = '{', versions = '[]'")
    other.commit()
    other.close()
    (kept,) = history.loads("gpu-1", "vllm.service")
    assert kept.phases == ()
    assert kept.versions == {}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(
    st.text(max_size=10),
    ANY_FLOAT,
    ANY_FLOAT,
    ANY_FLOAT,
    st.sampled_from(("ready", "failed", "stopped", "loading")),
    st.lists(SEEN, max_size=3).map(tuple),
)
def test_any_record_is_kept(
    history: History,
    invocation: str,
    started: float,
    first: float,
    ended: float,
    outcome: str,
    phases: tuple[PhaseSeen, ...],
) -> None:
    made = record(
        invocation, started=started, first_line=first, ended=ended, outcome=outcome, phases=phases, cause="\ud800"
    )
    assert history.record_load(made) == history.record_load(made)
    for load in history.loads("gpu-1", "vllm.service"):
        assert math.isfinite(load.started)
    for earlier in history.earlier(KEY):
        forecast(LoadSoFar(started=0.0, now=1.0, earlier=(earlier,)))


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ({"tensor_parallel_size": 8}, {"--tensor-parallel-size": "8"}, True),
        ({"tensor_parallel_size": 8}, {"-tp": "8"}, True),
        ({"tp_size": 8}, {"tp": "4"}, False),
        ({"enforce_eager": True}, {"--enforce-eager": ""}, True),
        ({"enforce_eager": False, "load_format": "auto"}, {}, True),
        ({"port": 8000, "gpu_memory_utilization": 0.9, "max_model_len": 1000}, {"port": 1}, True),
        (
            {"speculative_config": {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4}},
            {"speculative-config": '{"num_speculative_tokens": 3, "method": "ngram"}'},
            True,
        ),
        (
            {"speculative_config": {"method": "mtp", "num_speculative_tokens": 1}},
            {"spec_method": "mtp", "spec_tokens": "1"},
            True,
        ),
        ({"speculative_config.method": "mtp"}, {"speculative_config": '{"method": "mtp"}'}, True),
        ({"speculative_config": '{"method": "mtp"'}, {}, False),
        ({"speculative_config": {"method": "mtp"}}, {"speculative_config": {"method": "ngram"}}, False),
        ({"quantization": "fp8"}, {"quantization": None}, False),
        ({"max_num_seqs": 64.0}, {"max-num-seqs": "64"}, True),
    ],
)
def test_arguments_that_matter_make_the_key(one: dict[str, object], other: dict[str, object], alike: bool) -> None:
    keys = [load_key("gpu-1", "vllm.service", "/models/kimi", arguments) for arguments in (one, other)]
    assert (keys[0] == keys[1]) is alike


@given(
    st.dictionaries(
        st.text(max_size=12) | st.sampled_from(("-tp", "speculative_config")),
        st.recursive(
            st.none() | st.booleans() | st.text(max_size=12) | st.floats() | st.integers() | st.just("{" * 50),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
            max_leaves=6,
        ),
        max_size=5,
    )
)
def test_any_arguments_give_a_key(arguments: dict[str, object]) -> None:
    key = load_key("t", "u", "m", arguments)
    assert len(key.arguments) == 12
    assert key == load_key("t", "u", "m", dict(reversed(arguments.items())))
