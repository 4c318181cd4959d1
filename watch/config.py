"""The operator's configuration: ``firstlight.toml`` in the configuration folder, or the file given with ``--config``.

::

    [defaults]
    notify = true

    [deployments.kimi]
    target = "root@llm-two"
    unit = "kimi-k25-int4-ngram"
    fallback = "vllm-kimi-k25-int4"

    [deployments.kimi.hooks]
    ready = ["/usr/local/bin/say", "{deployment} is ready"]

Whatever is wrong in it is one sentence with file, line and the nearest right word; nothing is guessed.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct
from platformdirs import user_config_path

from probes.endpoint import BadEndpoint, endpoint_from
from probes.unit import NAMES, is_name
from watch.hooks import Hook, Value, parse
from watch.regular import whole
from watch.wrong_value import kind_at, plainly

FILE = "firstlight.toml"
_MOST = 8 << 20
"""Bytes; no configuration has more."""


class ConfigError(ValueError):
    """The configuration cannot be used. The text: file, line, what is wrong, the nearest right word."""


class Hooks(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to do when something happens, by ``watch.hooks``: a command as a list of words (``{deployment}``,
    ``{message}`` … are filled in; no shell), an ``http(s)://`` address to POST JSON to, ``"desktop"``, or a list of
    these. Not said: the defaults' count; an empty list: nothing."""

    ready: Value = None
    stalled: Value = None
    failed: Value = None
    link_lost: Value = None
    benchmark_done: Value = None


