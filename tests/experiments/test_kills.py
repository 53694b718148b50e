"""A run killed twenty times at random moments ends with exactly the results of an unbroken run."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.experiments.toy import UNITS

ROOT = Path(__file__).parents[2]
KILLS = 20

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="POSIX processes")


class Runs:
    """Runs of the toy experiment, one at a time, each in a process group of its own."""

    def __init__(self, server: subprocess.Popen) -> None:
        self.server = server
        self.group: int | None = None

    def start(self, folder: Path, n_jobs: int) -> None:
        self.server.stdin.write(f"{folder} {n_jobs}\n")
        self.server.stdin.flush()
        self.group = int(self.server.stdout.readline())

    def wait(self) -> int:
        return int(self.server.stdout.readline())

    def kill(self) -> bool:
        """Whether the run was still going."""
        os.killpg(self.group, signal.SIGKILL)
        return self.wait() == -signal.SIGKILL

    def clean_up(self) -> None:
        if self.group is None:
            return
        # joblib's own watchers would do this, but they belong to the group that was killed.
        for path in [
            *Path("/dev/shm").glob(f"sem.*-{self.group}-*"),
            *Path("/dev/shm").glob(f"joblib*_{self.group}_*"),
        ]:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


@pytest.fixture
def runs():
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
    command = [sys.executable, "-c", "from tests.experiments import toy; toy.serve()"]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        yield Runs(server)
        server.stdin.close()


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != ".lock"}


def stamps(folder: Path) -> dict[str, tuple[int, int]]:
    return {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in folder.glob("*.json")}


def wait_for_more_than(count: int, folder: Path) -> None:
    limit = time.monotonic() + 60
    while len(list(folder.glob("*.json"))) <= count and time.monotonic() < limit:
        time.sleep(0.005)


# Workers take seconds to start (they import torch), so the short test has a few runs with two and most with one.
@pytest.mark.parametrize(
    "jobs", [[1, 1, 1, 1, 1, 2], pytest.param([2], marks=pytest.mark.slow)], ids=["mostly one job", "two jobs"]
)
def test_twenty_kills_change_nothing(runs, tmp_path, jobs):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    runs.start(whole, 1)
    assert runs.wait() == 0
    rng = random.Random(0)
    for kill in range(KILLS):
        before = stamps(broken) if broken.exists() else {}
        runs.start(broken, jobs[kill % len(jobs)])
        wait_for_more_than(len(before), broken)
        time.sleep(rng.uniform(0, 0.04))
        assert runs.kill(), "the run ended before it could be killed"
        runs.clean_up()
        assert before.items() <= stamps(broken).items(), "a finished unit was lost or computed again"
    assert len(stamps(broken)) < len(UNITS)
    runs.start(broken, jobs[0])
    assert runs.wait() == 0
    assert files(broken) == files(whole)
    assert len(files(whole)) == len(UNITS)
