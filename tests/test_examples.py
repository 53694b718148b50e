"""Every example runs as a user would run it, and leaves a picture."""

import os
import re
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("rich")

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))


def chunks_of(png):
    """Names of the chunks of a PNG, each checked against its CRC."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    names, at = [], 8
    while at < len(png):
        (size,) = struct.unpack(">I", png[at : at + 4])
        body = png[at + 4 : at + 8 + size]
        (crc,) = struct.unpack(">I", png[at + 8 + size : at + 12 + size])
        assert zlib.crc32(body) == crc
        names.append(body[:4].decode())
        at += 12 + size
    return names


def test_there_are_examples():
    assert EXAMPLES


@pytest.fixture(scope="module", params=EXAMPLES, ids=lambda path: path.stem)
def run(request, tmp_path_factory):
    """Each example once, into a folder that does not exist yet; what it printed, and the folder."""
    out = tmp_path_factory.mktemp(request.param.stem) / "new" / "folder"
    command = [sys.executable, "-W", "error", str(request.param), "--out", str(out)]
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout, out


def test_example_leaves_pictures_and_names_them(run):
    printed, out = run
    pictures = list(out.iterdir())
    assert pictures
    assert {path.suffix for path in pictures} == {".png"}
    for path in pictures:
        assert str(path) in printed, "the user is told what to open; no temporary file is left behind"
        assert path.stat().st_size > 10_000
        names = chunks_of(path.read_bytes())
        assert names[0] == "IHDR"
        assert names[-1] == "IEND"


@pytest.mark.parametrize(
    "run", [example for example in EXAMPLES if example.stem == "demo"], indirect=True, ids=["demo"]
)
def test_demo_finds_the_disturbed_steps(run):
    printed, _ = run
    found = re.search(r"σ of x: ([\d.]+) at the disturbed steps .*, ([\d.]+) elsewhere", printed)
    assert found, printed
    assert float(found[1]) > 3 * float(found[2])
    errors = re.search(r"warp error, all steps +│ +([\d.]+) │ +([\d.]+) │ +([\d.]+)", printed)
    assert errors, printed
    assert float(errors[3]) < min(float(errors[1]), float(errors[2]))
