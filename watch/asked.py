"""What was asked for, beside what the server says it accepted.

Asked: the unit's own text (quoting as written), else the arguments as vLLM lists them. Got: the engine's configuration
line, else that list. Both come within the first minute of a load, so that an option lost on the way (a missing
backslash, a quote, an unset variable) is seen before the weights are.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping

from msgspec import Struct

from probes.unitfile import Command
from watch import reprs
from watch.view import AskedGot

Values = Mapping[str, str]


class Item(Struct, frozen=True):
    """One thing that is compared. ``key``: as shown; ``option``: vLLM's name of it (underscores; a dot for a part of
    a JSON value); ``config``: its name in the engine's configuration line, "" where that does not hold it."""

    key: str
    option: str
    config: str = ""
    shown: bool = False
    """also when nobody asked for it"""


ITEMS: tuple[Item, ...] = (
    Item("speculation", "speculative_config.method", "speculative_config.method", True),
    Item("speculative tokens", "speculative_config.num_speculative_tokens", "speculative_config.num_spec_tokens"),
    Item("prompt lookup max", "speculative_config.prompt_lookup_max"),
    Item("prompt lookup min", "speculative_config.prompt_lookup_min"),
    Item("draft model", "speculative_config.model", "speculative_config.model"),
    Item("tensor parallel", "tensor_parallel_size", "tensor_parallel_size", True),
    Item("pipeline parallel", "pipeline_parallel_size", "pipeline_parallel_size"),
    Item("data parallel", "data_parallel_size", "data_parallel_size"),
    Item("expert parallel", "enable_expert_parallel", "enable_expert_parallel"),
    Item("max model length", "max_model_len", "max_seq_len", True),
    Item("KV cache type", "kv_cache_dtype", "kv_cache_dtype", True),
    Item("quantisation", "quantization", "quantization", True),
    Item("weight type", "dtype", "dtype"),
    Item("GPU memory utilisation", "gpu_memory_utilization", "", True),
    Item("served name", "served_model_name", "served_model_name", True),
    Item("eager", "enforce_eager", "enforce_eager"),
    Item("prefix caching", "enable_prefix_caching", "enable_prefix_caching"),
    Item("load format", "load_format", "load_format"),
    Item("max sequences", "max_num_seqs"),
    Item("max batched tokens", "max_num_batched_tokens"),
)
_TELLING = frozenset(
    (
        "speculation",
        "speculative tokens",
        "tensor parallel",
        "pipeline parallel",
        "expert parallel",
        "max model length",
        "KV cache type",
        "quantisation",
        "eager",
    )
)
"""Where a difference is worth a finding: what vLLM by itself rarely changes, and what changes what is served."""
_SHORT = {
    "-tp": "tensor_parallel_size",
    "-pp": "pipeline_parallel_size",
    "-dp": "data_parallel_size",
    "-sc": "speculative_config",
    "-q": "quantization",
    "-ep": "enable_expert_parallel",
}
_ALIASES = {
    "tp_size": "tensor_parallel_size",
    "tp": "tensor_parallel_size",
    "pp_size": "pipeline_parallel_size",
    "dp_size": "data_parallel_size",
    "context_length": "max_model_len",
    "mem_fraction_static": "gpu_memory_utilization",
    "model_path": "model",
    "speculative_algorithm": "speculative_config.method",
    "speculative_num_draft_tokens": "speculative_config.num_speculative_tokens",
    "speculative_draft_model_path": "speculative_config.model",
    "spec_method": "speculative_config.method",
    "spec_model": "speculative_config.model",
    "spec_tokens": "speculative_config.num_speculative_tokens",
}
_FLAGS = frozenset(("enforce_eager", "enable_expert_parallel", "enable_prefix_caching", "trust_remote_code"))
_OPTION = re.compile(r"--?[A-Za-z][\w.-]*(?:=.*)?", re.DOTALL)
_LIST = re.compile(r"args: \{|\bargs: Namespace\(|\bServerArgs\(")
_SHELLS = frozenset(("sh", "bash", "dash", "zsh", "ash"))
_UNKNOWN = re.compile(r"\$\{?[A-Za-z_]|%[A-Za-z]")
_HUMAN = re.compile(r"(\d+(?:\.\d+)?)([kKmMgG])")
_POWERS = {"k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}


def from_argv(argv: Iterable[str]) -> dict[str, str]:
    """The server's options in a command line, by vLLM's names, ``model`` among them. A script given to a shell with
    ``-c`` is looked into."""
    words = list(argv)
    if words and words[0].rpartition("/")[2] in _SHELLS and "-c" in words[1:-1]:
        script = words[words.index("-c", 1) + 1]
        try:
            words = shlex.split(script, comments=True)
        except ValueError:
            words = script.split()
    out: dict[str, str] = {}
    index = 0
    while index < len(words):
        word = words[index]
        index += 1
        if word == "serve" and index < len(words) and not words[index].startswith("-"):
            out.setdefault("model", words[index])
            index += 1
            continue
        if _OPTION.fullmatch(word) is None:
            continue
        name, equals, value = word.partition("=")
        name = _SHORT.get(name) or name.lstrip("-").replace("-", "_")
        values = [value] if equals else []
        while not equals and index < len(words) and _OPTION.fullmatch(words[index]) is None:
            values.append(words[index])
            index += 1
            if name not in ("served_model_name", "speculative_config"):
                break
        if name.startswith("no_") and not values:
            name, values = name[3:], ["False"]
        if name == "speculative_config" and len(values) > 1 and values[0].startswith("{"):
            values = [" ".join(values)]  # its quotes are lost: what was meant is still readable
        _put(out, name, values[0] if values else "True")
    return out


def _put(out: dict[str, str], name: str, value: str) -> None:
    name = _ALIASES.get(name, name)
    if name != "speculative_config":
        out[name] = value
        return
    parts = reprs.mapping(value)
    for part, text in parts.items():
        out[f"speculative_config.{part}"] = text
    if value in ("None", "null", ""):
        out["speculative_config.method"] = "None"
    elif not parts:
        out["speculative_config.method"] = value
    elif "method" not in parts and "model" in parts:
        out["speculative_config.method"] = "draft"


def from_list(text: str) -> dict[str, str]:
    """vLLM's ``non-default args: {…}``, ``args: Namespace(…)`` or SGLang's ``ServerArgs(…)``, by vLLM's names."""
    begun = _LIST.search(text)
    out: dict[str, str] = {}
    for name, value in reprs.fields(text[begun.end() - 1 :] if begun is not None else "").items():
        if name == "speculative_config":
            _put(out, name, value)
        else:
            _put(out, name, (reprs.items(value) or [""])[0] if value[:1] in "[(" else reprs.plain(value))
    return out


def from_config(text: str) -> dict[str, str]:
    """The engine's configuration line, by its own names; the speculative part flattened."""
    _, found, rest = text.partition("with config: ")
    if not found:
        return from_list(text)
    raw = reprs.fields(rest)
    out = {name: reprs.plain(value) for name, value in raw.items()}
    spec = raw.get("speculative_config", "")
    if spec and spec != "None":
        for name, value in reprs.fields(spec).items():
            out[f"speculative_config.{name}"] = reprs.plain(value)
    elif spec:
        out["speculative_config.method"] = "None"
    return out


def method(values: Values) -> str:
    """Of speculation: "" while unknown, "none" where there is none."""
    name = values.get("speculative_config.method", "")
    return "none" if name == "None" else name.lower()


class Asked:
    """The fold of both sides. ``unit_values`` are of the deployment, the rest of one load."""

    def __init__(self) -> None:
        self.unit_values: dict[str, str] | None = None
        self.unit_ref = ""
        self.args: dict[str, str] | None = None
        self.args_ref = ""
        self.config: dict[str, str] | None = None
        self.config_ref = ""

    def unit(self, commands: Iterable[Command], stray: Iterable[str] = (), ref: str = "") -> None:
        """What the unit's text asks for. ``stray``: lines that systemd passes over though they hold options."""
        values: dict[str, str] = {}
        for command in commands:
            argv = command.argv if not command.problem else tuple(command.raw.split())
            values.update(from_argv(argv))
        for line in stray:
            try:
                words = shlex.split(line.rstrip("\\"))
            except ValueError:
                words = line.split()
            for name, value in from_argv(words).items():
                values.setdefault(name, value)
        self.unit_values, self.unit_ref = _known(values), ref

    def unit_argv(self, argv: Iterable[str], ref: str = "") -> None:
        """The same from ``systemctl show``, which has lost the quotes: only while the text is not known."""
        self.unit_values, self.unit_ref = _known(from_argv(argv)), ref

    def new_load(self) -> None:
        self.args = self.config = None
        self.args_ref = self.config_ref = ""

    def arguments(self) -> dict[str, str]:
        """The arguments of this load as far as they are known, by vLLM's names."""
        return dict(self.args if self.args is not None else self.unit_values or {})

    def views(self) -> tuple[AskedGot, ...]:
        return tuple(view for item in ITEMS if (view := self._view(item)) is not None)

    def _view(self, item: Item) -> AskedGot | None:
        asked, ref = None, ""
        if self.unit_values is not None and item.option in self.unit_values:
            asked, ref = self.unit_values[item.option], self.unit_ref
        elif self.args is not None and item.option in self.args:
            asked, ref = self.args[item.option], self.args_ref
        got, got_ref = self._got(item, asked)
        if asked is None:
            if got is None or not item.shown:
                return None
            return AskedGot(key=item.key, asked="", got=_shown(got), verdict="unasked", ref=got_ref)
        if got is None:
            return AskedGot(key=item.key, asked=_shown(asked), got="", verdict="waiting", ref=ref)
        verdict = "same" if _same(item, asked, got) else "differs"
        return AskedGot(key=item.key, asked=_shown(asked), got=_shown(got), verdict=verdict, ref=got_ref or ref)

    def _got(self, item: Item, asked: str | None) -> tuple[str | None, str]:
        if self.config is not None:
            value = self.config.get(item.config) if item.config else None
            if value is None and item.config:
                value = self.config.get(item.option)
            if value is not None:
                return value, self.config_ref
            if item.config.startswith("speculative_config.") and method(self.config) == "none":
                return "None", self.config_ref
        if self.args is not None:
            if item.option in self.args:
                return self.args[item.option], self.args_ref
            off = item.option.startswith("speculative_config.") and not any(
                name.startswith("speculative_config.") for name in self.args
            )
            if asked is not None and (off or item.option.partition(".")[0] in _SWITCHES):
                return "None", self.args_ref  # it was asked for, and is not among what vLLM took in
        return None, ""


_SWITCHES = frozenset(("enforce_eager", "enable_expert_parallel"))
"""Options whose default is not what anybody writes: not being in the list of arguments means not being set."""


def lost(views: Iterable[AskedGot]) -> list[AskedGot]:
    """What was asked for, is not what the server has, and matters. Without speculation, its parts need no word."""
    found = [view for view in views if view.verdict == "differs" and view.key in _TELLING]
    if any(view.key == "speculation" for view in found):
        found = [view for view in found if view.key != "speculative tokens"]
    return found


def _known(values: Mapping[str, str]) -> dict[str, str]:
    """Without what only systemd knows: variables of files that were not read, and the unit's specifiers."""
    return {name: value for name, value in values.items() if _UNKNOWN.search(value) is None}


def _shown(value: str) -> str:
    return {"None": "none", "True": "yes", "False": "no"}.get(value, value)


def _same(item: Item, asked: str, got: str) -> bool:
    one, other = _normal(asked), _normal(got)
    if one == other or asked.lower() in ("auto", "-1"):
        return True
    if item.option == "speculative_config.method":
        if other == "none":
            return one == "none"
        merged = one.endswith("mtp") and other == "mtp"
        return one == "draft" or merged or one.replace("_", "") == other.replace("_", "")
    if item.option == "quantization":
        return one in other or other in one
    if item.option == "served_model_name":
        return one in [name.lower() for name in reprs.items(got)]
    if item.option == "speculative_config.model":
        return other == "none"  # those that need no model of their own are told by the method
    if item.option == "kv_cache_dtype":
        return one.startswith("fp8") and other.startswith((one, "torch.float8", "float8"))
    if item.option == "dtype":
        names = {"half": "float16", "float": "float32"}
        return names.get(one, one) == other.removeprefix("torch.")
    return False


def _normal(value: str) -> str:
    value = value.strip().lower() if _HUMAN.fullmatch(value.strip()) is None else value.strip()
    human = _HUMAN.fullmatch(value)
    if human is not None:
        value = str(float(human[1]) * _POWERS[human[2]])
    value = {"null": "none", "yes": "true", "no": "false"}.get(value, value)
    try:
        number = float(value)
    except ValueError:
        return value
    return repr(number)
