from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.gpu import GpuProbe, named
from probes.nvidia_smi import QUERY, SmiDecoder, compute_apps, trouble_in
from probes.probe import ProbeFailed
from probes.readings import GpuDevice, GpuProcesses, GpuReading, ProbeReading
from tests.probes.hosts import Programs, Reader

TESTS = Path(__file__).parents[1]
RECORDED = TESTS / "recordings" / "gpu-h200x2" / "a-imitated-load"
CASES = TESTS / "cases"
HEADER = b"index, memory.used [MiB], memory.total [MiB], utilization.gpu [%]\n"


def case(name: str, file: str) -> bytes:
    return next(CASES.glob(f"{name}-*")).joinpath(file).read_bytes()


def decode(data: bytes) -> list[GpuReading]:
    decoder = SmiDecoder()
    return decoder.feed(data, 1.0) + decoder.close()


def test_a_real_table_whatever_the_columns_call_themselves() -> None:
    (round_,) = decode((RECORDED / "idle.query-gpu.csv").read_bytes())
    assert [device.index for device in round_.devices] == [0, 1]
    first = round_.devices[0]
    assert (first.name, first.bus, first.pstate) == ("NVIDIA H200", "00000000:00:06.0", "P0")
    assert (first.used_mib, first.total_mib, first.reserved_mib) == (0.0, 143771.0, 616.0)
    assert (first.power, first.power_limit, first.temperature, first.sm_mhz) == (78.38, 700.0, 35.0, 345.0)
    assert (first.ecc_uncorrected, first.mig, first.error) == (0, "off", "")


def test_the_same_table_without_units_reads_the_same() -> None:
    with_units = decode((RECORDED / "idle.query-gpu.csv").read_bytes())[0].devices[0]
    header = (RECORDED / "idle.query-gpu.csv").read_bytes().partition(b"\n")[0] + b"\n"
    without = decode(header + (RECORDED / "idle.query-gpu.nounits.csv").read_bytes())[0].devices[0]
    assert (without.total_mib, without.reserved_mib) == (with_units.total_mib, with_units.reserved_mib)


def test_a_real_stream_gives_a_round_as_soon_as_its_last_gpu_has_spoken() -> None:
    decoder = SmiDecoder()
    writes = [json.loads(line) for line in (RECORDED / "smi.query-gpu.jsonl").read_text().splitlines()]
    rounds: list[tuple[float, GpuReading]] = []
    for write in writes:
        if "data" in write:
            rounds += [(write["t"], reading) for reading in decoder.feed(write["data"].encode(), write["t"])]
    assert len(rounds) > 250
    assert all(len(reading.devices) == 2 for _, reading in rounds)
    late = [arrived - reading.at for arrived, reading in rounds[1:] if arrived - reading.at > 0.1]
    assert len(late) == 1, "but for one stall of the driver, recorded"
    assert max(device.used_mib or 0 for _, reading in rounds for device in reading.devices) > 113_000
    assert decoder.troubles == []
    assert decoder.noise == 0


@given(st.lists(st.integers(1, 400), max_size=20))
def test_however_the_stream_is_cut_the_rounds_are_the_same(sizes: list[int]) -> None:
    data = (RECORDED / "idle.query-gpu.csv").read_bytes() * 2 + case("C32", "input.gpu.csv")
    decoder = SmiDecoder()
    found: list[GpuReading] = []
    rest = data
    for size in sizes:
        found += decoder.feed(rest[:size], 1.0)
        rest = rest[size:]
    found += decoder.feed(rest, 1.0) + decoder.close()
    assert found == decode(data)


@given(
    st.lists(
        st.one_of(
            st.binary(max_size=60),
            st.sampled_from(
                [
                    HEADER,
                    b"0, 1 MiB, 2 MiB, 3 %\n",
                    b"1, [N/A], [Not Supported], [GPU is lost]\n",
                    b"0, 1, 2, 3\n",
                    b"Unable to determine the device handle for GPU0000:61:00.0: Unknown Error\n",
                    b"index\n",
                    b"99999999999, 1, 2, 3\n",
                ]
            ),
        ),
        max_size=10,
    ).map(b"".join)
)
def test_any_bytes_have_an_answer(data: bytes) -> None:
    for reading in decode(data):
        assert len({device.index for device in reading.devices}) == len(reading.devices)


def test_text_before_the_header_is_no_gpu() -> None:
    (round_,) = decode(case("C60", "input.stdout.txt"))
    assert [(device.index, device.used_mib) for device in round_.devices] == [(0, 41230.0), (1, 41228.0)]


def test_unified_memory_has_no_figures_of_its_own_and_keeps_its_row() -> None:
    (round_,) = decode(case("C52", "input.nvidia-smi.csv"))
    (device,) = round_.devices
    assert device == GpuDevice(index=0, name="NVIDIA GB10", utilization=2.0, temperature=38.0)


