"""GET /health: is there a server, and does it say that it is well? While loading, ``refused`` is the normal answer."""

from __future__ import annotations

import asyncio
import re
import time
from typing import TYPE_CHECKING

from probes.clock import Clock
from probes.endpoint import Endpoint
from probes.readings import HealthReading
from probes.version import __version__

if TYPE_CHECKING:  # imported where a server is asked: a start need not wait for it
    import httpx

MARK = "firstlight"
"""The query of every request of ours, so that its line in the server's access log can be told from others'."""

LIMIT = 10.0

_SAID = {
    401: "needs an API key: set FIRSTLIGHT_API_KEY",
    403: "not for us: something in front of the server forbids it",
    404: "not offered at this address",
    503: "the server says that its engine is dead",
}


def client(transport: httpx.AsyncBaseTransport, endpoint: Endpoint, api_key: str = "") -> httpx.AsyncClient:
    """A client for one server. Redirects are not followed: they would lead away from it."""
    import httpx

    headers = {"User-Agent": f"firstlight/{__version__}", "Accept-Encoding": "gzip"}
    if api_key:
        headers["Authorization"] = f"Bearer {api_key}"
    return httpx.AsyncClient(
        transport=transport, base_url=endpoint.base, headers=headers, timeout=LIMIT, follow_redirects=False
    )


async def ask_health(asks: httpx.AsyncClient, endpoint: Endpoint, clock: Clock) -> HealthReading:
    """One request. Every way in which HTTP can fail is a value; HostError (the link) is raised."""
    import httpx

    began = time.monotonic()
    status: int | None = None
    error = ""
    try:
        async with asyncio.timeout(LIMIT), asks.stream("GET", f"/health?{MARK}") as answer:
            status = answer.status_code
            if status != 200:
                error = _SAID.get(status, "")
            if answer.is_redirect:
                error = f"redirects to {answer.headers.get('location', '')[:200]}"
    except (httpx.HTTPError, httpx.InvalidURL, OSError, TimeoutError) as failure:
        status, error = None, failure_words(failure)
    ms = (time.monotonic() - began) * 1000
    return HealthReading(at=clock.now(), status=status, error=error, ms=round(ms, 1), endpoint=endpoint.url)


def failure_words(failure: Exception) -> str:
    """Why there was no HTTP answer, in a few words; ``refused`` where nobody listens."""
    import httpx

    if isinstance(failure, TimeoutError | httpx.TimeoutException):
        return f"no answer within {LIMIT:g} s"
    text = str(failure)
    causes: BaseException | None = failure
    while causes is not None:
        if isinstance(causes, ConnectionRefusedError | FileNotFoundError):  # of a socket: its file is not there yet
            return "refused"
        if isinstance(causes, PermissionError):
            return "this login may not use the server's socket: its group or mode does not let it"
        causes = causes.__cause__ or causes.__context__
    if isinstance(failure, httpx.ConnectError) and ("refused" in text.lower() or "All connection attempts" in text):
        return "refused"
    if "certificate" in text.lower():
        why = re.search(r"verify failed: ([^(\]]{1,100})", text)
        return (
            f"its certificate is not accepted ({why[1].strip() if why else text[:120]}): give its CA as tls_ca, or "
            "tls_verify = false, in the deployment's configuration"
        )
    if isinstance(failure, httpx.RemoteProtocolError) and "without sending" in text:
        return "closed the connection without an answer"
    return f"no HTTP answer ({text[:160] or type(failure).__name__})"
