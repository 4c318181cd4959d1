"""Secrets out: API keys, tokens and passwords are replaced by ``***`` in every string of a reading before it is kept.

What counts as one: a value that has the shape of a key (``hf_…``, ``sk-…``, a JSON web token, a private key), what
follows ``Bearer``, the password in a URL, and the value of anything whose name says so: an option (``--api-key X``),
an argument dump (``api_key=['X']``, ``"hf_token": "X"``), a variable of an environment (``OPENAI_API_KEY=X``).

Where in doubt a value goes: a garbled line of evidence does less harm than a key in a file that is handed on. What
stays are the tokenizer's own tokens (``eos_token='</s>'``) and short numbers in running text (``per token: 12.5 ms``).

All patterns are RE2's, so a hostile line costs time in proportion to its length. A reading is first tried as encoded
bytes against one wide pattern, many readings together; only what hits it is taken apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, cast

import msgspec
import re2
from msgspec import Struct
from msgspec.structs import replace

from probes.readings import JournalLine, encode, encode_lines

HIDDEN = "***"

S = TypeVar("S", bound=Struct)

_REMEMBERED = 4096
"""Short texts of journal lines (units, programs, boots) that were tried, and need not be again."""
_SHORT = 256


class BadSecretPattern(ValueError):
    """A pattern of the configuration that RE2 does not accept. The text names it and says why."""


class Redactor:
    """``patterns``: RE2 patterns of the operator's own, each match of which goes. Raises BadSecretPattern."""

    def __init__(self, patterns: Sequence[str] = ()) -> None:
        for pattern in patterns:
            try:
                re2.compile(pattern, _quiet())
            except re2.error as error:
                raise BadSecretPattern(f"the secret pattern {pattern!r} is not one RE2 reads: {error}") from None
        self._shapes = _compile("|".join(f"(?:{pattern})" for pattern in (*_SHAPES, *patterns)))
        own = "|".join(f"(?:{pattern})" for pattern in patterns)
        self._own = _compile(own) if patterns else None
        # what depends on where a line begins and ends cannot be looked for in many at once
        alone = any(sign in own for sign in _PLACES)
        self._together = None if alone else _compile(f"(?:{_WIDE_TEXT})|{own}") if own else _WIDE
        self._tried: dict[str, str] = {}

    def encode(self, reading: S) -> tuple[bytes, S]:
        """One line of JSON without secrets (no newline at its end), and the reading that it stands for."""
        line = encode(reading)
        if not self._suspect(line):
            return line, reading
        clean = self.clean(reading)
        return encode(clean), clean

    def encode_all(self, readings: Sequence[S]) -> tuple[bytes, Sequence[S]]:
        """``encode`` of each, many times as fast where few hold what may be a secret: their lines of JSON, each with a
        newline at its end, and the readings that they stand for."""
        together = encode_lines(readings)
        suspects = list(self._suspects(together))
        if not suspects:
            return together, readings
        lines, kept = together.splitlines(keepends=True), list(readings)
        for number in suspects:
            kept[number] = self.clean(kept[number])
            lines[number] = encode(kept[number]) + b"\n"
        return b"".join(lines), kept

    def _suspects(self, together: bytes) -> Iterator[int]:
        """Which lines ``_suspect`` is true of. What all of them together do not hold, none does."""
        number = at = 0
        while at < len(together):
            start = at
            if self._together is not None:
                found = self._together.search(together, at)
                if found is None:
                    return
                start = max(at, together.rfind(b"\n", at, found.start()) + 1)
                number += together.count(b"\n", at, start)
            end = together.index(b"\n", start)
            if self._suspect(together[start:end]):
                yield number
            number, at = number + 1, end + 1

    def clean(self, reading: S) -> S:
        """The same reading without secrets; itself when it holds none."""
        if isinstance(reading, JournalLine):
            return cast(S, self._line(reading))
        plain = msgspec.to_builtins(reading)
        clean = self._walk(plain)
        return reading if clean == plain else msgspec.convert(clean, type(reading))

    def _line(self, line: JournalLine) -> JournalLine:
        """``clean`` of the reading there is most of: no name of its fields says secret, and but for three of them they
        are the same in line after line."""
        clean = {name: self.text(getattr(line, name)) for name in ("text", "cursor", "ref")}
        if len(self._tried) > _REMEMBERED:
            self._tried.clear()
        for name in _SAME:
            value = getattr(line, name)
            known = self._tried.get(value)
            if known is None:
                known = self.text(value)
                if len(value) < _SHORT:
                    self._tried[value] = known
            clean[name] = known
        changed = {name: value for name, value in clean.items() if value != getattr(line, name)}
        return replace(line, **changed) if changed else line

    def text(self, text: str) -> str:
        """The same text without secrets."""
        data = text.encode("utf-8", "surrogatepass")
        if not self._suspect(data):
            return text
        data = _replace(data, self._shapes, lambda _, match: match.span())
        data = _replace(data, _EXEC, lambda _, match: match.span(), _exec_line)
        for pattern, span in _RULES:
            data = _replace(data, pattern, span)
        return data.decode("utf-8", "surrogatepass")

    def environment(self, text: str) -> str:
        """An environment file without secrets: the names stay."""
        return "".join(self._variable(line) for line in text.splitlines(keepends=True))

    def _variable(self, line: str) -> str:
        name, equals, value = line.partition("=")
        if equals and value.strip() and says_secret(name.strip().removeprefix("export "), variable=True):
            return f"{name}={HIDDEN}{line[len(line.rstrip()) :]}"
        return self.text(line)

    def _suspect(self, data: bytes) -> bool:
        if _WIDE.search(data) is not None:
            return True
        return self._own is not None and self._own.search(data) is not None

    def _walk(self, value: object, name: str = "") -> object:
        if isinstance(value, str):
            if says_secret(name) and not _harmless(value.encode("utf-8", "surrogatepass")):
                return HIDDEN
            return self.text(value)
        if isinstance(value, Mapping) and name == "environment":
            return {key: self.environment(item) if isinstance(item, str) else item for key, item in value.items()}
        if isinstance(value, Mapping):
            return {key: self._walk(item, str(key)) for key, item in value.items()}
        if isinstance(value, list | tuple):
            if says_secret(name):
                return [HIDDEN if isinstance(item, str) else item for item in value]
            if value and all(isinstance(item, str) for item in value):
                return list(self._words(cast(Sequence[str], value), environment=name == "environment"))
            return [self._walk(item) for item in value]
        return value

    def _words(self, words: Sequence[str], environment: bool) -> Iterator[str]:
        """An argument list or an environment: a secret may be a word of its own after its option."""
        secret = False
        for word in words:
            name, equals, value = word.partition("=")
            if word.startswith("-"):
                secret = says_secret(name.lstrip("-")) and not equals
                hide = says_secret(name.lstrip("-")) and equals and not _harmless(value.encode())
                yield f"{name}={HIDDEN}" if hide else self.text(word)
            elif secret:
                yield HIDDEN
            elif environment and equals and says_secret(name, variable=True):
                yield f"{name}={HIDDEN}"
            else:
                yield self.text(word)


