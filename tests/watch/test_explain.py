"""``explain``: every case and recording read right, and what is printed about it."""

from __future__ import annotations

import gzip
import importlib.util
import itertools
import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watch.explain import CannotExplain, explain, render_text, report_json
from watch.report import Report
from watch.words import PHASES, SEVERITIES

TESTS = Path(__file__).parents[1]
CASES, RECORDINGS = TESTS / "cases", TESTS / "recordings"

spec = importlib.util.spec_from_file_location("cases_run", CASES / "run.py")
assert spec is not None
assert spec.loader is not None
run = importlib.util.module_from_spec(spec)
sys.modules["cases_run"] = run
spec.loader.exec_module(run)


def ids(report: Report) -> list[str]:
    return [finding.id for finding in report.findings]


def main(report: Report) -> str:
    found = run.first(report)
    return found.id if found is not None else ""


# --------------------------------------------------------------------------------------------------- cases, recordings


def test_evidence_is_broken_between_words_only() -> None:
    """A path or a name is copied out of it whole."""
    report = explain([RECORDINGS / "cpu-fail-missing-shard"])
    quoted = [line.removeprefix("    │ ") for line in render_text(report, width=60).splitlines() if "│" in line]
    known = {word for finding in report.findings for text in finding.evidence for word in text.split()}
    assert quoted
    assert {word for line in quoted for word in line.split()} - {"…"} <= known


def test_the_state_is_said_once() -> None:
    text = render_text(explain([CASES / "C76-clean-load-kimi-tp8"]))
    assert text.splitlines()[0].startswith("✔ READY   ")
    assert text.splitlines()[1] == ""


@pytest.mark.parametrize("folder", run.folders([CASES, TESTS / "cases-own"]), ids=lambda folder: folder.name)
def test_a_case_reads_right(folder: Path) -> None:
    assert run.check(folder).wrong == []


def test_the_table_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = tmp_path / "C99-other"
    case.mkdir()
    source = CASES / "C03-spec-json-unquoted"
    (case / "input.journal.jsonl").write_bytes((source / "input.journal.jsonl").read_bytes())
    text = (source / "expect.md").read_text().replace("phase: config", "phase: weights").replace("jsonl:3", "jsonl:2")
    (case / "expect.md").write_text(text)
    assert run.main([str(tmp_path)]) == 1
    printed = capsys.readouterr().out
    assert "WRONG: phase config, not weights; not named: input.journal.jsonl:2" in printed
    assert "0 of 1 right" in printed
    assert run.main([str(source)]) == 0


@pytest.mark.parametrize(
    ("name", "state", "phase", "cause"),
    [
        ("cpu-baseline", "stopped", "stopping", ""),
        ("cpu-baseline-cold", "stopped", "stopping", ""),
        ("cpu-ngram", "stopped", "stopping", ""),
        ("cpu-moe", "stopped", "stopping", ""),
        ("cpu-tp2", "stopped", "stopping", ""),
        ("cpu-eager-pty", "stopped", "stopping", ""),
        ("cpu-eager-two-pipes", "stopped", "stopping", ""),
        ("cpu-journal-live", "stopped", "stopping", ""),
        ("cpu-fail-missing-shard", "failed", "weights", "weights-missing"),
        ("cpu-fail-model-path", "failed", "config", "model-path"),
        ("cpu-fail-port-in-use", "failed", "config", "port-in-use"),
        ("cpu-fail-spec-json", "failed", "config", "json-argument"),
        ("cpu-fail-spec-method", "failed", "config", "speculative-config"),
        ("cpu-fail-tp2-one-numa-node", "failed", "dist-init", "numa-binding"),
        ("cpu-fail-truncated-shard", "failed", "weights", "weights-truncated"),
        ("cpu-fail-unknown-flag", "failed", "config", "unknown-argument"),
        ("cpu-kill9-engine-during-load", "failed", "weights", "engine-core-failed"),
        ("cpu-kill9-worker-during-load", "failed", "weights", "worker-failed"),
        ("cpu-kill9-worker-after-ready", "failed", "ready", "worker-died"),
        ("cpu-sigterm-group-during-load", "stopped", "weights", ""),
        ("cpu-sigterm-main-during-load", "stopped", "stopping", ""),
        ("cpu-sigterm-twice-during-load", "stopped", "api-start", ""),
        ("cpu-sigterm-inflight", "stopped", "stopping", ""),
        ("cpu-bench-server-killed", "failed", "serving", "worker-died"),
        ("gpu-h200x2/b1-ngram-cold-cache", "stopped", "stopping", ""),
        ("gpu-h200x2/b2-baseline-worker-killed", "failed", "serving", "worker-died"),
        ("gpu-h200x2/b3-memory-taken", "failed", "dist-init", "memory-taken"),
        ("host-systemd-ngram", "stopped", "stopping", ""),
    ],
)
def test_a_recording_reads_right(name: str, state: str, phase: str, cause: str) -> None:
    report = explain([RECORDINGS / name])
    assert (report.state, report.phase) == (state, phase)
    assert len(report.view.loads) == 1
    if cause:
        assert main(report) == cause
        assert report.severity == "fatal"
    else:
        assert report.severity in ("info", "warning")


