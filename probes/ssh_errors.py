"""From an exception to a sentence and a remedy: one table for all the ways in which SSH fails."""

from __future__ import annotations

import errno
import re
import shlex
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import asyncssh

from probes.command import plain
from probes.ssh_config import KEEPALIVE_MISSES, KEEPALIVE_SECONDS, Hop
from probes.ssh_guard import Flooded
from probes.ssh_identities import Login
from probes.ssh_known_hosts import USER_FILES, entry

MUTE = "it sends, but answers nothing"
"""What a ``ConnectionLost`` says that we make ourselves, of a server that does so."""

SILENCE = (KEEPALIVE_MISSES + 1) * KEEPALIVE_SECONDS

Finality = Literal["down", "refused", "login", "first"]
"""``down``: may pass by itself. ``refused``: not without the operator. ``login``: refused at the first try; later it
may be a host that is still booting. ``first``: refused at the first try, which is most likely a slip of the operator's;
once the link was up it passes by itself."""


@dataclass(frozen=True)
class Failure:
    reason: str
    remedy: str
    finality: Finality = "down"


@dataclass(frozen=True)
class Attempt:
    """What is known about a connection that failed or was lost. ``via``: the hop before. ``proxy_said``: stderr of
    ProxyCommand. ``methods``: how else the server would let us in."""

    hop: Hop
    via: Hop | None = None
    offered: asyncssh.SSHKey | None = None
    authority: asyncssh.SSHKey | None = None
    login: Login | None = None
    methods: Sequence[str] = ()
    proxy_said: str = ""
    connected: bool = False
    timeout: float = 0.0


@dataclass(frozen=True)
class Row:
    """The first row that fits counts. ``says``: pattern in the exception's text. ``stage``: ``connect`` until logged
    in, ``link`` after. Templates are filled with ``Attempt``'s words; ``detail`` is the exception's text."""

    types: tuple[type[BaseException], ...]
    reason: str
    remedy: str
    finality: Finality = "down"
    says: str = ""
    errnos: frozenset[int] = field(default_factory=frozenset)
    stage: Literal["connect", "link", ""] = ""


_WAIT = "It is being made again; until then nothing is known about the host."
_NETWORK = "Check the network and the VPN; try `{ssh}`."

