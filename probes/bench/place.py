"""Where `vllm bench serve` can be run for a server: the unit's own environment, on its host or in its container."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from msgspec import Struct
from msgspec.structs import replace

from probes.arguments import arguments, model, option
from probes.arguments import words as words_of
from probes.endpoint import Endpoint, endpoint_from, endpoint_of
from probes.host import Host
from probes.interpreter import PYTHON, interpreters
from probes.operate.orders import Rights
from probes.probe import ProbeFailed, words
from probes.readings import UnitFile, UnitReading
from probes.unit import UnitProbe

RUNTIMES = ("docker", "podman", "nerdctl")
MODULE = ("-m", "vllm.entrypoints.cli.main")
INSTALL = "Install vLLM with its benchmarks into the environment that runs the server: pip install 'vllm[bench]'."
_PASSED = ("HF_", "HUGGINGFACE_", "TRANSFORMERS_")
_PASSED_ALSO = {
    "PATH",
    "HOME",
    "LD_LIBRARY_PATH",
    "PYTHONPATH",
    "XDG_CACHE_HOME",
    "SSL_CERT_FILE",
    "TIKTOKEN_RS_CACHE_DIR",
}
_SECRET = ("TOKEN", "KEY", "PASSWORD", "SECRET")
_TO_CONTAINER = ("OPENAI_API_KEY", "PYTHONUNBUFFERED", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "NO_PROXY", "no_proxy")


class Place(Struct, frozen=True, kw_only=True):
    """``command``: words before ``bench serve``; ``python``: a Python that reaches the server; ``inside``: what goes
    before a command where the server is in a container. ``endpoint``: of the server, as seen from there; ``outside``:
    as seen from the host. ``user``: whom it is to run as; "" for root or the login. ``environment``: NAME=VALUE, no
    secret among them. ``tokenizer``, ``model``: as the server was given them; ``folder``: in which it was given
    them, "" where that is not known. ``here``: it is this machine, not the host."""

    command: tuple[str, ...]
    python: tuple[str, ...]
    endpoint: Endpoint
    outside: Endpoint
    inside: tuple[str, ...] = ()
    user: str = ""
    environment: tuple[str, ...] = ()
    model: str = ""
    tokenizer: str = ""
    tokenizer_mode: str = ""
    trust_remote_code: bool = False
    container: str = ""
    folder: str = ""
    here: bool = False
    invocation: str = ""


class Unit(Struct, frozen=True):
    """The unit as it is now. Its texts hold secrets: they go nowhere."""

    reading: UnitReading
    file: UnitFile | None

    @property
    def argv(self) -> tuple[str, ...]:
        return arguments(self.reading, self.file.text if self.file else "")

    @property
    def environment(self) -> dict[str, str]:
        lines = list(self.reading.environment)
        for text in self.file.environment.values() if self.file else ():
            lines += [line.strip().removeprefix("export ") for line in text.splitlines() if not line.startswith("#")]
        found = (line.partition("=") for line in lines if "=" in line)
        return {name.strip(): value.strip().strip("\"'") for name, _, value in found}


async def look_at(host: Host, unit: str, *, user: bool = False) -> Unit:
    """Ask for it, once. Raises ProbeFailed and what the host raises."""
    probe = UnitProbe(host, unit, user=user)
    batches = probe.batches()
    try:
        batch = await anext(batches)
    finally:
        await batches.aclose()  # type: ignore[attr-defined]
    reading = next(one for one in batch if isinstance(one, UnitReading))
    if reading.load == "not-found":
        near = f"Did you mean {', '.join(reading.near)}?" if reading.near else ""
        raise ProbeFailed(f"{host.name} has no unit {reading.unit}", near, state="missing")
    return Unit(reading, next((one for one in batch if isinstance(one, UnitFile)), None))


def api_key(unit: Unit) -> str:
    """The server's own key, where the unit tells it."""
    known = unit.environment
    given = option(unit.argv, "--api-key") or known.get("VLLM_API_KEY", "")
    return "" if "$" in given else given


