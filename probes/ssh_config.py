"""How to reach a host: the operator's ssh_config, keys and known_hosts, or what a caller gives instead.

asyncssh reads ssh_config files; what it does not do as OpenSSH does is done here: the system's file counts too, a
missing IdentityFile is no error, ``UserKnownHostsFile none`` does not turn checking off (asyncssh would), known_hosts
names are expanded, the system's known_hosts count, ProxyCommand is run by a shell and its errors stay off the
operator's terminal, and each jump host is held to the same strictness.

Not done: passwords and keyboard-interactive logins (nothing is asked while the screen is up), GSSAPI, PKCS11Provider,
security keys without an agent, KnownHostsCommand, SSHFP records, and a ProxyJump that stands under ``Match canonical``.
"""

from __future__ import annotations

import getpass
import os
import re
import shlex
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import asyncssh
from asyncssh.config import SSHClientConfig

from probes import ssh_known_hosts
from probes.command import plain
from probes.host import LinkRefused
from probes.ssh_identities import DEFAULT_FILES, Identities
from probes.ssh_known_hosts import KnownHosts

CONFIG_FILES = ("~/.ssh/config", "/etc/ssh/ssh_config")
DEFAULT_PORT = ssh_known_hosts.DEFAULT_PORT
MOST_HOPS = 8

CONNECT_SECONDS = 20
"""for name, connection and login together; ConnectTimeout of the configuration goes before."""
KEEPALIVE_SECONDS = 4
KEEPALIVE_MISSES = 2
"""A silent link is given up after (misses + 1) × seconds = 12 s."""

HOST_KEYS = "ssh-ed25519,ecdsa-sha2-nistp256,ecdsa-sha2-nistp384,ecdsa-sha2-nistp521,rsa-sha2-512,rsa-sha2-256"
"""In OpenSSH's order, so that an unknown host shows the fingerprint that ``ssh`` shows. Where known_hosts holds keys
of the host, these are asked for after their kinds, so that a changed key can be told from no common kind."""

CIPHERS = "aes256-gcm@openssh.com,aes128-gcm@openssh.com"
"""Before the usual first, chacha20-poly1305, for which asyncssh needs several calls a packet: six times as long for
the short packets of lines that come singly. Both seal what they carry; a server that has neither goes on as usual."""

_TARGET = re.compile(
    r"(?:ssh://)?(?:(?P<user>[^@/\s]+)@)?"
    r"(?:\[(?P<v6>[0-9a-fA-F:.]+(?:%\w+)?)\]|(?P<bare>[0-9a-fA-F.]*:[0-9a-fA-F.]*:[0-9a-fA-F:.]*(?:%\w+)?)|(?P<name>[^\s:@/\[\]]+))"
    r"(?::(?P<port>\d{1,5}))?/?"
)


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


@dataclass(frozen=True)
class Target:
    """What the operator wrote, taken apart. Empty user, port 0: not said."""

    host: str
    user: str = ""
    port: int = 0

    @property
    def ssh(self) -> str:
        """The command that goes there with OpenSSH."""
        words = ["ssh", *(["-p", str(self.port)] if self.port else [])]
        return shlex.join([*words, f"{self.user}@{self.host}" if self.user else self.host])


@dataclass(frozen=True)
class Hop:
    """One server on the way. ``options``: for ``asyncssh.connect``, without the tunnel and the client.

    ``host``, ``port``, ``user``: after the configuration. ``key_name``: the name of its key in known_hosts.
    ``proxy_errors``: where ProxyCommand's stderr goes.
    """

    target: Target
    host: str
    port: int
    user: str
    key_name: str
    known: KnownHosts
    identities: Identities
    options: Mapping[str, object] = field(repr=False)
    socket: Path | None = None
    proxy_command: str = ""


def parse_target(text: str) -> Target:
    """``host``, ``user@host``, ``host:port``, ``[v6]:port``, ``v6``, ``ssh://…``. LinkRefused for anything else."""
    found = _TARGET.fullmatch(text)
    host = (found["v6"] or found["bare"] or found["name"]) if found else ""
    port = int(found["port"] or 0) if found else 0
    if (
        not found
        or host.startswith("-")
        or (found["user"] or "").startswith("-")
        or port > 65535
        or not text.isprintable()
    ):
        raise LinkRefused(
            f"{text!r} names no host.",
            "Write user@host, an alias of ~/.ssh/config, host:port, or local.",
        )
    return Target(host, found["user"] or "", port)


def route(target: Target, access: Access) -> list[Hop]:
    """The servers on the way, the target last. Reads files and may run ``Match exec``: not for the event loop.

    LinkRefused for a configuration that cannot be read.
    """
    return _route(target, access, ())


def _route(target: Target, access: Access, seen: tuple[Target, ...]) -> list[Hop]:
    if len(seen) >= MOST_HOPS:
        raise LinkRefused(
            f"The way to {seen[0].host} goes through more than {MOST_HOPS} jump hosts.",
            "Look for a ProxyJump in ~/.ssh/config that leads back to itself.",
        )
    hop, jumps = _hop(target, access)
    if not jumps:
        return [hop]
    first, *rest = jumps
    return [*_route(first, access, (*seen, target)), *(_hop(jump, access)[0] for jump in rest), hop]


