"""Kill running work with SIGKILL at random moments; what was finished must stay, and the end must be the same.

This process imports and compiles everything once and forks a child for each run, so that a run starts at once; the
child does its own computing and writing in a session of its own, and gets a real SIGKILL. Every other kill waits for a
temporary file to appear and strikes in the middle of the write; the others strike at any time. After every kill the
files are read with udtw's own readers, the session is searched for processes that are left, and the next run goes on in
the same folder. A run that was not hit in time ends there: its result is compared with that of an unbroken run, and the
next begins in an empty folder.
"""

import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from udtw.data.atomic import TEMPORARY

LIMIT = 120.0
ORPHAN_SECONDS = 20.0


class Scene(Protocol):
    """Work that is killed. ``before`` and ``after`` are what `finished` gave, the latter after a further kill."""

    name: str
    share: int
    """Of 100 kills."""
    warm: bool
    """Whether a run in this process leaves nothing behind but compiled code; worker pools do not survive a fork."""

    def run(self, folder: Path) -> None:
        """Do the work in ``folder``, or go on with it."""

    def finished(self, folder: Path) -> Any:
        """What is there, read by udtw's own readers, which raise if a file is damaged."""

    def lost(self, before: Any, after: Any) -> str | None:
        """What of ``before`` is not in ``after``, in words."""

    def result(self, folder: Path) -> Any:
        """What must be the same however often the work was interrupted."""


@dataclass
class Tally:
    """Kills of one scene. ``mid_write``: a temporary file was there when the process died."""

    scene: str
    kills: int = 0
    mid_write: int = 0
    completed: int = 0
    findings: list[str] = field(default_factory=list)
    seconds: float = 0.0


class Killer:
    most_seconds = LIMIT
    """How long a kill waits for a write."""

    def __init__(self, scene: Scene, root: Path, seed: int) -> None:
        self.scene, self.root = scene, root
        self.rng = random.Random(f"{seed} {scene.name}")
        self.tally = Tally(scene.name)
        if scene.warm:
            scene.run(root / "whole")  # so that children inherit what was compiled
        else:
            self._finish(root / "whole")
        begin = time.monotonic()
        self._finish(root / "timed")
        self.duration = time.monotonic() - begin
        self.whole = scene.result(root / "whole")
        if scene.result(root / "timed") != self.whole:
            self.tally.findings.append("two unbroken runs differ")

    def kill(self, count: int, tick: Callable[[], None]) -> Tally:
        begin = time.monotonic()
        folder, before = self._fresh()
        while self.tally.kills < count:
            hit = self._strike(folder)
            after, wrong = self._read(folder, before)
            if wrong is not None:
                self.tally.findings.append(wrong)
                folder, before = self._fresh()
            elif hit:
                before = after
            else:
                self._compare(folder)
                folder, before = self._fresh()
            if hit:
                self.tally.kills += 1
                tick()
        self._finish(folder)
        self._compare(folder)
        self.tally.seconds = time.monotonic() - begin
        return self.tally

    def _strike(self, folder: Path) -> bool:
        """Start a run and kill it; whether it was still going."""
        old = _temporaries(folder)  # left behind by earlier kills
        child = self._start(folder)
        wait = self.rng.uniform(0, 0.7 * self.duration)
        aimed = self.rng.random() < 0.5
        try:
            return self._hit(child, folder, old, wait, aimed)
        except BaseException:
            os.killpg(child, signal.SIGKILL)  # Ctrl-C is for us alone
            raise
        finally:
            _sweep(child)

    def _hit(self, child: int, folder: Path, old: set[str], wait: float, aimed: bool) -> bool:
        begin = time.monotonic()
        status = 0
        while not status and time.monotonic() - begin < (self.most_seconds if aimed else wait):
            if aimed and time.monotonic() - begin > wait and _temporaries(folder) - old:
                break
            status = os.waitpid(child, os.WNOHANG)[0]
            time.sleep(0.0002 if aimed else 0.0005)
        if status:
            return False
        os.killpg(child, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code != -signal.SIGKILL:
            return False
        self.tally.mid_write += bool(_temporaries(folder) - old)
        left = _wait_for_session(child)
        if left:
            self.tally.findings.append(f"processes {left} of a killed run were still there after {ORPHAN_SECONDS:g} s")
        return True

    def _start(self, folder: Path) -> int:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                os.setsid()
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                null = os.open(os.devnull, os.O_WRONLY)
                os.dup2(null, 1)
                os.dup2(null, 2)
                self.scene.run(folder)
                status = 0
            finally:
                os._exit(status)
        while child_is_starting(child):
            time.sleep(0.0002)
        return child

    def _finish(self, folder: Path) -> None:
        child = self._start(folder)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
            self.tally.findings.append("a run that nobody killed failed")

    def _read(self, folder: Path, before: Any) -> tuple[Any, str | None]:
        """What is there now, and what is wrong with it."""
        try:
            after = self.scene.finished(folder)
        except Exception as error:
            return None, f"unreadable after a kill: {type(error).__name__}: {error}"
        return after, self.scene.lost(before, after)

    def _compare(self, folder: Path) -> None:
        self.tally.completed += 1
        if self.scene.result(folder) != self.whole:
            self.tally.findings.append("the result differs from that of an unbroken run")

    def _fresh(self) -> tuple[Path, Any]:
        folder = self.root / "broken"
        shutil.rmtree(folder, ignore_errors=True)
        return folder, self.scene.finished(folder)


def child_is_starting(child: int) -> bool:
    """Until it leads a session of its own, its group is ours."""
    try:
        return os.getsid(child) != child
    except ProcessLookupError:
        return False


def _sweep(child: int) -> None:
    """What joblib's workers share in memory; its own watcher would remove it, but was killed with them."""
    for path in [*Path("/dev/shm").glob(f"sem.*-{child}-*"), *Path("/dev/shm").glob(f"joblib*_{child}_*")]:
        shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


def _temporaries(folder: Path) -> set[str]:
    return {name for _, _, names in os.walk(folder) for name in names if name.endswith(TEMPORARY)}


def _wait_for_session(session: int) -> list[int]:
    """Processes of a session that are still there after a while; it should take no time at all."""
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


def kill(scene: Scene, count: int, seed: int, tick: Callable[[], None] = lambda: None) -> Tally:
    """Kill ``scene`` so many times."""
    if sys.platform == "win32":
        raise OSError("Kills need POSIX processes.")
    root = Path(tempfile.mkdtemp(prefix="udtw-kill-"))
    try:
        return Killer(scene, root, seed).kill(count, tick)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def as_json(tallies: list[Tally]) -> dict[str, Any]:
    return {"kills": sum(tally.kills for tally in tallies), "scenes": [asdict(tally) for tally in tallies]}
