"""Whether GPU memory is free: by hand-made pictures, and over the recorded releases of two H200."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from probes.readings import GpuDevice, GpuProcess
from watch.memory import holders, judge_memory, role

RECORDINGS = Path(__file__).parent.parent / "recordings" / "gpu-h200x2"
NOW = 1_790_000_000.0
MIB = 1 << 20


def gpus(*used: float) -> list[GpuDevice]:
    return [GpuDevice(index=index, used_mib=value, total_mib=143_771.0) for index, value in enumerate(used)]


def worker(pid: int, gpu: int, mib: float, **facts) -> GpuProcess:
    facts = {"name": "VLLM::Worker_TP0", "unit": "vllm.service", "user": "vllm", "started": NOW - 600, **facts}
    return GpuProcess(gpu=gpu, pid=pid, used_mib=mib, **facts)


def test_an_idle_gpu_is_free_whatever_the_driver_keeps():
    view = judge_memory(NOW, gpus(4.0, 615.0), (), [])
    assert view.state == "free"


def test_workers_of_the_last_run_are_named_with_all_that_an_operator_asks():
    found = holders([worker(4203, 0, 71_000.0), worker(4204, 1, 70_000.0)], "vllm", 0.0)
    view = judge_memory(NOW, gpus(71_000.0, 70_000.0), found, [(NOW - 5, 141_000.0), (NOW, 141_000.0)])
    assert view.state == "held"
    assert "Worker_TP0 (pid 4203, unit vllm.service, user vllm, 69.3 GiB, for 10 min) and 1 more" in view.text


def test_a_process_of_the_same_unit_from_before_this_load_is_a_leftover():
    old, new = worker(1, 0, 10.0, started=NOW - 600), worker(2, 0, 10.0, started=NOW - 20)
    by_pid = {holder.pid: holder for holder in holders([old, new], "vllm.service", NOW - 30)}
    assert (by_pid[1].ours, by_pid[2].ours) == (False, True)


def test_this_loads_own_memory_is_no_alarm():
    found = holders([worker(2, 0, 70_000.0, started=NOW - 20)], "vllm.service", NOW - 30)
    assert judge_memory(NOW, gpus(70_000.0), found, []).state == "ours"


def test_a_stranger_is_shown_by_its_program():
    found = holders([worker(7, 0, 60_000.0, name="/usr/bin/python3", unit="user@1000.service")], "vllm", NOW - 30)
    assert found[0].role == "python3"
    assert judge_memory(NOW, gpus(60_000.0), found, []).state == "held"


def test_unified_memory_is_not_called_free():
    assert judge_memory(NOW, [GpuDevice(index=0)], (), []).state == "unknown"


@pytest.mark.parametrize(
    ("title", "expected"),
    [("VLLM::Worker_TP3", "Worker_TP3"), ("VLLM::EngineCor", "EngineCor"), ("/opt/vllm/bin/python3", "python3")],
)
def test_roles(title, expected):
    assert role(title) == expected


def release(path: Path):
    """(seconds, MiB in use per GPU, pids per GPU) of one recorded release. NVML v1, less the reserved 615 MiB."""
    for line in path.read_text().splitlines():
        if line.strip():
            row = json.loads(line)
            yield row["dt"], [value / MIB - 615.06 for value in row["used"]], row["nvml_pids"]


def story(path: Path) -> list[tuple[float, str]]:
    """When the state changed, as a watcher sampling at 10 Hz would see it."""
    history: list[tuple[float, float]] = []
    states: list[tuple[float, str]] = []
    sampled = -1.0
    for seconds, used, pids in release(path):
        if seconds - sampled < 0.1:
            continue
        sampled = seconds
        history.append((NOW + seconds, sum(used)))
        found = [worker(pid, gpu, used[gpu]) for gpu, row in enumerate(pids) for pid in row]
        view = judge_memory(NOW + seconds, gpus(*used), holders(found, "vllm", 0.0), history)
        if not states or states[-1][1] != view.state:
            states.append((seconds, view.state))
    return states


def test_one_killed_worker_leaves_the_other_holding_until_vllm_kills_it():
    states = story(RECORDINGS / "b2-baseline-worker-killed" / "release.jsonl")
    assert states[0][1] == "held"
    assert "returning" in [state for _, state in states]
    assert states[-1][1] == "free"
    assert 9.0 < states[-1][0] < 9.6


def test_a_clean_stop_gives_all_back_within_half_a_second():
    states = story(RECORDINGS / "b1-ngram-cold-cache" / "release.jsonl")
    assert states[-1][1] == "free"
    assert states[-1][0] < 0.7


@pytest.mark.parametrize(
    ("name", "freed"), [("clean.40", 1.125), ("term.40", 0.5613), ("kill9.40", 0.5028), ("kill9.full", 0.242)]
)
def test_dying_processes_are_said_to_be_dying_until_the_driver_lets_go(name: str, freed: float):
    """``freed``: read from the raw file: when NVML first says that nothing is in use any more."""
    states: list[tuple[float, str, str]] = []
    history: list[tuple[float, float]] = []
    for row in map(json.loads, (RECORDINGS / "a-imitated-load" / f"release.{name}.jsonl").read_text().splitlines()):
        used = [value / MIB - 615.06 for value in row["used"]]
        history.append((NOW + row["dt"], sum(used)))
        found = [
            worker(pid, gpu, used[gpu], state=row["state"][gpu] or "")
            for gpu, pids in enumerate(row["nvml_pids"])
            for pid in pids
        ]
        view = judge_memory(NOW + row["dt"], gpus(*used), holders(found, "vllm", 0.0), history)
        if not states or states[-1][1] != view.state:
            states.append((row["dt"], view.state, view.text))
    assert (states[-1][0], states[-1][1]) == (freed, "free")
    lives = name == "clean.40"  # its second process has work to do before it ends
    assert states[0][1] == ("held" if lives else "returning")
    assert lives or "is dying and the driver has not let go yet" in states[0][2]
