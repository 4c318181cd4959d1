"""The short form of ``make fuzz``: some inputs for every decoder."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from tests.fuzz.decoders import DECODERS, check
from tests.fuzz.inputs import inputs


@pytest.mark.parametrize("name", DECODERS)
def test_whatever_comes(name: str) -> None:
    decoder = DECODERS[name]

    @settings(max_examples=60, suppress_health_check=list(HealthCheck))
    @given(inputs(decoder))
    def run(given: tuple[bytes, list[int]]) -> None:
        check(decoder, *given)

    run()
