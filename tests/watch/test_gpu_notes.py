"""What stands out about single GPUs: clocks, memory errors, links, one behind the others."""

from __future__ import annotations

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.readings import GpuDevice, GpuProcess
from tests.watch.feeds import RECORDINGS
from watch.gpu_notes import behind, notes, reasons, table, unseen
from watch.memory import holders


def test_each_bit_of_the_table_is_one_bit_and_stands_once() -> None:
    bits = [reason.bit for reason in table()]
    assert len(bits) == len(set(bits))
    assert all(bit > 0 and bit & (bit - 1) == 0 for bit in bits)


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        (None, []),
        (0, []),
        (0x1, []),
        (0x4, ["at its power limit"]),
        (0x8 | 0x40, ["hardware slowdown (heat or power)", "too hot, by the hardware's own limit"]),
        (0x1 | 0x80, ["power brake from outside (power supply)"]),
        (0x400, ["a reason that only the driver knows (0x400)"]),
    ],
)
def test_masks_in_words(mask: int | None, words: list[str]) -> None:
    assert [reason.words for reason in reasons(mask)] == words


@given(st.integers(-(2**63), 2**64))
def test_any_mask_is_survived(mask: int) -> None:
    assert all(reason.words for reason in reasons(mask))


def test_a_link_with_half_its_lanes_is_named_and_a_sleeping_one_is_not() -> None:
    narrow = GpuDevice(index=3, pcie_width=8, pcie_width_max=16, pcie_gen=5, pcie_gen_max=5)
    asleep = GpuDevice(index=4, pcie_width=16, pcie_width_max=16, pcie_gen=1, pcie_gen_max=5, pstate="P8")
    slow = GpuDevice(index=5, pcie_width=16, pcie_width_max=16, pcie_gen=3, pcie_gen_max=5, pstate="P0", utilization=95)
    found = notes([narrow, asleep, slow])
    assert [(note.gpu, note.kind) for note in found] == [(3, "link"), (5, "link")]
    assert "x8 of x16" in found[0].text
    assert "generation 3 of 5" in found[1].text


def test_uncorrectable_errors_are_errors_and_no_answer_is_none() -> None:
    broken = GpuDevice(index=2, ecc_uncorrected=1)
    (note,) = notes([GpuDevice(index=0, ecc_uncorrected=0), GpuDevice(index=1), broken])
    assert (note.gpu, note.severity, note.text) == (
        2,
        "error",
        "1 uncorrectable memory error since the driver was loaded",
    )


def test_the_recorded_burst_was_at_its_power_limit() -> None:
    """Counted in the raw file: 107 of 2,732 samples have the mask 4, the highest at 701 of 700 W."""
    raw = gzip.decompress((RECORDINGS / "gpu-h200x2/a-imitated-load/nvml.jsonl.gz").read_bytes())
    capped = []
    for entry in map(json.loads, raw.splitlines()):
        for index, sample in enumerate(entry.get("gpus", ())):
            device = GpuDevice(index=index, power=sample["power_mw"] / 1000, throttle=sample["reasons"])
            capped += [device.power for note in notes([device]) if note.text == "at its power limit"]
    assert len(capped) == 107
    assert max(power or 0.0 for power in capped) == pytest.approx(701.065)


def gpu(index: int, used: float) -> GpuDevice:
    return GpuDevice(index=index, used_mib=used * 1024, total_mib=96 * 1024)


def worker(index: int, used: float, unit: str = "vllm.service") -> GpuProcess:
    return GpuProcess(
        gpu=index, pid=100 + index, name=f"VLLM::Worker_TP{index}", used_mib=used * 1024, unit=unit, started=50.0
    )


def test_a_rank_that_is_behind_is_named_by_its_role() -> None:
    devices = [gpu(index, 0.6 if index == 3 else 71.0) for index in range(8)]
    found = holders([worker(index, devices[index].used_mib or 0) for index in range(8)], "vllm", 40.0)
    (note,) = behind(devices, found, 8)
    assert (note.gpu, note.text) == (3, "behind the others (Worker_TP3): 0.6 GiB where they hold 71.0")