def test_a_gpu_that_is_lost_in_mid_stream_says_so_in_its_own_row() -> None:
    header = b"index, pci.bus_id, memory.used [MiB], utilization.gpu [%]\n"
    rows = b"0, 00000000:41:00.0, 5 MiB, 1 %\n1, 00000000:61:00.0, 6 MiB, 2 %\n"
    decoder = SmiDecoder()
    rounds = decoder.feed(header + rows + rows, 1.0)
    rounds += decoder.feed(b"0, 00000000:41:00.0, 5 MiB, 1 %\n" + case("C47", "input.nvidia-smi.txt") + b"\n", 3.0)
    last = rounds[-1].devices
    assert [(device.index, device.used_mib, device.error) for device in last] == [
        (0, 5.0, ""),
        (1, None, "Unknown Error"),
    ]
    assert "cannot be reached" in decoder.troubles[0].reason


def test_a_row_of_complaints_is_an_error_of_that_gpu() -> None:
    (round_,) = decode(HEADER + b"0, [GPU is lost], [GPU is lost], [GPU is lost]\n1, 5 MiB, 9 MiB, 0 %\n")
    assert [device.error for device in round_.devices] == ["GPU is lost", ""]


def test_one_unknown_error_among_figures_is_a_missing_figure() -> None:
    (round_,) = decode(HEADER + b"0, 5 MiB, 9 MiB, [Unknown Error]\n")
    assert (round_.devices[0].utilization, round_.devices[0].used_mib, round_.devices[0].error) == (None, 5.0, "")


def test_throttle_reasons_are_a_mask() -> None:
    (round_,) = decode(b"index, clocks_event_reasons.active\n0, 0x0000000000000004\n1, [N/A]\n")
    assert [device.throttle for device in round_.devices] == [4, None]


@pytest.mark.parametrize(
    ("text", "sentence", "missing"),
    [
        (case("C51", "input.nvidia-smi.txt").decode().splitlines()[0], "upgraded under the running kernel", True),
        ((RECORDED / "err.no-such-gpu.txt").read_text(), "finds no GPU", True),
        ("Failed to initialize NVML: Unknown Error", "does not start", False),
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", "not loaded", True),
        ("GPU 00000000:61:00.0: GPU is lost. Reboot the system", "no longer answers", False),
    ],
)
def test_complaints_become_sentences_with_a_remedy(text: str, sentence: str, missing: bool) -> None:
    trouble = trouble_in(text)
    assert trouble is not None
    assert sentence in trouble.reason
    assert trouble.remedy
    assert trouble.missing is missing


def test_who_holds_memory() -> None:
    uuids = {f"GPU-00000000-0000-4000-8000-00000000000{index}": index for index in (0, 1)}
    found = compute_apps((RECORDED / "loaded.query-compute-apps.csv").read_text(), uuids)
    assert [(one.gpu, one.pid, one.used_mib) for one in found] == [(0, 885, 113252.0), (1, 886, 113252.0)]
    (dying,) = compute_apps(
        "gpu_uuid, pid, process_name, used_gpu_memory [MiB]\nGPU-x, 1655, [No data], 41572 MiB\n", {}
    )
    assert (dying.gpu, dying.name, dying.used_mib) == (-1, "", 41572.0)
    (engine,) = compute_apps(case("C52", "input.compute-apps.csv").decode(), {})
    assert (engine.pid, engine.name, engine.used_mib) == (4242, "VLLM::EngineCore", 71234.0)


def test_a_process_may_be_called_anything() -> None:
    (one,) = compute_apps(
        "gpu_uuid, pid, process_name, used_gpu_memory [MiB]\nGPU-x, 7, a, b, c, 5 MiB\n", {"GPU-x": 3}
    )
    assert (one.gpu, one.pid, one.name, one.used_mib) == (3, 7, "a, b, c", 5.0)


@given(st.text(max_size=200), st.lists(st.text(max_size=60), max_size=4))
def test_any_table_of_processes_has_an_answer(table: str, records: list[str]) -> None:
    named(compute_apps("gpu_uuid, pid, process_name, used_gpu_memory [MiB]\n" + table, {}), records)


# --- the probe, against an nvidia-smi of our own

UUID = "GPU-00000000-0000-4000-8000-000000000000"
PLAY = (
    f'echo "{", ".join(QUERY)}"\n'
    "while :; do\n"
    f'echo "0, {UUID}, NVIDIA H200, 00000000:00:06.0, 580.159.04, 5 MiB, 9 MiB, 1 MiB, 1 %, 7 W, 8 W, 30, 1 MHz, 2 MHz,'
    ' P0, 0x4, 0, 5, 5, 16, 16, Disabled"\n'
    "sleep 0.05; done"
)


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[Programs]:
    machine = Programs(tmp_path)
    yield machine
    assert machine.host.running == 0, "something of ours still runs on the host"


