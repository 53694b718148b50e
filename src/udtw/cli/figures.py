"""Figures of commands that have no counterpart in `udtw.plots`: the hits of a search, and clusters."""

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from udtw.data.series_files import Series
from udtw.data.table_cells import missing_steps

if TYPE_CHECKING:
    from udtw.timeseries import SubsequenceMatch

PANELS = 4
"""Most features of a stream, and most clusters in a row, that are drawn."""
AXIS_CHARACTERS = 98
"""Characters of labels that fit below the axis of a stream."""
FAINT = 40
"""Most series of a cluster that are drawn behind its center."""


def set_times(axes: Any, series: Series) -> None:
    """Label the steps of a file with their times, so few that they do not collide; its steps if it has no times."""
    axes.set_xlabel(series.time_name or "step")
    if series.time_text is None:
        return
    steps, texts = series.steps, series.time_text
    wanted = np.linspace(steps[0], steps[-1], 5)[1:-1]
    room = (steps[-1] - steps[0]) * max(map(len, texts)) / AXIS_CHARACTERS
    places = [0]
    for at in np.searchsorted(steps, wanted):
        apart = (1 if places[-1] else 1.5) * room  # the outer labels end where the axis does
        if steps[at] - steps[places[-1]] >= apart and steps[-1] - steps[at] >= 1.5 * room:
            places.append(int(at))
    places += [len(steps) - 1] if len(steps) > 1 else []
    axes.set_xticks(steps[places], [texts[at] for at in places], fontsize=9)
    labels = axes.get_xticklabels()
    labels[0].set_horizontalalignment("left")
    labels[-1].set_horizontalalignment("right")


def breaks_of(series: Series) -> np.ndarray:
    """Return the steps of a series before which steps of the file were left out, or are missing from its time axis."""
    breaks = set((np.flatnonzero(np.diff(series.steps) > 1) + 1).tolist())
    if series.time is not None and series.time_text is not None:
        breaks |= {after + 1 for after in missing_steps(series.time, series.time_text)}
    return np.array(sorted(breaks), int)


def values_with_gaps(series: Series, feature: int) -> tuple[np.ndarray, np.ndarray]:
    """Return steps and values of a feature, with NaN where steps are missing, so that lines break."""
    breaks = breaks_of(series)
    steps = np.insert(series.steps.astype(float), breaks, series.steps[breaks] - 0.5)
    return steps, np.insert(series.values[:, feature].astype(float), breaks, np.nan)


def search_figure(stream: Series, found: "list[SubsequenceMatch]") -> Figure:
    """Draw a stream with its hits, numbered by rank, and the intervals of their begins and ends."""
    rows = min(PANELS, len(stream.names))
    figure = Figure((10, 1 + 1.8 * rows), layout="constrained")
    every = figure.subplots(rows, 1, sharex=True, squeeze=False)[:, 0]
    for feature, axes in enumerate(every):
        axes.plot(*values_with_gaps(stream, feature), color="0.35", linewidth=0.8)
        axes.set_ylabel(stream.names[feature])
        for rank, one in enumerate(found, start=1):
            begin, end = stream.steps[one.begin], stream.steps[one.end]
            axes.axvspan(begin, end, color="tab:blue", alpha=0.25, linewidth=0)
            for low, high in (one.begin_interval, one.end_interval):
                axes.axvspan(stream.steps[low], stream.steps[high], color="tab:orange", alpha=0.4, linewidth=0)
            label = f"{rank} (p = {one.probability:.2f})"
            axes.annotate(label, ((begin + end) / 2, 1.01), xycoords=("data", "axes fraction"), ha="center", fontsize=9)
    set_times(every[-1], stream)
    return figure


def cluster_figure(series: list[np.ndarray], labels: np.ndarray, centers: Any, names: list[str]) -> Figure:
    """Draw the series of each cluster behind its center, the first feature, all on the same axes."""
    count = len(centers)
    width = min(PANELS, count)
    height = -(-count // width)
    figure = Figure((3 * width, 1 + 2 * height), layout="constrained")
    every = figure.subplots(height, width, sharex=True, sharey=True, squeeze=False)
    for number, axes in enumerate(every.ravel()):
        if number >= count:
            axes.set_axis_off()
            continue
        own = [one for one, label in zip(series, labels, strict=True) if label == number]
        for one in own[:FAINT]:
            axes.plot(np.asarray(one).reshape(len(one), -1)[:, 0], color="0.7", linewidth=0.6)
        axes.plot(np.asarray(centers[number]).reshape(len(centers[number]), -1)[:, 0], color="tab:blue", linewidth=1.8)
        axes.set_title(f"cluster {number}: {len(own)} series", fontsize=9)
    figure.supxlabel("step", fontsize=9)
    figure.supylabel(names[0], fontsize=9)
    return figure
