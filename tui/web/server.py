"""textual-serve's web application with a door: whoever has no token gets nothing, and the page loads from here alone.

textual-serve has no authentication of its own, and its page asks a font of another site; so its handlers of the
terminal and of the static files are used, behind a check of our own and with a page of our own.
"""

from __future__ import annotations

import hmac
import shlex
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web
from textual_serve.server import Server

MOST: Final = 16
"""Browsers at a time: each has a process of its own."""

COOKIE: Final = "firstlight"

PAGE: Final = Path(__file__).with_name("page.html")

_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
        "font-src 'self' data:; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def application(socket: Path, token: str) -> web.Application:
    """The web application that shows the watch behind ``socket`` to whoever has the token.

    ``GET /?token=…`` sets a cookie and leads to the page; everything else wants the cookie.
    """
    command = shlex.join(["exec", sys.executable, "-m", "tui.commands.web_session", str(socket)])
    terminals = Server(command, title="firstlight")
    shown = 0

    async def page(request: web.Request) -> web.StreamResponse:
        return web.Response(text=PAGE.read_text(encoding="utf-8"), content_type="text/html")

    async def terminal(request: web.Request) -> web.StreamResponse:
        nonlocal shown
        if shown >= MOST:
            return web.Response(status=503, text=f"{MOST} browsers look already.\n")
        shown += 1
        try:
            return await terminals.handle_websocket(request)
        finally:
            shown -= 1

    @web.middleware
    async def door(request: web.Request, handler: Handler) -> web.StreamResponse:
        given = request.query.get("token")
        if given is not None and request.method == "GET" and request.path == "/" and _same(given, token):
            let_in = web.Response(status=303, headers={"Location": "./"})
            let_in.set_cookie(COOKIE, token, httponly=True, samesite="Strict", secure=request.secure)
            return let_in
        if not _same(request.cookies.get(COOKIE, ""), token):
            return web.Response(status=403, text="Open the address that firstlight web has printed, with its token.\n")
        if "Origin" in request.headers and urlsplit(request.headers["Origin"]).netloc != request.host:
            return web.Response(status=403, text="Another site's page may not look here.\n")
        return await handler(request)

    async def dressed(request: web.Request, response: web.StreamResponse) -> None:
        response.headers.update(_HEADERS)

    app = web.Application(middlewares=[door])
    app.on_response_prepare.append(dressed)
    app.add_routes(
        [web.get("/", page), web.get("/ws", terminal), web.static("/static", terminals.statics_path, show_index=False)]
    )
    return app


def _same(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), token.encode())
