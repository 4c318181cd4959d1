"""What is asked for when a server is measured. Frozen data, no host."""

from __future__ import annotations

from msgspec import Struct

from probes.operate.asked import Duty
from probes.operate.orders import Rights, new_id, runner

__all__ = ["DUTY", "MEASURED", "BenchOrder", "Level", "new_id"]

MEASURED = "measured"
"""The fact of a result that was not measured on the server's own host: from where."""


class Level(Struct, frozen=True, kw_only=True):
    """One run of `vllm bench serve`: so many requests at a time, until all prompts are answered. Lengths in tokens."""

    concurrency: int
    prompts: int
    input_len: int
    output_len: int
    repeat: int = 1
    warmups: int = 1
    temperature: float = 0.0
    seed: int = 0
    extra: tuple[str, ...] = ()
    """more words for the command, as they are"""


class BenchOrder(Struct, frozen=True, kw_only=True):
    """One benchmark. ``id``: by ``new_id``; ``unit``: as systemd knows it; ``who``: how the operator is named to
    others; ``limit``: seconds for the whole, then it is ended; ``endpoint``: URL of the server, "" for what its
    arguments say; ``tls_ca``, ``tls_verify``: whom https trusts, as of a deployment; ``user``: the unit is of the
    user's own manager. The API key is no part of it: see ``run.bench``."""

    id: str
    unit: str
    preset: str
    levels: tuple[Level, ...]
    who: str = ""
    limit: float = 1800.0
    endpoint: str = ""
    tls_ca: str = ""
    tls_verify: bool = True
    user: bool = False


def _runner(unit: str) -> str:
    """One name a unit, so that there is one benchmark at a time."""
    return runner(unit, "firstlight-bench")


def _kind(rights: Rights) -> str:
    """Who runs it. Measuring asks for no right: without one it is a process of the login's own."""
    if rights.user:
        return "user"
    return "system" if rights.level == "full" else "login"


DUTY = Duty(steps="bench.sh", runner=_runner, kind=_kind)
