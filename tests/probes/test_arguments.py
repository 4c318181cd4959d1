from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.arguments import arguments, exec_start, is_server, model, option
from probes.endpoint import BadEndpoint, Endpoint, endpoint_from, endpoint_of
from probes.readings import UnitReading
from probes.systemd import unit_reading

RECORDING = Path(__file__).parents[1] / "recordings" / "host-systemd-ngram"
SPECULATION = '{"method": "ngram", "num_speculative_tokens": 5, "prompt_lookup_max": 4}'


def test_quotes_of_a_real_unit_come_back_from_its_text() -> None:
    unit = unit_reading((RECORDING / "systemctl-show.txt").read_bytes(), at=1.0, unit="x")
    text = (RECORDING / "unit.service.txt").read_text()
    assert option(unit.exec_start, "--speculative-config") == '{"method":'
    argv = arguments(unit, text)
    assert option(argv, "--speculative-config") == SPECULATION
    assert model(argv) == "/opt/models/small"
    assert endpoint_of(argv).url == "http://127.0.0.1:8000"


def test_the_running_process_is_believed_before_its_unit() -> None:
    unit = UnitReading(
        at=1.0, unit="v", exec_start=("/opt/run.sh",), server_argv=("vllm", "serve", "/m", "--port", "9000")
    )
    assert endpoint_of(arguments(unit)).port == 9000


def test_a_text_that_is_not_what_systemd_shows_is_not_believed() -> None:
    unit = UnitReading(at=1.0, unit="v", exec_start=("vllm", "serve", "/new"))
    assert model(arguments(unit, "[Service]\nExecStart=vllm serve /edited since\n")) == "/new"


def test_variables_come_from_the_environment_and_unknown_ones_stay() -> None:
    unit = UnitReading(
        at=1.0,
        unit="v",
        exec_start=("vllm", "serve", "${MODEL}", "--port", "$PORT", "--host", "$HOST"),
        environment=("MODEL=/opt/models/kimi", "PORT=8004"),
    )
    argv = arguments(unit)
    assert (model(argv), endpoint_of(argv).port, option(argv, "--host")) == ("/opt/models/kimi", 8004, "$HOST")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("/bin/vllm serve /m", ("/bin/vllm", "serve", "/m")),
        ("-/bin/vllm serve '/a b'", ("/bin/vllm", "serve", "/a b")),
        ('@-:/bin/vllm "x\\"y" z', ("/bin/vllm", 'x"y', "z")),
        ("/bin/vllm \\\n  serve \\\n# a comment\n  /m", ("/bin/vllm", "serve", "/m")),
        ("/bin/vllm --x='a b'c", ("/bin/vllm", "--x=a bc")),
        ('/bin/sh -c "open', ()),  # systemd refuses it
    ],
)
def test_a_units_command_line(line: str, expected: tuple[str, ...]) -> None:
    assert exec_start(f"[Service]\nExecStart={line}\n") == expected


def test_a_drop_in_that_resets_the_command_wins() -> None:
    assert exec_start("[Service]\nExecStart=/bin/a\n# /etc/x.conf\n[Service]\nExecStart=\nExecStart=/bin/b 1\n") == (
        "/bin/b",
        "1",
    )


@given(st.text(max_size=80), st.lists(st.text(max_size=20), max_size=6))
def test_any_text_and_any_arguments_have_an_answer(text: str, argv: list[str]) -> None:
    exec_start("ExecStart=" + text)
    assert endpoint_of(argv).port > 0
    model(argv)
    is_server(argv)


@pytest.mark.parametrize(
    ("argv", "url"),
    [
        ("vllm serve /m", "http://127.0.0.1:8000"),
        ("vllm serve /m --host 0.0.0.0 --port=8001", "http://127.0.0.1:8001"),
        ("vllm serve /m --host :: --port 8001", "http://[::1]:8001"),
        ("vllm serve /m --host 10.0.0.5 --port 8001 --port 8002", "http://10.0.0.5:8002"),
        ("vllm serve /m --root-path /llm/ --ssl-keyfile k.pem", "https://127.0.0.1:8000"),
        ("vllm serve /m --ssl_keyfile k.pem", "https://127.0.0.1:8000"),
        ("vllm serve /m --port eighty", "http://127.0.0.1:8000"),
        ("vllm serve /m --port 99999", "http://127.0.0.1:8000"),
        ("vllm serve /m --uds /run/vllm.sock", "unix:/run/vllm.sock"),
        ("python -m sglang.launch_server --model-path /m", "http://127.0.0.1:30000"),
        ("python -m sglang.launch_server --model-path /m --port 8000", "http://127.0.0.1:8000"),
        ("docker run -p 127.0.0.1:8080:8000/tcp vllm/vllm-openai --model m --port 8000", "http://127.0.0.1:8080"),
        ("podman run --network host vllm/vllm-openai --model m --port 8003", "http://127.0.0.1:8003"),
    ],
)
def test_where_the_server_answers(argv: str, url: str) -> None:
    assert endpoint_of(argv.split()).url == url


def test_the_command_of_a_shell_is_looked_into() -> None:
    argv = ("/bin/bash", "-c", "source /opt/env && exec vllm serve '/opt/models/kimi' --port 8001")
    assert (model(argv), endpoint_of(argv).port) == ("/opt/models/kimi", 8001)


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        ("/opt/vllm/bin/python /opt/vllm/bin/vllm serve /m", True),
        ("python3 -m vllm.entrypoints.openai.api_server --model /m", True),
        ("/opt/run-vllm.sh", False),
        ("VLLM::EngineCore", False),
    ],
)
def test_what_starts_a_model_server(argv: str, expected: bool) -> None:
    assert is_server(argv.split()) is expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("http://127.0.0.1:8001", Endpoint(port=8001)),
        ("127.0.0.1:8001", Endpoint(port=8001)),
        (":8001", Endpoint(port=8001)),
        ("https://[::1]:8443/llm/", Endpoint(host="::1", port=8443, tls=True, root="/llm")),
        ("http://0.0.0.0:8001", Endpoint(port=8001)),
        ("http://gpu", Endpoint(host="gpu", port=80)),
    ],
)
def test_an_endpoint_the_operator_gives(given: str, expected: Endpoint) -> None:
    assert endpoint_from(given) == expected
    assert endpoint_from(expected.url) == expected


@pytest.mark.parametrize("given", ["ftp://x", "http://", "http://a:b", "http://a:99999", "", "nonsense", "no/port"])
def test_no_address_is_one_sentence(given: str) -> None:
    with pytest.raises(BadEndpoint, match="is no address of a server"):
        endpoint_from(given)