def _hop(target: Target, access: Access) -> tuple[Hop, list[Target]]:
    """One server and the jump hosts that lead to it."""
    files = [name for name in _config_files(access) if os.access(name, os.R_OK)]
    options: dict[str, object] = {
        "host": target.host,
        "config": files,
        "client_keys": None,
        "x509_trusted_certs": None,
        "known_hosts": b"",
        **({"port": target.port} if target.port else {}),
        **({"username": target.user} if target.user else {}),
    }
    try:
        parsed = asyncssh.SSHClientConnectionOptions(**options)
        if parsed.config.has_match_final():
            parsed.update(host=parsed.host, reload=True, canonical=False, final=True)
    except Exception as error:  # noqa: BLE001 what asyncssh makes of a line that it does not know
        why = plain(str(error)) if isinstance(error, OSError | ValueError) else "one of its lines is none"
        raise LinkRefused(
            f"The SSH configuration for {target.host} cannot be used: {why}.",
            f"Correct that line, and try with `{target.ssh}`.",
        ) from None
    config = parsed.config
    key_name = cast(str, config.get("HostKeyAlias") or parsed.host)
    words = _Words(target.host, parsed.host, parsed.port, parsed.username, key_name)
    known = (
        ssh_known_hosts.given(access.known_hosts)
        if access.known_hosts is not None
        else ssh_known_hosts.read(_known_hosts_files(config, words))
    )
    command = cast(str, config.get("ProxyCommand") or "")
    jumps = [] if access.socket else _jumps(config, target, parsed)
    # tunnel and proxy_command are always given, so that asyncssh makes no unchecked connection of its own
    options |= {
        "known_hosts": known.lookup,
        "agent_path": None,
        "agent_forwarding": False,
        "x11_forwarding": False,
        "request_pty": False,
        "command": None,
        "encoding": None,
        "proxy_command": None,
        "keepalive_interval": KEEPALIVE_SECONDS,
        "keepalive_count_max": KEEPALIVE_MISSES,
        "connect_timeout": config.get("ConnectTimeout") or CONNECT_SECONDS,
    }
    if not config.get("Compression"):
        options["compression_algs"] = ["none"]  # else a server may choose to send gigabytes in a few packets
    if not config.get("HostKeyAlgorithms"):
        held = any(known.lookup(key_name, "", parsed.port)[:2])
        options["server_host_key_algs"] = f"+{HOST_KEYS}" if held else HOST_KEYS
    if not config.get("Ciphers"):
        options["encryption_algs"] = f"^{CIPHERS}"
    hop = Hop(
        target=target,
        host=parsed.host,
        port=parsed.port,
        user=parsed.username,
        key_name=key_name,
        known=known,
        identities=_identities(config, access),
        options=options,
        socket=access.socket,
        proxy_command="" if jumps or access.socket else command,
    )
    return hop, jumps


def _config_files(access: Access) -> list[str]:
    names: Sequence[str | Path] = CONFIG_FILES if access.config is None else access.config
    return [str(Path(name).expanduser()) for name in names]


def _jumps(config: SSHClientConfig, target: Target, parsed: asyncssh.SSHClientConnectionOptions) -> list[Target]:
    """ProxyJump, unless it names the target itself: `Host *` with a ProxyJump covers the jump host too."""
    written = cast(str, config.get("ProxyJump") or "")
    jumps = [parse_target(jump.strip()) for jump in written.split(",")] if written else []
    last = jumps[-1] if jumps else None
    if last and (
        (last.host == target.host and last.port in (0, parsed.port))
        or (last.host, last.port or DEFAULT_PORT) == (parsed.host, parsed.port)
    ):
        return []
    return jumps


def _identities(config: SSHClientConfig, access: Access) -> Identities:
    if access.keys is not None:
        return Identities(keys=tuple(access.keys))
    files = cast(Sequence[str], config.get("IdentityFile", DEFAULT_FILES))
    certificates = cast(Sequence[str], config.get("CertificateFile", ()))
    agent = cast(str | None, config.get("IdentityAgent", "SSH_AUTH_SOCK")) or ""
    if agent == "SSH_AUTH_SOCK":
        agent = os.environ.get("SSH_AUTH_SOCK", "")
    elif agent.startswith("$"):
        agent = os.environ.get(agent[1:], "")
    return Identities(
        files=tuple(Path(name).expanduser() for name in files),
        only=bool(config.get("IdentitiesOnly")),
        agent=str(Path(agent).expanduser()) if agent else "",
        certificates=tuple(Path(name).expanduser() for name in certificates),
    )


def _known_hosts_files(config: SSHClientConfig, words: _Words) -> list[str]:
    user = cast(Sequence[str], config.get("UserKnownHostsFile", ssh_known_hosts.USER_FILES))
    system = cast(Sequence[str], config.get("GlobalKnownHostsFile", ssh_known_hosts.GLOBAL_FILES))
    return [words.expand(name) for name in (*user, *system)]


@dataclass(frozen=True)
class _Words:
    """ssh_config's tokens, for the options in which asyncssh does not expand them."""

    written: str
    host: str
    port: int
    user: str
    key_name: str

    def expand(self, text: str) -> str:
        local = socket.gethostname()
        tokens = {
            "%": "%",
            "d": str(Path.home()),
            "h": self.host,
            "i": str(os.getuid()),
            "k": self.key_name,
            "L": local.partition(".")[0],
            "l": local,
            "n": self.written,
            "p": str(self.port),
            "r": self.user,
            "u": getpass.getuser(),
        }
        text = re.sub(r"%(.)", lambda found: tokens.get(found[1], found[0]), text)
        return re.sub(r"\$\{(\w+)\}", lambda found: os.environ.get(found[1], ""), text)
