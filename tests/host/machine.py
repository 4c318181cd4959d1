"""A real Debian host with systemd, journald and sshd, on this machine's loopback, for as long as the tests want it.

The base system (Debian trixie, systemd 257) is made once by debootstrap and kept under ``/var/tmp/firstlight-host`` in
a folder named after this recipe; each ``Machine`` boots a clean copy of it with systemd-nspawn, changes held in memory,
and is powered off at the end. It shares the loopback device, so ports are chosen free; sshd listens on 127.0.0.1 alone.

Users of the base, all reached with the same key:

=========  =============================================================================================
``root``   may do everything
``ops``    reads the journal (group systemd-journal), ``sudo -n systemctl`` and nothing else, keeps a user manager
``guest``  has no right to anything
``fisher`` reads the journal, login shell fish, whose start-up file prints a greeting
``noisy``  reads the journal, login shell bash, whose start-up file prints to both outputs
=========  =============================================================================================

Needs root and Debian's systemd-container, debootstrap and openssh-client.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

SUITE = "trixie"
PACKAGES = (
    "systemd",
    "systemd-sysv",
    "dbus",
    "dbus-user-session",
    "libpam-systemd",
    "openssh-server",
    "python3",
    "sudo",
    "procps",
    "iproute2",
    "curl",
    "fish",
    "libnuma1",  # vLLM on the CPU asks for it and for libgomp1
    "libgomp1",
)
SETUP = r"""
set -eu
add() {
  name=$1 shell=$2 groups=$3
  useradd --create-home --shell "$shell" ${groups:+--groups "$groups"} "$name"
  install -d -m 700 -o "$name" -g "$name" "/home/$name/.ssh"
  install -m 600 -o "$name" -g "$name" /root/.ssh/authorized_keys "/home/$name/.ssh/authorized_keys"
}
add ops /bin/bash systemd-journal
add guest /bin/bash ""
add fisher /usr/bin/fish systemd-journal
add noisy /bin/bash systemd-journal
echo 'ops ALL=(root) NOPASSWD: /usr/bin/systemctl' >/etc/sudoers.d/ops
install -d /var/lib/systemd/linger
touch /var/lib/systemd/linger/ops
printf 'echo "*** Authorised use only: %%s"\necho "a warning of the start-up file" >&2\n' noisy >/tmp/rc
cat /home/noisy/.bashrc >>/tmp/rc
install -m 644 -o noisy -g noisy /tmp/rc /home/noisy/.bashrc
rm /tmp/rc
install -d -o fisher -g fisher /home/fisher/.config /home/fisher/.config/fish
printf 'echo "fish says good morning"\n' >/home/fisher/.config/fish/config.fish
install -d -m 2755 -g systemd-journal /var/log/journal
rm -f /etc/hostname                            # so that each copy takes the name it is booted with
systemctl --quiet mask apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer
"""

RECIPE = hashlib.sha256("\n".join((SUITE, *PACKAGES, SETUP)).encode()).hexdigest()[:12]
CACHE = Path(os.environ.get("FIRSTLIGHT_HOST_CACHE", "/var/tmp/firstlight-host"))
HOME = CACHE / f"{SUITE}-{RECIPE}"
BASE = HOME / "base"
KEY = HOME / "key"

BOOT_LIMIT = 90.0
"""seconds; a boot takes two on an idle machine"""


class CannotBoot(Exception):
    """Why there can be no host here, as one sentence."""


def obstacle() -> str:
    """Why this machine cannot run a host; empty: it can (as far as can be told without trying)."""
    if os.geteuid() != 0:
        return "a real host needs root (systemd-nspawn)"
    wanted = {"systemd-nspawn": "systemd-container", "ssh": "openssh-client", "nsenter": "util-linux"}
    if not (HOME / "made").exists():
        wanted["debootstrap"] = "debootstrap"
    missing = sorted(package for tool, package in wanted.items() if shutil.which(tool) is None)
    if missing:
        return f"a real host needs: apt-get install {' '.join(missing)}"
    return ""


def build() -> None:
    """Make the base system unless it is there already: one to five minutes, 350 MB. Two may call at once."""
    HOME.mkdir(parents=True, exist_ok=True)
    with (HOME / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (HOME / "made").exists():
            return
        shutil.rmtree(BASE, ignore_errors=True)  # whatever a broken-off build left
        with (HOME / "build.log").open("wb") as log:
            command = ["debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", SUITE, str(BASE)]
            if subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False).returncode:
                raise CannotBoot(f"debootstrap could not make Debian {SUITE}: {_tail(HOME / 'build.log')}")
            for file in (KEY, KEY.with_suffix(".pub")):
                file.unlink(missing_ok=True)
            subprocess.run(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "firstlight-test", "-f", str(KEY)],
                check=True,
            )
            (BASE / "root/.ssh").mkdir(mode=0o700, exist_ok=True)
            shutil.copy(KEY.with_suffix(".pub"), BASE / "root/.ssh/authorized_keys")
            done = subprocess.run(
                ["chroot", str(BASE), "sh"], input=SETUP.encode(), stdout=log, stderr=log, check=False
            )
            if done.returncode:
                raise CannotBoot(f"the base system could not be set up: {_tail(HOME / 'build.log')}")
        (HOME / "made").touch()


def free_port() -> int:
    """A TCP port of the loopback device that nobody holds just now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@dataclass(frozen=True)
