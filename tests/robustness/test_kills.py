"""A few kills of real work; `python -m hardening kill` does five hundred."""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest
from hardening.kills import Killer

from tests.robustness.test_fuzz import python
from udtw.data.atomic import write_atomically

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")


def test_three_kills_of_trainings_and_extraction(tmp_path):
    done = python("hardening", "kill", "--count", 3, "--out", tmp_path, "--scene", "image", "token", "forecaster")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    found = json.loads((tmp_path / "kills.json").read_text())
    assert found["kills"] >= 3
    assert all(scene["completed"] >= 1 and scene["findings"] == [] for scene in found["scenes"])


class Counting:
    """Counts to 200 in a file; ``fault`` says how it goes wrong."""

    name, share, warm = "counting", 1, True

    def __init__(self, fault=""):
        self.fault = fault

    def run(self, folder: Path):
        folder.mkdir(exist_ok=True)
        if self.fault == "forgets":
            shutil.rmtree(folder)
            folder.mkdir()
        for number in range(self.finished(folder), 200):
            content = f"{number + 1}\n".encode()
            if self.fault == "half":
                with (folder / "count").open("wb", buffering=0) as file:
                    os.fsync(file.fileno())
                    file.write(content)
            else:
                write_atomically(folder / "count", content)

    def finished(self, folder: Path):
        path = folder / "count"
        return int(path.read_text()) if path.exists() else 0

    def lost(self, before, after):
        return None if after >= before else f"{before} became {after}"

    def result(self, folder: Path):
        return self.finished(folder)


def findings(fault, tmp_path, count=25):
    return Killer(Counting(fault), tmp_path, seed=0).kill(count, lambda: None)


def test_what_is_kept_is_no_finding(tmp_path):
    tally = findings("", tmp_path)
    assert tally.findings == []
    assert tally.kills == 25
    assert tally.mid_write > 0


@pytest.mark.parametrize(("fault", "said"), [("forgets", "became"), ("half", "unreadable after a kill: ValueError")])
def test_what_is_lost_or_half_is_found(tmp_path, fault, said):
    assert any(said in finding for finding in findings(fault, tmp_path).findings)
