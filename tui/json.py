"""JSON for programs that may also be read on a terminal."""

from __future__ import annotations

import re

_OBEYED = re.compile("[\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]")


def inert(data: bytes) -> bytes:
    """The same JSON, with what a terminal would obey or a reader be misled by as ``\\u009b``: the C1 controls and the
    marks that reorder, hide or break lines. (JSON has the C0 controls escaped already.)"""
    text = data.decode("utf-8", "surrogatepass")
    if text.isascii() and "\x7f" not in text:
        return data
    return _OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", text).encode("utf-8", "surrogatepass")
