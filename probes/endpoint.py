"""Where the server answers, as seen from its own host: from the operator's word, or from the server's arguments."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from msgspec import Struct

from probes.arguments import option, words

VLLM_PORT = 8000
SGLANG_PORT = 30000
ANY = {"", "0.0.0.0", "::", "[::]", "*"}


class BadEndpoint(ValueError):
    """No URL of an HTTP server; the text is one sentence."""


class Endpoint(Struct, frozen=True):
    """``host:port`` on the server. ``root``: a path that a proxy in front puts before every other. ``socket``: path of
    a Unix socket instead, which cannot be asked from here."""

    host: str = "127.0.0.1"
    port: int = VLLM_PORT
    tls: bool = False
    root: str = ""
    socket: str = ""

    @property
    def url(self) -> str:
        if self.socket:
            return f"unix:{self.socket}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}{self.root}"


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
    ``:8001``. Raises BadEndpoint."""
    text = url.strip()
    if "://" not in text:
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
