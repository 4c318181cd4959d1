"""What an operator may want to watch: deployments of the configuration, units watched before, hosts. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from watch.config import Deployment
from watch.history import LoadRecord

RECENT = 20
"""Units watched before that are offered."""


class Offer(Struct, frozen=True, kw_only=True):
    """A unit on a host. ``name``: of the deployment, "" for one that was watched without one. ``last``: its last load
    that the history knows."""

    deployment: Deployment
    name: str = ""
    last: LoadRecord | None = None


class Offers(Struct, frozen=True, kw_only=True):
    deployments: tuple[Offer, ...] = ()
    recent: tuple[Offer, ...] = ()
    """watched before, the latest first, those among ``deployments`` left out"""
    hosts: tuple[str, ...] = ()
    """to be asked for their units"""
    config: str = ""
    """the configuration's file"""
    problem: str = ""
    """what could not be read, one sentence"""


def offers(
    deployments: Mapping[str, Deployment],
    loads: Sequence[LoadRecord],
    aliases: Iterable[str] = (),
    *,
    local: bool = False,
    config: str = "",
    problem: str = "",
) -> Offers:
    """``loads``: the last one of each unit, the latest first. ``local``: this machine may be watched too."""
    last: dict[tuple[str, str], LoadRecord] = {}
    for load in loads:
        last.setdefault(_key(load.key.target, load.key.unit), load)
    named = tuple(
        Offer(deployment=one, name=name, last=last.get(_key(one.target, one.unit))) for name, one in deployments.items()
    )
    taken = {_key(one.target, one.unit) for one in deployments.values()}
    recent = tuple(
        Offer(deployment=Deployment(target=load.key.target, unit=load.key.unit), last=load)
        for key, load in last.items()
        if key not in taken
    )[:RECENT]
    hosts = [one.deployment.target for one in (*named, *recent)]
    every = dict.fromkeys([*hosts, *aliases, *(["local"] if local else [])])
    return Offers(deployments=named, recent=recent, hosts=tuple(every), config=config, problem=problem)


def _key(target: str, unit: str) -> tuple[str, str]:
    return target, unit.removesuffix(".service")