class Said:
    """What a command on the host said."""

    status: int
    out: bytes
    err: bytes

    @property
    def text(self) -> str:
        return self.out.decode()


class Machine:
    """One booted host. ``run`` and ``do`` act on it from beside it, as root, without its sshd."""

    def __init__(self, name: str = "llm-two", binds: Sequence[Path] = (), journal: Path | None = None) -> None:
        """``journal``: a folder of this machine that holds the host's journal, so that it outlives a reboot."""
        self.name = name
        self.journal = journal
        self.port = free_port()
        self.binds = tuple(binds)
        """Folders of this machine, seen inside, read-only, at the same path."""
        self._id = uuid.uuid4()
        self.leader = 0
        """Process id of its init, on this machine."""
        self._stack = contextlib.ExitStack()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def root(self) -> Path:
        """Its file system as this machine sees it."""
        return Path(f"/proc/{self.leader}/root")

    @property
    def host_key(self) -> str:
        """``ssh-ed25519 AAAA…`` as a line of known_hosts has it."""
        kind, key, *_ = (BASE / "etc/ssh/ssh_host_ed25519_key.pub").read_text().split()
        return f"{kind} {key}"

    def boot(self) -> None:
        """Boot and wait until systemd says that it is up. Raises CannotBoot."""
        build()
        scratch = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="firstlight-host-")))
        config = scratch / "sshd.conf"
        config.write_text(f"Port {self.port}\nListenAddress 127.0.0.1\nMaxStartups 100\n")
        console = scratch / "console.log"
        notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        notify.bind(str(scratch / "notify"))
        groups = self._own_groups()
        command = [
            *("sh", "-c", 'for group in $GROUPS; do echo $$ >"$group/cgroup.procs"; done; exec "$@"', "sh"),
            # dies with the test process, however that ends
            *("setpriv", "--pdeathsig", "TERM"),
            *("systemd-nspawn", "--quiet", "--boot", "--settings=no", "--register=no", "--notify-ready=yes"),
            f"--directory={BASE}",
            "--volatile=overlay",
            f"--machine=firstlight-{uuid.uuid4().hex[:8]}",
            f"--hostname={self.name}",
            f"--uuid={self._id}",
            "--resolv-conf=off",
            "--timezone=off",
            "--link-journal=no",
            f"--bind-ro={config}:/etc/ssh/sshd_config.d/firstlight.conf",
            *(f"--bind-ro={folder}" for folder in self.binds),
            *([f"--bind={self.journal}:/var/log/journal"] if self.journal else []),
        ]
        if groups:
            command.append("--keep-unit")
        with console.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={
                    **os.environ,
                    "GROUPS": " ".join(map(str, groups)),
                    "NOTIFY_SOCKET": str(scratch / "notify"),
                    "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1",  # cgroup v2, as every current server has it
                },
                start_new_session=True,
            )
        self._stack.callback(self._power_off)
        try:
            self._await_ready(notify, console)
        except BaseException:
            self.power_off()
            raise
        finally:
            notify.close()  # systemd-nspawn goes on talking, and would wait for ever for a reader

    def _own_groups(self) -> list[Path]:
        """Control groups for this host alone, one a hierarchy; none where systemd runs here and gives it a scope.

        Without them two hosts would find each other's processes in ``/system.slice``, and wait for them to end.
        """
        if Path("/run/systemd/system").is_dir():
            return []
        groups = []
        name = f"firstlight-{uuid.uuid4().hex[:8]}"  # one name: systemd-nspawn copies the path from v2 to v1
        for line in Path("/proc/mounts").read_text().splitlines():
            _, folder, kind, options, *_ = line.split()
            if kind == "cgroup2" or (kind == "cgroup" and "name=systemd" in options.split(",")):
                group = Path(folder, name)
                group.mkdir()
                self._stack.callback(_remove_group, group)
                groups.append(group)
        return groups

    def _await_ready(self, notify: socket.socket, console: Path) -> None:
        assert self._process is not None
        notify.settimeout(0.5)
        limit = time.monotonic() + BOOT_LIMIT
        ready = False
        while not (ready and self.leader):
            try:
                message = notify.recv(4096).decode()
            except TimeoutError:
                if self._process.poll() is not None or time.monotonic() > limit:
                    raise CannotBoot(f"the host did not come up: {_tail(console)}") from None
                continue
            for line in message.splitlines():
                ready = ready or line == "READY=1"
                if line.startswith("X_NSPAWN_LEADER_PID="):
                    self.leader = int(line.partition("=")[2])

    def _power_off(self) -> None:
        assert self._process is not None
        self._process.terminate()  # systemd-nspawn hands it on as a wish to power off
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.leader or self._process.pid, signal.SIGKILL)  # init's end is the end of all its processes
            self._process.wait(10)

    def power_off(self) -> None:
        """Power off; nothing of it is left."""
        self._stack.close()

    def reboot(self) -> None:
        """Reboot, as ``systemctl reboot`` does, and wait until it is up again: a new boot, the same machine. What was
        changed on its disk is gone, but for the journal where that has a folder of its own."""
        assert self._process is not None
        self.run("systemctl", "reboot", check=False)
        self._process.wait(BOOT_LIMIT)  # systemd-nspawn leaves it to whoever started it to start it again
        self._stack.close()
        self.boot()

    def pids(self) -> list[int]:
        """All of its processes, by their ids on this machine."""
        space = os.readlink(f"/proc/{self.leader}/ns/pid")
        found = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError, ValueError):
                if os.readlink(entry / "ns/pid") == space:
                    found.append(int(entry.name))
        return found

    def signal(self, number: signal.Signals) -> None:
        """Send this to every process of it: SIGSTOP freezes the host, SIGCONT thaws it."""
        for pid in sorted(self.pids(), reverse=number == signal.SIGCONT):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def __enter__(self) -> Machine:
        self.boot()
        return self

    def __exit__(self, *_: object) -> None:
        self.power_off()

    # ---- acting on it

    def argv(self, *argv: str, user: str = "root") -> list[str]:
        """The command that runs ``argv`` inside, as ``user``."""
        inside = ["nsenter", "--target", str(self.leader), "--all", "--wdns=/"]
        inside += ["env", "-i", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin", "LC_ALL=C.UTF-8", "TZ=UTC"]
        if user != "root":
            inside += ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups"]
        return [*inside, *argv]

    def run(self, *argv: str, user: str = "root", stdin: bytes = b"", check: bool = True) -> Said:
        """Run to the end. With ``check`` a status other than 0 raises AssertionError with what was said."""
        done = subprocess.run(self.argv(*argv, user=user), input=stdin, capture_output=True, check=False)
        return _said(argv, done.returncode, done.stdout, done.stderr, check)

    async def do(self, *argv: str, user: str = "root", stdin: bytes = b"", check: bool = True) -> Said:
        """The same without holding up the event loop."""
        process = await asyncio.create_subprocess_exec(
            *self.argv(*argv, user=user),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate(stdin)
        return _said(argv, process.returncode or 0, out, err, check)

    def write(self, path: str, data: str | bytes, mode: int = 0o644) -> None:
        """Put a file there, folders included."""
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data.encode() if isinstance(data, str) else data)
        file.chmod(mode)

    def processes(self) -> Iterator[tuple[int, str, str]]:
        """All of its processes: process id inside, user, command line."""
        listing = self.run("ps", "-e", "-o", "pid=,user:32=,args=", "--width", "1000").text
        for line in listing.splitlines():
            pid, user, args = line.split(None, 2)
            yield int(pid), user, args


def _said(argv: Sequence[str], status: int, out: bytes, err: bytes, check: bool) -> Said:
    if check and status:
        raise AssertionError(
            f"{' '.join(argv)} ended with {status} on the host:\n{(out + err).decode(errors='replace')}"
        )
    return Said(status, out, err)


def _remove_group(group: Path, limit: float = 5.0) -> None:
    """Remove a control group and those below it, once the last process in them is gone."""
    end = time.monotonic() + limit
    while group.exists():
        try:
            for folder, _, _ in os.walk(group, topdown=False):
                os.rmdir(folder)
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.02)


def _tail(log: Path, lines: int = 5) -> str:
    return " / ".join(log.read_text(errors="replace").splitlines()[-lines:]) or "nothing was said"


if __name__ == "__main__":
    if reason := obstacle():
        raise SystemExit(reason)
    build()
    print(HOME)
