"""What is asked of a host when an operator acts, and what it says about what may be done. Frozen data, no host."""

from __future__ import annotations

import re
import secrets
from hashlib import sha256
from typing import Literal

from msgspec import Struct

from probes.unit import full_name

Action = Literal["start", "stop", "restart", "rollback", "undo", "fallback"]
Level = Literal["full", "manage", "none"]
How = Literal["root", "sudo", "polkit", "user", ""]

CHANGES_FILES: frozenset[str] = frozenset({"rollback", "undo"})


class File(Struct, frozen=True):
    """One file of a unit, as it stands on the host. Bytes that are not UTF-8 are kept as surrogates."""

    path: str
    text: str


class Edit(Struct, frozen=True):
    """One file to write, or with ``text`` None to remove."""

    path: str
    text: str | None


class Rights(Struct, frozen=True, kw_only=True):
    """What this login may do to a unit.

    ``full``: every action, run by the service manager itself. ``manage``: start, stop, restart and fallback through
    systemctl alone; no file can be changed. ``none``: nothing; ``reason`` says why, and ``orders.by_hand`` gives the
    commands for somebody who may. ``reason`` also says why it is no more than ``manage``.
    """

    level: Level
    how: How = ""
    login: str = ""
    """user name on the host"""
    reason: str = ""
    user: bool = False
    """the unit is of the user's own manager"""

    @property
    def prefix(self) -> tuple[str, ...]:
        """What goes before a command that needs these rights, where any command may be run with them."""
        return ("sudo", "-n", "--") if self.how == "sudo" and self.level == "full" else ()

    @property
    def scope(self) -> str:
        """systemctl's word for whose manager it is."""
        return "--user" if self.user else "--system"

    def may(self, action: Action) -> bool:
        return self.level == "full" or (self.level == "manage" and action not in CHANGES_FILES)


class UnitFiles(Struct, frozen=True, kw_only=True):
    """The files of a unit as they are on the host now, in the order in which systemd reads them."""

    unit: str
    """its Id"""
    load: str = ""
    """LoadState: loaded, not-found, masked …"""
    files: tuple[File, ...] = ()
    links: dict[str, str] = {}
    """of those that are symbolic links: what they lead to in the end"""
    own: str = "/etc/systemd/system"
    """the folder for units of the administrator's own, or of the user's"""
    environment: dict[str, str] = {}
    """text of each environment file that could be read, secrets and all: never kept as it is"""
    needs_reload: bool = False
    unread: dict[str, str] = {}
    """files that could not be read, and why"""


class Order(Struct, frozen=True, kw_only=True):
    """One action on one unit. ``who``: how the operator is named to others: ``ann@laptop``.

    ``expect``: digest of the files as the operator saw them, ``result``: as they are to be afterwards (both by
    ``revisions.digest``, empty: not checked); ``verify``: (name, text) of the files as systemd is to verify them.
    """

    id: str
    """letters and digits, new for each action"""
    action: Action
    unit: str
    who: str = ""
    fallback: str = ""
    reload: bool = False
    """daemon-reload first"""
    accept_held: bool = False
    """start although others hold GPU memory"""
    edits: tuple[Edit, ...] = ()
    expect: str = ""
    result: str = ""
    verify: tuple[tuple[str, str], ...] = ()
    wait_stop: int = 1800
    """seconds"""
    wait_memory: int = 180


class UnderWay(Struct, frozen=True, kw_only=True):
    """An action that runs on the host now, by whomever."""

    unit: str
    id: str
    action: str
    who: str


class Saved(Struct, frozen=True, kw_only=True):
    """Files that an action has kept on the host before it changed them. ``edits`` bring them back."""

    id: str
    at: float
    folder: str
    action: str = ""
    who: str = ""
    edits: tuple[Edit, ...] = ()


def runner(unit: str, prefix: str = "firstlight") -> str:
    """Name of the transient unit that acts on ``unit``: one name a unit, so that there is one action at a time."""
    stem = full_name(unit).removesuffix(".service")
    plain = re.sub(r"[^A-Za-z0-9:_.-]", "-", stem)
    if plain != stem or len(plain) > 200:
        plain = f"{plain[:180]}-{sha256(stem.encode('utf-8', 'surrogateescape')).hexdigest()[:8]}"
    return f"{prefix}-{plain}.service"


def new_id() -> str:
    """For an ``Order``."""
    return secrets.token_hex(6)
