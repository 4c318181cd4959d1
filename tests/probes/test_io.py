from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.io import SCRIPT, IoProbe
from probes.iofiles import Tally, device_names, disks, io_stat, meminfo, process, sections, shm_use
from probes.model import find_model, mount_type, read_model, weight_bytes
from probes.readings import IoReading
from tests.probes.hosts import PlainHost, Programs, Reader

DISKSTATS = """\
   7       0 loop0 10 0 800 0 0 0 0 0 0 0 0
 259       0 nvme0n1 100 0 2000 5 0 0 0 0 0 0 0
 259       1 nvme0n1p1 100 0 1900 5 0 0 0 0 0 0 0
   8       0 sda 7 0 70 5 0 0 0 0 0 0 0
   8       1 sda1 7 0 70 5 0 0 0 0 0 0 0
 253       0 dm-0 100 0 2000 5 0 0 0 0 0 0 0
   8      16 sdb 0 0 0 0 0 0 0 0 0 0 0
"""
STAT = "4242 (VLLM::Worker_TP) S 1 2 3 0 -1 4194560 100 200 3 4 1234 66 0 0 20 0 50 0 9000 123456789 2000 1844674"
IO = "rchar: 100\nwchar: 5\nsyscr: 1\nsyscw: 1\nread_bytes: 4096\nwrite_bytes: 0\ncancelled_write_bytes: 0\n"


def test_files_of_the_kernel() -> None:
    assert io_stat("259:0 rbytes=8192 wbytes=0 rios=2\n253:0 wbytes=1\n\nx") == {"259:0": 8192}
    assert device_names(DISKSTATS)["259:0"] == "nvme0n1"
    assert [(disk.device, disk.read_bytes) for disk in disks(DISKSTATS)] == [("nvme0n1", 1024000), ("sda", 35840)]
    assert meminfo("MemTotal:       127601452 kB\nCached: 5 kB\nBad\n") == {"MemTotal": 130663886848, "Cached": 5120}
    assert shm_use("Filesystem 1024-blocks Used Available Capacity Mounted on\nshm 65536 4 65532 1% /dev/shm\n") == (
        4096,
        67108864,
    )
    assert shm_use("df: /dev/shm: No such file\n") is None
    one = process(4242, STAT, IO)
    assert one is not None
    assert (one.name, one.state, one.cpu_seconds, one.rss_bytes) == ("VLLM::Worker_TP", "S", 13.0, 2000 * 4096)
    assert (one.read_bytes, one.rchar) == (4096, 100)


def test_a_process_may_be_called_anything() -> None:
    one = process(5, STAT.replace("VLLM::Worker_TP", "a) b (c"), "")
    assert one is not None
    assert (one.name, one.cpu_seconds, one.read_bytes) == ("a) b (c", 13.0, 0)


@given(st.binary(max_size=300), st.text(max_size=60))
def test_any_answer_is_a_reading(answer: bytes, text: str) -> None:
    found = sections(b"\x1eio.stat\n" + answer + b"\x1estat 5\n" + answer + b"\x1ememinfo\n" + answer)
    reading = Tally().reading(found | {"memory.max": text, "cpu.stat": text}, group="/g", names={}, at=1.0)
    assert reading.at == 1.0
    device_names(text)
    disks(text)
    shm_use(text)
    mount_type(text, text)
    weight_bytes(text)
    read_model(text)


def sample(**files: str) -> dict[str, str]:
    return {
        name.replace("_", " ", 1) if name[-1].isdigit() else name.replace("_", "."): text
        for name, text in files.items()
    }


def test_what_an_ended_process_had_read_still_counts() -> None:
    tally = Tally()
    first = tally.reading(sample(stat_1=STAT, io_1=IO, stat_2=STAT, io_2=IO), group="/g", names={}, at=1.0)
    second = tally.reading(sample(stat_2=STAT, io_2=IO.replace("4096", "5000")), group="/g", names={}, at=2.0)
    other = tally.reading(sample(stat_3=STAT, io_3=IO), group="/h", names={}, at=3.0)
    assert (first.read_bytes, second.read_bytes, other.read_bytes) == (8192, 9096, 4096)
    assert (first.cpu_seconds, second.cpu_seconds, other.cpu_seconds) == (26.0, 26.0, 13.0)


def test_a_service_that_starts_a_process_a_second_does_not_fill_our_memory() -> None:
    tally = Tally()
    total = 0
    for pid in range(1, 3000):
        reading = tally.reading({f"stat {pid}": STAT, f"io {pid}": IO}, group="/g", names={}, at=1.0)
        total += 4096
        assert reading.read_bytes == total
    assert len(tally._read) < 1000


