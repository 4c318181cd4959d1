"""What ships for Prometheus, held to the real programs: rules by promtool, and a stall that ends as an alert."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from probes.readings import JournalLine
from tests.host.machine import free_port
from tests.tui import views
from tests.tui.test_status import Still
from tests.watch.feeds import RECORDINGS, recording
from tui.status.board import Board, Entry
from tui.status.metrics import Measured
from tui.status.server import Address, Request, serving
from watch.benchmarks.result import read_result
from watch.state import WatchState

DOCS = Path(__file__).parents[2] / "docs" / "prometheus"
RULES = DOCS / "firstlight.rules.yml"
RESULT = RECORDINGS / "gpu-h200x2/b2-baseline-worker-killed/bench.base.json"
DASHBOARD = json.loads((DOCS / "firstlight.dashboard.json").read_text())


def program(name: str, package: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"it needs {name}: apt-get install {package}")
    return found


@pytest.mark.parametrize("words", [("check", "rules", RULES.name), ("test", "rules", "firstlight.test.yml")])
def test_promtool_accepts_the_rules(words: tuple[str, ...]) -> None:
    tool = program("promtool", "prometheus")
    done = subprocess.run([tool, *words], cwd=DOCS, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_accepts_the_metrics() -> None:
    tool = program("promtool", "prometheus")
    board = Board(Entry("kimi", Still(views.loading())), Entry("small", Still(views.ready())))
    page = asyncio.run(board.answer(Request("GET", "/metrics"))).body
    done = subprocess.run([tool, "check", "metrics"], input=page, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def expressions() -> list[str]:
    """Every query of the dashboard, for all deployments."""
    found = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    found += [note["expr"] for note in DASHBOARD["annotations"]["list"]]
    return [expression.replace("$deployment", ".*") for expression in found]


class Stuck:
    """A recorded load that fell silent among its weights, and the time as it stands an hour later."""

    def __init__(self) -> None:
        _, lines = recording("cpu-small-ngram")
        end = next(number for number, line in enumerate(lines) if "checkpoint shards" in line.text)
        shift = time.time() - 3600.0 - lines[end].at
        told = [JournalLine(at=line.at + shift, text=line.text) for line in lines[: end + 1]]
        self.state = WatchState("llm-two", "vllm.service")
        self.state.apply_lines(told)
        self.stuck = False

    def now(self) -> float:
        return time.time() if self.stuck else time.time() - 3590.0

    def view(self, now: float) -> Any:
        # somebody speaks, or silence would be our own deafness
        self.state.heard_at = now
        return self.state.view(now)


@asynccontextmanager
async def running(*argv: str, log: Path) -> AsyncIterator[None]:
    with log.open("wb") as out:
        process = await asyncio.create_subprocess_exec(*argv, stdout=out, stderr=out, cwd=log.parent)
    try:
        yield
    finally:
        process.terminate()
        await process.wait()


async def until(ask: Callable[[], Awaitable[Any]], limit: float = 60.0) -> Any:
    """The first answer that says something; AssertionError when none does."""
    end = time.monotonic() + limit
    said: Any = None
    while time.monotonic() < end:
        try:
            if said := await ask():
                return said
        except httpx.TransportError as error:
            said = error
        await asyncio.sleep(0.2)  # another program's state can only be asked for
    raise AssertionError(f"it never came: {said!r}")


async def test_a_stall_ends_as_an_alert(tmp_path: Path) -> None:
    prometheus = program("prometheus", "prometheus")
    alertmanager = program("prometheus-alertmanager", "prometheus-alertmanager")
    scraped, alerted = free_port(), free_port()
    (tmp_path / "rules.yml").write_text(re.sub(r"for: \S+", "for: 1s", RULES.read_text()))
    (tmp_path / "alertmanager.yml").write_text(
        "route: {receiver: none, group_wait: 1s, group_interval: 1s}\nreceivers: [{name: none}]\n"
    )
    stuck = Stuck()
    measured = Measured(deployment="done", preset="standard", at=1.0, result=read_result(RESULT.read_bytes()))
    board = Board(
        Entry("kimi", stuck),
        Entry("load", Still(views.loading())),
        Entry("done", Still(views.ready()), lambda: [measured]),
    )
    async with serving(Address("127.0.0.1", 0), board.answer) as where:
        (tmp_path / "prometheus.yml").write_text(
            "global: {scrape_interval: 1s, evaluation_interval: 1s}\n"
            "rule_files: [rules.yml]\n"
            f"alerting: {{alertmanagers: [{{static_configs: [{{targets: ['127.0.0.1:{alerted}']}}]}}]}}\n"
            f"scrape_configs: [{{job_name: firstlight, static_configs: [{{targets: ['{where}']}}]}}]\n"
        )
        async with (
            running(alertmanager, f"--config.file={tmp_path}/alertmanager.yml", f"--storage.path={tmp_path}/a",
                    f"--web.listen-address=127.0.0.1:{alerted}", "--cluster.listen-address=",
                    log=tmp_path / "alertmanager.log"),
            running(prometheus, f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/p",
                    f"--web.listen-address=127.0.0.1:{scraped}", log=tmp_path / "prometheus.log"),
            httpx.AsyncClient(trust_env=False) as client,
        ):  # fmt: skip

            async def query(expression: str) -> list[Any]:
                answer = await client.get(f"http://127.0.0.1:{scraped}/api/v1/query", params={"query": expression})
                assert answer.status_code == 200, (expression, answer.text)
                found: list[Any] = answer.json()["data"]["result"]
                return found

            async def alerts() -> list[Any]:
                answer = await client.get(f"http://127.0.0.1:{alerted}/api/v2/alerts")
                return [one for one in answer.json() if one["labels"]["alertname"] == "ModelLoadStalled"]

            moving = await until(lambda: query('firstlight_state{firstlight_state="loading",deployment="kimi"} == 1'))
            assert moving
            assert await alerts() == []
            stuck.stuck = True
            (alert,) = await until(alerts)
            assert alert["labels"]["deployment"] == "kimi"
            assert "kimi has stopped moving" in alert["annotations"]["description"]

            # the dashboard asks nothing that is not there
            silent = [expression for expression in expressions() if not await query(expression)]
            assert [one for one in silent if "changes(" not in one and "link_up" not in one] == []
            targets = (await client.get(f"http://127.0.0.1:{scraped}/api/v1/targets")).json()["data"]["activeTargets"]
            assert [target["health"] for target in targets] == ["up"]
            stuck.stuck = False

            async def over() -> bool:
                return not await query("firstlight_stalled == 1") and not await query(
                    'ALERTS{alertstate="firing",alertname="ModelLoadStalled"}'
                )

            assert await until(over)
