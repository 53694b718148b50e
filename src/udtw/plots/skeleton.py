"""The clip figure: a skeleton over time, and how uncertain each block of it is."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from numpy.typing import NDArray

from udtw.errors import ShapeError
from udtw.plots.stick_figures import (
    FILLED,
    PLAIN_COLOR,
    STD_COLORS,
    Body,
    Floats,
    bare,
    body,
    check_std,
    draw_figures,
    slots,
    std_norm,
)
from udtw.skeleton.graphs import Graph

WIDTH_INCHES, STD_INCHES, LABEL_INCHES = 7.0, 0.65, 0.55
FILM_INCHES = (0.6, 1.6)
"""Least and largest height of the figures."""


def plot_clip(
    frames: Any,
    graph: Graph | str,
    blocks: Any = None,
    std: Any = None,
    *,
    n_poses: int = 10,
    std_range: tuple[float, float] | None = None,
    y_up: bool | None = None,
    title: str | None = None,
    figsize: tuple[float, float] | None = None,
) -> Figure:
    """Draw poses of a clip as stick figures over time and, below them, the uncertainty σ of its blocks.

    Colours go from blue (the smallest σ) to red (the largest); a figure has the colour of the block below it. Blocks
    that overlap meet halfway between their middles. Joints that are missing, and their bones, are left out. The axes
    are labelled "film" and "std". The figure belongs to nobody: save it with ``savefig``.

    Parameters
    ----------
    frames : (T, J, C) or (T, P, J, C)
        One or several people, seen from the front: x across, y up, C = 2 or 3. Each figure is placed by the torso of
        the first person, so that a walk does not leave the picture. NaN where a joint is missing.
    graph : Graph or str
        Which joints are connected, or the name of a layout, one of `udtw.skeleton.GRAPHS`.
    blocks : (τ, 2), optional
        First frame, and frame after the last, of every block, as from `udtw.skeleton.blocks.block_spans`. By default
        the clip is divided evenly among the σ.
    std : (τ,), optional
        σ of every block, the root of `Tokens.variance`. Without it there is no lower panel.
    n_poses : int
        Figures at most, evenly spaced.
    std_range : (low, high)
        σ that are shown in pure blue and pure red, to compare several figures; by default those of this clip.
    y_up : bool
        Whether y counts upwards; by default in 3D only, since in pictures it counts down.
    title : str, optional
    figsize : (width, height) in inches
        By default 7 wide and as high as the figures ask for.
    """
    clip = body(frames, graph, y_up)
    n_frames = len(clip.points)
    sigma = None if std is None else check_std(std)
    edges = None if sigma is None else block_edges(blocks, n_frames, len(sigma))
    places = slots(n_frames, n_poses)
    shown = np.round(places).astype(int).clip(0, n_frames - 1)

    film = _film_inches(clip, len(places))
    below = 0.0 if sigma is None else STD_INCHES
    figure = Figure(
        figsize=figsize or (WIDTH_INCHES, film + below + LABEL_INCHES + (0.25 if title else 0)),
        layout=ConstrainedLayoutEngine(h_pad=0.03, hspace=0.0),
    )
    rows: list[Any] = [["film"]] if sigma is None else [["film"], ["std"]]
    axes = figure.subplot_mosaic(rows, height_ratios=[film, below][: len(rows)])
    bare(axes["film"])
    last = axes["film"]
    colors: list[Any] = [PLAIN_COLOR] * len(places)
    if sigma is not None and edges is not None:
        norm, low, high = std_norm(sigma, std_range)
        colors = list(STD_COLORS(norm(sigma[block_at(edges, places)])))
        last = axes["std"]
        _draw_std(last, edges, sigma, STD_COLORS(norm(sigma)), (min(low, sigma.min()), max(high, sigma.max())))
        axes["film"].sharex(last)
    draw_figures(axes["film"], clip, shown, places, colors)
    last.set_xlim(-0.5, n_frames - 0.5)
    last.tick_params(bottom=True, labelbottom=True, labelsize=8)
    last.locator_params(axis="x", integer=True, nbins=10)
    last.spines["bottom"].set_visible(True)
    last.set_xlabel("frame", fontsize=9)
    if title:
        axes["film"].set_title(title, fontsize=10)
    return figure


def block_edges(blocks: Any, n_frames: int, count: int) -> Floats:
    """(τ + 1,) where one block's share of the time axis ends and the next begins, from −½ to T − ½."""
    if blocks is None:
        return np.linspace(0, n_frames, count + 1) - 0.5
    spans = np.asarray(blocks, dtype=np.float64)
    if spans.shape != (count, 2):
        raise ShapeError(f"blocks must have shape ({count}, 2), the first and the last frame + 1; got {spans.shape}.")
    inside = (spans[:, 0] >= 0) & (spans[:, 0] < spans[:, 1]) & (spans[:, 1] <= n_frames)
    middles = spans.mean(1) - 0.5
    if not inside.all() or (np.diff(middles) <= 0).any():
        raise ShapeError(f"blocks must lie within the {n_frames} frames, in order, none of them empty.")
    return np.concatenate([[-0.5], (middles[1:] + middles[:-1]) / 2, [n_frames - 0.5]])


def block_at(edges: Floats, places: Floats) -> NDArray[np.int64]:
    """(n,) number of the block at each place on the time axis."""
    return np.searchsorted(edges[1:-1], places, side="right")


def _film_inches(clip: Body, count: int) -> float:
    """The height at which figures fill their slots in both directions."""
    width, height = clip.size
    wanted = FILLED * WIDTH_INCHES / max(count, 4) * height / width
    return min(max(wanted, FILM_INCHES[0]), FILM_INCHES[1])


def _draw_std(axes: Axes, edges: Floats, sigma: Floats, colors: Any, limits: tuple[float, float]) -> None:
    """A column a block, as high as its σ and in its colour; pale, under a line of the full colour."""
    low, high = limits
    margin = 0.25 * (high - low)
    floor = low - margin
    columns = [[(a, floor), (a, s), (b, s), (b, floor)] for a, b, s in zip(edges, edges[1:], sigma, strict=False)]
    axes.add_collection(PolyCollection(columns, facecolors=colors, alpha=0.3, linewidths=0), autolim=False)
    axes.hlines(sigma, edges[:-1], edges[1:], colors=colors, linewidth=2)
    axes.set_ylim(floor, high + margin)
    axes.set_ylabel("σ", fontsize=9, rotation=0, va="center", labelpad=8)
    axes.locator_params(axis="y", nbins=3)
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
