"""``python -m benchmarks.skeleton_files``: how long one NTU RGB+D file of 300 frames and two people takes to read."""

import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

FRAMES, BODIES, RUNS = 300, 2, 25


def recording() -> str:
    """Write a file like the Kinect's: values of seven digits."""
    rng = np.random.default_rng(0)
    scales = [0.3, 0.9, 0.2, 200, 200, 1000, 500, 0.2, 0.1, 0.9, 0.1]
    lines = [str(FRAMES)]
    for _ in range(FRAMES):
        lines.append(str(BODIES))
        for body in range(BODIES):
            lines += [f"7205759403793110{body} 0 1 1 1 1 0 0.02764709 0.05745083 2", "25"]
            lines += [" ".join(f"{v:.7g}" for v in row) + " 2" for row in rng.standard_normal((25, 11)) * scales]
    return "\n".join(lines) + "\n"


def main() -> None:
    from udtw.skeleton.datasets.ntu import read_skeleton

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "S001C001P001R001A050.skeleton"
        path.write_text(recording())
        read_skeleton(path)
        walls, processor = [], []
        for _ in range(RUNS):
            wall, cpu = time.perf_counter(), time.process_time()
            frames, _ = read_skeleton(path)
            walls.append(time.perf_counter() - wall)
            processor.append(time.process_time() - cpu)
        size = path.stat().st_size / 1e6
    print(f"{FRAMES} frames, {BODIES} bodies, {size:.1f} MB, result {frames.shape}; median of {RUNS}:")
    wall, cpu = (1e3 * statistics.median(times) for times in (walls, processor))
    print(f"{wall:.1f} ms on the clock, {cpu:.1f} ms of processor")


if __name__ == "__main__":
    main()
