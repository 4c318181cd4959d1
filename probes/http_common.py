"""What every HTTP client here shares: one set of certificates, read once."""

from __future__ import annotations

import functools
import importlib.util
import ssl
import sys

import httpx

if importlib.util.find_spec("sniffio") is None:
    # httpcore asks for it at every turn of a request, and Python would search its whole path each time: a good part of
    # the work where many servers are watched.
    sys.modules["sniffio"] = None  # type: ignore[assignment]


@functools.cache
def default_trust() -> ssl.SSLContext:
    """Whom https trusts where nothing else is said. Costly to make (some 20 ms), and never changed: shared by all."""
    return httpx.create_ssl_context()