class Preset(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One way to measure, for ``vllm bench serve``. ``concurrency``: one run each, in this order."""

    title: str = ""
    concurrency: tuple[int, ...] = (16,)
    prompts: int = 128
    prompts_per_concurrency: int = 0
    """prompts of a run: this times its concurrency where it is not 0"""
    input_len: int = 512
    output_len: int = 128
    repeats: int = 1
    warmups: int = 1
    temperature: float = 0.0
    seed: int = 0
    limit: float = 1800.0
    """seconds for the whole, then it is ended"""
    extra: tuple[str, ...] = ()


class Deployment(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A server that is watched. ``fallback``: the unit to go to when this one does not work out."""

    target: str
    unit: str
    endpoint: str = ""
    tls_ca: str = ""
    """a file on this machine with the certificates that https to the server trusts (PEM)"""
    tls_verify: bool = True
    """false: any certificate is taken"""
    user: bool = False
    fallback: str = ""
    read_only: bool = False
    preset: str = ""
    hooks: Hooks = Hooks()


class Defaults(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """For every deployment and every watch that has no deployment."""

    theme: str = ""
    notify: bool = True
    bell: bool = True
    record: bool = True
    read_only: bool = False
    preset: str = "standard"
    worse_by: float = 5.0
    """percent less output tokens per second from which a benchmark counts as worse"""
    gpu_interval: Annotated[float, Meta(ge=0.1, le=60.0)] = 1.0
    """seconds between two samples of the GPUs"""
    report: Literal["html", "markdown", "none"] = "html"
    """what a recorded watch leaves beside its recording when it ends"""
    hooks: Hooks = Hooks()


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    defaults: Defaults = Defaults()
    deployments: dict[str, Deployment] = {}
    presets: dict[str, Preset] = {}
    keys: dict[str, str] = {}
    """name of an action → key or keys, comma-separated"""
    redact: list[str] = []
    """patterns (RE2) of further secrets; what they match never reaches a file"""
    path: str = ""


TABLES: Mapping[str, type[Struct]] = {"deployments": Deployment, "presets": Preset}
"""Tables of named entries."""


def default_path() -> Path:
    return user_config_path("firstlight") / FILE


def load_config(path: Path | None = None) -> Config:
    """The configuration; an empty one where the default file does not exist. Raises ConfigError."""
    file = path or default_path()
    try:
        text = whole(file, _MOST).decode()
    except FileNotFoundError:
        if path is None:
            return Config()
        raise ConfigError(f"{file}: there is no such file") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: not UTF-8 (byte {error.start})") from None
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}") from None
    try:
        raw = tomllib.loads(text)
    except ValueError as error:  # also of a number of thousands of digits
        raise ConfigError(f"{file}: not TOML: {error}") from None
    except RecursionError:
        raise ConfigError(f"{file}: not TOML: it is nested too deep") from None
    _known_keys(file, text, raw, Config, ())
    parts: dict[str, Any] = {}
    for key, value in raw.items():
        if key in TABLES and isinstance(value, dict):
            parts[key] = {n: _convert(file, text, entry, TABLES[key], (key, n)) for n, entry in value.items()}
        elif key == "keys" and isinstance(value, dict):
            parts[key] = {name: _convert(file, text, entry, str, (key, name)) for name, entry in value.items()}
        else:
            kind = next(field.type for field in msgspec.structs.fields(Config) if field.name == key)
            parts[key] = _convert(file, text, value, kind, (key,))
    config = Config(**parts)
    _hooks(file, text, config.defaults.hooks, ("defaults",))
    for name, deployment in config.deployments.items():
        _hooks(file, text, deployment.hooks, ("deployments", name))
        if deployment.fallback == deployment.unit and deployment.fallback:
            line = _line(text, ["deployments", name])
            raise ConfigError(f"{file}:{line}: deployments.{name}: its fallback is the unit itself")
        for what in ("target", "unit", "fallback"):
            value = getattr(deployment, what)
            named = value.isprintable() and not value.startswith("-") and " " not in value
            if not named or (value and what != "target" and not is_name(value)):
                line = _line(text, ["deployments", name])
                called = "a host" if what == "target" else f"a unit. {NAMES}"
                raise ConfigError(f"{file}:{line}: deployments.{name}.{what}: {value!r} is no name of {called}")
        if deployment.endpoint:
            try:
                endpoint_from(deployment.endpoint)
            except BadEndpoint as error:
                line = _line(text, ["deployments", name, "endpoint"])
                raise ConfigError(f"{file}:{line}: deployments.{name}.endpoint: {error}") from None
    return msgspec.structs.replace(config, path=str(file))


def resolve(config: Config, name: str) -> Deployment | None:
    """The deployment of that name."""
    return config.deployments.get(name)


def hooks_of(config: Config, deployment: Deployment) -> dict[str, tuple[Hook, ...]]:
    """What happens on each event of a deployment: its own hooks, else those of the defaults. Events without hooks are
    left out."""
    found: dict[str, tuple[Hook, ...]] = {}
    for event in Hooks.__struct_fields__:
        own: Value = getattr(deployment.hooks, event)
        hooks = parse(getattr(config.defaults.hooks, event) if own is None else own)
        if hooks:
            found[event] = hooks
    return found


def place(config: Config, *path: str) -> str:
    """``file:line`` of a key, as good as can be told; only the file where it cannot be read any more."""
    try:
        return f"{config.path}:{_line(whole(Path(config.path), _MOST).decode(), list(path))}"
    except (OSError, UnicodeDecodeError):
        return config.path


def near(name: str, names: Mapping[str, object]) -> str:
    """ " (did you mean …?)" for the nearest of the names, or nothing."""
    close = difflib.get_close_matches(name, list(names), n=1, cutoff=0.5)
    return f' (did you mean "{close[0]}"?)' if close else ""


def _known_keys(file: Path, text: str, raw: Mapping[str, Any], kind: type[Struct], path: tuple[str, ...]) -> None:
    """Raise ConfigError for the first key that the structure does not have, with its line and the nearest one."""
    fields = {field.name: field.type for field in msgspec.structs.fields(kind) if field.name != "path"}
    for key, value in raw.items():
        if key not in fields:
            where = ".".join((*path, key))
            hint = near(key, fields) or f" (known here: {', '.join(fields)})"
            raise ConfigError(f'{file}:{_line(text, [*path, key])}: unknown key "{where}"{hint}')
        inner = fields[key]
        if isinstance(value, dict):
            if isinstance(inner, type) and issubclass(inner, Struct):
                _known_keys(file, text, value, inner, (*path, key))
            else:
                element = next(
                    (a for a in getattr(inner, "__args__", ()) if isinstance(a, type) and issubclass(a, Struct)), None
                )
                for name, entry in value.items() if element else ():
                    if isinstance(entry, dict) and element is not None:
                        _known_keys(file, text, entry, element, (*path, key, name))


def _hooks(file: Path, text: str, hooks: Hooks, path: tuple[str, ...]) -> None:
    """Raise ConfigError for the first hook that is none."""
    for event in Hooks.__struct_fields__:
        try:
            parse(getattr(hooks, event))
        except ValueError as error:
            where = (*path, "hooks", event)
            raise ConfigError(f"{file}:{_line(text, list(where))}: {'.'.join(where)}: {error}") from None


def _convert(file: Path, text: str, value: object, kind: Any, path: tuple[str, ...]) -> Any:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$")
        below = [part for part in where.rstrip("`").removesuffix("[...]").split(".") if part]
        named = [*path, *below] if not below or not below[0].startswith("[") else [f"{'.'.join(path)}{below[0]}"]
        said = plainly(what, ".".join(named), kind_at(kind, below))
        raise ConfigError(f"{file}:{_line(text, [*path, *below])}: {said}") from None


def _line(text: str, path: list[str]) -> int:
    """The line where a key stands (1 where it cannot be told): its table's header first, then the key below it."""
    lines = text.splitlines()
    names = [re.sub(r"\[.*\]$", "", part) for part in path if part]
    for depth in range(len(names), -1, -1):
        header = re.compile(
            r"^\s*\[\s*" + r"\s*\.\s*".join(rf'"?{re.escape(n)}"?' for n in names[:depth]) + r"\s*[\].]"
        )
        start = 0 if depth == 0 else next((i + 1 for i, line in enumerate(lines) if header.match(line)), None)
        if start is None:
            continue
        rest = names[depth:]
        if not rest:
            return start
        key = re.compile(r'^\s*"?' + re.escape(rest[0]) + r'"?\s*[.=]')
        for index in range(start, len(lines)):
            if lines[index].lstrip().startswith("["):
                break
            if key.match(lines[index]):
                return index + 1
        if depth:
            return start
    return 1