async def test_one_command_streams_all_figures(machine: Programs) -> None:
    machine.put("nvidia-smi", PLAY)
    reader = Reader(GpuProbe(machine.host, way="nvidia-smi").batches())
    await reader.until(lambda reader: len(reader.of(GpuReading)) >= 3)
    await reader.stop()
    assert len(machine.host.started) == 1
    reading = reader.of(GpuReading)[0]
    assert (reading.driver, reading.source) == ("580.159.04", "nvidia-smi")
    assert reading.devices[0].throttle == 4
    assert reading.devices[0].pcie_width_max == 16


async def test_fields_that_an_old_driver_does_not_know_are_left_out(machine: Programs) -> None:
    unknown = ("memory.reserved", "clocks_throttle_reasons.active")
    refuse = "\n".join(
        f'case "$*" in *{field}*) echo "Field \\"{field}\\" is not a valid field to query."; exit 2;; esac'
        for field in unknown
    )
    machine.put("nvidia-smi", refuse + "\necho 'index, memory.used [MiB]'\necho '0, 5 MiB'\nsleep 60")
    reader = Reader(GpuProbe(machine.host, way="nvidia-smi").batches())
    await reader.until(lambda reader: reader.of(GpuReading))
    await reader.stop()
    assert reader.of(GpuReading)[0].devices == (GpuDevice(index=0, used_mib=5.0),)
    assert len(machine.host.started) == 3


async def test_a_driver_that_knows_none_of_our_fields_is_not_asked_for_ever(machine: Programs) -> None:
    machine.put("nvidia-smi", 'echo "Field \\"bogus\\" is not a valid field to query."; exit 2')
    reader = Reader(GpuProbe(machine.host, way="nvidia-smi").batches())
    failed = await reader.end()
    assert "does not know its own field bogus" in failed.reason
    assert len(machine.host.started) == 1


@pytest.mark.parametrize(
    ("script", "state", "sentence"),
    [
        ("echo 'sh: nvidia-smi: not found' >&2; exit 127", "missing", "no nvidia-smi"),
        ("echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18", "missing", "upgraded"),
        ("echo 'No devices were found'; exit 6", "missing", "finds no GPU"),
        (
            "echo 'Unable to determine the device handle for GPU0000:61:00.0: Unknown Error'; exit 255",
            "failed",
            "cannot be",
        ),
        ("echo 'Segmentation fault' >&2; exit 139", "failed", "Segmentation fault"),
        ("exit 9", "failed", "exit status 9"),
    ],
)
async def test_an_end_is_one_sentence(machine: Programs, script: str, state: str, sentence: str) -> None:
    machine.put("nvidia-smi", script)
    failed = await Reader(GpuProbe(machine.host, way="nvidia-smi").batches()).end()
    assert isinstance(failed, ProbeFailed)
    assert failed.state == state
    assert sentence in failed.reason


async def test_a_complaint_between_rows_is_said_once_and_the_figures_go_on(machine: Programs) -> None:
    lost = "Unable to determine the device handle for GPU0000:61:00.0: Unknown Error"
    machine.put(
        "nvidia-smi",
        f"echo 'index, memory.used [MiB]'\nwhile :; do echo '0, 5 MiB'; echo '{lost}'; sleep 0.02; done",
    )
    reader = Reader(GpuProbe(machine.host, way="nvidia-smi").batches())
    await reader.until(lambda reader: len(reader.of(GpuReading)) > 5)
    await reader.stop()
    assert len(reader.of(ProbeReading)) == 1
    assert reader.of(ProbeReading)[0].state == "failed"


async def test_a_driver_that_hangs_is_waited_for_once_and_then_left_alone(
    machine: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("probes.gpu.HUNG", 0.3)
    monkeypatch.setattr("probes.gpu.SETTLED", 0.05)
    machine.put("nvidia-smi", "sleep 60")
    failed = await Reader(GpuProbe(machine.host, way="nvidia-smi").batches()).end()
    assert isinstance(failed, ProbeFailed)
    assert "stuck" in failed.reason
    assert (failed.retry or 0) >= 60


async def test_processes_are_named_by_unit_user_and_start(machine: Programs) -> None:
    machine.put(
        "nvidia-smi",
        'case "$*" in *compute-apps*) ;; *)\n' + PLAY + "\nesac\n"
        'echo "gpu_uuid, pid, process_name, used_gpu_memory [MiB]"\n'
        f'echo "{UUID}, $PPID, VLLM::Worker_TP0, 5 MiB"\n'
        f'echo "{UUID}, 4194304, gone, 6 MiB"',
    )
    probe = GpuProbe(machine.host, way="nvidia-smi")
    figures = Reader(probe.batches())
    await figures.until(lambda reader: reader.of(GpuReading))
    reader = Reader(probe.processes())
    await reader.until(lambda reader: reader.of(GpuProcesses))
    await reader.stop()
    await figures.stop()
    living, gone = reader.of(GpuProcesses)[0].processes
    assert (living.gpu, living.name, living.used_mib) == (0, "VLLM::Worker_TP0", 5.0)
    assert living.user == "root" or living.user
    assert living.started > 1_500_000_000
    assert living.state in "RSD"
    assert (gone.pid, gone.user, gone.started) == (4194304, "", 0.0)