def test_gpus_that_the_load_does_not_use_are_not_behind() -> None:
    devices = [gpu(index, 71.0 if index < 4 else 0.0) for index in range(8)]
    found = holders([worker(index, 71.0) for index in range(4)], "vllm", 40.0)
    assert behind(devices, found, 4) == ()
    assert behind(devices, (), 4) == (), "no process is named, and not all GPUs are of the load: nobody knows"
    assert [note.gpu for note in behind(devices, (), 8)] == [4, 5, 6, 7], "it asked for all eight"


def test_small_differences_between_ranks_are_none() -> None:
    devices = [gpu(0, 1.0), gpu(1, 2.0)]
    assert behind(devices, (), 2) == ()
    assert behind([gpu(0, 30.1), gpu(1, 30.6)], (), 2) == ()


def staged(index: int, used: float) -> GpuProcess:
    """Of four GPUs, two stages of two ranks each."""
    name = f"VLLM::Worker_PP{index // 2}_TP{index % 2}"
    return GpuProcess(gpu=index, pid=100 + index, name=name, used_mib=used * 1024, unit="vllm.service", started=50.0)


@pytest.mark.parametrize(
    ("used", "texts"),
    [
        ((71.0, 71.0, 30.0, 30.0), {}),  # the second stage has fewer layers: nobody waits for it
        (
            (71.0, 71.0, 30.0, 12.0),
            {3: "behind the others of its stage (Worker_PP1_TP1): 12.0 GiB where they hold 30.0"},
        ),
        (
            (71.0, 71.0, 0.6, 71.0),
            {2: "behind the others of its stage (Worker_PP1_TP0): 0.6 GiB where they hold 71.0"},
        ),
    ],
)
def test_stages_of_a_pipeline_hold_different_layers(used: tuple[float, ...], texts: dict[int, str]) -> None:
    devices = [gpu(index, mib) for index, mib in enumerate(used)]
    found = holders([staged(index, mib) for index, mib in enumerate(used)], "vllm", 40.0)
    assert {note.gpu: note.text for note in behind(devices, found, 4, 2)} == texts


def test_a_stage_that_has_not_begun_is_named_whatever_the_others_hold() -> None:
    devices = [gpu(0, 71.0), gpu(1, 40.0), gpu(2, 0.6)]
    names = [GpuProcess(gpu=n, pid=n, name=f"VLLM::Worker_PP{n}", unit="vllm.service", started=50.0) for n in range(3)]
    assert [note.gpu for note in behind(devices, holders(names, "vllm", 40.0), 3, 3)] == [2]
    assert [note.gpu for note in behind(devices, (), 3, 3)] == [2], "no process is named"
    assert [note.gpu for note in behind(devices, (), 3, 1)] == [2], "one stage: as ever"


def test_a_small_context_beside_a_worker_does_not_take_its_name() -> None:
    devices = [gpu(index, 0.6 if index == 0 else 71.0) for index in range(3)]
    core = GpuProcess(gpu=0, pid=7, name="VLLM::EngineCore", used_mib=100.0, unit="vllm.service", started=50.0)
    found = holders([core, *(worker(index, devices[index].used_mib or 0) for index in range(3))], "vllm", 40.0)
    assert [note.text for note in behind(devices, found, 3)] == [
        "behind the others (Worker_TP0): 0.6 GiB where they hold 71.0"
    ]


def test_a_divided_gpu_whose_parts_are_not_shown_says_why() -> None:
    whole, part = GpuDevice(index=0, mig="on"), GpuDevice(index=16, parent=0)
    assert unseen([whole, part, GpuDevice(index=1, mig="off"), GpuDevice(index=2)], "nvml") == ()
    (note,) = unseen([whole, GpuDevice(index=1)], "nvidia-smi")
    assert "the whole GPU only" in note.text
    assert unseen([GpuDevice(index=0, mig="on", error="GPU is lost")], "nvml") == ()
