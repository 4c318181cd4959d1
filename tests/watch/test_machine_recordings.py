"""What the panes say of the recorded loads at given seconds, against figures read by hand from the raw files."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from probes.readings import (
    GpuDevice,
    GpuProcess,
    GpuProcesses,
    GpuReading,
    IoReading,
    JournalLine,
    MountIo,
    ProcessIo,
    Reading,
)
from tests.watch.feeds import RECORDINGS, recording
from watch.state import WatchState
from watch.view import GpuView, IoView, View

GPU = RECORDINGS / "gpu-h200x2"
MIB = 2**20


def rows(path: Path) -> list[dict]:  # type: ignore[type-arg]
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [json.loads(line) for line in raw.splitlines()]


def gpus(folder: Path, epoch: float) -> list[Reading]:
    """The recorded NVML samples, as the agent would give them, with the processes it saw."""
    out: list[Reading] = []
    for row in rows(folder / "nvml.jsonl.gz"):
        if "gpus" not in row:
            continue
        at = epoch + row["t"]
        out.append(
            GpuReading(
                at=at,
                source="nvml",
                devices=tuple(
                    GpuDevice(
                        index=index,
                        used_mib=gpu["m2"]["used"] / MIB,
                        total_mib=gpu["m2"]["total"] / MIB,
                        utilization=gpu["util"]["gpu"],
                        power=gpu["power_mw"] / 1000,
                        throttle=gpu["reasons"],
                    )
                    for index, gpu in enumerate(row["gpus"])
                ),
            )
        )
        held = [
            GpuProcess(
                gpu=index,
                pid=one["pid"] if isinstance(one, dict) else one[0],
                used_mib=(one["used"] if isinstance(one, dict) else one[1] or 0) / MIB,
            )
            for index, gpu in enumerate(row["gpus"])
            for one in gpu["procs"]
        ]
        out.append(GpuProcesses(at=at, processes=tuple(held)))
    return out


def machine(folder: Path, epoch: float) -> list[Reading]:
    return [
        IoReading(
            at=epoch + row["t"],
            read_bytes=sum(disk["rd_sect"] for disk in row["disk"].values()) * 512,
            devices=tuple(MountIo(device=name, read_bytes=disk["rd_sect"] * 512) for name, disk in row["disk"].items()),
            page_cache=row["mem_kb"]["Cached"] * 1024,
            mem_total=row["mem_kb"]["MemTotal"] * 1024,
            mem_available=row["mem_kb"]["MemAvailable"] * 1024,
            cpu_seconds=sum(one["cpu_s"] for one in row.get("server_procs", ())),
            processes=tuple(
                ProcessIo(pid=one["pid"], name=one["comm"], cpu_seconds=one["cpu_s"], state=one["state"])
                for one in row.get("server_procs", ())
            ),
        )
        for row in rows(folder / "host.jsonl.gz")
    ]


def looked_at(name: str, *seconds: float) -> dict[float, View]:
    """The picture of a recorded load at these seconds of its own clock."""
    folder = GPU / name
    epoch = rows(folder / "events.jsonl")[0]["epoch"]
    lines: list[JournalLine] = recording(f"gpu-h200x2/{name}")[1]
    feed: list[Reading] = sorted(
        [*lines, *gpus(folder, epoch), *machine(folder, epoch)], key=lambda reading: reading.at
    )
    state = WatchState("llm-two", "vllm")
    moments = sorted(seconds)
    views: dict[float, View] = {}
    for reading in feed:
        while moments and reading.at > epoch + moments[0]:
            views[moments[0]] = state.view(epoch + moments[0])
            moments.pop(0)
        state.apply(reading)
    return views


def gpu_at(views: dict[float, View], second: float) -> GpuView:
    gpu = views[second].gpu
    assert gpu is not None
    return gpu


def io_at(views: dict[float, View], second: float) -> IoView:
    io = views[second].io
    assert io is not None
    return io


def raw_used(name: str, second: float) -> list[float]:
    """MiB on each GPU by the last sample before a second, straight from the file."""
    last = [row for row in rows(GPU / name / "nvml.jsonl.gz") if "gpus" in row and row["t"] <= second][-1]
    return [gpu["m2"]["used"] / MIB for gpu in last["gpus"]]


def raw_host(name: str, second: float) -> dict:  # type: ignore[type-arg]
    return [row for row in rows(GPU / name / "host.jsonl.gz") if row["t"] <= second][-1]


B1, B2, B3 = "b1-ngram-cold-cache", "b2-baseline-worker-killed", "b3-memory-taken"


@pytest.mark.parametrize(("name", "seconds"), [(B1, (20.0, 90.0, 180.0)), (B2, (10.0, 42.0, 120.0))])
def test_memory_is_that_of_the_raw_file(name: str, seconds: tuple[float, ...]) -> None:
    views = looked_at(name, *seconds)
    for second in seconds:
        shown = [device.used_mib for device in gpu_at(views, second).devices]
        assert shown == pytest.approx(raw_used(name, second))


def test_the_warm_load_goes_through_the_same_picture_and_reads_nothing_from_disk() -> None:
    """README: weights 36.4 to 46.5 s without a disk read, 30.06 GiB a GPU in one step; compile to 92.9 s."""
    views = looked_at(B2, 10.0, 42.0, 70.0, 125.0)
    assert gpu_at(views, 10.0).step.startswith("free: 0.0 GiB in use on 2 GPUs")
    assert gpu_at(views, 42.0).step.startswith("weights allocated in one step: 30.1 GiB a GPU of about 28.0 expected")
    assert gpu_at(views, 125.0).step.startswith("weights and KV cache allocated: 12")
    assert (io_at(views, 42.0).read_rate or 0.0) < 8e6
    assert "page cache" in io_at(views, 42.0).bound
    assert "CPU" in io_at(views, 70.0).bound, "torch.compile: one core in each worker"


def test_rates_and_bytes_are_those_between_two_raw_samples() -> None:
    views = looked_at(B1, 90.0)
    io = io_at(views, 90.0)
    new, old = raw_host(B1, 90.0), raw_host(B1, 80.5)
    sectors = sum(new["disk"][name]["rd_sect"] - old["disk"][name]["rd_sect"] for name in new["disk"])
    by_hand = sectors * 512 / (new["t"] - old["t"])
    assert io.read_rate == pytest.approx(by_hand, rel=0.05)
    assert io.devices[0][0] == max(
        new["disk"], key=lambda name: new["disk"][name]["rd_sect"] - old["disk"][name]["rd_sect"]
    )
    assert io.last.page_cache == new["mem_kb"]["Cached"] * 1024
    burnt = {one["pid"]: one["cpu_s"] for one in old["server_procs"]}
    for worker in io.workers:
        now = next(one["cpu_s"] for one in new["server_procs"] if one["pid"] == worker.pid)
        assert worker.cores == pytest.approx((now - burnt[worker.pid]) / (new["t"] - old["t"]), abs=0.05)
    comms = [one["comm"] for one in new["server_procs"] if one["pid"] in {worker.pid for worker in io.workers}]
    assert comms.count("VLLM::Worker_TP") == 2, "the kernel cuts off the rank"
    assert {worker.name for worker in io.workers[:2]} == {"Worker_TP0", "Worker 1"}, "as their own lines call them"


def test_memory_that_another_process_holds_is_said_before_the_start_fails() -> None:
    """README: another process holds 60 GiB a GPU, so that 77.29 of 139.8 GiB are free."""
    views = looked_at(B3, 12.0)
    gpu = gpu_at(views, 12.0)
    assert gpu.memory is not None
    assert gpu.memory.state == "held"
    by_hand = sum(raw_used(B3, 12.0)) / 1024
    assert f"held: {by_hand:.1f} GiB by " in gpu.step
    assert 120 < by_hand < 126
    pids = {one["pid"] if isinstance(one, dict) else one[0] for one in _procs(B3, 12.0)}
    assert {holder.pid for holder in gpu.memory.holders} == pids


def _procs(name: str, second: float) -> list:  # type: ignore[type-arg]
    last = [row for row in rows(GPU / name / "nvml.jsonl.gz") if "gpus" in row and row["t"] <= second][-1]
    return [one for gpu in last["gpus"] for one in gpu["procs"]]