ROWS = (
    Row(
        (socket.gaierror,),
        "The name {host} cannot be resolved at the moment.",
        "Check the network, the VPN and the name server.",
        errnos=frozenset({socket.EAI_AGAIN}),
    ),
    Row(
        (socket.gaierror, UnicodeError),
        "The name {host} is not known.",
        "Check its spelling, HostName in ~/.ssh/config, the name server and the VPN.",
        "first",
    ),
    Row(
        (OSError,),
        "{host} refuses connections on port {port}: nothing listens there.",
        "Check the port, and that sshd runs there; while a host boots this passes by itself.",
        errnos=frozenset({errno.ECONNREFUSED}),
    ),
    Row(
        (OSError,),
        "{host} did not answer on port {port}.",
        "It is off, or a firewall or a missing VPN swallows the connection; try `{ssh}`.",
        errnos=frozenset({errno.ETIMEDOUT}),
    ),
    Row(
        (OSError,),
        "There is no way to {host}: {detail}.",
        _NETWORK,
        errnos=frozenset({errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN}),
    ),
    Row(
        (OSError,),
        "Connections to {host} on port {port} are barred on this machine: {detail}.",
        "Check the firewall of this machine.",
        errnos=frozenset({errno.EACCES, errno.EPERM}),
    ),
    Row(
        (TimeoutError,),
        "{host} did not let us in on port {port} within {timeout} s.",
        "It is off or overloaded, or a firewall or a missing VPN swallows the connection; try `{ssh}`.",
    ),
    Row(
        (asyncssh.HostKeyNotVerifiable,),
        "The key that {host} offers, {offered}, is marked as revoked in known_hosts.",
        "Do not connect. Ask whoever runs {host} which key it has now.",
        "refused",
        says="revoked",
    ),
    Row(
        (asyncssh.PermissionDenied,),
        "{host} does not let {user} in: {tried}.{methods}{unused}",
        "Put the right public key into ~{user}/.ssh/authorized_keys there, or lend the key that is there already "
        "(`ssh-add`, or IdentityFile in ~/.ssh/config); `{ssh_v}` shows each try.",
        "login",
    ),
    Row(
        (asyncssh.DisconnectError,),
        "{host} does not let {user} in: it gave up after too many keys ({tried}).",
        "Name the one key for it in ~/.ssh/config: IdentityFile, and IdentitiesOnly yes.",
        "login",
        says="(?i)too many auth",
    ),
    Row(
        (ValueError,),
        "The agent would not sign the login of {user} on {host}: {detail}.",
        "Unlock the agent or confirm the key's use (`ssh-add -l`), then start again.",
        "login",
        says="(?i)sign|agent",
        stage="connect",
    ),
    Row(
        (asyncssh.IllegalUserName,),
        "{user} is no user name that SSH can carry: {detail}.",
        "Write user@host with the right user.",
        "refused",
    ),
    Row(
        (asyncssh.KeyExchangeFailed,),
        "{host} and this machine have no algorithm in common: {detail}.",
        "Update sshd there, or allow in ~/.ssh/config what it offers (KexAlgorithms, Ciphers, MACs).",
        "refused",
    ),
    Row(
        (Flooded,),
        "{host} floods the connection: {detail}, so it was closed.",
        "Look at what listens on port {port} there: no usual SSH server does so. It is tried again.",
    ),
    Row(
        (asyncssh.ConnectionLost,),
        "{host} sends something, but has answered nothing for a minute, so the connection was closed.",
        "Its SSH server is broken or no usual one: look at it, and try `{ssh}`. It is tried again.",
        says=MUTE,
    ),
    Row(
        (asyncssh.ProtocolNotSupported, asyncssh.ProtocolError),
        "What answers on port {port} of {host} is no SSH server: {detail}.",
        "Check the port.",
        stage="connect",
    ),
    Row(
        (asyncssh.ConnectionLost,),
        "{host} has not answered for {silence} s: the link is dead (a machine that slept, a network that went away).",
        _WAIT,
        says="keepalive",
    ),
    Row(
        (asyncssh.ConnectionLost,),
        "{host} did not finish the login of {user}: {detail}.",
        "It is overloaded, or what checks its accounts does not answer; try `{ssh}`.",
        says="(?i)login timeout",
    ),
    Row(
        (asyncssh.ChannelOpenError,),
        "{via} cannot reach {host} on port {port}: {detail}.",
        "Check HostName, Port and ProxyJump in ~/.ssh/config, and that {via} allows forwarding; try `{ssh}`.",
        stage="connect",
    ),
    Row(
        (asyncssh.ConnectionLost, ConnectionError, EOFError),
        "{host} closed the connection before the login.",
        "It may be starting, at its limit of logins (MaxStartups), or bar this address; try `{ssh}`.",
        stage="connect",
    ),
    Row(
        (asyncssh.ConnectionLost, ConnectionError, EOFError),
        "The connection to {host} was lost.",
        _WAIT,
    ),
    Row(
        (asyncssh.ProtocolError,),
        "The connection to {host} ended over a breach of SSH's rules: {detail}.",
        _WAIT,
        stage="link",
    ),
    Row(
        (asyncssh.DisconnectError,),
        "{host} ended the connection: {detail}.",
        _WAIT,
        stage="link",
    ),
    Row(
        (asyncssh.Error,),
        "{host} did not let us in: {detail}.",
        "Try `{ssh_v}`, which shows each step.",
    ),
    Row(
        (OSError,),
        "{host} cannot be reached on port {port}: {detail}.",
        _NETWORK,
    ),
    Row(
        (Exception,),
        "The connection to {host} failed: {kind}: {detail}.",
        "Try `{ssh_v}`, which shows each step.",
    ),
)

PROXY = Row(
    (Exception,),
    "The ProxyCommand to {host} ended: {proxy_said}.",
    "Check ProxyCommand in ~/.ssh/config; try `{ssh}`.",
)

UNKNOWN_KEY = Row(
    (asyncssh.HostKeyNotVerifiable,),
    "The key of {host} is not in known_hosts: it offers {offered}.",
    "Compare: `ssh-keygen -lf {key_file}` on {host} itself must show the same fingerprint. Then connect once with "
    "`{ssh}` and answer yes.",
    "refused",
)
CHANGED_KEY = Row(
    (asyncssh.HostKeyNotVerifiable,),
    "The key of {host} has CHANGED: known_hosts holds {held}, it offers {offered}. Somebody may be in between, or the "
    "host was installed anew.",
    "Compare: `ssh-keygen -lf {key_file}` on {host} itself must show the offered fingerprint. Only then "
    "`ssh-keygen -R {entry}{known_file}`, and connect once with `{ssh}`.",
    "refused",
)
UNKNOWN_AUTHORITY = Row(
    (asyncssh.HostKeyNotVerifiable,),
    "The key of {host} is certified by an authority that known_hosts does not trust: {offered}.",
    "Ask whoever runs {host} for its @cert-authority line, compare it with `ssh-keygen -lf FILE`, and put it into "
    "~/.ssh/known_hosts; or connect once with `{ssh}`.",
    "refused",
)
UNUSABLE_CERTIFICATE = Row(
    (asyncssh.HostKeyNotVerifiable,),
    "The key of {host} cannot be verified: {detail}.",
    "Ask whoever runs {host} for a valid host certificate; `{ssh_v}` shows what it offers.",
    "refused",
)


