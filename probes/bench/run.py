"""Runs a benchmark on the host and follows it: over any number of lost links, to its results.

``bench`` has it begun and yields all that becomes of it; ``follow_bench`` finds one again that runs already, or has
ended without its results having been fetched (``left`` lists both); ``cancel_bench`` ends one. All act as
``probes.operate`` does, by a file of steps (``bench.sh``) in a transient unit whose name is the lock.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import aclosing
from importlib.resources import files

import msgspec
from msgspec.structs import replace

from probes.bench.facts import gpu_facts
from probes.bench.flags import flags, refused, tokenizer_of
from probes.bench.here import (
    RIGHTS,
    Here,
    cancel_here,
    failure,
    from_where,
    no_tokenizer,
    own,
    place_here,
    reached,
    under_way_here,
)
from probes.bench.orders import DUTY, MEASURED, BenchOrder
from probes.bench.output import Told, environment
from probes.bench.place import Place, api_key, find_place, look_at
from probes.bench.results import Measured, clear, fetch, left
from probes.bench.server import Server, prove
from probes.clock import SYSTEM, Clock
from probes.endpoint import BadEndpoint
from probes.health import MARK
from probes.host import Host, HostError, LinkDown, LinkRefused
from probes.hosts import LOCAL
from probes.operate.actions import plain_who
from probes.operate.asked import ask, going
from probes.operate.begin import Load, begin
from probes.operate.follow import follow
from probes.operate.orders import Rights, UnderWay
from probes.operate.scripts import GOING, KILL
from probes.probe import ProbeFailed, words
from probes.readings import BenchReading
from probes.unit import full_name

__all__ = ["API_KEY", "bench", "bench_under_way", "cancel_bench", "follow_bench", "left"]

API_KEY = "FIRSTLIGHT_API_KEY"
GRACE = 60
"""Seconds after its own limit at which the service manager ends a benchmark that did not end itself."""


def bench(
    host: Host, rights: Rights, order: BenchOrder, *, api_key: str = "", clock: Clock = SYSTEM
) -> AsyncGenerator[BenchReading, None]:
    """Have a ready server measured; never raises but for cancellation.

    Readings as ``BenchReading`` describes them, the last with stage ``end``. ``rights``: by ``operate.ask_rights``;
    any will do. ``api_key``: goes into the environment of the run, never on a command line; "" for what the operator's
    environment has as FIRSTLIGHT_API_KEY, else the unit's own where that can be read. Leaving the iterator leaves the
    benchmark running on the host.
    """
    order = replace(order, unit=full_name(order.unit), who=plain_who(order.who))
    return _bench(host, rights, order, api_key or os.environ.get(API_KEY, ""), clock)


def follow_bench(
    host: Host, rights: Rights, order: BenchOrder, *, clock: Clock = SYSTEM, leave: bool = False
) -> AsyncGenerator[BenchReading, None]:
    """The same for one of ``left``, from its first word on. ``leave``: its results stay on the host, for whoever began
    it."""
    return _follow(host, rights, order, clock, leave=leave)


async def bench_under_way(host: Host, rights: Rights, unit: str) -> UnderWay | None:
    """The benchmark that runs on the unit now, by whomever. Raises what ``Host.run`` does."""
    done = await ask(host, rights, GOING, unit, duty=DUTY)
    there = going(done.stdout.decode("utf-8", "backslashreplace"), full_name(unit))
    return there if there is not None else await under_way_here(host, unit)


async def cancel_bench(host: Host, rights: Rights, going: BenchOrder | UnderWay) -> str:
    """End it now. Why that could not be asked; empty when it was: its readings then end with outcome cancelled."""
    try:
        done = await ask(host, rights, KILL, going.unit, id=going.id, duty=DUTY)
        why = "" if done.status == 0 else words(done.stderr) or f"systemctl kill ended with {done.status}"
    except HostError as error:
        why = error.reason
    try:
        return why and (why if await cancel_here(host, going.unit) else "")
    except HostError:
        return why


async def _bench(
    host: Host, rights: Rights, order: BenchOrder, key: str, clock: Clock
) -> AsyncGenerator[BenchReading, None]:
    told = Told(order)
    yield told.reading(clock.now(), "begin", "begun", f"benchmark {order.preset} of {order.unit}")
    try:
        await host.up()
        if not order.levels:
            raise HostError(f"The preset {order.preset} measures nothing")
        unit = await look_at(host, order.unit, user=order.user)
        try:
            place = await find_place(host, rights, unit, order.endpoint, also=own() if host.name == LOCAL else ())
        except ProbeFailed as error:
            if host.name == LOCAL:
                raise
            place = place_here(unit, order.endpoint, error)
            yield told.reading(clock.now(), "look", "note", error.reason)
        outside = replace(place.outside, ca=order.tls_ca, verify=order.tls_verify)
        yield _looked(told, clock, place, await gpu_facts(host))
        key = key or api_key(unit)
        server = await prove(host, outside, key, clock)
        why = refused(order, server)
        if why:
            raise HostError(why)
    except (HostError, BadEndpoint, OSError) as error:
        remedy = error.remedy if isinstance(error, HostError) else ""
        why = str(error) + (f". {remedy}" if remedy else "")
        yield told.reading(clock.now(), "end", "refused", why)
        return
    facts = {
        "model": server.card.id,
        "tokenizer": tokenizer_of(place, server),
        "endpoint": place.outside.url,
        "first_completion": f"{server.seconds:.1f}",
        "invocation": place.invocation,
    }
    yield told.reading(clock.now(), "ready", "done", "the server has answered a completion", facts=facts)
    if server.running:
        yield told.reading(
            clock.now(), "ready", "warn", f"{server.running:.0f} requests of others were at work when it began"
        )
    if not place.here:
        cannot: BenchReading | None = None
        async with aclosing(_measure(host, rights, order, _load(order, place, server, key), clock, told)) as readings:
            async for reading in readings:
                if reading.stage == "end" and reading.outcome == "failed" and told.before_any_run and own():
                    cannot = reading
                    break
                yield reading
        if cannot is None:
            return
        told = Told(order)
        place = place_here(unit, order.endpoint, HostError(cannot.text))
        yield replace(cannot, stage="look", outcome="note", text=f"the server's own vLLM cannot: {cannot.text}")
        yield _looked(told, clock, place, {})
    async with aclosing(_from_here(host, order, place, server, key, clock, told)) as readings:
        async for reading in readings:
            yield reading


def _looked(told: Told, clock: Clock, place: Place, found: dict[str, str]) -> BenchReading:
    facts = {"command": " ".join([*place.command, "bench", "serve"]), **found}
    whose = "this machine's " if place.here else ""
    return told.reading(clock.now(), "look", "done", f"with {whose}{facts['command']}", facts=facts)


async def _measure(
    host: Host, rights: Rights, order: BenchOrder, load: Load, clock: Clock, told: Told
) -> AsyncGenerator[BenchReading, None]:
    """The steps, on this host."""
    async with aclosing(begin(host, rights, order, load, f"benchmark of {order.unit}", DUTY)) as said:
        async for word in said:
            yield told.reading(clock.now(), *word)
            if word.step == "end":
                return
    async with aclosing(_follow(host, rights, order, clock, told)) as readings:
        async for reading in readings:
            yield reading


async def _from_here(
    host: Host, order: BenchOrder, place: Place, server: Server, key: str, clock: Clock, told: Told
) -> AsyncGenerator[BenchReading, None]:
    """The steps, on this machine, through a port of its loopback that leads to the server."""
    why = no_tokenizer(order, tokenizer_of(place, server))
    if why:
        yield told.reading(clock.now(), "end", "refused", why)
        return
    if where := from_where(host):
        yield told.reading(clock.now(), "ready", "warn", f"measured {where}", facts={MEASURED: where})
    here = Here(host, order, clock)
    try:
        async with host.forward(place.outside.host, place.outside.port, socket=place.outside.socket) as way:
            load = _load(here.order, reached(place, way), server, key)
            watch = asyncio.create_task(here.end_with(way))
            try:
                async with aclosing(_measure(here.machine, RIGHTS, here.order, load, clock, told)) as readings:
                    async for reading in readings:
                        if reading.stage == "end":
                            here.over()
                            if here.why:
                                reading = replace(reading, outcome="failed", text=here.why)
                            elif reading.outcome == "failed":
                                reading = replace(reading, text=failure(reading.text))
                        yield reading
            finally:
                watch.cancel()
                await asyncio.gather(watch, return_exceptions=True)
                await here.leave()
    except HostError as error:
        yield told.reading(clock.now(), "end", "failed", error.reason)


def _load(order: BenchOrder, place: Place, server: Server, key: str) -> Load:
    """The files that are handed over."""
    host = place.endpoint.host
    given = dict(entry.split("=", 1) for entry in place.environment)
    given |= {"NO_PROXY": f"{host},localhost,127.0.0.1", "no_proxy": f"{host},localhost,127.0.0.1"}
    if not place.here:  # here the tokenizer may come from the hub
        given |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    given["FL_METRICS"] = f"{place.endpoint.url}/metrics?{MARK}"
    if key:
        given["OPENAI_API_KEY"] = key
    program = files("probes.bench")
    handed: list[tuple[str, bytes]] = [
        ("bench.sh", program.joinpath("bench.sh").read_bytes()),
        ("page.py", program.joinpath("page.py").read_bytes()),
        ("end.py", program.joinpath("end.py").read_bytes()),
        ("environment", environment(given)),
        ("order.json", msgspec.json.encode(order)),
        ("command", _lines(place.command)),
        ("python", _lines(place.python)),
        ("inside", _lines(place.inside)),
        ("folder", _lines((place.folder,))),
    ]
    for number, level in enumerate(order.levels, 1):
        name = f"{number:02}"
        handed.append((f"levels/{name}", flags(order, level, place, server)))
    settings = [f"FL_LIMIT={order.limit:.0f}", f"--property=RuntimeMaxSec={order.limit + GRACE:.0f}"]
    settings += [f"FL_DIR=/tmp/firstlight-{order.id}"] if place.inside else []
    settings += [f"--uid={place.user}"] if place.user and not place.inside else []
    return Load(action="benchmark", who=order.who, settings=tuple(settings), files=tuple(handed))


def _lines(words: tuple[str, ...]) -> bytes:
    return "".join(f"{word}\n" for word in words).encode("utf-8", "surrogateescape")


async def _follow(
    host: Host, rights: Rights, order: BenchOrder, clock: Clock, told: Told | None = None, *, leave: bool = False
) -> AsyncGenerator[BenchReading, None]:
    """What it says, with the result of each run as soon as that has ended; then nothing of it is left on the host,
    unless it is to be left."""
    told = told or Told(order)
    async with aclosing(follow(host, rights, order, told, clock, DUTY)) as readings:
        async for reading in readings:
            if reading.stage == "end":
                if not leave:
                    await _cleared(host, rights, order)
                yield reading
                return
            yield reading
            if reading.stage == "level" and reading.outcome in ("done", "failed"):
                found = await _fetched(host, rights, order, reading.part)
                if found is not None and (found.result is not None or reading.outcome == "done"):
                    yield _result(told, reading, found)


def _result(told: Told, reading: BenchReading, found: Measured) -> BenchReading:
    values = found.result
    if values is None:
        return replace(reading, stage="result", outcome="failed", text=found.why)
    completed, failed = values.get("completed"), values.get("failed")
    done = completed if isinstance(completed, int) else 0
    lost = failed if isinstance(failed, int) else max(0, (reading.total or done) - done)
    text = f"{done} of {done + lost} requests completed"
    if lost and told.first_error:
        text += f" (first error: {told.first_error})"
    return replace(
        reading,
        at=found.ended or reading.at,
        stage="result",
        outcome="done",
        text=text,
        done=done,
        failed=lost,
        result=values,
        began=found.began,
        before=found.before,
        after=found.after,
    )


async def _fetched(host: Host, rights: Rights, order: BenchOrder, part: int) -> Measured | None:
    """Over lost links. None where the host is no longer reached at all."""
    while True:
        try:
            await host.up()
            return await fetch(host, rights, order, part)
        except LinkDown:
            await asyncio.sleep(0.2)
        except LinkRefused:
            return None
        except HostError as error:
            return Measured(why=f"The result could not be fetched: {error.reason}")


async def _cleared(host: Host, rights: Rights, order: BenchOrder) -> None:
    try:
        await clear(host, rights, order)
    except HostError:
        return  # it goes by itself, a week later, when the next one begins