def test_what_is_stacked_on_a_disk_is_not_counted_twice() -> None:
    found = sample(io_stat="259:0 rbytes=100 wbytes=0\n253:0 rbytes=100 wbytes=0\n")
    reading = Tally().reading(found, group="/g", names=device_names(DISKSTATS), at=1.0)
    assert reading.read_bytes == 100
    assert [device.device for device in reading.devices] == ["nvme0n1"]


def test_a_network_mount_is_known_to_the_processes_alone() -> None:
    found = sample(io_stat="", stat_1=STAT, io_1=IO)
    assert Tally().reading(found, group="/g", names={}, at=1.0).read_bytes == 4096


def test_without_the_right_to_look_the_disks_are_the_next_best() -> None:
    tally = Tally()
    reading = tally.reading(sample(stat_1=STAT), group="/g", names={}, at=1.0)
    assert (reading.read_bytes, reading.cpu_seconds, tally.blind) == (None, 13.0, True)
    reading = tally.reading(sample(stat_1=STAT) | {"diskstats": DISKSTATS}, group="/g", names={}, at=2.0)
    assert [device.device for device in reading.devices] == ["nvme0n1", "sda"]


def test_no_unit_no_figures_of_it() -> None:
    reading = Tally().reading({"meminfo": "MemTotal: 5 kB\n"}, group="", names={}, at=1.0)
    assert (reading.read_bytes, reading.cpu_seconds, reading.mem_total) == (None, None, 5120)


@pytest.mark.parametrize(
    ("limit", "expected"), [("max\n", None), ("1073741824\n", 1 << 30), ("9223372036854771712\n", None)]
)
def test_limits(limit: str, expected: int | None) -> None:
    reading = Tally().reading({"memory.max": limit}, group="/g", names={}, at=1.0)
    assert reading.unit_memory_max == expected


MOUNTS = """\
/dev/nvme0n1p1 / ext4 rw 0 0
filer:/models /mnt/models nfs4 rw,vers=4.2 0 0
/dev/sda1 /mnt/my\\040models xfs rw 0 0
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/opt/m", "ext4"),
        ("/mnt/models/kimi", "nfs4"),
        ("/mnt/models", "nfs4"),
        ("/mnt/models2", "ext4"),
        ("/mnt/my models/x", "xfs"),
    ],
)
def test_on_what_a_model_lies(path: str, kind: str) -> None:
    assert mount_type(path, MOUNTS) == kind


def listing(**sizes: int) -> str:
    return "".join(
        f"-rw-r--r-- 1 0 0 {size} Nov 30 03:27 /m/{name.replace('__', '/').replace('_', '.')}\n"
        for name, size in sizes.items()
    )


def test_only_what_a_server_would_load_is_counted() -> None:
    assert weight_bytes(listing(a_safetensors=5, b_safetensors=6, c_bin=100)) == 11
    assert weight_bytes(listing(a_safetensors=5, consolidated_safetensors=5)) == 5
    assert weight_bytes(listing(consolidated_safetensors=5)) == 5
    assert weight_bytes(listing(pytorch_bin=7, optimizer_bin=9)) == 7
    assert weight_bytes("") is None


async def test_a_folder_of_weights_is_measured_through_its_links(tmp_path: Path) -> None:
    blobs, model = tmp_path / "blobs", tmp_path / "my model"
    blobs.mkdir()
    model.mkdir()
    for name, size in (("a", 1000), ("b", 2000)):
        (blobs / name).write_bytes(b"x" * size)
        (model / f"model-{name}.safetensors").symlink_to(blobs / name)
    (model / "config.json").write_text("{}")
    found = await find_model(PlainHost(), ("vllm", "serve", str(model)), ())
    assert (found.path, found.bytes) == (str(model), 3000)
    assert found.mount


async def test_a_model_of_the_hub_is_found_in_the_cache_the_unit_names(tmp_path: Path) -> None:
    snapshots = tmp_path / "hub" / "models--org--name" / "snapshots"
    for revision, size in (("old", 10), ("new", 20)):
        (snapshots / revision).mkdir(parents=True)
        (snapshots / revision / "model.safetensors").write_bytes(b"x" * size)
    refs = tmp_path / "hub" / "models--org--name" / "refs"
    refs.mkdir()
    (refs / "main").write_text("new")
    found = await find_model(PlainHost(), ("vllm", "serve", "org/name"), (f"HF_HOME={tmp_path}",))
    assert (found.path, found.bytes) == (str(snapshots / "new"), 20)


@pytest.mark.parametrize("named", ["/no/such/model", "org/unknown", "", "$(touch /tmp/firstlight-was-here)"])
async def test_a_model_that_is_not_there_is_not_known(named: str) -> None:
    """Nor is what a server calls its model ever a word of the shell's."""
    found = await find_model(PlainHost(), ("vllm", "serve", named), ())
    assert found.bytes is None
    assert not os.path.exists("/tmp/firstlight-was-here")


