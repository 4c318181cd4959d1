"""Session files: what a watch saw, one reading a line, to be replayed, searched and handed on.

A session file is UTF-8 text, one JSON object a line. The first line is the ``Header``; every further line is a reading
(``probes.readings``) with its ``kind`` and ``at``. It lies in the state folder (``folder()``, mode 0700) as
``20261130T013929Z-llm-two-vllm.jsonl`` (mode 0600) while it is written, and as ``….jsonl.gz`` afterwards: ``zgrep``,
``jq`` and ``zcat`` read both. Secrets never enter it (``redact.py``).

Whoever writes a file holds a lock on it (``flock``), so that a file left by a killed run can be told from one that is
being written; a later start compresses the former (``tidy``).
"""

from watch.session.header import FORMAT, Header, SessionError, folder, new_header
from watch.session.reader import SessionReader
from watch.session.writer import FLUSH_SECONDS, SessionWriter, tidy

__all__ = [
    "FLUSH_SECONDS",
    "FORMAT",
    "Header",
    "SessionError",
    "SessionReader",
    "SessionWriter",
    "folder",
    "new_header",
    "tidy",
]
