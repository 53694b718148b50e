"""Work that is killed loses nothing that was finished; ``UDTW_KILLS=100 pytest -m slow -rP`` kills more often."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.robustness.kills import Killer
from tests.robustness.scenes import Scene
from udtw._io.atomic import write_atomically

ROOT = Path(__file__).parents[2]
KILLS = int(os.environ.get("UDTW_KILLS", "20"))

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")


def kill(scene, count):
    """Tally of a process that kills ``scene``; forked children of it may start no threads."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    environment = {**os.environ, **threads, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
    command = [sys.executable, "-m", "tests.robustness.kills", scene, str(count)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    tally = json.loads(done.stdout)
    print(f"| {scene} | {tally['kills']} | {tally['mid_write']} | {tally['completed']} | {len(tally['findings'])} |")
    return tally


@pytest.mark.parametrize(
    ("scene", "count"),
    [
        ("ToyExperiment", 20),
        ("ToyExperimentTwoJobs", 1),
        ("ImageTraining", 1),
        ("TokenExtraction", 1),
        ("Forecasters", 1),
    ],
)
def test_a_few_kills_lose_nothing(scene, count):
    tally = kill(scene, count)
    assert tally["findings"] == []
    assert tally["kills"] == count
    assert tally["completed"] >= 1


@pytest.mark.slow
@pytest.mark.timeout(120 + 30 * KILLS)
@pytest.mark.parametrize(
    "scene",
    [
        "ToyExperiment",
        "ToyExperimentTwoJobs",
        "Barycenters",
        "SkeletonTraining",
        "ImageTraining",
        "TokenExtraction",
        "Preparation",
        "Forecasters",
    ],
)
def test_many_kills_lose_nothing(scene):
    tally = kill(scene, KILLS)
    assert tally["findings"] == []
    assert tally["kills"] == KILLS
    assert tally["completed"] >= 1


class Counting(Scene):
    """Counts to 30 in a file; ``fault`` says how it goes wrong when it continues after a kill."""

    def __init__(self, fault):
        self.fault = fault

    def run(self, folder):
        folder.mkdir(exist_ok=True)
        begun = self.result(folder)
        if begun and self.fault:
            (folder / "count").write_text("x" if self.fault == "damages" else "0")
            time.sleep(60)
        for number in range(begun, 30):
            time.sleep(0.002)
            write_atomically(folder / "count", f"{number + 1}\n".encode())

    def finished(self, folder):
        return dict.fromkeys(range(self.result(folder)), True)

    def result(self, folder):
        path = folder / "count"
        return int(path.read_text()) if path.exists() else 0


TRAINING = """
import hashlib, sys, torch
from udtw.skeleton import ActionRecognizer, Recipe
from udtw.skeleton.datasets import make_actions
torch.set_num_threads(2)
clips = make_actions(n_classes=3, n_clips=4)
recipe = Recipe(n_steps=24, n_way=2, n_query=1, dim=16, joint_dim=4, width=16, depth=1, heads=2, noise=0.01)
fitted = ActionRecognizer(recipe, clips.graph).fit(clips, checkpoint_path=sys.argv[1], checkpoint_every=1)
bits = b"".join(one.numpy().tobytes() for _, one in sorted(fitted.model.state_dict().items()))
print(hashlib.sha256(bits).hexdigest())
"""


def train(path: Path, changes: int | None) -> str:
    """The weights of a training in a new process; empty if it is killed when its checkpoint has changed that often."""
    environment = {**os.environ, "OMP_NUM_THREADS": "2", "PYTHONPATH": str(ROOT / "src")}
    with subprocess.Popen(
        [sys.executable, "-c", TRAINING, str(path)], env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        seen, stamp = 0, None
        while process.poll() is None and changes is not None:
            now = path.stat().st_mtime_ns if path.exists() else None
            seen, stamp = seen + (now != stamp), now
            if seen > changes:
                process.kill()
            time.sleep(0.002)
        return process.communicate()[0].strip()


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_training_that_is_killed_eight_times_ends_with_the_same_bits(tmp_path):
    """Every part in a process of its own, with two threads."""
    whole = train(tmp_path / "whole", None)
    assert [train(tmp_path / "killed", changes=2) for _ in range(8)] == [""] * 8
    assert train(tmp_path / "killed", None) == whole != ""


def test_what_is_kept_is_no_finding(tmp_path):
    tally = Killer(Counting(""), tmp_path).kill(20)
    assert tally.findings == []
    assert tally.kills == 20


@pytest.mark.parametrize(
    ("fault", "message"),
    [("forgets", "0 was finished and is lost"), ("damages", "unreadable after a kill: ValueError")],
)
def test_what_is_lost_or_damaged_is_found(tmp_path, fault, message):
    tally = Killer(Counting(fault), tmp_path, wait_seconds=2).kill(6)
    assert any(message in finding for finding in tally.findings)
