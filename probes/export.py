"""``journalctl -o export`` to journal lines: incremental, total over any bytes, fast.

The format is journald's own (https://systemd.io/JOURNAL_EXPORT_FORMATS): a field is ``NAME=value`` and a newline, or,
where the value holds bytes that need it, ``NAME``, a newline, the length as 8 bytes little-endian, the bytes and a
newline; a blank line ends a record.
"""

from __future__ import annotations

from probes.readings import JournalLine


class ExportDecoder:
    """Feed it bytes however they are cut; the lines are the same. It never raises.

    ``unit``: the unit that is watched (decides ``source``); "" for a saved journal of any unit. ``kernel``: True
    keeps every line of the kernel, False only those that bear on a model server (Xid, NVRM, the OOM killer, hung
    tasks, failing disks).
    """

    def __init__(self, unit: str = "", *, kernel: bool = False) -> None:
        self.cursor = ""
        """of the last record taken, whether it became a line or not: where to go on from"""
        self.at = 0.0
        """its time"""
        self.records = 0
        self.skipped = 0
        """bytes that were no record; the decoder went on at the next blank line"""

    def feed(self, data: bytes) -> list[JournalLine]:
        """The lines that these bytes complete, in order."""
        raise NotImplementedError

    def flush(self) -> list[JournalLine]:
        """Lines that wait for their rest (LineMax), given out as they are: after a second of silence, say."""
        raise NotImplementedError

    def restart(self) -> None:
        """The byte stream broke off and will begin anew: forget the half record, keep what waits for its rest."""
        raise NotImplementedError

    def close(self) -> list[JournalLine]:
        """The end: a last record without its blank line, and whatever waits."""
        raise NotImplementedError