def test_the_benchmark_that_found_nobody() -> None:
    report = explain([RECORDINGS / "cpu-bench-refused"])
    assert (report.state, report.phase, report.severity, main(report)) == ("unknown", "n/a", "error", "bench-refused")
    assert "bench-failed-requests" in ids(report)


def test_requests_that_failed_though_the_exit_status_was_0() -> None:
    report = explain([RECORDINGS / "cpu-bench-wrong-model"])
    assert main(report) == "bench-failed-requests"
    assert "Not Found" in report.findings[0].cause


def test_the_unit_beside_its_journal_names_the_exec_line() -> None:
    report = explain([RECORDINGS / "host-systemd-ngram"])
    found = next(finding for finding in report.findings if finding.id == "unset-variable")
    assert "unit.service.txt:7" in found.lines
    assert "ExecStartPre" in found.cause
    assert "integer expression expected" in found.cause


def test_who_holds_the_memory_is_named() -> None:
    report = explain([RECORDINGS / "gpu-h200x2/b3-memory-taken"])
    assert "pid 3850" in report.findings[0].cause


# ------------------------------------------------------------------------------------------------------- what is given


def test_several_files_and_folders_at_once() -> None:
    case = CASES / "C21-follow-dies-on-rotation"
    files = sorted(case.glob("input.*"))
    for order in (files, files[::-1], [case]):
        report = explain(order)
        assert report.view.load is not None
        assert report.view.load.progress is not None
        assert report.view.load.progress.done == 19
        assert len(report.view.loads) == 1


def test_a_log_in_two_forms_is_read_once() -> None:
    folder = RECORDINGS / "host-systemd-ngram"
    report = explain([folder / "journal.short.gz", folder / "journal.export.gz"])
    assert len(report.view.loads) == 1
    assert any("same lines" in note for note in report.notes)
    again = explain([folder / "journal.json.gz", folder / "journal.export.gz"])
    assert again.view.lines == explain([folder / "journal.export.gz"]).view.lines


def test_two_days_of_one_server_are_two_logs(tmp_path: Path) -> None:
    text = (RECORDINGS / "gpu-h200x2/b1-ngram-cold-cache/server.raw.txt").read_text()
    (tmp_path / "monday.log").write_text(text.replace("11-30 ", "11-23 "))
    (tmp_path / "yesterday.log").write_text(text)
    assert len(explain([tmp_path]).view.loads) == 2


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (bytes(range(256)) * 100, "binary data"),
        (b"Dear diary,\nnothing happened today.\n", "none of the 2 lines"),
        (b"# Notes\n\n- buy milk\n", "none of the"),
    ],
)
def test_foreign_files_are_one_sentence(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "given.txt"
    path.write_bytes(content)
    with pytest.raises(CannotExplain, match=said) as raised:
        explain([path])
    assert "given.txt" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CannotExplain, match="No such file"):
        explain([tmp_path / "missing.log"])
    with pytest.raises(CannotExplain, match="no files"):
        explain([tmp_path])