def explain(error: BaseException, attempt: Attempt) -> Failure:
    """What went wrong, for people. Server's words in it are one line and obey nothing."""
    row = _key_row(error, attempt) or (PROXY if attempt.proxy_said and not attempt.connected else None)
    row = row or next(row for row in ROWS if _fits(row, error, attempt))
    words = _words(error, attempt)
    return Failure(row.reason.format_map(words), row.remedy.format_map(words), row.finality)


def _fits(row: Row, error: BaseException, attempt: Attempt) -> bool:
    return (
        isinstance(error, row.types)
        and (not row.errnos or bool(row.errnos & _errnos(error)))
        and (not row.says or re.search(row.says, str(error)) is not None)
        and row.stage in ("", "link" if attempt.connected else "connect")
    )


def _errnos(error: BaseException) -> set[int]:
    """asyncio tries each address of a name and joins what went wrong in one text, without a number of its own."""
    number = getattr(error, "errno", None)
    return {number} if number is not None else {int(each) for each in re.findall(r"\[Errno (-?\d+)\]", str(error))}


def _key_row(error: BaseException, attempt: Attempt) -> Row | None:
    if not isinstance(error, asyncssh.HostKeyNotVerifiable):
        return None
    if attempt.authority:
        return UNKNOWN_AUTHORITY
    if attempt.offered:
        hop = attempt.hop
        return CHANGED_KEY if hop.known.holding(hop.key_name, hop.port) else UNKNOWN_KEY
    return None if "revoked" in str(error) else UNUSABLE_CERTIFICATE


def _words(error: BaseException, attempt: Attempt) -> dict[str, object]:
    hop = attempt.hop
    key = attempt.authority or attempt.offered
    held = hop.known.holding(hop.key_name, hop.port)
    files = list(dict.fromkeys(name for name, _ in held if name))
    login = attempt.login
    detail = plain(getattr(error, "strerror", None) or str(error) or type(error).__name__).rstrip(".")
    return {
        "host": hop.target.host,
        "port": hop.port,
        "user": plain(hop.user),
        "via": attempt.via.target.host if attempt.via else "this machine",
        "ssh": hop.target.ssh,
        "ssh_v": hop.target.ssh.replace("ssh ", "ssh -v ", 1),
        "detail": detail,
        "kind": type(error).__name__,
        "timeout": f"{attempt.timeout:g}",
        "silence": SILENCE,
        "offered": describe(key) if key else "a key",
        "held": " and ".join(dict.fromkeys(describe(each) for _, each in held)),
        "key_file": key_file(key) if key else "",
        "entry": shlex.quote(entry(hop.key_name, hop.port)),
        "known_file": _known_file(files),
        "tried": _tried(login),
        "unused": plain(f" Not tried: {'; '.join(login.unused)}.", 400) if login and login.unused else "",
        "methods": f" It would also take: {', '.join(attempt.methods)}." if attempt.methods else "",
        "proxy_said": plain(attempt.proxy_said).rstrip("."),
    }


def _tried(login: Login | None) -> str:
    if not login or not login.tried:
        return "no key was there to try"
    return f"tried {plain(', '.join(login.tried), 200)}"


def _known_file(files: Sequence[str]) -> str:
    """``-f FILE`` where ssh-keygen would look elsewhere by itself."""
    usual = str(Path(USER_FILES[0]).expanduser())
    return "" if not files or usual in files else f" -f {shlex.quote(files[0])}"


def describe(key: asyncssh.SSHKey) -> str:
    """Kind and fingerprint, as ``ssh-keygen -lf`` shows it."""
    return f"{key.get_algorithm()} {key.get_fingerprint()}"


def key_file(key: asyncssh.SSHKey) -> str:
    """Where the server keeps the public half of such a key."""
    algorithm = key.get_algorithm()
    kind = "ecdsa" if algorithm.startswith("ecdsa") else "ed25519" if "ed25519" in algorithm else "rsa"
    return f"/etc/ssh/ssh_host_{kind}_key.pub"