def says_secret(name: str, *, variable: bool = False) -> bool:
    """Whether a name says that its value is a secret.

    ``variable``: of an environment, where any …KEY and …TOKEN counts; a name in capitals is taken for one.
    """
    words = _words_of(name)
    variable = variable or name.isupper()
    for index, word in enumerate(words):
        before = words[index - 1] if index else ""
        last = index == len(words) - 1
        if any(part in word for part in _SAYING):
            return True
        if word in ("key", "keys") and before in _KEYS:
            return True
        if word == "token" and last and before not in _TOKENIZERS:
            return True
        if (
            variable
            and word.endswith(("key", "keys", "token"))
            and word not in _NO_SECRET
            and before not in _TOKENIZERS
        ):
            return True
    return False


# ----- names

_SAYING = ("secret", "passw", "passphrase", "credential", "apikey")
# fmt: off
_KEYS = frozenset({
    "access", "account", "admin", "api", "auth", "client", "encryption", "master", "private", "service", "shared",
    "signing",
})
_TOKENIZERS = frozenset({
    "audio", "begin", "boa", "boi", "bos", "cls", "context", "decode", "decoder", "draft", "end", "eoi", "eos", "eot",
    "first", "generated", "image", "input", "last", "mask", "max", "min", "new", "next", "num", "output", "pad", "per",
    "prefill", "prompt", "reasoning", "sep", "special", "start", "stop", "text", "think", "tool", "total", "unk",
    "video",
})
# fmt: on
_NO_SECRET = frozenset(("pkey", "monkey", "hotkey"))


