"""A few kills of real work; `python -m hardening kill` does five hundred."""

import json
import sys
import time
from pathlib import Path

import pytest
from hardening.fuzz import workplace
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
    """Counts to 30 in a file; ``fault`` says how it goes wrong when it goes on after a kill."""

    name, share, warm = "counting", 1, True

    def __init__(self, fault=""):
        self.fault = fault

    def run(self, folder: Path):
        folder.mkdir(exist_ok=True)
        begun = self.finished(folder)
        if begun and self.fault:
            (folder / "count").write_text("x" if self.fault == "damages" else "0")
            time.sleep(60)
        for number in range(begun, 30):
            time.sleep(0.002)
            write_atomically(folder / "count", f"{number + 1}\n".encode())

    def finished(self, folder: Path):
        path = folder / "count"
        return int(path.read_text()) if path.exists() else 0

    def lost(self, before, after):
        return None if after >= before else f"{before} became {after}"

    def result(self, folder: Path):
        return self.finished(folder)


def tally_of(fault, count):
    with workplace() as folder:
        killer = Killer(Counting(fault), folder, seed=0)
        killer.most_seconds = 2
        return killer.kill(count, lambda: None)


def test_what_is_kept_is_no_finding():
    tally = tally_of("", 20)
    assert tally.findings == []
    assert tally.kills == 20


@pytest.mark.parametrize(
    ("fault", "said"), [("forgets", " became 0"), ("damages", "unreadable after a kill: ValueError")]
)
def test_what_is_lost_or_damaged_is_found(fault, said):
    assert any(said in finding for finding in tally_of(fault, 6).findings)
