"""What bounds a load, over recorded loads and for each kind of bound by itself."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from probes.readings import IoReading, ProcessIo
from watch.bound import is_network, judge_bound

RECORDINGS = Path(__file__).parent.parent / "recordings" / "gpu-h200x2"


def readings(folder: str) -> list[IoReading]:
    """The host's own counters of one recorded load, once a second; ``at`` is the recording's clock."""
    out = []
    with gzip.open(RECORDINGS / folder / "host.jsonl.gz", "rt") as lines:
        for line in lines:
            row = json.loads(line)
            out.append(
                IoReading(
                    at=row["t"],
                    read_bytes=row["disk"]["vda"]["rd_sect"] * 512,
                    processes=tuple(
                        ProcessIo(pid=p["pid"], name=p["comm"], cpu_seconds=p["cpu_s"], state=p["state"])
                        for p in row["server_procs"]
                    ),
                    model_mount="ext4",
                )
            )
    return out


def at(found: list[IoReading], second: float, span: float = 6.0) -> list[IoReading]:
    return [reading for reading in found if second - span <= reading.at <= second]


def test_a_cold_load_from_a_local_disk_is_bound_by_the_disk_at_its_ceiling():
    bound = judge_bound(at(readings("b1-ngram-cold-cache"), 97), "weights", ceiling=1.6e9)
    assert bound.by == "disk"
    assert "at its own ceiling: 1," in bound.text
    assert bound.rate is not None
    assert 1.2e9 < bound.rate < 1.6e9


def test_the_compile_after_it_is_bound_by_one_thread_in_each_worker():
    bound = judge_bound(at(readings("b1-ngram-cold-cache"), 122), "compile", ceiling=1.6e9)
    assert (bound.by, bound.text) == ("cpu", "one thread's CPU in each of: Worker_TP and 1 more")


def test_a_warm_load_reads_nothing_from_the_disk():
    bound = judge_bound(at(readings("b2-baseline-worker-killed"), 44), "weights")
    assert bound.by in ("cache", "cpu")
    assert bound.rate is not None
    assert bound.rate < 8e6


def window(*, read: float = 0.0, cpus: tuple[float, ...] = (), states: str = "S", mount: str = "ext4"):
    """Two seconds of a load: bytes a second read, cores of each worker."""
    return [
        IoReading(
            at=100.0 + second,
            read_bytes=int(read * second),
            model_mount=mount,
            processes=tuple(
                ProcessIo(pid=10 + n, name=f"VLLM::Worker_TP{n}", cpu_seconds=cores * second, state=states)
                for n, cores in enumerate(cpus)
            ),
        )
        for second in range(3)
    ]


def test_a_network_mount_is_named_by_its_type():
    bound = judge_bound(window(read=290e6, cpus=(0.3,), mount="nfs4"), "weights", ceiling=300e6)
    assert (bound.by, bound.text) == ("network", "the network mount (nfs4), at its own ceiling: 290 MB/s")
    slower = judge_bound(window(read=90e6, cpus=(0.3,), mount="nfs4"), "weights", ceiling=300e6)
    assert slower.text == "the network mount (nfs4): 90 MB/s, the most it has given is 300"


def test_a_mount_whose_bytes_nobody_counts_is_not_called_a_page_cache():
    bound = judge_bound(window(cpus=(0.3, 0.3), mount="fuse.s3fs"), "weights")
    assert bound.by == "network"
    assert "fuse.s3fs, whose bytes the kernel does not count" in bound.text
    assert "page cache, nothing" in judge_bound(window(cpus=(0.3, 0.3), mount="ext4"), "weights").text


def test_a_worker_is_called_by_the_name_that_others_know_it_by():
    known = {12: "Worker_TP2"}
    bound = judge_bound(window(cpus=(0.01, 0.02, 1.0, 0.0)), "weights", names=lambda pid: known.get(pid, ""))
    assert bound.text.startswith("waiting for one rank: Worker_TP2")


def test_one_busy_rank_that_the_others_wait_for_is_named():
    bound = judge_bound(window(cpus=(0.01, 0.02, 1.0, 0.0)), "weights")
    assert bound.by == "rank"
    assert "Worker_TP2" in bound.text


def test_a_busy_thread_below_the_disks_ceiling_is_the_bound():
    bound = judge_bound(window(read=400e6, cpus=(1.0, 1.0)), "weights", ceiling=1.6e9)
    assert bound.by == "cpu"


def test_busy_gpus_while_nothing_is_read_are_a_copy():
    assert judge_bound(window(cpus=(1.0, 1.0)), "weights", gpu=60).by == "gpu"


def test_silence_of_everything_is_said():
    assert judge_bound(window(cpus=(0.0, 0.0)), "weights").by == "nothing"


def test_without_figures_nothing_is_claimed():
    assert judge_bound([IoReading(at=1.0), IoReading(at=2.0)], "weights").by == "unknown"
    assert judge_bound([], "weights").by == "unknown"


def test_mounts_on_other_machines():
    assert [m for m in ("nfs4", "fuse.s3fs", "ext4", "xfs", "lustre", "overlay") if is_network(m)] == [
        "nfs4", "fuse.s3fs", "lustre",
    ]  # fmt: skip
