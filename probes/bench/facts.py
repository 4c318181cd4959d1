"""What is worth knowing of the host beside a result: the GPUs and how they are connected."""

from __future__ import annotations

import re
from collections import Counter

from probes.host import CommandTimeout, Host

_LINK = re.compile(r"NV\d+|SYS|NODE|PHB|PXB|PIX")


async def gpu_facts(host: Host) -> dict[str, str]:
    """``gpu``: "2 × NVIDIA H200"; ``topology``: "NV18 between all"; neither where there is no nvidia-smi. Raises what
    ``Host.run`` does, but for a time-out: a driver that hangs is no reason not to measure."""
    try:
        named = await host.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], timeout=20.0)
        if named.status:
            return {}
        links = await host.run(["nvidia-smi", "topo", "-m"], timeout=20.0)
    except CommandTimeout:
        return {}
    names = Counter(line.strip() for line in named.stdout.decode("utf-8", "replace").splitlines() if line.strip())
    out = {"gpu": ", ".join(f"{count} × {name}" for name, count in names.items())} if names else {}
    between = topology(links.stdout.decode("utf-8", "replace")) if links.status == 0 else ""
    return {**out, "topology": between} if between else out


def topology(table: str) -> str:
    """Of ``nvidia-smi topo -m``: which links there are between two GPUs, the most frequent first; "" for fewer than
    two GPUs."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", table)
    rows = [line.split() for line in plain.splitlines() if re.match(r"^\s*GPU\d+\s", line)]
    rows = [row for row in rows if len(row) > 1 and (_LINK.fullmatch(row[1]) or row[1] == "X")]
    count = len(rows)
    links: Counter[str] = Counter()
    for index, row in enumerate(rows):
        links.update(word for word in row[1 + index + 1 : 1 + count] if _LINK.fullmatch(word))
    if not links:
        return ""
    if len(links) == 1:
        return f"{next(iter(links))} between all"
    return ", ".join(f"{link} × {number}" for link, number in links.most_common())
