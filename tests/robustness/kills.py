"""Kill running work with SIGKILL at random moments: what was finished must stay, and the end must be the same.

``python -m tests.robustness.kills SCENE COUNT`` imports and compiles everything once and forks a child for each run, so
that a run starts at once; a process of its own, since threads of pytest would not survive the fork. The child leads a
session of its own and gets a real SIGKILL. Half of the kills wait for a temporary file and strike in the middle of the
write, the others strike at any time. After every kill the files are read with udtw's own readers, the session is
searched for processes that are left, and the next run continues in the same folder. A run that ends before its kill is
compared with an uninterrupted one, and the next begins in an empty folder.
"""

import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.robustness import scenes
from udtw._io.atomic import TEMPORARY

ORPHAN_SECONDS = 20.0


@dataclass
class Tally:
    """Kills of one scene. ``mid_write``: a temporary file was there when the process died."""

    kills: int = 0
    mid_write: int = 0
    completed: int = 0
    findings: list[str] = field(default_factory=list)


class Killer:
    """``wait_seconds``: how long a kill waits for a write."""

    def __init__(self, scene: scenes.Scene, root: Path, seed: int = 0, wait_seconds: float = 60.0) -> None:
        self.scene, self.root, self.wait_seconds = scene, root, wait_seconds
        self.rng = random.Random(seed)
        self.tally = Tally()
        if scene.warm:
            scene.run(root / "whole")  # so that children inherit what was compiled
        else:
            self._finish(root / "whole")
        begin = time.monotonic()
        self._finish(root / "timed")
        self.duration = time.monotonic() - begin
        self.whole = scene.result(root / "whole")
        if scene.result(root / "timed") != self.whole:
            self.tally.findings.append("two uninterrupted runs differ")

    def kill(self, count: int) -> Tally:
        folder, before = self._fresh()
        while self.tally.kills < count:
            hit = self._strike(folder)
            self.tally.kills += hit
            after, wrong = self._read(folder, before)
            if wrong is not None:
                self.tally.findings.append(wrong)
            elif hit:
                before = after
                continue
            else:
                self._compare(folder)
            folder, before = self._fresh()
        self._finish(folder)
        self._compare(folder)
        return self.tally

    def _strike(self, folder: Path) -> bool:
        """Start a run and kill it; whether it was still running."""
        old = _temporaries(folder)  # left behind by earlier kills
        child = self._start(folder)
        try:
            if not self._wait(child, folder, old):
                return False
            os.killpg(child, signal.SIGKILL)
            if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != -signal.SIGKILL:
                return False
        except BaseException:
            os.killpg(child, signal.SIGKILL)
            raise
        finally:
            _remove_shared_memory(child)
        self.tally.mid_write += bool(_temporaries(folder) - old)
        if left := _wait_for_session(child):
            self.tally.findings.append(f"processes {left} of a killed run were still there after {ORPHAN_SECONDS:g} s")
        return True

    def _wait(self, child: int, folder: Path, old: set[str]) -> bool:
        """Until the moment of the kill; whether the child is still running."""
        wait, aimed = self.rng.uniform(0, 0.7 * self.duration), self.rng.random() < 0.5
        begin = time.monotonic()
        while (passed := time.monotonic() - begin) < (self.wait_seconds if aimed else wait):
            if aimed and passed > wait and _temporaries(folder) - old:
                break
            if os.waitpid(child, os.WNOHANG)[0]:
                return False
            time.sleep(0.0002 if aimed else 0.0005)
        return True

    def _start(self, folder: Path) -> int:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                os.setsid()
                null = os.open(os.devnull, os.O_WRONLY)
                os.dup2(null, 1)
                os.dup2(null, 2)
                self.scene.run(folder)
                status = 0
            finally:
                os._exit(status)
        while _shares_our_group(child):
            time.sleep(0.0002)
        return child

    def _finish(self, folder: Path) -> None:
        if os.waitstatus_to_exitcode(os.waitpid(self._start(folder), 0)[1]):
            self.tally.findings.append("a run that was not killed failed")

    def _read(self, folder: Path, before: dict[str, Any]) -> tuple[dict[str, Any], str | None]:
        """What is finished now, and what is wrong with it."""
        try:
            after = self.scene.finished(folder)
        except Exception as error:
            return {}, f"unreadable after a kill: {type(error).__name__}: {error}"
        gone = [name for name, content in before.items() if name not in after or after[name] != content]
        return after, f"{gone[0]} was finished and is lost or changed" if gone else None

    def _compare(self, folder: Path) -> None:
        self.tally.completed += 1
        if self.scene.result(folder) != self.whole:
            self.tally.findings.append("the result differs from that of an uninterrupted run")

    def _fresh(self) -> tuple[Path, dict[str, Any]]:
        folder = self.root / "broken"
        shutil.rmtree(folder, ignore_errors=True)
        return folder, self.scene.finished(folder)


def _shares_our_group(child: int) -> bool:
    """Until the child leads a session of its own, a kill of its group would be ours."""
    try:
        return os.getsid(child) != child
    except ProcessLookupError:
        return False


def _remove_shared_memory(child: int) -> None:
    """Of joblib's workers; joblib's own watcher would remove it, but was killed with them."""
    for path in [*Path("/dev/shm").glob(f"sem.*-{child}-*"), *Path("/dev/shm").glob(f"joblib*_{child}_*")]:
        shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


def _temporaries(folder: Path) -> set[str]:
    return {name for _, _, names in os.walk(folder) for name in names if name.endswith(TEMPORARY)}


def _wait_for_session(session: int) -> list[int]:
    """Processes of a session that are still there after `ORPHAN_SECONDS`; it should take no time at all."""
    limit = time.monotonic() + ORPHAN_SECONDS
    while (left := _session(session)) and time.monotonic() < limit:
        time.sleep(0.01)
    return left


def _session(session: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, _, _, sid = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
            except OSError:
                continue  # ended meanwhile
            if int(sid) == session and state != "Z":
                found.append(int(entry.name))
    return found


def main() -> None:
    name, count = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="udtw-kill-") as root:
        data = Path(root, "data")
        data.mkdir()
        kind = getattr(scenes, name)
        scene = kind(data) if "__init__" in vars(kind) else kind()
        print(json.dumps(asdict(Killer(scene, Path(root)).kill(int(count)))))


if __name__ == "__main__":
    main()
