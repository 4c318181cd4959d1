"""How ctypes looks for a library, for as long as asyncssh is being imported.

asyncssh asks for two libraries that few machines have (liboqs, nettle). Of one that the loader's own cache does not
name, ctypes then asks a compiler and a linker, one after the other and five times in all: longer than all the rest of
the import. What the loader does not know it could not load either.
"""

from __future__ import annotations

import ctypes.util
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CACHE = Path("/etc/ld.so.cache")
"""Of glibc's loader: the names of all that it finds by name alone."""


@contextmanager
def known_libraries(cache: Path = CACHE) -> Iterator[None]:
    """Within it, ``ctypes.util.find_library`` searches no further than the loader does. Nothing is changed where the
    loader keeps no cache, or is told to look elsewhere as well."""
    usual = ctypes.util.find_library
    try:
        names = b"" if os.environ.get("LD_LIBRARY_PATH") else cache.read_bytes()
    except OSError:
        names = b""

    def find(name: str) -> str | None:
        return usual(name) if f"lib{name}.".encode() in names else None

    if names:
        ctypes.util.find_library = find
    try:
        yield
    finally:
        ctypes.util.find_library = usual
