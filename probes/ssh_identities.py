"""Which keys are tried at a login, and in which order: as OpenSSH does it."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import asyncssh

DEFAULT_FILES = tuple(f"~/.ssh/id_{kind}" for kind in ("rsa", "ecdsa", "ecdsa_sk", "ed25519", "ed25519_sk"))


@dataclass(frozen=True)
class Identities:
    """``files``: IdentityFile, expanded. ``only``: IdentitiesOnly. ``agent``: path of its socket, empty: none.

    ``keys``: given by a caller, tried alone.
    """

    files: tuple[Path, ...] = ()
    only: bool = False
    agent: str = ""
    certificates: tuple[Path, ...] = ()
    keys: tuple[asyncssh.SSHKey, ...] | None = None


@dataclass
class Login:
    """One login's keys. ``tried``: as a sentence names them; ``unused``: why others could not be tried."""

    identities: Identities
    tried: list[str] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)
    _agent: asyncssh.SSHAgentClient | None = None

    async def pairs(self) -> list[asyncssh.SSHKeyPair]:
        """Agent keys with a certificate from a file, agent keys that are configured, other agent keys (unless
        IdentitiesOnly), then keys from files."""
        wanted = self.identities
        if wanted.keys is not None:
            self.tried = ["the key that was given"] if wanted.keys else []
            return list(asyncssh.load_keypairs(list(wanted.keys)))  # a tuple would be one key and its certificate
        held = {pair.public_data: pair for pair in await self._agent_pairs()}
        found = await asyncio.to_thread(self._from_files, held)
        first = [pair for public, pair in held.items() if public in found.configured]
        others = [] if wanted.only else [pair for public, pair in held.items() if public not in found.configured]
        agent = [*found.certified, *first, *others]
        self.tried = [f"{pair.get_comment()} (agent)" for pair in agent] + [name for name, _ in found.local]
        return [*agent, *(pair for _, pair in found.local)]

    async def close(self) -> None:
        if self._agent:
            self._agent.close()
            await self._agent.wait_closed()
            self._agent = None

    async def _agent_pairs(self) -> Sequence[asyncssh.SSHKeyPair]:
        if not self.identities.agent:
            return ()
        self._agent = asyncssh.SSHAgentClient(self.identities.agent)
        try:
            return await self._agent.get_keys()
        except (OSError, ValueError):
            self.unused.append(f"the agent at {self.identities.agent} does not answer")
            return ()

    def _from_files(self, held: dict[bytes, asyncssh.SSHKeyPair]) -> _Found:
        found = _Found()
        for path in self.identities.files:
            public = _public(path)
            if public:
                found.configured.add(public)
            if public in held:
                found.certified += [_certified(held[public], cert) for cert in self._certificates(path, public)]
            elif path.exists():
                self._load(path, public, found)
        return found

    def _load(self, path: Path, public: bytes, found: _Found) -> None:
        certificates = [str(name) for name in self.identities.certificates]
        try:
            pairs = asyncssh.load_keypairs([str(path)], certlist=certificates, ignore_encrypted=True)
        except (OSError, ValueError) as error:
            if not public:  # a public key alone is the name of a key in an agent
                self.unused.append(f"{_short(path)} cannot be read: {error}")
            return
        if not pairs:
            self.unused.append(f"{_short(path)} is encrypted (`ssh-add {_short(path)}` lends it)")
        for pair in pairs:
            if pair.algorithm.startswith(b"sk-"):
                self.unused.append(f"{_short(path)} needs its security key (`ssh-add {_short(path)}` lends it)")
            else:
                found.local.append((_short(path), pair))

    def _certificates(self, path: Path, public: bytes) -> list[asyncssh.SSHCertificate]:
        found = []
        for name in (path.with_name(path.name + "-cert.pub"), *self.identities.certificates):
            try:
                certificate = asyncssh.read_certificate(name)
            except (OSError, ValueError):
                continue
            if certificate.key.public_data == public:
                found.append(certificate)
        return found


@dataclass
class _Found:
    """``configured``: public keys of the files; ``certified``: agent keys with a certificate from a file;
    ``local``: pairs that no agent holds, with the file's name."""

    configured: set[bytes] = field(default_factory=set)
    certified: list[asyncssh.SSHKeyPair] = field(default_factory=list)
    local: list[tuple[str, asyncssh.SSHKeyPair]] = field(default_factory=list)


def _certified(pair: asyncssh.SSHKeyPair, certificate: asyncssh.SSHCertificate) -> asyncssh.SSHKeyPair:
    twin = copy.copy(pair)  # the plain key is tried as well
    twin.set_certificate(certificate)
    return twin


def _public(path: Path) -> bytes:
    """The public half beside or in a key file; empty where it cannot be read."""
    for candidate in (path.with_name(path.name + ".pub"), path):
        try:
            return asyncssh.read_public_key(candidate).public_data
        except (OSError, ValueError):
            continue
    return b""


def _short(path: Path) -> str:
    try:
        return "~/" + str(path.relative_to(Path.home()))
    except ValueError:
        return str(path)
