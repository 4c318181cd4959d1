"""The files of a unit, read exactly, and those that earlier actions kept on the host."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from probes.host import Host
from probes.operate.asked import ask
from probes.operate.orders import Edit, File, Rights, Saved, UnitFiles
from probes.operate.scripts import READ, SAVED, SHOW
from probes.systemd import properties, unquoted
from probes.unit import full_name


class Frame(Struct, frozen=True):
    """One piece of an answer: ``kind TAB size TAB name TAB more``, a newline, the bytes, a newline."""

    kind: str
    name: str
    more: str
    data: bytes


def frames(answer: bytes) -> Iterator[Frame]:
    """The pieces of an answer, up to the first that is none."""
    at = 0
    while at < len(answer):
        end = answer.find(b"\n", at)
        words = answer[at : end if end >= 0 else len(answer)].decode("utf-8", "surrogateescape").split("\t")
        if end < 0 or len(words) != 4 or not words[1].isdecimal() or len(words[1]) > 9:
            return
        kind, size, name, more = words
        at = end + 1
        if kind not in ("file", "info"):
            yield Frame(kind, name, more, b"")
            continue
        data = answer[at : at + int(size)]
        if len(data) < int(size):
            return
        at += int(size) + 1
        yield Frame(kind, name, more, data)


async def read_files(host: Host, rights: Rights, unit: str) -> UnitFiles:
    """As they are now. Raises what ``Host.run`` does."""
    done = await ask(host, rights, SHOW, unit)
    shown, _, own = done.stdout.decode("utf-8", "surrogateescape").rstrip("\n").rpartition("\n")
    values = {name: found[-1] for name, found in properties(shown.rstrip("\n")).items()}
    environment = [
        path.removeprefix("-")
        for value in properties(shown).get("EnvironmentFiles", [])
        if (path := (value.rpartition(" (")[0] or value).strip())
    ]
    fragment = values.get("FragmentPath", "").strip()
    paths = ([fragment] if fragment else []) + unquoted(values.get("DropInPaths", "").strip())
    masked = values.get("LoadState") == "masked"
    texts: dict[str, str] = {}
    links: dict[str, str] = {}
    unread: dict[str, str] = {}
    if (paths or environment) and not masked:
        argv = [*rights.prefix, "/bin/sh", "-c", READ, "sh", *dict.fromkeys([*paths, *environment])]
        answer = await host.run(argv, timeout=30.0)
        for frame in frames(answer.stdout):
            if frame.kind == "unread":
                unread[frame.name] = frame.more
                continue
            texts[frame.name] = frame.data.decode("utf-8", "surrogateescape")
            if frame.more:
                links[frame.name] = frame.more
    return UnitFiles(
        unit=values.get("Id", "").strip() or full_name(unit),
        load=values.get("LoadState", "").strip(),
        files=tuple(File(path, texts[path]) for path in paths if path in texts),
        links={path: target for path, target in links.items() if path in paths},
        own=own.strip(),
        environment={path: texts[path] for path in environment if path in texts},
        needs_reload=values.get("NeedDaemonReload") == "yes",
        unread={path: unread.get(path, "not there") for path in paths if path not in texts and not masked},
    )


async def saved(host: Host, rights: Rights, unit: str) -> tuple[Saved, ...]:
    """What actions on this unit have kept before they changed files, newest first. Raises what ``Host.run`` does."""
    done = await ask(host, rights, SAVED, unit)
    found: dict[str, Saved] = {}
    edits: dict[str, list[Edit]] = {}
    current = ""
    for frame in frames(done.stdout):
        if frame.kind == "saved":
            current = frame.name
            found[current] = Saved(id=current, at=0.0, folder=frame.more)
            edits[current] = []
        elif not current:
            continue
        elif frame.kind == "info":
            at, action, who = (frame.data.decode("utf-8", "replace").strip() + "\t\t").split("\t")[:3]
            number = at.replace(".", "", 1)
            when = float(at) if number.isdecimal() and len(at) < 30 else 0.0
            found[current] = Saved(id=current, at=when, folder=found[current].folder, action=action, who=who)
        elif frame.kind == "absent":
            edits[current].append(Edit(frame.name, None))
        elif frame.kind == "file":
            edits[current].append(Edit(frame.name, frame.data.decode("utf-8", "surrogateescape")))
    whole = (
        Saved(id=one.id, at=one.at, folder=one.folder, action=one.action, who=one.who, edits=tuple(edits[id]))
        for id, one in found.items()
        if one.at
    )
    return tuple(sorted(whole, key=lambda one: one.at, reverse=True))
