"""``firstlight bench``: what it says of results that are kept or lie in files, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tui.cli import app
from tui.exits import BENCHED, Benched, Ending, Exit
from watch.history import Benchmark, History, default_path

RECORDINGS = Path(__file__).parent.parent / "recordings"
T = 1_796_000_000.0
GPU = (
    RECORDINGS / "gpu-h200x2/b2-baseline-worker-killed/bench.base.json",
    RECORDINGS / "gpu-h200x2/b1-ngram-cold-cache/bench.spec.json",
)
BASE, NGRAM = (RECORDINGS / f"cpu-{name}/bench-c4-result.json" for name in ("baseline", "ngram"))
SMALL, FASTER = (RECORDINGS / f"cpu-small-{name}/bench-c4-result.json" for name in ("baseline", "ngram"))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "140")
    return tmp_path


def said(*words: object) -> tuple[int, str, str]:
    """Status, standard output, standard error."""
    done = CliRunner().invoke(app, ["bench", *map(str, words)])
    if isinstance(done.exception, Ending):
        return done.exception.status, done.stdout, f"{done.exception.reason} {done.exception.remedy}"
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.stdout, done.stderr


def keep(*paths: Path, **more: Any) -> None:
    with History.open(default_path()) as history:
        for number, path in enumerate(paths):
            values: dict[str, Any] = {"target": "llm-two", "unit": "vllm", "preset": "standard", **more}
            history.record_benchmark(
                Benchmark(at=T + number, run=f"abc{number}0000", result=json.loads(path.read_bytes()), **values)
            )


def test_files_compared() -> None:
    status, out, _ = said("compare", *GPU)
    assert status == Benched.WORSE
    assert "bench.spec: 0.86 × bench.base output tokens per second, acceptance length 4.2" in " ".join(out.split())
    assert "doubt: one run each" in out
    assert said("compare", *GPU, "--worse-by", "20")[0] == Benched.OK
    assert said("compare", SMALL, FASTER)[0] == Benched.OK, "2.87 times as fast"


def test_the_limit_of_the_configuration_counts(home: Path) -> None:
    folder = home / ".config/firstlight"
    folder.mkdir(parents=True)
    (folder / "firstlight.toml").write_text("[defaults]\nworse_by = 15\n")
    assert said("compare", *GPU)[0] == Benched.OK, "14.5 % less"
    assert said("compare", *GPU, "--worse-by", "10")[0] == Benched.WORSE


def test_repeats_of_one_side_give_an_interval(tmp_path: Path) -> None:
    def repeats(path: Path, name: str) -> str:
        out = []
        for number, factor in enumerate((0.98, 1.0, 1.02)):
            values = json.loads(path.read_bytes())
            values["output_throughput"] *= factor
            out.append(tmp_path / f"{name}-{number}.json")
            out[-1].write_text(json.dumps(values))
        return ",".join(map(str, out))

    status, out, _ = said("compare", repeats(BASE, "before"), repeats(NGRAM, "after"), "--json")
    assert status == Benched.WORSE
    (found,) = json.loads(out)
    throughput = found["levels"][0]["figures"][0]
    assert found["levels"][0]["runs"] == [3, 3]
    assert throughput["interval"][0] < throughput["ratio"] < throughput["interval"][1]
    assert not any("one run each" in doubt for doubt in found["doubts"])


def test_two_files_of_one_name_are_called_by_their_folders() -> None:
    _, out, _ = said("compare", BASE, NGRAM)
    assert out.startswith("cpu-ngram against cpu-baseline\n")


def test_no_verdict_has_a_status_of_its_own() -> None:
    dies = RECORDINGS / "cpu-bench-server-killed/bench-dies-result.json"
    status, out, _ = said("compare", BASE, dies)
    assert status == Benched.NO_VERDICT
    assert "38 of its 40 requests failed" in " ".join(out.split())
    assert said("compare", BASE, dies, NGRAM)[0] == Benched.WORSE, "what is worse is worse"


def test_several_are_compared_with_the_first() -> None:
    _, out, _ = said("compare", BASE, NGRAM, BASE, "--json")
    assert [(one["a"], round(one["levels"][0]["figures"][0]["ratio"], 2)) for one in json.loads(out)] == [
        (str(BASE), 0.89),
        (str(BASE), 1.0),
    ]


def test_markdown() -> None:
    status, out, _ = said("compare", BASE, NGRAM, "--markdown")
    assert status == Benched.WORSE
    assert out.startswith("### cpu-ngram against cpu-baseline\n\n**cpu-ngram: 0.89 ×")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "The result file is empty"),
        ('{"date": "2026', "cut short"),
        ("[1]", "cut short or is not JSON"),
        ('{"a": 1}', "This is no result"),
    ],
)
def test_a_file_that_is_none(tmp_path: Path, text: str, why: str) -> None:
    file = tmp_path / "x.json"
    file.write_text(text)
    status, _, err = said("compare", BASE, file)
    assert status == Exit.UNREADABLE
    assert why in err
    status, _, err = said("compare", BASE, tmp_path / "none.json")
    assert status == Exit.UNREADABLE
    assert "No such file" in err


def test_what_is_kept_is_listed_and_compared() -> None:
    keep(BASE, NGRAM)
    status, out, _ = said("list")
    assert status == 0
    assert [line.split()[0] for line in out.splitlines()[1:]] == ["2", "1"], "newest first"
    assert "vllm @ llm-two" in out
    assert said("baseline", "1") == (0, "", "run 1 is the baseline of vllm @ llm-two from now on\n")
    assert said("list", "llm-two", "vllm.service")[1].splitlines()[2].startswith("*")
    status, out, _ = said("compare", "1", "abc1")
    assert status == Benched.WORSE
    assert out.startswith("run 2 against baseline")
    listed = json.loads(said("list", "--json")[1])
    assert [row["baseline"] for row in listed] == [False, True]
    assert listed[1]["result"]["output_throughput"] == json.loads(BASE.read_bytes())["output_throughput"]
    assert said("compare", "1", str(NGRAM))[0] == Benched.WORSE, "a kept one and a file"


def test_what_nobody_measured() -> None:
    status, out, err = said("list")
    assert (status, out) == (0, "")
    assert "firstlight bench run" in err
    assert said("list", "--json")[1] == "[]\n"
    for words in (("baseline", "7"), ("compare", "7", "8")):
        status, _, err = said(*words)
        assert status == Exit.USAGE
        assert "there is no run '7'" in err


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("compare", "1"), "two results or more"),
        (("compare", "1", "2", "--json", "--markdown"), "exclude each other"),
        (("run", "llm-two", "vllm", "--preset", "quikc"), 'did you mean "quick"'),
        (("run", "nobody"), "no deployment is named"),
    ],
)
def test_a_wrong_command_line(words: tuple[str, ...], why: str) -> None:
    status, _, err = said(*words)
    assert status == Exit.USAGE
    assert why in err


def test_a_server_that_is_only_to_be_read_is_not_measured(home: Path) -> None:
    folder = home / ".config/firstlight"
    folder.mkdir(parents=True)
    (folder / "firstlight.toml").write_text('[deployments.kimi]\ntarget = "llm-two"\nunit = "vllm"\nread_only = true\n')
    status, _, err = said("run", "kimi")
    assert status == Exit.USAGE
    assert "read_only" in err


def test_presets_are_listed() -> None:
    status, out, _ = said("presets")
    assert status == 0
    assert "1, 4, 16, 64" in out
    assert next(line for line in out.splitlines() if line.startswith("*")).split()[1] == "standard"


def test_every_status_is_explained() -> None:
    assert set(BENCHED) == set(Benched)
    assert {int(one) for one in Exit} <= {int(one) for one in Benched}
    assert "not worse" in said("compare", "--help")[1]