def test_a_file_that_cannot_be_read_among_others_is_a_note(tmp_path: Path) -> None:
    case = CASES / "C03-spec-json-unquoted/input.journal.jsonl"
    (tmp_path / "input.journal.jsonl").write_bytes(case.read_bytes())
    (tmp_path / "core.bin").write_bytes(bytes(range(256)) * 100)
    report = explain([tmp_path])
    assert report.state == "failed"
    assert any("core.bin" in note for note in report.notes)


def test_an_operators_broken_row_is_a_note(tmp_path: Path) -> None:
    from watch import catalogue

    (tmp_path / "findings.toml").write_text('[[row]]\nid = "x"\n')
    report = explain([CASES / "C03-spec-json-unquoted"], catalogue=catalogue.load(tmp_path))
    assert any("findings.toml:1" in note for note in report.notes)


# -------------------------------------------------------------------------------------------------------- at a moment


def test_at_a_moment_nothing_later_is_known() -> None:
    case = CASES / "C76-clean-load-kimi-tp8"
    seen = []
    for at in (0.0, 60.0, 300.0, 700.0, 740.0, 10000.0):
        report = explain([case], at=at)
        assert report.view.load is not None
        assert report.view.now <= report.view.load.started + max(at, 800.0)
        seen.append(report.phase)
    assert seen == sorted(seen, key=PHASES.index)
    assert (seen[2], seen[-1]) == ("weights", "ready")
    middle = explain([case], at=300.0)
    assert middle.state == "loading"
    assert middle.view.forecast is not None
    assert "clean-load" not in ids(middle)


def test_at_counts_from_the_last_load() -> None:
    report = explain([CASES / "C22-two-loads-one-journal"], at=30.0)
    assert report.view.load is not None
    assert report.view.load.number == 2
    assert report.view.load.phase == "dist-init"


def test_at_without_a_load_is_refused() -> None:
    with pytest.raises(CannotExplain, match="no load"):
        explain([CASES / "C52-gb10-memory-na"], at=5.0)


# ------------------------------------------------------------------------------------------------------------- output


@pytest.mark.parametrize("folder", run.folders([CASES, TESTS / "cases-own"]), ids=lambda folder: folder.name)
def test_the_object(folder: Path) -> None:
    report = explain([folder])
    data = report_json(report)
    assert data.endswith(b"\n")
    shown = json.loads(data)
    assert {"state", "phase", "severity", "loads", "findings"} <= set(shown)
    assert shown["severity"] in SEVERITIES
    assert shown["phase"] in PHASES
    ranks = [SEVERITIES.index(one["severity"]) for one in shown["findings"] if one["load"] in (0, len(shown["loads"]))]
    assert ranks == sorted(ranks, reverse=True)
    for finding in shown["findings"]:
        assert {"id", "kind", "severity", "lines", "evidence", "cause", "advice"} <= set(finding)
        assert "…" not in finding["cause"].replace(" … ", ""), "a value was missing"
    for load in shown["loads"]:
        assert {"invocation", "started", "state", "phases"} <= set(load)
        for before, after in itertools.pairwise(load["phases"]):
            assert before["started"] <= after["started"]
            assert {"name", "started"} <= set(before)


@pytest.mark.parametrize("folder", run.folders([CASES, TESTS / "cases-own"]), ids=lambda folder: folder.name)
@pytest.mark.parametrize("width", [60, 110])
def test_the_text_is_safe_and_fits(folder: Path, width: int) -> None:
    text = render_text(explain([folder]), width=width)
    assert all(char.isprintable() or char == "\n" for char in text)
    assert "\x1b" not in text
    for line in text.splitlines():
        if not line.lstrip().startswith(("▶", "✔", "✖ weights", "·")) or "Load" in line:
            word = line.removeprefix("    │ ") if line.startswith("    │ ") else " "
            assert len(line) <= max(width, 110) or " " not in word, line


