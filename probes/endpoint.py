"""Where the server answers, as seen from its own host: from the operator's word, or from the server's arguments."""

from __future__ import annotations

import ipaddress
import re
import ssl
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct

from probes.arguments import option, words

VLLM_PORT = 8000
SGLANG_PORT = 30000
ANY = {"", "0.0.0.0", "::", "[::]", "*"}


class BadEndpoint(ValueError):
    """No URL of an HTTP server; the text is one sentence."""


class Endpoint(Struct, frozen=True):
    """``host:port`` on the server, or the Unix socket of this path there. ``root``: a path that a proxy in front puts
    before every other. ``ca``: a file on this machine with the certificates that https trusts; "": those that this
    machine trusts. ``verify``: False takes any certificate."""

    host: str = "127.0.0.1"
    port: int = VLLM_PORT
    tls: bool = False
    root: str = ""
    socket: str = ""
    ca: str = ""
    verify: bool = True

    @property
    def url(self) -> str:
        """For people."""
        return f"unix:{self.socket}" if self.socket else self.base

    @property
    def base(self) -> str:
        """What a request's address begins with."""
        scheme = "https" if self.tls else "http"
        if self.socket:
            return f"{scheme}://localhost{self.root}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{host}:{self.port}{self.root}"

    def trust(self) -> ssl.SSLContext | None:
        """Whom https trusts; None: it is not https. With a CA of its own the name in the certificate is not compared
        where the address is the host's own loopback or a socket: the way there is known, and no CA signs such a name.
        Raises BadEndpoint for a CA file that is none."""
        if not self.tls:
            return None
        context = ssl.create_default_context()  # the machine's own store, where httpx would take one that it brings
        if self.verify and not self.ca:
            return context
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            return context
        try:
            context = ssl.create_default_context(cafile=str(Path(self.ca).expanduser()))
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error) or "it holds no certificate"
            raise BadEndpoint(f"tls_ca: {self.ca} cannot be used: {why}") from None
        context.check_hostname = not (self.socket or _loopback(self.host))
        return context


def endpoint_of(argv: Sequence[str]) -> Endpoint:
    """From ``--host``, ``--port``, ``--uds``, ``--ssl-keyfile``; an address that means all of them is asked at the
    loopback. A port that is no number is the default: nothing better is known. ``--root-path`` is what a proxy in
    front takes away: the server itself answers without it."""
    listed = words(argv)
    sglang = any(word.rpartition("/")[2].partition(".")[0] == "sglang" for word in listed)
    host = (option(argv, "--host") or "").strip("[]")
    port = option(argv, "--port") or ""
    number = _published(listed) or _port(port)
    loopback = "::1" if host == "::" else "127.0.0.1"
    return Endpoint(
        host=loopback if host in ANY else host,
        port=number or (SGLANG_PORT if sglang else VLLM_PORT),
        tls=bool(option(argv, "--ssl-keyfile") or option(argv, "--ssl-certfile")),
        socket=option(argv, "--uds") or "",
    )


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _port(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 6 and 0 < int(text) < 65536 else 0


def _published(listed: Sequence[str]) -> int:
    """The port on the host of a container started with ``-p 8001:8000``; 0 where there is none."""
    if not listed or listed[0].rpartition("/")[2] not in ("docker", "podman", "nerdctl"):
        return 0
    mapping = (option(listed, "-p", "--publish") or "").rpartition("/")[0] or option(listed, "-p", "--publish") or ""
    parts = mapping.split(":")
    return _port(parts[-2]) if len(parts) > 1 else 0


def endpoint_from(url: str) -> Endpoint:
    """From what the operator gave: ``http://127.0.0.1:8001``, ``https://[::1]:8443/prefix``, ``127.0.0.1:8001``,
    ``:8001``, ``unix:/run/vllm.sock``. Raises BadEndpoint, also for a word alone, which is more likely a slip."""
    text = url.strip()
    if text.startswith("unix:"):
        path = "/" + text.removeprefix("unix:").lstrip("/")
        if path == "/":
            raise BadEndpoint(f"{url} names no socket: give one like unix:/run/vllm.sock")
        return Endpoint(socket=path)
    if "://" not in text:
        if not re.search(r":\d+(/|$)", text):
            raise BadEndpoint(f"{url} is no address of a server: give one like http://127.0.0.1:8000")
        text = "http://" + ("127.0.0.1" + text if text.startswith(":") else text)
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise BadEndpoint(f"{url} is no address of a server: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadEndpoint(f"{url} is no address of a server: give one like http://127.0.0.1:8000")
    tls = parts.scheme == "https"
    host = "127.0.0.1" if parts.hostname in ANY else parts.hostname
    return Endpoint(host=host, port=port or (443 if tls else 80), tls=tls, root=parts.path.rstrip("/"))