# --- the probe, with the real shell and the real /proc, and a control group of our own making


class Machine(Programs):
    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(folder)
        self.root = folder / "cgroup"
        self.group = self.root / "system.slice" / "vllm.service"
        self.group.mkdir(parents=True)
        (self.root / "cgroup.controllers").touch()
        (self.group / "cgroup.procs").write_text(f"{os.getpid()}\n4194304\n")
        monkeypatch.setattr("probes.io.SCRIPT", SCRIPT.replace("root=/sys/fs/cgroup", f"root={self.root}"))


@pytest.fixture
async def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Machine]:
    machine = Machine(tmp_path, monkeypatch)
    yield machine
    assert machine.host.running == 0, "something of ours still runs on the host"


@pytest.fixture(params=["dash", "bash"])
def shell(request: pytest.FixtureRequest, machine: Machine) -> None:
    (machine.folder / "sh").symlink_to(f"/bin/{request.param}")


async def figures(machine: Machine, count: int = 2) -> list[IoReading]:
    probe = IoProbe(machine.host)
    probe.group = "/system.slice/vllm.service"
    reader = Reader(probe.batches())
    await reader.until(lambda reader: reader.of(IoReading))
    for have in range(1, count):
        probe.poke()
        await reader.until(lambda reader, have=have: len(reader.of(IoReading)) > have)
    await reader.stop()
    return reader.of(IoReading)


@pytest.mark.usefixtures("shell")
async def test_this_process_as_a_unit(machine: Machine) -> None:
    (machine.group / "memory.current").write_text("1000\n")
    (machine.group / "memory.max").write_text("max\n")
    (machine.group / "cpu.stat").write_text("usage_usec 2500000\nuser_usec 1\n")
    (machine.group / "io.stat").write_text("259:0 rbytes=8192 wbytes=0")
    first, second = await figures(machine)
    (own,) = first.processes
    assert own.pid == os.getpid()
    assert own.rss_bytes > 1 << 20
    assert own.cpu_seconds > 0
    assert own.rchar > 0
    assert (first.unit_memory, first.unit_memory_max, first.cpu_seconds) == (1000, None, 2.5)
    assert (first.read_bytes or 0) >= 8192
    assert (first.mem_total or 0) > (first.page_cache or 0) > 0
    assert (second.shm_total or 0) > 0


@pytest.mark.usefixtures("shell")
async def test_a_group_with_nothing_to_read_and_one_with_children(machine: Machine) -> None:
    (machine.group / "cgroup.procs").write_text("")
    child = machine.group / "payload"
    child.mkdir()
    (child / "cgroup.procs").write_text(f"{os.getpid()}\n")
    (reading,) = await figures(machine, 1)
    assert [one.pid for one in reading.processes] == [os.getpid()]
    assert reading.unit_memory is None
    assert reading.error == ""


async def test_old_control_groups(machine: Machine) -> None:
    (machine.root / "cgroup.controllers").unlink()
    group = "system.slice/vllm.service"
    for controller, file, text in (
        ("memory", "memory.usage_in_bytes", "77"),
        ("memory", "memory.limit_in_bytes", "9223372036854771712"),
        ("cpuacct", "cpuacct.usage", "1500000000"),
        ("systemd", "cgroup.procs", f"{os.getpid()}\n"),
    ):
        folder = machine.root / controller / group
        folder.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(text + "\n")
    (reading,) = await figures(machine, 1)
    assert (reading.unit_memory, reading.unit_memory_max, reading.cpu_seconds) == (77, None, 1.5)
    assert [one.pid for one in reading.processes] == [os.getpid()]


async def test_a_sample_starts_no_process(machine: Machine) -> None:
    for name in ("cat", "df", "ls", "find", "awk", "sed", "grep", "head"):
        machine.put(name, f'echo {name} >>{machine.root}/started; exec /bin/{name} "$@"')
    await figures(machine, 5)
    started = machine.root / "started"
    assert (started.read_text().split() if started.exists() else []) == ["df"], "once for /dev/shm in thirty samples"
    assert len(machine.host.started) == 1


async def test_reads_are_seen_to_grow(machine: Machine, tmp_path: Path) -> None:
    data = tmp_path / "weights"
    data.write_bytes(os.urandom(1 << 20))
    script = f"import sys\nopen({str(data)!r},'rb').read()\nprint('read', flush=True)\nsys.stdin.read()"
    server = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert server.stdout
    await server.stdout.readline()
    (machine.group / "cgroup.procs").write_text(f"{server.pid}\n")
    (reading,) = await figures(machine, 1)
    server.kill()
    await server.wait()
    assert reading.processes[0].rchar > 1 << 20
