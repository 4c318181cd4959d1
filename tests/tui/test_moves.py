"""Going on with another unit of the same host: which deployment that is, and what stays open."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import pytest

from tests.tui import views
from tests.tui.acting import desk_of
from tui.commands.moves import Watches, standing_in
from tui.desk import Desk
from tui.exits import Ending, Exit
from watch.config import Config, Deployment

HERE = Deployment(target="root@llm-two", unit="kimi", endpoint="http://127.0.0.1:8000", fallback="small")


def test_a_unit_that_is_configured_is_taken_as_it_is() -> None:
    small = Deployment(target="root@llm-two", unit="small.service", endpoint="http://127.0.0.1:8001")
    config = Config(deployments={"kimi": HERE, "small": small, "other": Deployment(target="llm-three", unit="small")})
    name, found = standing_in(config, HERE, "small")
    assert (name, found.unit, found.endpoint) == ("small", "small.service", "http://127.0.0.1:8001")
    assert found.fallback == "kimi"  # the way back


def test_any_other_unit_has_an_endpoint_of_its_own_and_a_way_back() -> None:
    name, found = standing_in(Config(), HERE, "small.service")
    assert (name, found.target, found.unit, found.endpoint) == ("", "root@llm-two", "small.service", "")
    assert found.fallback == "kimi"


def test_read_only_stays_read_only() -> None:
    config = Config(deployments={"small": Deployment(target="root@llm-two", unit="small")})
    here = Deployment(target="root@llm-two", unit="kimi", read_only=True)
    for configured in (config, Config()):
        assert standing_in(configured, here, "small")[1].read_only


async def test_all_of_them_stay_open_until_the_end_and_one_that_cannot_be_opened_ends_none() -> None:
    state: list[str] = []

    @asynccontextmanager
    async def one(deployment: Deployment, name: str) -> AsyncIterator[Desk]:
        if deployment.unit == "bad":
            raise Ending(Exit.USAGE, "no")
        state.append(f"+{deployment.unit}")
        yield desk_of(cast(object, views.Fixed(views.waiting(), views.LIVE)))
        state.append(f"-{deployment.unit}")

    async with Watches(Config(), one) as watches:
        first = await watches.open(HERE, "kimi")
        assert first.elsewhere is not None
        with pytest.raises(Ending):
            await first.elsewhere("bad")
        second = await first.elsewhere("small")
        assert second.elsewhere is not None
        await second.elsewhere("kimi")
        assert state == ["+kimi", "+small", "+kimi"]
        assert len(watches.opened) == 3
    assert state == ["+kimi", "+small", "+kimi", "-kimi", "-small", "-kimi"]