def about(unit: Unit, endpoint: str = "") -> Place:
    """What is known of the server wherever it is measured from; what is to run there is left open. ``endpoint``: the
    operator's word for it. Raises BadEndpoint."""
    argv = unit.argv
    shown = words_of(unit.reading.exec_start)
    outside = endpoint_from(endpoint) if endpoint else endpoint_of(argv if not _container(shown) else shown)
    return Place(
        command=(),
        python=(),
        endpoint=outside,
        outside=outside,
        model=model(argv),
        tokenizer=option(argv, "--tokenizer") or "",
        tokenizer_mode=option(argv, "--tokenizer-mode") or "",
        trust_remote_code=option(argv, "--trust-remote-code") is not None,
        invocation=unit.reading.invocation,
    )


async def find_place(host: Host, rights: Rights, unit: Unit, endpoint: str = "", *, also: Sequence[str] = ()) -> Place:
    """On the server's host. Raises ProbeFailed where there is none, and what the host raises. ``endpoint``: the
    operator's word for it; ``also``: what may run vLLM's command line there besides."""
    argv = unit.argv
    shown = words_of(unit.reading.exec_start)
    place = about(unit, endpoint)
    outside = place.outside
    if outside.socket:
        raise ProbeFailed(
            f"The server listens on the Unix socket {outside.socket} only, which `vllm bench serve` cannot ask",
            "Let it listen on a loopback port too.",
            state="missing",
        )
    if _container(shown):
        return await _contained(host, rights, shown, argv, place)
    candidates = (*commands(argv), *((tuple(also),) if also else ()))
    found, folder = await _executable(host, rights, unit, candidates)
    if found is None:
        raise ProbeFailed(_nothing(argv, host.name), INSTALL, state="missing")
    return replace(
        place,
        command=found,
        python=(python_of(found),),
        user=unit.reading.user if unit.reading.user != "root" else "",
        environment=passed(unit.environment),
        folder=folder,
    )


