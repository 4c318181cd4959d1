"""Any argument list reaches the program as it is, whatever the login shell, and nothing outlives its caller."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from probes.quoting import LONGEST, Wrapped, command_line, opening, shell, unwrap
from tests.probes.sshserver import processes, sleeper

TOKEN = "f1e2d3c4b5a69788"
HOSTILE = [
    "",
    " ",
    "a'b",
    "''",
    '"$HOME`id`"',
    "!!",
    "!$",
    "a\nb\n",
    "\\",
    "\\'",
    "\\n\\0101",
    "%s%d%%",
    "~root",
    "*",
    "$(id)",
    "${IFS}",
    "-x",
    "a=b",
    ";&|<>()[]{}#",
    "\x1b[31m\a\r\t\x7f",
    "grüße 中文 €",
    "\udcff\udc80",
    "^a^b",
    "3<&-",
]

arguments = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
words = st.lists(arguments | st.sampled_from(HOSTILE), max_size=8)


def need(program: str) -> list[str]:
    """The words that run a shell, or a skipped test."""
    command = program.split()
    if not shutil.which(command[0]):
        pytest.skip(f"{command[0]} is not installed here")
    return command


login_shells = pytest.mark.parametrize("login", ["dash", "bash", "bash -x", "zsh", "fish", "tcsh", "busybox sh"])
own_shells = pytest.mark.parametrize("sh", ["dash", "bash --posix", "busybox sh"])


class Started:
    """A program below a shell of ours, in a process group of its own as a server would start it."""

    def __init__(self, sh: Sequence[str], argv: Sequence[str], stdin: int | bool = False, **options: Any) -> None:
        words = shell(argv, TOKEN, stdin=stdin)
        self.process = subprocess.Popen(
            [*sh, *words[1:]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            **{"start_new_session": True, **options},
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin = self.process.stdin
        self.stdout = self.process.stdout

    def send(self, data: bytes) -> None:
        self.stdin.write(data)
        self.stdin.flush()

    def begun(self) -> None:
        """Return once the program itself is about to run."""
        assert self.stdout.readline() == opening(TOKEN)

    def end(self) -> tuple[int, bytes, bytes]:
        """Wait for the end while its input stays open."""
        assert self.process.stderr is not None
        out, err = self.stdout.read(), self.process.stderr.read()
        status = self.process.wait(10)
        self.stdin.close()
        return status, out.removeprefix(opening(TOKEN)), err.removeprefix(opening(TOKEN))


def test_a_command_line_is_plain_ascii_in_single_quotes() -> None:
    line = command_line(["printf", *HOSTILE], TOKEN)
    assert line.isascii()
    assert line.isprintable()
    assert "!" not in line
    assert line.count("'") == 4
    assert "\\'" not in line
    assert "\\\\" not in line


@given(st.lists(arguments, min_size=1).filter(lambda argv: argv[0] not in ("",) and argv[0][0] != "-"), st.data())
def test_a_command_line_can_be_read_back(argv: list[str], data: st.DataObject) -> None:
    stdin = data.draw(st.booleans() | st.integers(1, 10**9))
    assert unwrap(command_line(argv, TOKEN, stdin=stdin)) == Wrapped(tuple(argv), TOKEN, stdin)


@given(st.text() | st.sampled_from(["", "ls", "exec /bin/sh -c 'x' sh t 'y'", command_line(["ls"], TOKEN) + " ;id"]))
def test_other_command_lines_are_not_taken_for_ours(text: str) -> None:
    with pytest.raises(ValueError, match="not a command line of ours"):
        unwrap(text)


@login_shells
@settings(max_examples=8)
@given(words)
@example(HOSTILE)
def test_every_login_shell_hands_over_the_arguments_as_they_are(login: str, argv: list[str]) -> None:
    line = command_line(["printf", r"%s\0", *argv], TOKEN)
    done = subprocess.run([*need(login), "-c", line], stdin=subprocess.DEVNULL, capture_output=True, check=True)
    assert done.stdout.startswith(opening(TOKEN))
    got = done.stdout.removeprefix(opening(TOKEN)).split(b"\0")[:-1]
    assert got == [os.fsencode(word) for word in argv or [""]]


@login_shells
def test_what_a_shell_echoes_is_not_taken_for_the_opening(login: str) -> None:
    done = subprocess.run(
        [*need(login), "-c", command_line(["sh", "-c", "echo out; echo err >&2"], TOKEN)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
    )
    assert done.stdout.partition(opening(TOKEN))[2] == b"out\n"
    assert done.stderr.partition(opening(TOKEN))[2] == b"err\n"


@pytest.mark.parametrize("argv", [[], [""], ["-c", "x"], ["a\0b"], ["ls", "\0"]])
def test_what_no_system_can_run_is_said_at_once(argv: list[str]) -> None:
    with pytest.raises(ValueError, match=r"no program is named|NUL"):
        command_line(argv, TOKEN)


def test_a_line_too_long_for_a_server_is_said_at_once() -> None:
    with pytest.raises(ValueError, match="bytes long"):
        command_line(["echo", "x" * LONGEST], TOKEN)


def test_a_token_cannot_smuggle_anything() -> None:
    with pytest.raises(ValueError, match="letters and digits"):
        command_line(["true"], "a;id")


@own_shells
@pytest.mark.parametrize(
    ("argv", "status"),
    [
        (["true"], 0),
        (["sh", "-c", "exit 3"], 3),
        (["sh", "-c", "kill -TERM $$"], 128 + signal.SIGTERM),
        (["sh", "-c", "kill -KILL $$"], 128 + signal.SIGKILL),
        (["no-such-program"], 127),
        (["/etc/passwd"], 126),
        (["exit", "3"], 127),
        (["if"], 127),
        (["A=b"], 127),
        (["cd", "/"], 127),
    ],
)
def test_the_status_is_the_programs_and_no_word_is_the_shells(sh: str, argv: list[str], status: int) -> None:
    assert Started(need(sh), argv).end()[0] == status


@own_shells
def test_the_program_has_default_signals_no_input_and_no_descriptor_of_ours(sh: str) -> None:
    argv = ["sh", "-c", "grep SigIgn /proc/self/status; ls /proc/self/fd | wc -l; wc -c"]
    lines = Started(need(sh), argv).end()[1].split(b"\n")
    ignored = int(lines[0].split()[1], 16)
    assert not ignored & (1 << (signal.SIGINT - 1) | 1 << (signal.SIGQUIT - 1) | 1 << (signal.SIGTERM - 1))
    assert lines[1:3] == [b"4", b"0"]  # 0, 1, 2 and that of the folder


@own_shells
def test_the_locale_is_c(sh: str) -> None:
    environment = {**os.environ, "LC_ALL": "xx_YY.UTF-8", "LANG": "xx_YY.UTF-8"}
    assert Started(need(sh), ["printenv", "LC_ALL"], env=environment).end()[1] == b"C\n"


@own_shells
@given(data=st.binary(min_size=1, max_size=300))
@settings(max_examples=5)
@example(data=b"\0\n" * 100_000)
def test_given_input_arrives_whole_and_ends(sh: str, data: bytes) -> None:
    started = Started(need(sh), ["wc", "-c"], stdin=len(data))
    started.send(data)
    status, out, _ = started.end()
    assert (status, int(out)) == (0, len(data))


@own_shells
def test_open_input_can_be_written_while_the_program_runs(sh: str) -> None:
    started = Started(need(sh), ["cat"], stdin=True)
    started.begun()
    for line in (b"one\n", b"two\n"):
        started.send(line)
        assert started.stdout.readline() == line
    started.stdin.close()
    assert started.process.wait(10) == 0


@own_shells
@pytest.mark.parametrize("stdin", [False, True, 5])
def test_a_program_that_ends_by_itself_leaves_nothing(sh: str, stdin: int | bool) -> None:
    _, mark = sleeper()
    started = Started(need(sh), ["sh", "-c", "exit 7", mark], stdin=stdin)
    assert started.end()[0] == 7
    gone(mark)


@own_shells
@pytest.mark.parametrize("stdin", [False, True, 5])
@pytest.mark.parametrize("kind", ["quiet", "family"])
def test_the_end_of_the_input_ends_the_program_and_its_children(sh: str, kind: str, stdin: int | bool) -> None:
    (program, argument), mark = sleeper()
    sleep = f"{program} {argument}"
    argv = [program, argument] if kind == "quiet" else ["sh", "-c", f"{sleep} & {sleep} & wait"]
    started = Started(need(sh), argv, stdin=stdin)
    started.begun()
    if isinstance(stdin, int) and stdin is not True:
        started.send(b"x" * stdin)
    assert processes(mark)
    started.stdin.close()
    started.process.wait(10)
    gone(mark)


@pytest.mark.parametrize("stdin", [False, True])
def test_a_program_that_ignores_sigterm_is_killed(stdin: bool) -> None:
    (program, argument), mark = sleeper()
    started = Started(["dash"], ["sh", "-c", f"trap '' TERM; {program} {argument}; {program} {argument}"], stdin=stdin)
    started.begun()
    started.stdin.close()
    started.process.wait(10)
    gone(mark)


@pytest.mark.skipif(not shutil.which("pkill"), reason="pkill is not installed here")
def test_a_server_without_process_groups_still_ends_the_program() -> None:
    argv, mark = sleeper()
    started = Started(["dash"], argv, start_new_session=False)
    assert os.getpgid(started.process.pid) == os.getpgid(0)
    started.begun()
    started.stdin.close()
    started.process.wait(10)
    gone(mark)


def gone(mark: str) -> None:
    """Processes of a test are no children of it: there is nothing to wait for but their absence."""
    limit = time.monotonic() + 10
    while processes(mark):
        assert time.monotonic() < limit, f"still running: {processes(mark)}"
        time.sleep(0.01)
