"""The server before it is measured: its own name for the model, one real completion, and who else is at work on it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from probes.clock import Clock
from probes.endpoint import Endpoint
from probes.health import MARK, client, failure_words
from probes.host import Host
from probes.metrics import PageParser, ask_metrics
from probes.probe import ProbeFailed
from probes.readings import UNDECODABLE, Sample

if TYPE_CHECKING:
    import httpx

FIRST_TOKEN = 300.0
"""Seconds for the first completion: kernels may still be compiled for it."""

RUNNING = {"vllm:num_requests_running", "vllm:num_requests_waiting", "sglang:num_running_reqs", "sglang:num_queue_reqs"}


class Card(Struct, frozen=True):
    """One entry of /v1/models. ``root``: the path or name that the server was started with."""

    id: str
    root: str = ""
    parent: str | None = None
    max_model_len: int | None = None


class Cards(Struct, frozen=True):
    data: list[Card]


class Server(Struct, frozen=True, kw_only=True):
    """``running``: requests of others, running or waiting; None: the server has no /metrics to tell."""

    card: Card
    running: float | None = None
    seconds: float = 0.0
    """what the first completion took"""


async def prove(host: Host, endpoint: Endpoint, key: str, clock: Clock) -> Server:
    """Ask it. Raises ProbeFailed where it is not ready for us, one sentence with a remedy; BadEndpoint for a tls_ca
    that is none; and what the host raises."""
    async with (
        host.http(endpoint.host, endpoint.port, socket=endpoint.socket, tls=endpoint.trust()) as transport,
        client(transport, endpoint, key) as asks,
    ):
        card = await _card(asks)
        page = await ask_metrics(asks, PageParser(), clock)
        running = busy(page.samples) if page.samples else None
        began = clock.now()
        await _complete(asks, card.id)
        return Server(card=card, running=running, seconds=clock.now() - began)


def busy(samples: tuple[Sample, ...]) -> float:
    return sum(sample.value for sample in samples if sample.name in RUNNING)


async def _card(asks: httpx.AsyncClient) -> Card:
    answer = await _ask(asks, "GET", f"/v1/models?{MARK}", 30.0)
    _accepted(answer, "/v1/models")
    try:
        cards = msgspec.json.decode(answer.content, type=Cards).data
    except UNDECODABLE:
        raise ProbeFailed("/v1/models answered with something else than a list of models") from None
    if not cards:
        raise ProbeFailed("/v1/models names no model")
    return next((card for card in cards if not card.parent), cards[0])


async def _complete(asks: httpx.AsyncClient, model: str) -> None:
    wanted = {"model": model, "prompt": "One, two,", "max_tokens": 1, "temperature": 0}
    answer = await _ask(asks, "POST", f"/v1/completions?{MARK}", FIRST_TOKEN, wanted)
    _accepted(answer, "/v1/completions")
    if answer.status_code == 404:
        raise ProbeFailed(f"The server does not serve {model} at /v1/completions (HTTP status 404)")
    if answer.status_code != 200:
        said = " ".join(answer.text.split())[:200]
        raise ProbeFailed(f"The first completion failed with HTTP status {answer.status_code}: {said}")
    try:
        made = msgspec.json.decode(answer.content)
        made["choices"][0]["text"]
    except (*UNDECODABLE, KeyError, IndexError, TypeError):
        raise ProbeFailed("The first completion was answered with something that is none") from None


def _accepted(answer: httpx.Response, path: str) -> None:
    if answer.status_code in (401, 403):
        raise ProbeFailed(
            f"The server does not accept our API key ({path}: HTTP status {answer.status_code})",
            "Set FIRSTLIGHT_API_KEY to one that it accepts. It is sent and never recorded.",
        )
    if path == "/v1/models" and answer.status_code != 200:
        raise ProbeFailed(f"The server is not ready: {path} answers with HTTP status {answer.status_code}")


async def _ask(
    asks: httpx.AsyncClient, method: str, path: str, limit: float, body: dict[str, object] | None = None
) -> httpx.Response:
    import httpx

    try:
        async with asyncio.timeout(limit):
            return await asks.request(method, path, json=body, timeout=limit)
    except TimeoutError:
        raise ProbeFailed(f"The server has not answered {path.partition('?')[0]} within {limit:g} s") from None
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as failure:
        why = failure_words(failure)
        what = "nobody listens there" if why == "refused" else why
        raise ProbeFailed(f"The server cannot be asked at {asks.base_url}: {what}") from None