def _words_of(name: str) -> list[str]:
    """``hfToken``, ``HF_TOKEN``, ``hf-token``: hf, token."""
    spaced = "".join(
        f" {c}" if c.isupper() and index and name[index - 1].islower() else c for index, c in enumerate(name)
    )
    return spaced.lower().replace("_", " ").replace("-", " ").replace(".", " ").split()


# ----- patterns


def _quiet() -> Any:
    options = re2.Options()
    options.log_errors = False
    return options


def _compile(pattern: str) -> Any:
    return re2.compile(pattern.encode(), _quiet())


_SHAPES = (
    r"\bhf_[A-Za-z0-9]{10,}",  # Hugging Face
    r"\bsk-[A-Za-z0-9_-]{8,}",  # OpenAI, and all who copy its form
    r"\bnvapi-[A-Za-z0-9_-]{16,}",
    r"\bgh[pousr]_[A-Za-z0-9]{20,}",
    r"\bgithub_pat_[A-Za-z0-9_]{20,}",
    r"\bglpat-[A-Za-z0-9_-]{16,}",
    r"\bxox[abpsr]-[A-Za-z0-9-]{10,}",
    r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?",  # a JSON web token
    r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z)",
)

_NAME = r"([A-Za-z0-9_.-]*(?:secret|passw|passphrase|credential|token|key)[A-Za-z0-9_.-]*)"
_QUOTED = r""""(?s:\\.|[^"\\])*"|'(?s:\\.|[^'\\])*'"""

_EXEC = _compile(r"(?m)^[ \t]*Exec[A-Za-z]*=.*(?:\\\n.*)*$")
_WORDS = _compile(rf"""\s*(?:{_QUOTED}|[^\s"']+|["'])|\s+""")

_WIDE_TEXT = (
    r"(?i)secret|passw|passphrase|credential|bearer|basic\s|authorization|api.?key"
    r"|hf_[a-z0-9]{10}|sk-[a-z0-9]|nvapi-|gh[pousr]_[a-z0-9]{20}|github_pat_|glpat-|xox[abpsr]-|AKIA|ASIA|eyJ"
    r"|PRIVATE KEY|://[^\s/@:\"']*:[^\s/@]*@"
    r"|(?:token|key)[a-z0-9_.-]*(?:\\?[\"'])?(?:\s|\\[nrt])*[:=]"
    r"|-[a-z0-9_.-]*(?:token|key)[a-z0-9_.-]*(?:\\?[\"'])?(?:,|\s|\\[nrt])"
)
"""Whatever the rules may find, found in the JSON of a reading too, where quotes and line ends bear a backslash. It says
nothing of where a line begins or ends, so that it can be looked for in many at once."""

_WIDE = _compile(_WIDE_TEXT)

_PLACES = ("^", "$", "\\A", "\\z", "\\b", "\\B")
"""What of RE2's language depends on what stands beside; no harm is done where it is found in a class or escaped."""

_SAME = tuple(
    field.name
    for field in msgspec.structs.fields(JournalLine)
    if field.type is str and field.name not in ("text", "cursor", "ref")
)
"""Fields of a journal line that are text of the host's, beside those that differ from line to line."""


def _harmless(value: bytes) -> bool:
    bare = value.strip(b"\"'\\[](){} \t").lower()
    return bare in (b"none", b"null", b"true", b"false") or not bare.strip(b"*, '\"")