def test_the_text_begins_with_the_verdict_and_the_cause() -> None:
    body = render_text(explain([CASES / "C74-root-cause-far-above"]), width=100)
    first, *_ = body.splitlines()
    assert first.startswith("✖ FAILED  weights  11/64 shards")
    assert "vllm.service" in first
    assert body.index("fatal: Reading from storage failed") < body.index("input.journal.jsonl:45")
    assert body.index("Why:") < body.index("Do:") < body.index("Load: began") < body.index("Also seen")
    assert "(only follows)" in body


def test_colour_is_only_there_when_asked_for() -> None:
    report = explain([CASES / "C74-root-cause-far-above"])
    assert "\x1b[1;31m" in render_text(report, colour=True)


HOSTILE = st.text(alphabet=st.characters(codec="utf-8"), max_size=60)


@given(HOSTILE)
def test_what_a_server_prints_is_shown_and_never_obeyed(text: str) -> None:
    import tempfile

    evil = f"ValueError: {text}\x1b]0;owned\x07\x1b[2J\x9b31m"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "server.log")
        path.write_bytes(
            b"(APIServer pid=1) INFO 11-30 01:02:03 [utils.py:299] vLLM server version 0.19.1, serving model /m\n"
            b"Traceback (most recent call last):\n" + evil.replace("\n", " ").encode("utf-8", "replace") + b"\n"
        )
        report = explain([path])
        shown = render_text(report, colour=False)
        assert all(char.isprintable() or char == "\n" for char in shown)
        json.loads(report_json(report))


def test_explain_of_a_packed_session_and_of_its_export_agree(tmp_path: Path) -> None:
    source = RECORDINGS / "host-systemd-ngram/journal.export.gz"
    plain = tmp_path / "journal.export"
    plain.write_bytes(gzip.decompress(source.read_bytes()))
    assert explain([plain]).view.loads == explain([source]).view.loads


# ---------------------------------------------------------------------------------------------------- another service


def test_what_another_service_says_is_not_about_this_one() -> None:
    folder = TESTS / "cases-own" / "D24-two-units-interleaved"
    report = explain([folder / "input.journal.jsonl"])
    assert report.state == "loading"
    assert "port-in-use" not in ids(report)


def test_an_ended_units_workers_on_the_gpus(tmp_path: Path) -> None:
    def read(name: str, active: str) -> Report:
        (tmp_path / "input.compute-apps.csv").write_text(
            f"pid, process_name, used_gpu_memory [MiB]\n4203, {name}, 88214 MiB\n"
        )
        (tmp_path / "input.meta.json").write_text(json.dumps({"unit_active_state": active, "sub_state": "x"}))
        return explain([tmp_path])

    assert "leftover-orphans" in ids(read("VLLM::Worker_TP0", "inactive"))
    assert "leftover-orphans" in ids(read("VLLM::EngineCore", "failed"))
    assert "leftover-orphans" not in ids(read("VLLM::Worker_TP0", "active"))
    assert "leftover-orphans" not in ids(read("Xorg", "inactive"))


def test_figures_that_were_not_asked_for_are_not_missing(tmp_path: Path) -> None:
    csv = tmp_path / "gpu.csv"
    csv.write_text(
        "index, name, temperature.gpu, clocks_event_reasons.hw_thermal_slowdown\n0, NVIDIA H100, 92, Active\n"
    )
    assert ids(explain([csv])) == ["gpu-throttled"]
    csv.write_text("index, name, memory.used [MiB], temperature.gpu\n0, NVIDIA GB10, [N/A], 40\n")
    assert ids(explain([csv])) == ["unified-memory"]


# ---------------------------------------------------------------------------------------- several units, cut pages


