"""GET /metrics: one page of the server's own figures, thinned to those that anybody looks at."""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING

from probes.clock import Clock
from probes.health import LIMIT, MARK, failure_words
from probes.readings import MetricsReading, Sample

if TYPE_CHECKING:
    import httpx

MAX_PAGE = 8 << 20
"""bytes. The largest page recorded has 57 KB, one with sixteen engines would have under a megabyte."""
MOST = 10_000
"""Figures kept of a page; sixteen engines have six thousand."""
_PIECE = 8 << 10
"""Bytes that are unpacked or parsed without a pause for whatever else the program has to do."""

_KEPT = re.compile(
    rb"^(?:vllm:|sglang:|process_(?:cpu_seconds|resident_memory|start_time))[^\n]{0,8192}$", re.ASCII | re.MULTILINE
)
_DROPPED = re.compile(rb"[\w:]+(?:_created|(?<!_seconds)_bucket)[ {]", re.ASCII)
"""When a series was created says nothing. Of the histograms only durations are drawn as percentiles; of those over
tokens and counts (a third of a page) sum and count are kept."""

_SAID = {
    401: "The metrics need an API key: set FIRSTLIGHT_API_KEY",
    403: "Something in front of the server forbids /metrics",
    404: "This server offers no /metrics (SGLang has it with --enable-metrics only)",
}


async def ask_metrics(asks: httpx.AsyncClient, parser: PageParser, clock: Clock) -> MetricsReading:
    """One request. Whatever HTTP brings is a value, ``error`` a sentence; HostError (the link) is raised."""
    import httpx

    page = bytearray()
    status: int | None = None
    cut = ""
    location = ""
    try:
        async with asyncio.timeout(LIMIT), asks.stream("GET", f"/metrics?{MARK}") as answer:
            status = answer.status_code
            location = answer.headers.get("location", "") if answer.is_redirect else ""
            async for chunk in unpacked(answer):
                page += chunk
                if len(page) > MAX_PAGE:
                    cut = f"The page is longer than {MAX_PAGE >> 20} MiB; what follows is left out"
                    break
    except (httpx.HTTPError, httpx.InvalidURL, OSError, TimeoutError, zlib.error) as failure:
        if status is None:
            why = failure_words(failure)
            return MetricsReading(at=clock.now(), error=f"No metrics: {why}")
        cut = f"The page broke off after {len(page)} bytes: {failure_words(failure)}"
    at = clock.now()
    if status != 200:
        error = f"/metrics redirects to {location[:200]}" if location else _SAID.get(status, "")
        return MetricsReading(
            at=at, status=status, error=error or f"/metrics answered with HTTP status {status}", bytes=len(page)
        )
    whole = bytes(page[:MAX_PAGE])
    samples: list[Sample] = []
    for piece in _pieces(whole if not cut else whole[: whole.rfind(b"\n") + 1]):
        samples += parser.parse(piece)
        if len(samples) >= MOST:
            cut = cut or f"The page has more than {MOST} figures; what follows is left out"
            break
        await asyncio.sleep(0)
    error = "" if samples else cut or nothing_in(whole)
    return MetricsReading(
        at=at, samples=tuple(samples[:MOST]), status=status, error=error, bytes=len(page), truncated=bool(cut)
    )


async def unpacked(answer: httpx.Response) -> AsyncIterator[bytes]:
    """The body, unpacked piece by piece: a few bytes may stand for gigabytes. Raises zlib.error and
    httpx.DecodingError."""
    import httpx

    coding = answer.headers.get("content-encoding", "identity").strip().lower()
    if coding not in ("identity", "gzip", ""):
        raise httpx.DecodingError(f"packed in a way that was not asked for: {coding[:40]}")
    unpacker = zlib.decompressobj(wbits=31) if coding == "gzip" else None
    async for chunk in answer.aiter_raw():
        if unpacker is None:
            yield chunk
            continue
        yield unpacker.decompress(chunk, _PIECE)
        while unpacker.unconsumed_tail:
            yield unpacker.decompress(unpacker.unconsumed_tail, _PIECE)


def _pieces(page: bytes) -> Iterator[bytes]:
    """Whole lines, about ``_PIECE`` bytes of them."""
    begin = 0
    while begin < len(page):
        end = page.find(b"\n", begin + _PIECE) + 1 or len(page)
        yield page[begin:end]
        begin = end


class PageParser:
    """Parses the pages of one server. What stands before the value of a line (name and labels: 40 µs each to parse) is
    the same from page to page, so it is parsed once and looked up after."""

    MOST = 20_000
    LONGEST = 1024
    """bytes of what is looked up; whatever is longer is parsed each time"""

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[str, dict[str, str]]] = {}

    def parse(self, page: bytes) -> tuple[Sample, ...]:
        """The samples of a page that we keep. Total: a line that is no sample costs only itself."""
        out: list[Sample] = []
        for line in _KEPT.findall(page):
            head, _, value = line.rpartition(b" ")
            known = self._known.get(head)
            if known is not None:
                try:
                    out.append(Sample(known[0], known[1], float(value)))
                except ValueError:
                    continue
            elif not _DROPPED.match(line):
                out += self._new(line, head)
        return tuple(out)

    def _new(self, line: bytes, head: bytes) -> list[Sample]:
        from prometheus_client.parser import text_string_to_metric_families

        try:
            samples = [
                Sample(sample.name, sample.labels, float(sample.value))
                for family in text_string_to_metric_families(line.decode("utf-8", "replace") + "\n")
                for sample in family.samples
            ]
        except (ValueError, KeyError, IndexError, AttributeError, AssertionError):
            return []
        # "name{labels} value timestamp" is legal too: then the head holds the value
        if len(samples) == 1 and (head.endswith(b"}") or b" " not in head) and len(head) <= self.LONGEST:
            if len(self._known) >= self.MOST:
                self._known.clear()
            self._known[head] = (samples[0].name, samples[0].labels)
        return samples


def nothing_in(page: bytes) -> str:
    """Why a page without a sample of ours is one."""
    start = page[:512].lstrip().lower()
    if start.startswith((b"<!doctype", b"<html", b"<")):
        return "/metrics answered with a web page: something else listens there; give the server's own --endpoint"
    if not start:
        return "/metrics answered with an empty page"
    return "/metrics answered, but with no figures of vLLM or SGLang"
