"""The README says what is so: its configuration can be read, its commands exist, its exit statuses are ours."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest
import typer

import themes
from tui.cli import app
from tui.exits import MEANING
from tui.keys import by_id
from watch import catalogue
from watch.config import load_config

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
COMMANDS = typer.main.get_command(app)


def parts(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.S)


def blocks(language: str) -> str:
    return "\n".join(parts(language))


def examples() -> list[str]:
    lines = [line.split("  #")[0] for line in blocks("sh").splitlines()]
    commands = [part.strip() for line in lines for part in re.split(r"&&|\|", line)]
    return [command for command in commands if "firstlight " in command and "make" not in command]


def test_the_configuration_can_be_read(tmp_path: Path) -> None:
    file = tmp_path / "firstlight.toml"
    *config_texts, rows_text = parts("toml")
    for text in config_texts:
        file.write_text(text)
        config = load_config(file)
    assert config.defaults.theme in {theme.name for theme in themes.themes()}
    assert set(config.keys) <= set(by_id())
    (tmp_path / "findings.toml").write_text(rows_text)
    rows = catalogue.load(tmp_path)
    assert rows.problems == ()
    assert "site-license" in rows.by_id


@pytest.mark.parametrize("example", examples())
def test_every_example_is_a_command_line(example: str) -> None:
    words = shlex.split(example)
    command = COMMANDS.commands[words[1]]  # type: ignore[attr-defined]
    parser = command.make_parser(click.Context(command))
    parser.parse_args(args=words[2:])


def test_the_exit_statuses_are_the_programs() -> None:
    told = dict(re.findall(r"^\| (\d+) \| (.+?) \|$", README, re.M))
    assert {int(status): text.replace("`", "") for status, text in told.items()} == {
        int(status): meaning for status, meaning in MEANING.items()
    }


def test_every_target_of_make_is_there() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    assert set(re.findall(r"^make ([a-z-]+)", README, re.M)) <= targets


def test_every_file_named_is_there() -> None:
    named = set(re.findall(r"`((?:tui|watch|probes|themes|tests|docs)/[\w./-]*)`", README)) | {"docs/watch.svg"}
    assert [name for name in named if not (ROOT / name).exists()] == []