def record(at: float, unit: str, text: str, pid: int = 5) -> str:
    return json.dumps(
        {
            "__CURSOR": f"s=1;i={at}{unit}",
            "__REALTIME_TIMESTAMP": str(int((1_789_895_520 + at) * 1e6)),
            "_TRANSPORT": "stdout",
            "_PID": str(pid),
            "_SYSTEMD_UNIT": unit,
            "_SYSTEMD_INVOCATION_ID": (unit * 32)[:32].replace(".", "0"),
            "MESSAGE": text,
        }
    )


def started(at: float, unit: str) -> str:
    fields = {"_TRANSPORT": "journal", "_PID": "1", "SYSLOG_IDENTIFIER": "systemd", "UNIT": unit}
    fields |= {"__REALTIME_TIMESTAMP": str(int((1_789_895_520 + at) * 1e6)), "__CURSOR": f"s=1;i=s{at}{unit}"}
    fields["INVOCATION_ID"] = (unit * 32)[:32].replace(".", "0")
    return json.dumps({**fields, "_SYSTEMD_UNIT": "init.scope", "MESSAGE": f"Started {unit} - something."})


HEAD = "INFO 09-20 09:12:09 [x.py:1] "
SERVER = [HEAD + "vLLM server version 0.19.1, serving model /models/m", HEAD + "Starting to load model /models/m..."]


def test_of_a_journal_of_everything_the_model_server_is_read(tmp_path: Path) -> None:
    path = tmp_path / "all.jsonl"
    web = [record(n, "nginx.service", '10.0.0.1 - "GET / HTTP/1.1" 200', 9) for n in range(2, 40)]
    text = [started(0, "nginx.service"), *web, started(41, "vllm.service")]
    path.write_text("\n".join([*text, *(record(50 + n, "vllm.service", line) for n, line in enumerate(SERVER))]) + "\n")
    report = explain([path])
    assert (report.state, report.phase, report.view.unit) == ("loading", "weights", "vllm.service")
    assert not report.notes


def test_of_two_model_servers_the_one_with_more_to_say_or_the_one_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "two.jsonl"
    small = [record(1, "embed.service", SERVER[0], 9), record(2, "embed.service", HEAD + "Address already in use", 9)]
    text = [started(0, "embed.service"), *small, started(3, "llm.service")]
    more = [*SERVER, HEAD + "Using FLASH_ATTN attention backend", HEAD + "Loading weights took 3.00 seconds"]
    path.write_text("\n".join([*text, *(record(5 + n, "llm.service", line) for n, line in enumerate(more))]) + "\n")
    report = explain([path])
    assert report.view.unit == "llm.service"
    assert any("embed.service" in note and "--unit" in note for note in report.notes)
    assert explain([path], unit="embed").view.phase in ("process-start", "config")
    (tmp_path / "moment.meta.json").write_text('{"command": "journalctl", "exit_code": 0, "unit": "embed.service"}')
    assert explain([tmp_path]).view.unit == "embed.service"
    with pytest.raises(CannotExplain, match=r"embed\.service, llm\.service"):
        explain([path], unit="other")


def test_a_page_that_breaks_off_is_said_to_be_cut(tmp_path: Path) -> None:
    path = tmp_path / "metrics.txt"
    counts = "".join(f'vllm:num_requests_running{{engine="{n}"}} 3.0\n' for n in range(4))
    whole = counts + 'vllm:kv_cache_usage_perc{engine="0"} 0.25\n'
    path.write_text(whole)
    assert "page-cut" not in ids(explain([path]))
    for cut in (whole[:-1], whole[:-3], whole[:-20]):
        path.write_text(cut)
        report = explain([path])
        assert ids(report)[0] == "page-cut"
        assert "metrics.txt:5" in report.findings[0].lines
        assert report.state == "ready"
        assert not any("KV cache" in f.cause for f in report.findings if f.id == "metrics-figures")


def test_a_folder_of_folders_names_them(tmp_path: Path) -> None:
    for name in ("b-second", "a-first"):
        (tmp_path / name).mkdir()
    with pytest.raises(CannotExplain, match=r"only folders: a-first, b-second\. .*explain .*a-first"):
        explain([tmp_path])
