"""What in a unit's files will hurt a model server."""

from __future__ import annotations

import pytest

from probes.operate.orders import File, UnitFiles
from probes.readings import FOREVER, UnitReading
from watch.lint import lint

SERVE = "/opt/vllm serve /models/a"


def texts(service: str, *, unit: str = "", environment: str = "", **shown: object) -> str:
    text = f"[Unit]\nDescription=x\n{unit}[Service]\n{service}"
    file = File("/etc/systemd/system/v.service", text)
    files = UnitFiles(unit="v.service", load="loaded", files=(file,), environment={"/e": environment})
    values: dict[str, object] = {"at": 1.0, "unit": "v.service", "type": "exec", "exec_start": tuple(SERVE.split())}
    reading = UnitReading(**{**values, **shown})  # type: ignore[arg-type]
    checks = lint(reading, files)
    assert all(check.remedy and check.verdict in ("bad", "warning") for check in checks)
    return "\n".join(check.text for check in checks)


def test_a_sound_unit() -> None:
    service = f'ExecStart={SERVE} --port 8000 --speculative-config \'{{"method": "ngram"}}\'\nTimeoutStopSec=120\n'
    assert texts(service, timeout_stop=120.0) == ""


@pytest.mark.parametrize(
    ("service", "words"),
    [
        (f"ExecStart={SERVE} --port $PORT\n", "$PORT"),
        (f"ExecStart={SERVE} --port ${{PORT}}\n", "$PORT"),
        (f'ExecStart={SERVE} --speculative-config {{"method": "ngram"}}\n', "no JSON"),
        (f"ExecStart={SERVE} --hf-overrides={{a:1}}\n", "no JSON"),
        (f"ExecStart={SERVE} --name 'x\n", "quote"),
        (f"ExecStart={SERVE}\n  --port 8000\n", "passed over"),
        (f"ExecStart={SERVE}\nRestart=always\n", "Restart=always"),
        (f"ExecStart={SERVE}\nRestart=on-failure\n", "RestartSec"),
        (f"ExecStart={SERVE}\nStartLimitBurst=3\n", "[Service]"),
        (f"ExecStart={SERVE}\nKillMode=process\n", "KillMode"),
    ],
)
def test_what_the_files_say(service: str, words: str) -> None:
    assert words in texts(service)


@pytest.mark.parametrize(
    "service",
    [
        f"Environment=PORT=1\nExecStart={SERVE} --port $PORT\n",
        f"ExecStart={SERVE} --port $$PORT\n",
        f"ExecStart=:{SERVE} --port $PORT\n",
        f"ExecStart={SERVE} --download-dir ${{HOME}}/x\n",
    ],
)
def test_variables_that_are_set_or_not_systemds(service: str) -> None:
    assert texts(service) == ""


def test_a_variable_of_an_environment_file() -> None:
    assert texts(f"ExecStart={SERVE} --port $PORT\n", environment="# words\nPORT=1\n") == ""


@pytest.mark.parametrize(
    ("shown", "words"),
    [
        ({"type": "notify", "timeout_start": 90.0}, "Type=notify"),
        ({"type": "forking"}, "Type=forking"),
        ({"type": "oneshot", "timeout_start": 90.0}, "TimeoutStartSec"),
        ({"timeout_stop": 10.0}, "TimeoutStopSec"),
        ({"timeout_stop": FOREVER}, "infinity"),
        ({"needs_reload": True}, "not loaded"),
        ({"exec_start": (*SERVE.split(), "--tensor-parallel-size", "8")}, "LimitMEMLOCK"),
    ],
)
def test_what_systemd_shows(shown: dict[str, object], words: str) -> None:
    assert words in texts(f"ExecStart={SERVE}\n", **shown)


def test_starts_that_are_counted_over_too_short_a_time() -> None:
    service = f"ExecStart={SERVE}\nRestart=on-failure\nRestartSec=15\n"
    for unit in ("", "StartLimitIntervalSec=0\n", "StartLimitIntervalSec=1min\n"):
        assert "for ever" in texts(service, unit=unit)
    for unit in ("StartLimitIntervalSec=1h\n", "StartLimitIntervalSec=infinity\n"):
        assert texts(service, unit=unit) == ""
