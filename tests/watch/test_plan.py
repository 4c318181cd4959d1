"""From the files of a unit as they are to those of an earlier revision."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.operate.orders import Edit, File, Saved, UnitFiles
from watch.plan import plan, undo
from watch.revisions import digest

ETC = "/etc/systemd/system"
LIB = "/usr/lib/systemd/system"
UNIT = "vllm.service"


def now(*files: File, unit: str = UNIT, **how: object) -> UnitFiles:
    return UnitFiles(unit=unit, load="loaded", files=files, **how)  # type: ignore[arg-type]


def test_nothing_to_do() -> None:
    files = (File(f"{ETC}/{UNIT}", "a"), File(f"{ETC}/{UNIT}.d/1.conf", "b"))
    made = plan(now(*files), files)
    assert (made.edits, made.refused) == ((), "")


def test_the_digests_are_of_the_files_before_and_after() -> None:
    before, after = File(f"{ETC}/{UNIT}", "old"), File(f"{ETC}/{UNIT}", "new")
    made = plan(now(before), [after])
    assert made.edits == (Edit(f"{ETC}/{UNIT}", "new"),)
    assert (made.expect, made.result) == (digest([before]), digest([after]))
    assert made.verify == ((UNIT, "new"),)


def test_drop_ins_come_and_go() -> None:
    main = File(f"{ETC}/{UNIT}", "a")
    made = plan(now(main, File(f"{ETC}/{UNIT}.d/9.conf", "later")), [main, File(f"{ETC}/{UNIT}.d/1.conf", "earlier")])
    assert made.edits == (Edit(f"{ETC}/{UNIT}.d/1.conf", "earlier"), Edit(f"{ETC}/{UNIT}.d/9.conf", None))
    assert dict(made.verify) == {UNIT: "a", f"{UNIT}.d/1.conf": "earlier", f"{UNIT}.d/9.conf": ""}


def test_files_of_a_package_are_led_round() -> None:
    made = plan(
        now(File(f"{LIB}/{UNIT}", "new"), File(f"{LIB}/{UNIT}.d/9.conf", "later")), [File(f"{LIB}/{UNIT}", "old")]
    )
    assert made.edits == (Edit(f"{ETC}/{UNIT}", "old"), Edit(f"{ETC}/{UNIT}.d/9.conf", ""))
    assert len(made.notes) == 2


def test_a_copy_in_etc_that_is_as_wanted_stays() -> None:
    # the revision is from before the copy was made; its text is the same
    made = plan(now(File(f"{ETC}/{UNIT}", "old")), [File(f"{LIB}/{UNIT}", "old")])
    assert made.edits == ()


@pytest.mark.parametrize("folder", ["vllm@.service.d", "service.d", "vllm-.service.d"])
def test_drop_ins_that_serve_other_units_are_overridden_for_this_one(folder: str) -> None:
    unit = "vllm@one.service"
    main = File(f"{ETC}/vllm@.service", "a")
    path = f"{ETC}/{folder}/1.conf"
    made = plan(now(main, File(path, "new"), unit=unit), [main, File(path, "old")])
    assert made.edits == (Edit(f"{ETC}/{unit}.d/1.conf", "old"),)
    made = plan(now(main, File(path, "new"), unit=unit), [main])
    assert made.edits == (Edit(f"{ETC}/{unit}.d/1.conf", ""),)


def test_generated_drop_ins_are_left() -> None:
    main, generated = File(f"{ETC}/{UNIT}", "a"), File(f"/run/systemd/generator/{UNIT}.d/1.conf", "g")
    made = plan(now(main, generated), [File(f"{ETC}/{UNIT}", "b")])
    assert made.edits == (Edit(f"{ETC}/{UNIT}", "b"),)
    assert made.result == digest([File("", "b"), generated])
    assert dict(made.verify)[f"{UNIT}.d/1.conf"] == "g"


@pytest.mark.parametrize(
    ("files", "wanted", "word"),
    [
        (UnitFiles(unit=UNIT, load="masked"), [File(f"{ETC}/{UNIT}", "a")], "unmask"),
        (UnitFiles(unit=UNIT, load="not-found"), [File(f"{ETC}/{UNIT}", "a")], "no unit"),
        (now(File(f"/run/systemd/generator/{UNIT}", "a")), [File(f"/run/systemd/generator/{UNIT}", "b")], "generator"),
        (now(File(f"/run/systemd/transient/{UNIT}", "a")), [File(f"{ETC}/{UNIT}", "b")], "systemd-run"),
        (now(File(f"{ETC}/{UNIT}", "a"), unread={"/etc/x.conf": "Permission denied"}), [File("/x", "")], "x.conf"),
        (now(File(f"{ETC}/{UNIT}", "a")), [], "known"),
        (now(File(f"{ETC}/{UNIT}", "--api-key x")), [File(f"{ETC}/{UNIT}", "--api-key ***")], "secrets"),
    ],
)  # fmt: skip
def test_refused(files: UnitFiles, wanted: list[File], word: str) -> None:
    made = plan(files, wanted)
    assert word in made.refused
    assert made.edits == ()


def test_undo_is_what_was_kept() -> None:
    kept = Saved(id="a", at=1.0, folder="/var/lib/firstlight/a", edits=(Edit(f"{ETC}/{UNIT}", "old"),))
    made = undo(now(File(f"{ETC}/{UNIT}", "new")), kept)
    assert made.edits == kept.edits
    assert made.verify == ((UNIT, "old"),)
    assert undo(now(File(f"{ETC}/{UNIT}", "old")), kept).refused


NAMES = st.sampled_from(["1.conf", "2.conf", "3.conf"])
TEXTS = st.sampled_from(["", "a\n", "b\n"])
FOLDERS = st.sampled_from([f"{ETC}/{UNIT}.d", f"{LIB}/{UNIT}.d", f"{ETC}/service.d"])


@st.composite
def units(draw: st.DrawFn) -> tuple[File, ...]:
    main = File(f"{draw(st.sampled_from([ETC, LIB]))}/{UNIT}", draw(TEXTS))
    names = sorted(draw(st.sets(NAMES)))
    return (main, *(File(f"{draw(FOLDERS)}/{name}", draw(TEXTS)) for name in names))


@given(before=units(), wanted=units())
def test_after_the_edits_the_unit_reads_as_wanted(before: tuple[File, ...], wanted: tuple[File, ...]) -> None:
    """What systemd would read: of files with one name the one in the folder that goes first."""
    made = plan(now(*before), wanted)
    disk = {file.path: file.text for file in before}
    for edit in made.edits:
        assert not edit.path.startswith(LIB)
        assert "/service.d/" not in edit.path
        if edit.text is None:
            del disk[edit.path]
        else:
            disk[edit.path] = edit.text
    read = {UNIT: disk.get(f"{ETC}/{UNIT}", disk.get(f"{LIB}/{UNIT}"))}
    for name in ("1.conf", "2.conf", "3.conf"):
        places = [f"{ETC}/{UNIT}.d/{name}", f"{LIB}/{UNIT}.d/{name}", f"{ETC}/service.d/{name}"]
        read[name] = next((disk[place] for place in places if place in disk), "")
    then = {file.path.rpartition("/")[2]: file.text for file in wanted}
    assert read == {UNIT: "", "1.conf": "", "2.conf": "", "3.conf": ""} | then
    if made.edits:
        assert made.result == digest([File("", text or "") for text in read.values()])
