"""Presets: those that ship (``presets.toml``), with the operator's own in addition or in their place."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources

import msgspec

from probes.bench.orders import Level
from watch.config import Config, Preset

MOST_LEVELS = 64
MOST_REQUESTS = 1_000_000


class BadPreset(ValueError):
    """There is no such preset, or it cannot be measured; the text is one sentence."""


@cache
def shipped() -> Mapping[str, Preset]:
    text = resources.files("watch.benchmarks").joinpath("presets.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text), dict[str, Preset])


def presets(config: Config) -> dict[str, Preset]:
    """By name, ours first."""
    return {**shipped(), **config.presets}


def preset(config: Config, name: str) -> Preset:
    """Raises BadPreset."""
    known = presets(config)
    if name not in known:
        close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
        hint = f'did you mean "{close[0]}"?' if close else f"there are {', '.join(known)}"
        raise BadPreset(f'There is no preset "{name}": {hint}')
    return known[name]


def levels(name: str, preset: Preset, *, repeats: int | None = None, earlier: int = 0) -> tuple[Level, ...]:
    """The runs of a preset, one after the other: all loads once, then all of them again for each repeat, so that a
    drift of the server meets all of them alike.

    Each has prompts of its own (another seed): a server that has seen a prompt answers it from its prefix cache.
    ``earlier``: how many runs this load of the server has been through before. Raises BadPreset.
    """
    times = preset.repeats if repeats is None else repeats
    counts = [preset.prompts_per_concurrency * at for at in preset.concurrency]
    wanted = [count or preset.prompts for count in counts]
    numbers = [*preset.concurrency, *wanted, times, preset.input_len, preset.output_len]
    if not preset.concurrency or min(numbers) < 1 or preset.warmups < 0 or not preset.limit > 0:
        raise BadPreset(f"The preset {name} measures nothing: its numbers are to be 1 or more")
    if len(preset.concurrency) * times > MOST_LEVELS or sum(wanted) * times > MOST_REQUESTS:
        raise BadPreset(f"The preset {name} is too much for one benchmark: at most {MOST_LEVELS} runs of it")
    if any(not word or not word.isprintable() for word in preset.extra):
        raise BadPreset(f"The preset {name} has a word in extra that is none")
    if not name.isprintable() or any(char.isspace() or char == "=" for char in name):
        raise BadPreset(f"{name!r} is no name for a preset: letters, digits and - are")
    return tuple(
        Level(
            concurrency=concurrency,
            prompts=count,
            input_len=preset.input_len,
            output_len=preset.output_len,
            repeat=repeat + 1,
            warmups=preset.warmups,
            temperature=preset.temperature,
            seed=preset.seed + earlier + repeat * len(wanted) + number,
            extra=preset.extra,
        )
        for repeat in range(times)
        for number, (concurrency, count) in enumerate(zip(preset.concurrency, wanted, strict=True))
    )
