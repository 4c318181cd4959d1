"""What holds for every test: nothing of the operator's own is read or written, and a skipped test says why."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import hypothesis
import pytest

RECORDINGS = Path(__file__).parent / "recordings"

hypothesis.settings.register_profile(
    "firstlight",
    deadline=None,  # a busy machine is no bug
    print_blob=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.register_profile("long", parent=hypothesis.settings.get_profile("firstlight"), max_examples=5000)
hypothesis.settings.load_profile(os.environ.get("FIRSTLIGHT_HYPOTHESIS", "firstlight"))


def pytest_configure(config: pytest.Config) -> None:
    """A home of the run's own, before anything of ours is imported: keys, known hosts, state and configuration."""
    home = tempfile.mkdtemp(prefix="firstlight-home-")
    config.add_cleanup(lambda: shutil.rmtree(home, ignore_errors=True))
    os.environ["HOME"] = home
    for name in list(os.environ):
        if name.startswith(("XDG_", "FIRSTLIGHT_CONFIG", "SSH_")) or name in {"NO_COLOR", "FORCE_COLOR", "COLORFGBG"}:
            del os.environ[name]
    os.environ["TZ"] = "UTC"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    vllm_wanted = os.environ.get("FIRSTLIGHT_VLLM") == "1"
    for item in items:
        if item.get_closest_marker("gpu") and shutil.which("nvidia-smi") is None:
            item.add_marker(pytest.mark.skip(reason="no NVIDIA GPU here (no nvidia-smi on the path)"))
        if item.get_closest_marker("vllm") and not vllm_wanted:
            item.add_marker(pytest.mark.skip(reason="needs a real vLLM, which takes minutes: make test-vllm"))


@pytest.fixture
def recordings() -> Path:
    """The folder of real recordings."""
    return RECORDINGS
