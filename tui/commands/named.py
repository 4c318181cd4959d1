"""Which deployment is meant: ``NAME`` of the configuration, or ``TARGET UNIT``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from probes.unit import NAMES, is_name
from tui.exits import Ending, Exit
from watch.config import Config, Deployment, near, resolve

HOSTS = "Write user@host, an alias of ssh_config, or local."


@dataclass(frozen=True, slots=True)
class Named:
    """A deployment and what it is called. ``name``: "" for one given by target and unit."""

    deployment: Deployment
    name: str = ""

    @property
    def title(self) -> str:
        """By its name, else by its unit."""
        return self.name or _stem(self.deployment.unit)


def named(config: Config, words: Sequence[str], *, endpoint: str | None = None, user: bool | None = None) -> Named:
    """``words``: one name, or a target and a unit (which may be those of a deployment). ``endpoint`` and ``user``,
    where given, override the deployment's own. Raises Ending (USAGE) for a name that the configuration does not have,
    and for what can be no name."""
    if len(words) == 1:
        found = resolve(config, words[0])
        if found is None:
            raise Ending(Exit.USAGE, *_unknown(config, words[0]))
        one = Named(found, words[0])
    elif len(words) == 2:
        for what, word in zip(("host", "unit"), words, strict=True):
            if what == "unit" and not is_name(word):
                raise Ending(Exit.USAGE, f"{shown(word)} is no name of a unit", NAMES)
            if not word or word.startswith("-") or not word.isprintable() or " " in word:
                raise Ending(Exit.USAGE, f"{shown(word)} is no name of a host", HOSTS)
        one = _of(config, *words)
    else:
        raise Ending(
            Exit.USAGE,
            "say which deployment: NAME of the configuration, or TARGET UNIT",
            _known(config) or "For example: firstlight watch root@llm-two vllm",
        )
    changed: dict[str, object] = {}
    if endpoint:
        changed["endpoint"] = endpoint
    if user is not None:
        changed["user"] = user
    return Named(replace(one.deployment, **changed), one.name) if changed else one


def shown(word: str) -> str:
    """A word as a sentence names it, whatever is in it."""
    return repr(word if len(word) <= 80 else f"{word[:79]}…")


def _of(config: Config, target: str, unit: str) -> Named:
    """The deployment that this unit on this host is in the configuration, so that what stands there (``read_only``,
    hooks, fallback) holds however it is called; else one of its own."""
    for name, deployment in config.deployments.items():
        if (deployment.target, _stem(deployment.unit)) == (target, _stem(unit)):
            return Named(replace(deployment, unit=unit), name)
    return Named(Deployment(target=target, unit=unit))


def _stem(unit: str) -> str:
    return unit.removesuffix(".service")


def several(config: Config, words: Sequence[str]) -> list[Named]:
    """Every deployment meant: all of the configuration for no words, those named for names, else ``TARGET UNIT``.

    Two words are two names where the configuration has both. Raises Ending (USAGE)."""
    if not words:
        if not config.deployments:
            raise Ending(
                Exit.USAGE,
                "the configuration names no deployment",
                "Say TARGET UNIT, or add [deployments.NAME] with target and unit to the configuration.",
            )
        return [Named(deployment, name) for name, deployment in config.deployments.items()]
    if len(words) == 2 and not any(word in config.deployments for word in words):
        return [named(config, words)]
    return [named(config, [word]) for word in dict.fromkeys(words)]


def _unknown(config: Config, name: str) -> tuple[str, str]:
    reason = f'no deployment is named "{name}"{near(name, config.deployments)}'
    return reason, _known(config) or "A unit on a host is given as two words: TARGET UNIT."


def _known(config: Config) -> str:
    names = ", ".join(config.deployments)
    return f"The configuration has: {names}." if names else ""
