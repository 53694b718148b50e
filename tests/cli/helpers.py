"""Run the command in this process, as a user would type it."""

import json

from typer.testing import CliRunner

from udtw.cli import app


def run(*words, env=None):
    return CliRunner().invoke(app, [str(word) for word in words], env=env)


def run_ok(*words, env=None):
    result = run(*words, env=env)
    assert result.exit_code == 0, result.output
    return result


def run_json(*words, env=None):
    """Standard output alone must be JSON."""
    return json.loads(run_ok(*words, "--json", env=env).stdout)


def fails(code, *words, env=None):
    """The one line on standard error of a command that ends with ``code``."""
    result = run(*words, env=env)
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    lines = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1, result.stderr
    assert "Traceback" not in result.stderr
    return lines[0]
