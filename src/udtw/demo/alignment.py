"""First part of the demo: two series whose true alignment is known, matched by DTW and by uDTW."""

from typing import Any

import numpy as np

from udtw._engine.align import align
from udtw._engine.alignment import Alignment
from udtw.data.generators import known_warps
from udtw.demo.common import Part, Sizes, Tick
from udtw.demo.document import mean_std
from udtw.plots import plot_matches
from udtw.plots.style import new_figure

METHODS: dict[str, dict[str, Any]] = {
    "DTW": {"gamma": 1e-3},
    "soft-DTW": {"gamma": 4.0},
    "uDTW": {"var_x": "estimate", "var_y": "estimate", "gamma": "auto"},
}
"""γ = 4 is soft-DTW's best on these pairs (``udtw reproduce calibration``); uDTW estimates σ from the series alone."""
SHOWN = ("DTW", "uDTW")
LEVEL = 0.9


def align_steps(sizes: Sizes) -> int:
    return sizes.seeds * len(METHODS)


def align_pairs(sizes: Sizes, tick: Tick) -> Part:
    """Errors of the matches of every method in steps, and how often the intervals hold the true match."""
    errors: dict[str, list[float]] = {name: [] for name in METHODS}
    coverage: dict[str, list[float]] = {name: [] for name in METHODS}
    shown: dict[str, Alignment] = {}
    for seed in range(sizes.seeds):
        data = known_warps(sizes.pairs, 2 * seed + 1)
        x, y = data["x"][..., None], data["y"][..., None]
        for name, options in METHODS.items():
            tick(f"align: {name}")
            found = align(x, y, **options)
            matches = found.matches(LEVEL)
            errors[name].append(float(np.abs(matches.expected - data["match"]).mean()))
            inside = (data["match"] >= matches.low - 0.5) & (data["match"] <= matches.high + 0.5)
            coverage[name].append(100 * float(inside.mean()))
            if seed == 0:
                shown[name] = found
        if seed == 0:
            pair = x, y
            mistakes = {name: np.abs(shown[name].matches().expected - data["match"]).mean(1) for name in SHOWN}
    # A typical pair: both errors are near their medians.
    index = int(np.argmin(sum(np.abs(one - np.median(one)) for one in mistakes.values())))
    figure = new_figure((13, 4.6), {})
    sides: Any = figure.subfigures(1, 2)
    for side, name in zip(sides, SHOWN, strict=True):
        plot_matches(*pair, shown[name], index=index, intervals=False, doubtful=name != "DTW", figure=side)
        side.suptitle(f"{name}: off by {mistakes[name][index]:.1f} steps on average", fontsize=11)
    steps = x.shape[1]
    return Part(
        heading="Align",
        text=f"{sizes.pairs} pairs of smooth series of {steps} steps, one a warped copy of the other, with a little "
        "noise and a burst of strong noise in each. The true alignment is known, and no method is told where the "
        "bursts are. uDTW estimates the noise of each step from the series itself; matches inside a burst count less, "
        "and it says where it is not sure.",
        title="Matches against the truth",
        columns=["method", "error of the match, steps", f"true match inside the {100 * LEVEL:g} % interval, %"],
        rows=[
            [name, mean_std(errors[name], 2), "–" if name == "DTW" else mean_std(coverage[name], 1)] for name in METHODS
        ],
        note=f"Mean ± std over {sizes.seeds} seed(s). DTW gives one path and no intervals.",
        figures=[
            (
                figure,
                "A typical pair: a line joins each step with its partner, faded where the match is doubtful. DTW runs "
                "through the bursts and drags their surroundings along; uDTW passes over them.",
            )
        ],
    )