_PROSE = frozenset(
    b"token tokens auth authentication authorization scheme header credentials is was and or for to realm".split()
)


def _value(data: bytes, match: Any) -> tuple[int, int] | None:
    """The span of a rule's first group, if it is not a word of a sentence."""
    value = match.group(1)
    return None if value.lower() in _PROSE or _harmless(value) else match.span(1)


def _after(values: Any) -> _Span:
    """The span of the value that follows a name and its sign, if the name says secret and the value is none of those
    that tell nothing."""

    def span(data: bytes, match: Any) -> tuple[int, int] | None:
        name = match.group(1).decode()
        if not says_secret(name.strip("-")) or (found := values.match(data, match.end())) is None:
            return None
        value = found.group()
        if _harmless(value):
            return None
        if not name.isupper() and len(value) < 8 and value.replace(b".", b"").isdigit():
            return None
        start, end = found.span()
        bracketed = value[:1] + value[-1:] in (b'""', b"''", b"[]", b"()") and len(value) > 1
        return (start + 1, end - 1) if bracketed else (start, end)

    return span


_Span = Callable[[bytes, Any], tuple[int, int] | None]

_RULES: tuple[tuple[Any, _Span], ...] = (
    (_compile(r"""://[^\s/@:"']*:([^\s/@"']+)@"""), _value),
    (_compile(r"""(?i)\b(?:bearer|basic)\s+([A-Za-z0-9._~+/=-]{6,})"""), _value),
    (_compile(r"""(?i)\b(?:proxy-)?authorization["']?\s*[:=]\s*["']?([^\s"',]+)"""), _value),
    # --api-key X, '--api-key', 'X'
    (
        _compile(rf"""(?i)(?:^|[\s"'\[(,])--?{_NAME}(?:=|\s+|["'],\s*)"""),
        _after(_compile(rf"""{_QUOTED}|[^\s"',;)\]}}]+""")),
    ),
    # "HF_TOKEN=a b"
    (_compile(rf"""(?i)"{_NAME}="""), _after(_compile(r"""[^"]*"""))),
    (_compile(rf"""(?i)'{_NAME}="""), _after(_compile(r"""[^']*"""))),
    # api_key=['a', 'b'], "hf_token": "a", OPENAI_API_KEY=a
    (
        _compile(rf"""(?i){_NAME}["']?\s*[:=]\s*"""),
        _after(_compile(rf"""\[[^\]]*\]|\([^)]*\)|{_QUOTED}|[^\s,;&)\]}}"']+""")),
    ),
)


def _exec_line(line: bytes) -> bytes:
    """An Exec line of a unit, where ``--api-key`` takes all words up to the next option."""
    out: list[bytes] = []
    secret = False
    for piece in _WORDS.findall(line):
        word = piece.strip()
        if word.startswith(b"-"):
            secret = b"=" not in word and says_secret(word.decode("utf-8", "replace").lstrip("-"))
        elif secret and word and word != b"\\":
            piece = piece.replace(word, HIDDEN.encode())
        out.append(piece)
    return b"".join(out)


def _hidden(old: bytes) -> bytes:
    """What stands for a value; a list of strings stays one, so that an argument dump can still be read."""
    return b"'***'" if old[:1] in b"\"'" and old else HIDDEN.encode()


def _replace(
    data: bytes,
    pattern: Any,
    span: _Span,
    by: Callable[[bytes], bytes] = _hidden,
) -> bytes:
    """Replace what ``span`` names for each match. One that it declines is passed over up to its first group's end; one
    of nothing at all, as a pattern of the operator's own may match, leaves nothing to be replaced."""
    out: list[bytes] = []
    done = at = 0
    while at <= len(data) and (match := pattern.search(data, at)) is not None:
        where = span(data, match)
        if where is not None and where[0] == where[1]:
            at = max(where[1], at) + 1
            continue
        if where is None:
            at = max(match.end(1), at + 1)
            continue
        out += (data[done : where[0]], by(data[where[0] : where[1]]))
        done = where[1]
        at = max(done, at + 1)
    out.append(data[done:])
    return b"".join(out)
