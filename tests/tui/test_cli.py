"""The command line as a shell sees it: real processes, their exit status, what they print where."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import asyncssh
import pytest
from typer.testing import CliRunner

from probes.readings import LinkReading, ProbeReading, Reading, UnitReading
from probes.version import __version__
from tests.watch.fed import OpenFeed
from tui.cli import app
from tui.commands import live as command
from tui.exits import MEANING, Ending, Exit
from watch.session import SessionWriter, new_header
from watch.state import WatchState
from watch.watching import Watching

PROGRAM = str(Path(sys.executable).with_name("firstlight"))


def firstlight(*arguments: str | Path, home: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "NO_COLOR": "1", **({"HOME": str(home)} if home else {})}
    return subprocess.run(
        [PROGRAM, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=environment,
        timeout=60,
        check=False,
    )


def one_sentence(done: subprocess.CompletedProcess[str]) -> str:
    """What is said of bad input: a sentence, and at most a line with its remedy; no traceback, nothing on stdout."""
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    lines = done.stderr.rstrip("\n").split("\n")
    assert lines[0].startswith("firstlight: ")
    assert len(lines) <= 2, done.stderr
    return done.stderr


def test_the_version() -> None:
    done = firstlight("--version")
    assert (done.returncode, done.stdout) == (0, f"firstlight {__version__}\n")


@pytest.mark.parametrize("group", [[], ["bench"], ["sessions"]])
def test_what_a_command_does_fits_a_terminal_of_80_columns(group: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    listed = firstlight(*group, "--help").stdout.partition("Commands:\n")[2].partition("\n\n")[0].splitlines()
    assert len(listed) >= 1
    assert not [line for line in listed if "..." in line or "…" in line or line.startswith("   ")]


def test_help_says_how_the_program_ends() -> None:
    done = firstlight("--help")
    assert done.returncode == 0
    assert set(MEANING) == set(Exit)
    for status, meaning in MEANING.items():
        assert f"{status:>5}  {meaning}" in done.stdout


@pytest.mark.parametrize("name", ["watch", "demo", "replay", "explain"])
def test_help_of_each_command_has_an_example(name: str) -> None:
    done = CliRunner().invoke(app, [name, "--help"])
    assert done.exit_code == 0
    example = done.stdout[done.stdout.index("Example:") :]
    assert f"firstlight {name}" in example


@pytest.mark.parametrize(
    "arguments",
    [
        ["watch"],
        ["wacht", "host", "unit"],
        ["demo", "--speed", "fast"],
        ["demo", "--speed", "0"],
        ["replay", "--speed", "-1", "x"],
        ["explain"],
        ["explain", "--at", "soon", "x"],
        ["--nonsense"],
    ],
)
def test_a_wrong_command_line(arguments: list[str]) -> None:
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == Exit.USAGE
    assert done.stdout == ""
    assert "Error: " in done.stderr
    assert isinstance(done.exception, SystemExit)


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["explain", "absent"], ["replay", "absent"]])
def test_the_screen_is_not_loaded_where_none_is_shown(arguments: list[str]) -> None:
    code = (
        "import sys; from tui.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print(sorted(name for name in ('textual', 'plotext') if name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


HEAVY = ("textual", "asyncssh", "httpx", "rich", "pydantic", "prometheus_client", "plotext", "sqlite3", "watch.state")


@pytest.mark.parametrize(
    ("work", "may"),
    [
        ("sys.argv[1:] = ['--version']; main()", ()),
        ("sys.argv[1:] = ['--help']; main()", ()),
        ("sys.argv[1:] = ['watch', '--help']; main()", ()),
        ("from tui.commands import watch; watch.open_target('local')", ()),
        ("from tui.commands import watch; watch.open_target('llm-two')", ("asyncssh",)),
    ],
)
def test_a_start_loads_what_it_needs_and_a_watch_reaches_its_host_before_all_else(
    work: str, may: tuple[str, ...]
) -> None:
    code = (
        f"import sys; from tui.cli import main\ntry: {work}\nexcept SystemExit: pass\n"
        f"print(*[name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert tuple(done.stdout.splitlines()[-1].split()) == may


# ----- files


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "no such file or directory"),
        (b"", "is empty"),
        (b"INFO 11-30 01:39:58 some log\n", "is no recording of firstlight"),
        (gzip.compress(b"some log\n"), "is no recording of firstlight"),
        (b"\x1f\x8b\x08 damaged", "is damaged"),
    ],
)
def test_replay_of_what_is_no_recording(tmp_path: Path, content: bytes | None, says: str) -> None:
    path = tmp_path / "x.jsonl"
    if content is not None:
        path.write_bytes(content)
    done = firstlight("replay", path)
    assert done.returncode == Exit.UNREADABLE
    assert says in one_sentence(done)
    assert str(path) in done.stderr


@pytest.mark.parametrize("name", ["x" * 300, "pipe", "/dev/zero", "pipe/x", "~nobody-of-that-name/x"])
@pytest.mark.parametrize(
    "words",
    [
        ["explain", "FILE"],
        ["replay", "FILE"],
        ["report", "FILE"],
        ["export", "FILE", "--list"],
        ["bench", "compare", "FILE", "./FILE"],
        ["--config", "FILE", "bench", "presets"],
    ],
)
def test_what_is_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], name: str) -> None:
    """A pipe that nobody writes to, a device without end, a name that cannot be one: said at once, by every command."""
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    done = CliRunner().invoke(app, [word.replace("FILE", name) for word in words])
    assert isinstance(done.exception, Ending), done.output
    assert done.exception.status in (Exit.UNREADABLE, Exit.USAGE)
    assert name.rpartition("/")[2][:100] in done.exception.reason
    assert done.stdout == ""


def test_a_name_that_a_terminal_would_obey_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "x\x1b[31m\ny"
    done = firstlight("replay", path)
    assert "\x1b" not in one_sentence(done)


@pytest.mark.parametrize("arguments", [["demo"], ["replay", "FILE"]])
def test_a_screen_needs_a_terminal(tmp_path: Path, arguments: list[str]) -> None:
    writer = SessionWriter(new_header("t", "u", 0.0), where=tmp_path)
    path = writer.close()
    done = firstlight(*(str(path) if argument == "FILE" else argument for argument in arguments))
    assert done.returncode == Exit.USAGE
    assert "a terminal" in one_sentence(done)


NAMED = """\
[deployments.kimi]
target = "root@no-such-host.invalid"
unit = "kimi-k25"
"""


def configured(folder: Path, more: str = "") -> Path:
    file = folder / "mine.toml"
    file.write_text(NAMED + more)
    return file


@pytest.mark.parametrize("place", ["before", "after", "equals"])
def test_a_deployment_is_watched_by_its_name_with_the_configuration_of_an_option(tmp_path: Path, place: str) -> None:
    file = configured(tmp_path)
    words = {
        "before": ["--config", file, "watch", "kimi"],
        "after": ["watch", "kimi", "--config", file],
        "equals": ["watch", f"--config={file}", "kimi"],
    }
    done = firstlight(*words[place], home=tmp_path)
    assert done.returncode == Exit.UNREACHABLE
    assert "no-such-host.invalid" in one_sentence(done)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["watch", "kimy"], ('no deployment is named "kimy" (did you mean "kimi"?)', "kimi.")),
        (["watch", "a", "b", "c"], ("NAME of the configuration, or TARGET UNIT", "kimi")),
    ],
)
def test_an_unknown_deployment_is_answered_with_the_nearest_and_all(
    tmp_path: Path, words: list[str], says: tuple[str, ...]
) -> None:
    done = firstlight("--config", configured(tmp_path), *words, home=tmp_path)
    assert done.returncode == Exit.USAGE
    assert all(part in one_sentence(done) for part in says)


@pytest.mark.parametrize(
    "command", [["watch", "kimi"], ["explain", "x"], ["replay", "x"], ["demo"], ["doctor", "kimi"], ["audit"]]
)
@pytest.mark.parametrize(
    ("text", "says"), [(None, "no such file"), ("[deployment.x]\n", 'mine.toml:1: unknown key "deployment"')]
)
def test_a_configuration_that_was_asked_for_must_be_right_for_every_command(
    tmp_path: Path, command: list[str], text: str | None, says: str
) -> None:
    file = tmp_path / "mine.toml"
    if text is not None:
        file.write_text(text)
    done = CliRunner().invoke(app, ["--config", str(file), *command])
    assert isinstance(done.exception, Ending)
    assert done.exception.status == Exit.USAGE
    assert says in done.exception.reason
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[keys]\n"watch.zoom" = "x"\n"journal.folow" = "F"\n', ("mine.toml:6:", "'journal.follow'")),
        ('[keys]\n"watch.zoom" = "s"\n', ("mine.toml:5:", "'watch.zoom'", "'journal.severity'")),
        ('[keys]\n"watch.zoom" = "x"\n"watch.findings" = "x"\n', ("mine.toml:5:", "'watch.zoom'", "'watch.findings'")),
        ('[keys]\n"watch.zoom" = "ctrl+foo"\n', ("mine.toml:5:", "'ctrl+foo'")),
        ('[defaults]\ntheme = "firstlight-drak"\n', ("mine.toml:5:", '"firstlight-dark"')),
    ],
)
@pytest.mark.parametrize("command", ["watch", "doctor", "wait", "bench run", "audit", "serve-status"])
def test_keys_and_themes_that_cannot_be_are_named_with_their_line_before_a_host_is_asked(
    tmp_path: Path, text: str, says: tuple[str, ...], command: str
) -> None:
    done = CliRunner().invoke(app, ["--config", str(configured(tmp_path, text)), *command.split(), "kimi"])
    assert isinstance(done.exception, Ending)
    assert done.exception.status == Exit.USAGE
    assert all(part in f"{done.exception.reason} {done.exception.remedy}" for part in says)


def test_a_wrong_configuration_is_named(tmp_path: Path) -> None:
    folder = tmp_path / ".config" / "firstlight"
    folder.mkdir(parents=True)
    (folder / "firstlight.toml").write_text("[defaults]\nrecrod = true\n")
    done = firstlight("watch", "local", "x", home=tmp_path)
    assert done.returncode == Exit.USAGE
    assert "firstlight.toml:2" in one_sentence(done)


# ----- explain


def test_explain_of_nothing_and_of_a_foreign_file(tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    for path in (tmp_path / "absent", tmp_path / "empty"):
        done = firstlight("explain", path)
        assert done.returncode == Exit.UNREADABLE
        assert path.name in one_sentence(done)


def test_explain_of_a_load_that_failed_and_of_one_that_did_not() -> None:
    cases = Path(__file__).parent.parent / "cases"
    failed = firstlight("explain", *cases.glob("C03-*/input*"))
    assert failed.returncode == Exit.FAILED
    assert failed.stderr == ""
    loading = firstlight("explain", "--json", *sorted(cases.glob("C01-*/input*")))
    assert loading.returncode == Exit.OK
    found = json.loads(loading.stdout)
    assert (found["state"], found["phase"]) == ("loading", "pre-start")
    assert any("free" in str(finding) for finding in found["findings"])


@pytest.mark.parametrize("how", ["-", "<({})"])
def test_explain_out_of_a_pipe(tmp_path: Path, how: str) -> None:
    """As people type it; it says what it says of the file, and leaves no copy behind."""
    file = min(Path("tests/cases").glob("*/input.journal.jsonl"))
    of_file = firstlight("explain", file, "--json")
    given = how.format(f"cat {file}")
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -c 'from tui.cli import main; main()' explain {given} --json < {file}"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert done.stderr == ""
    name = "standard input" if how == "-" else "pipe 63"
    assert done.stdout == of_file.stdout.replace(file.name, name)
    assert list(tmp_path.iterdir()) == []


def test_explain_into_a_pipe_that_is_closed() -> None:
    case = next(iter((Path(__file__).parent.parent / "cases").glob("C03-*/input*")))
    script = f"'{PROGRAM}' explain '{case}' | head -c 1 >/dev/null; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.returncode in (Exit.OK, Exit.FAILED)


# ----- watch: what ends the program before its screen


def test_a_host_that_there_is_none_of(tmp_path: Path) -> None:
    done = firstlight("watch", "nobody@no-such-host.invalid", "vllm", home=tmp_path)
    assert done.returncode == Exit.UNREACHABLE
    assert "no-such-host.invalid" in one_sentence(done)
    assert list((tmp_path / ".local/state/firstlight/sessions").glob("*.jsonl*")) == []


@pytest.mark.parametrize("target", ["-oProxyCommand=x", "a b", ""])
def test_what_can_be_no_host(tmp_path: Path, target: str) -> None:
    done = firstlight("watch", "--", target, "vllm", home=tmp_path)
    assert done.returncode == Exit.USAGE
    one_sentence(done)


async def test_a_host_key_that_is_not_known(tmp_path: Path) -> None:
    key = asyncssh.generate_private_key("ssh-ed25519")
    async with asyncssh.listen("127.0.0.1", 0, server_host_keys=[key]) as server:
        port = server.get_port()
        done = await asyncio.to_thread(firstlight, "watch", f"127.0.0.1:{port}", "vllm", home=tmp_path)
        assert done.returncode == Exit.UNREACHABLE
        assert key.get_fingerprint() in one_sentence(done)
        (tmp_path / ".ssh").mkdir()
        other = asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode()
        (tmp_path / ".ssh" / "known_hosts").write_text(f"[127.0.0.1]:{port} {other}")
        done = await asyncio.to_thread(firstlight, "watch", f"127.0.0.1:{port}", "vllm", home=tmp_path)
        assert done.returncode == Exit.UNREACHABLE
        assert "has CHANGED" in one_sentence(done)


AT = 1_800_000_000.0


async def decided(*readings: Reading) -> Exit | None:
    """How a watch ends that begins with these; None: its screen is shown."""
    feed = OpenFeed()
    feed.put(*readings)
    tape = SessionWriter(new_header("llm-two", "vllm", AT), where=None)
    watching = Watching(feed, WatchState("llm-two", "vllm"), tape)
    try:
        await command.first_answer(watching)
    except Ending as ending:
        return ending.status if ending.reason and ending.remedy else Exit.OK
    finally:
        await watching.stop()
        tape.close()
    return None


async def test_what_only_the_operator_can_mend_ends_the_program() -> None:
    up = LinkReading(at=AT, state="up")
    gone = UnitReading(at=AT, unit="vllm.service", load="not-found", near=("vllm-kimi.service",))
    assert await decided(LinkReading(at=AT, state="refused", reason="no", remedy="yes")) == Exit.UNREACHABLE
    assert await decided(up, gone) == Exit.NO_UNIT


async def test_what_may_mend_itself_is_shown() -> None:
    up = LinkReading(at=AT, state="up")
    assert await decided(LinkReading(at=AT, state="down", reason="refused", retry_in=1.0)) is None
    assert await decided(up, UnitReading(at=AT, unit="vllm.service", load="loaded")) is None
    assert await decided(up, ProbeReading(at=AT, probe="unit", state="missing", reason="no systemd")) is None


async def test_near_names_are_offered() -> None:
    feed = OpenFeed()
    feed.put(UnitReading(at=AT, unit="vlm.service", load="not-found", near=("vllm.service", "vllm2.service")))
    tape = SessionWriter(new_header("llm-two", "vlm", AT), where=None)
    watching = Watching(feed, WatchState("llm-two", "vlm"), tape)
    with pytest.raises(Ending, match=r"llm-two has no unit vlm\.service") as ending:
        await command.first_answer(watching)
    assert ending.value.remedy == "Did you mean vllm.service, vllm2.service?"
    await watching.stop()
    tape.close()


@pytest.mark.parametrize("words", ["sessions --json", "bench presets", "bench list --json", "audit", "--version"])
@pytest.mark.parametrize("where", [">/dev/full", ">&-"])
@pytest.mark.parametrize("buffered", ["", "1"])
def test_output_that_cannot_be_written(tmp_path: Path, words: str, where: str, buffered: str) -> None:
    done = subprocess.run(
        ["sh", "-c", f"exec {PROGRAM} {words} {where}"],
        capture_output=True,
        text=True,
        env={**os.environ, "HOME": str(tmp_path), "PYTHONUNBUFFERED": buffered},
        timeout=60,
        check=False,
    )
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    assert done.returncode in (Exit.OK, Exit.UNREADABLE)
