"""Fuzzing finds every outcome that is neither a valid value nor a `UdtwError`, in every parser of udtw."""

import contextlib
import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("atheris", reason="Atheris has wheels for Linux and macOS only")

from hardening.fuzz import mutated
from tests.robustness.toy import COUNT

ROOT = Path(__file__).parents[2]
JSON = json.dumps({"a": [1, 2.5, {"b": None}], "c": "d"}).encode()


def python(*arguments):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
    command = [sys.executable, "-m", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def tally_of(fault, out):
    done = python("tests.robustness.toy", fault, out)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_values_and_named_errors_are_no_findings_and_depend_on_the_seed_alone(tmp_path):
    tally = tally_of("none", tmp_path / "first")
    assert tally["finding"] == ""
    assert tally["accepted"] > 0
    assert tally["refused"] > 0
    assert tally["accepted"] + tally["refused"] == COUNT - 1  # libFuzzer tries the empty input first
    assert tally_of("none", tmp_path / "second") == tally


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("error", "KeyError: 'nothing'"),
        ("value", "a valid value"),
        ("crash", "deadly signal"),
        ("hang", "timeout after"),
        ("memory", "more than 67108864 bytes|out-of-memory"),  # whichever of Python and libFuzzer notices first
    ],
)
def test_every_other_outcome_is_found_and_its_input_is_kept(tmp_path, fault, message):
    finding = tally_of(fault, tmp_path)["finding"]
    assert re.search(message, finding), (tmp_path / f"{fault}.log").read_text()
    content = (tmp_path / f"{fault}-finding").read_bytes()[1:]
    assert content.startswith(b"v")
    assert content != b"valid"


def test_three_hundred_inputs_for_every_parser(tmp_path):
    done = python("hardening.fuzz", "--count", 300, "--seed", 1, "--out", tmp_path)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    rows = [line.strip("| ").split(" | ") for line in done.stdout.splitlines()[2:]]
    assert len(rows) >= 37
    for name, _, inputs, accepted, refused, finding in rows:
        assert int(inputs) == 299, name
        assert int(accepted) > 0, name
        assert int(refused) > 0, name
        assert finding == "none", name


def test_an_unknown_parser_is_named():
    done = python("hardening.fuzz", "--parser", "nonsense")
    assert done.returncode == 2
    assert "There is no parser nonsense; there are ucr-tsv" in done.stdout


def test_one_input_is_read_again(tmp_path):
    (tmp_path / "input").write_bytes(b"\x00not a table")
    done = python("hardening.fuzz", "--parser", "csv", "--input", tmp_path / "input")
    assert done.returncode == 1
    assert "DataError" in done.stdout + done.stderr


def test_numbers_are_replaced_as_a_whole():
    found = {mutated(b"a 1.5 b", "text", random.Random(seed)) for seed in range(300)}
    assert {b"a nan b", b"a 1e999 b", b"a -1 b", b"a  b"} <= found


def parsed(content):
    with contextlib.suppress(ValueError):
        return json.loads(content)


def test_json_mostly_stays_json_and_changes_its_shape():
    found = [mutated(JSON, "json", random.Random(seed)) for seed in range(300)]
    values = [value for value in map(parsed, found) if value is not None]
    assert len(values) > 200
    assert any("c" not in value for value in values)
    assert any(not isinstance(value.get("a"), list) for value in values)
    assert any(b"NaN" in one for one in found)


@pytest.mark.parametrize("content", [b"", b"x", b"\n", b"{}", b"[]", b"\xff"])
@pytest.mark.parametrize("kind", ["binary", "text", "json"])
def test_any_content_can_be_mutated(kind, content):
    for seed in range(50):
        assert isinstance(mutated(content, kind, random.Random(seed)), bytes)
