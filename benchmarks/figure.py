"""The picture: ratios against what is required, and growth of time and memory with length."""

import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from benchmarks.rows import Faster, Row
from udtw._io.atomic import write_atomically

LABELS = {
    "sweep-length": ("length N = M (batch shrinks)", "seconds per million cells"),
    "sweep-batch": ("batch, N = M = 128", "seconds per call"),
    "sweep-dimension": ("feature dimension, 16 pairs, N = M = 128", "seconds per call"),
    "sweep-memory": ("length N = M, one pair", "peak MB above baseline"),
}


def _ratios(axes: Axes, rows: Sequence[Faster]) -> None:
    places = range(len(rows))
    colors = ["#2a7f62" if row.met else "#b5443a" for row in rows]
    axes.barh(places, [row.ratio for row in rows], color=colors)
    required = [math.nan if row.bound is None else row.bound for row in rows]
    axes.scatter(required, places, marker="|", s=300, color="black", label="required", zorder=3)
    axes.set_yticks(places, [f"{row.work}\nagainst {row.peer_name}" for row in rows], fontsize=9)
    axes.set(xscale="log", xlabel="times faster")
    axes.invert_yaxis()
    axes.legend(loc="lower right", fontsize=9)


def _growth(axes: Axes, name: str, points: Sequence[dict[str, Any]]) -> None:
    for who in (key for key in points[0] if key not in ("varied", "batch", "length", "dim")):
        places, values = [], []
        for point in points:
            value = point[who]
            if isinstance(value, str):
                continue
            if isinstance(value, dict):
                cells = point["batch"] * point["length"] ** 2 / 1e6 if name == "sweep-length" else 1
                value = value["median"] / cells
            else:
                value = max(value, 0.01)  # below the resolution of resident memory; zero has no logarithm
            places.append(point["varied"])
            values.append(value)
        axes.plot(places, values, marker="o", label=who)
    axes.set(xscale="log", yscale="log", xlabel=LABELS[name][0], ylabel=LABELS[name][1])
    axes.set_xscale("log", base=2)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=9)


def draw(path: Path, rows: Sequence[Row], sweeps: dict[str, list[dict[str, Any]]]) -> None:
    """Write a PNG with one panel for the ratios and one for each sweep that was run."""
    faster = [row for row in rows if isinstance(row, Faster)]
    panels = [name for name, points in sweeps.items() if points]
    count = len(panels) + bool(faster)
    if count == 0:
        return
    columns = min(count, 3)
    lines = -(-count // columns)
    figure, grid = plt.subplots(
        lines, columns, figsize=(6.5 * columns, 4.8 * lines), squeeze=False, layout="constrained"
    )
    places = list(grid.flat)
    if faster:
        _ratios(places.pop(0), faster)
    for name in panels:
        _growth(places.pop(0), name, sweeps[name])
    for axes in places:
        axes.set_axis_off()
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=130)
    plt.close(figure)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, buffer.getvalue())