def commands(argv: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """What may run vLLM's command line, the likeliest first: how the server itself was started; a Python of its."""
    listed = words_of(argv)
    out: list[tuple[str, ...]] = []
    for at, word in enumerate(listed):
        path = PurePosixPath(word.strip("\"';"))
        if path.name == "vllm" and at + 1 < len(listed) and listed[at + 1] == "serve":
            script = str(path)
            before = listed[at - 1] if at else ""
            starts = PYTHON.match(PurePosixPath(before).name) is not None
            out.append((before, script) if starts else (script,))
        elif word.startswith("vllm.") and at > 1 and listed[at - 1] == "-m":
            out.append((listed[at - 2], *MODULE))
    out += [(python, *MODULE) for python in interpreters(argv) if python.startswith("/")]
    return tuple(dict.fromkeys(out))


def python_of(command: Sequence[str]) -> str:
    """A Python for a small program: of the same environment where it can be told."""
    first = PurePosixPath(command[0])
    if PYTHON.match(first.name):
        return str(first)
    return str(first.parent / "python3") if first.is_absolute() and first.parent.name == "bin" else "python3"


def passed(environment: dict[str, str]) -> tuple[str, ...]:
    """What of the unit's environment the benchmark needs too: where caches are, where programs are. No secret."""
    return tuple(
        f"{name}={value}"
        for name, value in environment.items()
        if (name.startswith(_PASSED) or name in _PASSED_ALSO)
        and not name.endswith(_SECRET)
        and "\n" not in value
        and name.isidentifier()
    )


FIND = r"""
pid=$1 scope=$2 unit=$3
shift 3
folder=$(readlink -- "/proc/$pid/cwd" 2>/dev/null) ||
  folder=$(systemctl "$scope" show -p WorkingDirectory -- "$unit" 2>/dev/null | sed -n 's/^WorkingDirectory=[!-]*//p')
case $folder in
/*) cd -- "$folder" 2>/dev/null || cd / ;;
*) folder=/ ; cd / ;;
esac
printf '%s\n' "$folder"
for one; do
  case $one in
  /*) [ -x "$one" ] ;;
  *) command -v -- "$one" >/dev/null 2>&1 ;;
  esac && echo "$one"
done
exit 0
"""
"""Arguments: main process, systemctl's scope, unit, names of programs. The folder in which the server was started, then
the programs that are there: a relative path, of a program as of a model, is one from there."""


async def _executable(
    host: Host, rights: Rights, unit: Unit, candidates: Iterable[tuple[str, ...]]
) -> tuple[tuple[str, ...] | None, str]:
    """The first that is there, and the server's folder."""
    listed = list(candidates)
    asked = list(dict.fromkeys(command[0] for command in listed))
    if not asked:
        return None, ""
    where = (str(unit.reading.main_pid or "-"), rights.scope, unit.reading.unit)
    done = await host.run([*rights.prefix, "/bin/sh", "-c", FIND, "sh", *where, *asked], timeout=30.0)
    folder, *there = [*done.stdout.decode("utf-8", "surrogateescape").splitlines(), ""]
    return next((command for command in listed if command[0] in there), None), folder


def _nothing(argv: Sequence[str], name: str) -> str:
    if any("sglang" in word for word in argv):
        return "SGLang's environment has no `vllm bench serve` to measure with"
    return f"The unit's command names no vLLM that could be found on {name}, so nothing can measure it there"


def _container(shown: Sequence[str]) -> str:
    """The container runtime that starts the server; empty: none does."""
    if not shown:
        return ""
    return shown[0] if PurePosixPath(shown[0]).name in RUNTIMES else ""


async def _contained(host: Host, rights: Rights, shown: Sequence[str], argv: Sequence[str], place: Place) -> Place:
    runtime = _container(shown)
    name = option(shown, "--name") or await _by_port(host, rights, runtime, place.outside.port)
    port = option(argv, "--port") or ""
    inner = Endpoint(port=int(port) if port.isdigit() else 8000)
    asked = [
        *rights.prefix,
        runtime,
        "exec",
        name,
        "sh",
        "-c",
        "command -v vllm; command -v python3 || command -v python",
    ]
    done = await host.run(asked, timeout=30.0)
    found = done.stdout.decode("utf-8", "backslashreplace").split()
    if not found or not found[0].endswith("vllm"):
        why = words(done.stderr) or "it has no vllm command"
        raise ProbeFailed(
            f"The server's container {name} cannot run the benchmark: {why}",
            f"{PurePosixPath(runtime).name} exec {name} vllm bench serve --help must work for this login. " + INSTALL,
            state="missing",
        )
    handed = [word for variable in _TO_CONTAINER for word in ("-e", variable)]
    return replace(
        place,
        command=(runtime, "exec", *handed, name, found[0]),
        python=(runtime, "exec", "-i", "-e", "FL_METRICS", "-e", "FL_DIR", "-e", "OPENAI_API_KEY", name, found[-1]),
        inside=(runtime, "exec", name),
        endpoint=inner,
        container=name,
    )


async def _by_port(host: Host, rights: Rights, runtime: str, port: int) -> str:
    """The one container that runs with the server's port."""
    done = await host.run([*rights.prefix, runtime, "ps", "--format", "{{.Names}}\t{{.Ports}}"], timeout=30.0)
    rows = [line.split("\t") for line in done.stdout.decode("utf-8", "backslashreplace").splitlines()]
    found = [row[0] for row in rows if len(row) > 1 and f":{port}->" in row[1]]
    if len(found) == 1:
        return found[0]
    raise ProbeFailed(
        f"Which container is the server's cannot be told: {words(done.stderr) or 'its command gives no --name'}",
        "Give it a name in the unit: docker run --name …",
        state="missing",
    )
