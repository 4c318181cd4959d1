"""NAME or TARGET UNIT: which deployment is meant."""

from __future__ import annotations

import pytest

from tui.commands.named import named, several
from tui.exits import Ending, Exit
from watch.config import Config, Deployment

KIMI = Deployment(target="root@llm-two", unit="kimi-k25-int4", endpoint="http://127.0.0.1:8001")
SMALL = Deployment(target="llm-three", unit="small.service", user=True)
CONFIG = Config(deployments={"kimi": KIMI, "small": SMALL})


def test_by_name_and_by_target_and_unit() -> None:
    assert named(CONFIG, ["kimi"]).deployment == KIMI
    assert named(CONFIG, ["kimi"]).title == "kimi"
    one = named(CONFIG, ["host", "vllm.service"])
    assert (one.deployment.target, one.deployment.unit, one.name, one.title) == ("host", "vllm.service", "", "vllm")


def test_a_configured_unit_is_its_deployment_however_it_is_called() -> None:
    guarded = Config(deployments={"kimi": Deployment(target="h", unit="k", read_only=True, fallback="old")})
    for unit in ("k", "k.service"):
        one = named(guarded, ["h", unit])
        assert (one.name, one.deployment.read_only, one.deployment.fallback) == ("kimi", True, "old")
    assert not named(guarded, ["root@h", "k"]).deployment.read_only


def test_options_override_the_deployments_own() -> None:
    one = named(CONFIG, ["kimi"], endpoint="http://127.0.0.1:9", user=True).deployment
    assert (one.endpoint, one.user, one.unit) == ("http://127.0.0.1:9", True, KIMI.unit)
    assert named(CONFIG, ["small"], user=None).deployment.user


@pytest.mark.parametrize(
    ("words", "says"),
    [(["kimy"], "kimi"), ([], "kimi, small"), (["a", "b", "c"], "TARGET UNIT"), (["a b", "c"], "'a b'"),
     (["a", "-c"], "'-c'"), (["", "c"], "host")],
)  # fmt: skip
def test_what_cannot_be_meant_is_one_sentence(words: list[str], says: str) -> None:
    with pytest.raises(Ending) as ending:
        named(CONFIG, words)
    assert ending.value.status == Exit.USAGE
    assert says in f"{ending.value.reason} {ending.value.remedy}"
    assert "\n" not in ending.value.reason


def test_several() -> None:
    assert [one.name for one in several(CONFIG, [])] == ["kimi", "small"]
    assert [one.name for one in several(CONFIG, ["small", "kimi", "small"])] == ["small", "kimi"]
    assert [one.deployment.unit for one in several(CONFIG, ["host", "vllm"])] == ["vllm"]
    with pytest.raises(Ending, match="kimi"):
        several(CONFIG, ["small", "kimy"])
    with pytest.raises(Ending, match="no deployment"):
        several(Config(), [])
