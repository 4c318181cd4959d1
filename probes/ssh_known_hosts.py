"""Which host keys the operator trusts: known_hosts as OpenSSH reads them, and never anything beside them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import asyncssh

USER_FILES = ("~/.ssh/known_hosts", "~/.ssh/known_hosts2")
GLOBAL_FILES = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")
DEFAULT_PORT = 22

Trusted = tuple[Sequence[asyncssh.SSHKey], Sequence[asyncssh.SSHKey], Sequence[asyncssh.SSHKey]]
"""Host keys, keys of certificate authorities, revoked keys: what asyncssh asks of a known_hosts function."""


@dataclass(frozen=True)
class KnownHosts:
    """``files``: name and content. The name of given content (no file) is empty."""

    files: tuple[tuple[str, asyncssh.SSHKnownHosts], ...] = ()

    def lookup(self, host: str, _address: str, port: int | None) -> Trusted:
        """For asyncssh's ``known_hosts``: what is held for a name. ``port`` None: the default one.

        The name alone decides, as in OpenSSH (CheckHostIP no): a key held for an address does not vouch for a name
        that happens to resolve to it.
        """
        host_keys: list[asyncssh.SSHKey] = []
        authorities: list[asyncssh.SSHKey] = []
        revoked: list[asyncssh.SSHKey] = []
        for _, known in self.files:
            found = known.match(host.lower(), "", port)
            host_keys += found[0]
            authorities += found[1]
            revoked += found[2]
        return host_keys, authorities, revoked

    def holding(self, host: str, port: int) -> list[tuple[str, asyncssh.SSHKey]]:
        """The host keys held for exactly this name and port, and the file each stands in."""
        return [(name, key) for name, known in self.files for key in known.match(entry(host, port), "", None)[0]]


def entry(host: str, port: int) -> str:
    """The name of a host in known_hosts."""
    return host.lower() if port == DEFAULT_PORT else f"[{host.lower()}]:{port}"


def read(files: Iterable[str | Path]) -> KnownHosts:
    """The files that are there and can be read. A line that OpenSSH would not understand is left out, as it does."""
    found = []
    for name in files:
        path = Path(name).expanduser()
        try:
            text = path.read_text("utf-8", "replace")
        except OSError:
            continue
        found.append((str(path), parse(text)))
    return KnownHosts(tuple(found))


def given(content: bytes) -> KnownHosts:
    """Content that is no file of the operator's."""
    return KnownHosts((("", parse(content.decode("utf-8", "replace"))),))


def parse(text: str) -> asyncssh.SSHKnownHosts:
    known = asyncssh.SSHKnownHosts()
    for line in text.splitlines():
        try:
            known.load(line)
        except ValueError:  # one bad line must not lock the operator out, and trusts nothing
            continue
    return known
