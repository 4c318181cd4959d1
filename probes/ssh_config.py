"""How to reach a host: the operator's ssh_config, keys and known_hosts, or what a caller gives instead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import asyncssh


@dataclass(frozen=True)
class Access:
    """How to get in. Whatever is left out comes from the operator's own set-up; known_hosts are strict in any case.

    ``config``: ssh_config files, the first that names an option counts; empty: none. ``known_hosts``: their content.
    ``keys``: private keys, tried alone. ``socket``: the server listens on this UNIX socket, not on a port.
    """

    config: Sequence[Path] | None = None
    known_hosts: bytes | None = None
    keys: Sequence[asyncssh.SSHKey] | None = None
    socket: Path | None = None
