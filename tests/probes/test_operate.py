"""What the host says about an action, read whatever it says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.diagnose import as_text, members_of
from probes.operate.actions import plain_who, refusal
from probes.operate.asked import going
from probes.operate.files import frames
from probes.operate.follow import Trail
from probes.operate.orders import Edit, Order, Rights, UnderWay, runner
from probes.operate.rights import by_hand, rights_of
from probes.readings import CommandReading

FULL = Rights(level="full", how="root", login="root")
ORDER = Order(id="ab12", action="restart", unit="vllm.service", who="ann@laptop")


def line(number: int, step: str, outcome: str, words: str, id: str = "ab12") -> bytes:
    return f"@firstlight\t{id}\t{number}\t17{number:08d}.5\t{step}\t{outcome}\t{words}\n".encode()


STORY = (
    line(1, "begin", "begun", "restart of vllm.service")
    + b"a word of the shell's own\n"
    + line(1, "begin", "begun", "another's", id="ffff")
    + line(2, "stop", "wait", "0 s, still there: 7 (VLLM::Engine)")
    + line(3, "stop", "failed", "it did not stop")
    + line(4, "stop", "undo", "kill it")
    + line(5, "end", "failed", "it did not stop")
)


@given(st.lists(st.integers(1, 60)))
def test_however_the_bytes_are_cut_the_steps_are_the_same(cuts: list[int]) -> None:
    trail, rest, seen = Trail(ORDER), STORY, []
    for cut in cuts:
        seen += list(trail.feed(rest[:cut]))
        rest = rest[cut:]
    seen += list(trail.feed(rest))
    assert [(one.step, one.outcome) for one in seen] == [
        ("begin", "begun"), ("stop", "wait"), ("stop", "failed"), ("stop", "undo"), ("end", "failed"),
    ]  # fmt: skip
    assert trail.ended
    assert [one.undo for one in seen] == ["", "", "", "", "kill it"]


@given(st.integers(0, len(STORY)))
def test_read_again_from_the_beginning_each_step_comes_once(cut: int) -> None:
    trail = Trail(ORDER)
    seen = list(trail.feed(STORY[:cut]))
    trail.restart()
    seen += list(trail.feed(STORY))
    assert len(seen) == 5


@given(st.binary(), st.text())
def test_nothing_that_a_host_says_breaks_the_reading(data: bytes, text: str) -> None:
    list(Trail(ORDER).feed(data + b"\n" + text.encode("utf-8", "surrogatepass") + b"\n"))
    list(frames(data))
    going(text, "u")
    rights_of(text)
    members_of(text)
    as_text([CommandReading(at=1.0, command=text, stdout=text, stderr=text)])


NAMES = st.text(st.characters(exclude_characters="\t\n", codec="utf-8"), max_size=9)


@given(st.lists(st.tuples(NAMES, st.binary(max_size=40))))
def test_files_come_as_they_are(files: list[tuple[str, bytes]]) -> None:
    answer = b"".join(f"file\t{len(data)}\t{name}\t\n".encode() + data + b"\n" for name, data in files)
    assert [(frame.name, frame.data) for frame in frames(answer)] == files


def test_a_text_for_people_holds_nothing_that_a_terminal_obeys() -> None:
    text = as_text([CommandReading(at=1.0, command="ps", stdout="\x1b]0;x\x07 red \x1b[31m\r")])
    assert "\x1b" not in text
    assert "\\x1b]0;x" in text


def test_who_is_at_it() -> None:
    said = "ActiveState=active\nDescription=firstlight: restart of vllm.service by ann@laptop, ab12\n"
    assert going(said, "vllm.service") == UnderWay(unit="vllm.service", id="ab12", action="restart", who="ann@laptop")
    assert going("ActiveState=inactive\nDescription=firstlight-vllm.service\n", "vllm.service") is None
    said = "Runner=12 /home/ops/.cache/firstlight/ab12.99/steps.sh stop vllm.service - bob@desk\n"
    assert going(said, "vllm.service") == UnderWay(unit="vllm.service", id="ab12", action="stop", who="bob@desk")


@given(st.text())
def test_a_name_is_no_word_of_a_shell(who: str) -> None:
    plain = plain_who(who)
    assert plain
    assert all(char.isascii() and (char.isalnum() or char in "@._+-") for char in plain)
    assert not plain.startswith("-")


@given(st.text(min_size=1, max_size=300))
def test_a_runner_has_a_name_that_systemd_takes(unit: str) -> None:
    name = runner(unit)
    assert len(name) < 256
    assert name.isascii()
    assert runner(unit) == name


def test_units_of_one_kind_have_runners_of_their_own() -> None:
    names = ["vllm", "vllm@a", "vllm@b", "vllm-a", "vllm\\x2da", "x" * 250, "x" * 249 + "y"]
    assert len({runner(name) for name in names}) == len(names)
    assert runner("vllm") == runner("vllm.service") == "firstlight-vllm.service"


@pytest.mark.parametrize(
    "order",
    [
        Order(id="a", action="restart", unit="x; reboot"),
        Order(id="a", action="restart", unit="--now"),
        Order(id="a", action="restart", unit=""),
        Order(id="a", action="fallback", unit="x", fallback="x.service"),
        Order(id="a", action="fallback", unit="x", fallback="$(reboot)"),
        Order(id="a", action="rollback", unit="x"),
        Order(id="a", action="rollback", unit="x", edits=(Edit("etc/x", ""),)),
        Order(id="a", action="rollback", unit="x", edits=(Edit("/etc/x\ty", ""),)),
        Order(id="a", action="rollback", unit="x", edits=(Edit("/etc/../x", ""),)),
        Order(id="a", action="rollback", unit="x", edits=(Edit("/etc/x", ""),), verify=(("../x", ""),)),
    ],
)
def test_what_is_no_order(order: Order) -> None:
    assert refusal(FULL, order)


def test_rights() -> None:
    assert refusal(FULL, ORDER) == ""
    assert rights_of("login ann\nno-sudo sudo: a password is required\n").reason == (
        "ann may not manage units: sudo: a password is required"
    )
    assert rights_of("login ann\nno-sudo no\npolkit\n").how == "polkit"
    assert rights_of("login ann\nsudo\n").prefix == ("sudo", "-n", "--")
    assert rights_of("login ann\nsudo-systemctl\n").prefix == ()


def test_commands_for_somebody_who_may() -> None:
    lines = by_hand(Order(id="a", action="restart", unit="x y", reload=True))
    assert lines[0] == "sudo systemctl daemon-reload"
    assert "sudo systemctl stop 'x y.service'" in lines
    assert by_hand(Order(id="a", action="stop", unit="v"), user=True) == ("systemctl --user stop v.service",)
