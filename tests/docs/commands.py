"""Commands of a shell block: taken apart, checked against what really exists, and run if that is quick."""

import importlib.util
import re
import shlex
import shutil
import sys
import tomllib
from pathlib import Path

import typer
from typer.testing import CliRunner

from udtw.cli import app

ROOT = Path(__file__).parents[2]
RUN = ("align", "barycenter", "classify", "cluster", "forecast", "images", "predict", "search", "skeleton")
"""Commands that end by themselves and need no data but generated ones."""
ELSEWHERE = ("--data-dir", "--devices", "--dask")
"""Options that ask for data, processors or machines which the tests do not have."""


def commands(code: str) -> list[list[str]]:
    """The words of every command; continued lines are joined, comments and what follows a pipe left out."""
    lines = [shlex.split(line, comments=True) for line in code.replace("\\\n", " ").splitlines()]
    return [words[: words.index("|")] if "|" in words else words for words in lines if words]


def runs_here(words: list[str]) -> bool:
    return words[0] == "udtw" and words[1] in RUN and not set(ELSEWHERE) & set(words)


def run(words: list[str]) -> str:
    """Run a command of udtw in this process, and return what it prints."""
    result = CliRunner().invoke(app, words[1:], env={"UDTW_DATA": None})
    assert result.exit_code == 0, f"{shlex.join(words)}\n{result.output}"
    return result.stdout


def check(words: list[str]) -> None:
    """Program, subcommand, options and number of arguments must exist."""
    program, *rest = words
    if program == "udtw":
        command = typer.main.get_command(app)
        while hasattr(command, "commands") and not rest[0].startswith("-"):
            name, *rest = rest
            command = command.get_command(None, name)
            assert command is not None, f"{shlex.join(words)}: there is no command {name}"
        try:
            command.make_context("udtw", list(rest))
        except typer.Exit:
            assert {"--help", "--version"} & set(rest), words
    elif program == "make":
        assert re.search(rf"^{re.escape(rest[0])}:", (ROOT / "Makefile").read_text(), re.MULTILINE), words
    elif program == "pip":
        extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        named = re.search(r"\[(.+)\]", rest[-1])
        assert rest[0] == "install", words
        assert not named or set(named[1].split(",")) <= set(extras), words
    elif program.endswith("python"):
        assert rest[0] == "-m", words
        assert importlib.util.find_spec(rest[1]), words
    else:
        assert shutil.which(program) or Path(sys.executable).with_name(program).exists(), f"there is no {program}"
