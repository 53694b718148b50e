"""Draw a clip as stick figures over time, and the uncertainty of each block of frames."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.figure import Figure
from matplotlib.transforms import Affine2DBase
from numpy.typing import NDArray

from udtw.errors import OptionError, ShapeError, VarianceError
from udtw.plots.style import (
    FONT,
    STD_COLORS,
    Floats,
    as_array,
    hide_box,
    new_figure,
    shade,
    std_limits,
    std_norm,
)
from udtw.skeleton.graphs import Graph
from udtw.skeleton.graphs import graph as named_graph

WIDTH_INCHES, STD_INCHES, LABEL_INCHES = 7.0, 0.65, 0.55
FILM_INCHES = (0.6, 1.6)
"""Smallest and largest height of the stick figures."""

BONE_WIDTH = 1.3
PERSON_WIDTHS = (1.0, 0.6)
"""Widths of the bones of the first and the second person, relative to the figure's."""

HEADS = ("head", "nose")
HEAD_RADIUS = 0.055  # relative to the height of the body
FILLED = 0.94  # share of its slot that the largest figure fills
PAIR_ROOM = 1.25  # extra width for two people, so that they stay apart from their neighbors

Along = Literal["across", "down"]


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
    **figure_options: Any,
) -> Figure:
    """Plot the poses of a clip as stick figures over time and, below them, the uncertainty σ of its blocks.

    Colors go from blue (the smallest σ) to red (the largest); a stick figure has the color of the block below it.
    Overlapping blocks are cut halfway between their centers. Missing joints, and their bones, are not drawn. The axes
    are labeled "film" and "std". The figure is not registered with pyplot: save it with ``savefig``.

    Parameters
    ----------
    frames : (T, J, C) or (T, P, J, C)
        One or several people, seen from the front: x across, y up, C = 2 or 3. Each stick figure is centered on the
        torso of the first person, so that a walking person stays in the picture. NaN marks a missing joint.
    graph : Graph or str
        Graph of the joints, or its name, one of `udtw.skeleton.GRAPHS`.
    blocks : (τ, 2), optional
        First frame of every block and the frame after its last, as from `udtw.skeleton.blocks.block_spans`. By
        default, the clip is divided into τ equal blocks.
    std : (τ,), optional
        σ of every block, as in `Tokens.std`, drawn in a lower panel.
    n_poses : int
        Largest number of stick figures, evenly spaced.
    std_range : (low, high)
        Values of σ shown in pure blue and pure red, logarithmic about 1; by default (0.5, 2), or wider
        if σ exceeds it.
    y_up : bool
        Whether y points up; by default only in 3D, since it points down in images.
    title : str, optional
    **figure_options
        Passed to `matplotlib.figure.Figure`, such as ``figsize``; by default 7 inches wide and as high as needed.

    Examples
    --------
    >>> import numpy as np
    >>> from udtw.plots import plot_clip
    >>> from udtw.skeleton import make_actions
    >>> clips = make_actions(1, 1, random_state=0)
    >>> figure = plot_clip(clips[0].frames, clips.graph, std=np.linspace(0.5, 2, 4), n_poses=6)
    >>> [axes.get_label() for axes in figure.axes]
    ['film', 'std']
    """
    clip = body(frames, graph, y_up)
    n_frames = len(clip.points)
    sigma = None if std is None else _check_std(std)
    edges = None if sigma is None else _block_edges(blocks, n_frames, len(sigma))
    places = slots(n_frames, n_poses)
    shown = np.round(places).astype(int).clip(0, n_frames - 1)

    film = _film_inches(clip, len(places))
    below = 0.0 if sigma is None else STD_INCHES
    size = (WIDTH_INCHES, film + below + LABEL_INCHES + (0.25 if title else 0))
    figure = new_figure(size, figure_options, h_pad=0.03, hspace=0.0)
    rows: list[Any] = [["film"]] if sigma is None else [["film"], ["std"]]
    axes = figure.subplot_mosaic(rows, height_ratios=[film, below][: len(rows)])
    bare(axes["film"])
    last = axes["film"]
    colors: list[Any] = [shade(0.8)] * len(places)
    if sigma is not None and edges is not None:
        norm, (low, high) = std_norm(sigma, std_range), std_limits(sigma, std_range)  # colors, and heights
        blocks_below = np.searchsorted(edges[1:-1], places, side="right")
        colors = list(STD_COLORS(norm(sigma[blocks_below])))
        last = axes["std"]
        _draw_std(last, edges, sigma, STD_COLORS(norm(sigma)), (min(low, sigma.min()), max(high, sigma.max())))
        axes["film"].sharex(last)
    draw_figures(axes["film"], clip, shown, places, colors)
    last.set_xlim(-0.5, n_frames - 0.5)
    last.tick_params(bottom=True, labelbottom=True, labelsize=FONT)
    last.locator_params(axis="x", integer=True, nbins=10)
    last.spines["bottom"].set_visible(True)
    last.set_xlabel("frame", fontsize=FONT)
    if title:
        axes["film"].set_title(title, fontsize=10)
    return figure


def _block_edges(blocks: Any, n_frames: int, count: int) -> Floats:
    """Return the boundaries (τ + 1,) of the blocks on the time axis, from −½ to T − ½."""
    if blocks is None:
        return np.linspace(0, n_frames, count + 1) - 0.5
    spans = np.asarray(blocks, dtype=np.float64)
    if spans.shape != (count, 2):
        raise ShapeError(f"blocks must have shape ({count}, 2), first frame and last frame + 1; got {spans.shape}.")
    inside = (spans[:, 0] >= 0) & (spans[:, 0] < spans[:, 1]) & (spans[:, 1] <= n_frames)
    middles = spans.mean(1) - 0.5
    if not inside.all() or (np.diff(middles) <= 0).any():
        raise ShapeError(f"blocks must be ordered, nonempty and within the {n_frames} frames.")
    return np.concatenate([[-0.5], (middles[1:] + middles[:-1]) / 2, [n_frames - 0.5]])


def _film_inches(clip: "Body", count: int) -> float:
    """Return the height at which stick figures fill their slots in both directions."""
    width, height = clip.size
    wanted = FILLED * WIDTH_INCHES / max(count, 4) * height / width
    return min(max(wanted, FILM_INCHES[0]), FILM_INCHES[1])


def _draw_std(axes: Axes, edges: Floats, sigma: Floats, colors: Any, limits: tuple[float, float]) -> None:
    """Draw one column per block, as high as its σ: pale, under a line in the full color."""
    low, high = limits
    margin = 0.25 * (high - low)
    floor = low - margin
    columns = [[(a, floor), (a, s), (b, s), (b, floor)] for a, b, s in zip(edges, edges[1:], sigma, strict=False)]
    axes.add_collection(PolyCollection(columns, facecolors=colors, alpha=0.3, linewidths=0), autolim=False)
    axes.hlines(sigma, edges[:-1], edges[1:], colors=colors, linewidth=2)
    axes.set_ylim(floor, high + margin)
    axes.set_ylabel("σ", fontsize=FONT, rotation=0, va="center", labelpad=8)
    axes.locator_params(axis="y", nbins=3)
    axes.tick_params(labelsize=FONT)
    hide_box(axes)


@dataclass(frozen=True)
class Body:
    """Hold a checked and centered clip: ``points`` (T, P, J, 2), x to the right and y up, and the graph of its joints.

    ``size`` is the width and height that hold all poses except outliers.
    """

    points: Floats
    graph: Graph
    size: tuple[float, float]


def body(frames: Any, graph: Graph | str, y_up: bool | None = None) -> Body:
    """Check and center ``frames`` (T, J, C) or (T, P, J, C); infinite coordinates count as missing."""
    layout = named_graph(graph) if isinstance(graph, str) else graph
    array = as_array(frames).astype(np.float64)
    array = array[:, None] if array.ndim == 3 else array
    joints = len(layout.joints)
    if array.ndim != 4 or 0 in array.shape or array.shape[2] != joints or array.shape[3] not in (2, 3):
        raise ShapeError(
            f"frames must have shape (T, {joints}, C) or (T, P, {joints}, C) for these {joints} joints, with 2 or 3 "
            f"coordinates; got {np.shape(frames)}."
        )
    seen = np.isfinite(array).all(-1, keepdims=True)
    points = np.where(seen, array, np.nan)[..., :2]
    if not (array.shape[3] == 3 if y_up is None else y_up):
        points = points * [1, -1]
    points = points - np.stack([_across(points, layout.centre), np.zeros(len(points))], -1)[:, None, None]
    flat = points.reshape(-1, 2)
    flat = flat[~np.isnan(flat).any(1)]
    if not len(flat):
        return Body(points, layout, (1.0, 1.0))
    (left, low), (right, high) = np.quantile(flat, (0.005, 0.995), axis=0)
    # One person is centered on the torso, with equal room left and right; two people on their middle.
    pair = points.shape[1] > 1
    middle = (left + right) / 2 if pair else 0.0
    width, height = 2 * max(right - middle, middle - left), (high - low) * (1 + 2 * HEAD_RADIUS)
    width *= PAIR_ROOM if pair else 1
    least = 1e-6 + 0.2 * max(width, height)
    return Body(points - [middle, (low + high) / 2], layout, (float(max(width, least)), float(max(height, least))))


def _across(points: Floats, centre: int) -> Floats:
    """Return x (T,) of the first person's torso or, if missing, the mean over all present joints."""
    torso = points[:, 0, centre, 0]
    others = points[..., 0].reshape(len(points), -1)
    known = ~np.isnan(others)
    middle = np.where(known, others, 0).sum(1) / np.maximum(known.sum(1), 1)
    return np.where(np.isnan(torso), middle, torso)


class SlotTransform(Affine2DBase):
    """Map body units to pixels with the same scale in both directions, so that figures keep their proportions."""

    _invalid: int  # set by matplotlib when the size of the axes changes

    def __init__(self, axes: Axes, size: tuple[float, float], slots: int, along: Along) -> None:
        super().__init__()
        self._box, self._size = axes.bbox, size
        self._slots = (slots, 1) if along == "across" else (1, slots)
        self.set_children(self._box)

    def get_matrix(self) -> Any:
        if self._invalid:
            room = self._box.width / self._slots[0], self._box.height / self._slots[1]
            scale = FILLED * min(room[0] / self._size[0], room[1] / self._size[1])
            self._mtx = np.diag([scale, scale, 1.0])
            self._inverted = None
            self._invalid = 0
        return self._mtx


def slots(steps: int, most: int) -> Floats:
    """Return places (n,) of at most ``most`` stick figures on steps 0 to ``steps`` − 1, the centers of equal parts."""
    if most < 1:
        raise OptionError(f"n_poses must be 1 or more; got {most}.")
    count = min(steps, most)
    return (np.arange(count) + 0.5) * steps / count - 0.5


def draw_figures(
    axes: Axes,
    body: Body,
    frames: Sequence[int] | NDArray[np.int64],
    places: Floats,
    colors: Sequence[Any],
    along: Along = "across",
    bone_width: float = BONE_WIDTH,
) -> None:
    """Draw the poses at ``frames``, each at its place on the time axis and in its color, without missing bones.

    Each person of a pose is a `LineCollection` of bones with the gid "pose FRAME person PERSON".
    """
    scale = SlotTransform(axes, body.size, len(places), along)
    for frame, place, color in zip(frames, places, colors, strict=True):
        offset = (place, 0.5) if along == "across" else (0.5, place)
        where: dict[str, Any] = {"offsets": [offset], "offset_transform": axes.transData, "transform": scale}
        for person, points in enumerate(body.points[frame]):
            bones = [points[list(edge)] for edge in body.graph.edges]
            bones = [bone for bone in bones if not np.isnan(bone).any()]
            if not bones:
                continue
            width = bone_width * PERSON_WIDTHS[min(person, len(PERSON_WIDTHS) - 1)]
            drawn = LineCollection(bones, colors=[color], linewidths=width, capstyle="round", **where)
            drawn.set_gid(f"pose {frame} person {person}")
            axes.add_collection(drawn, autolim=False)
            if (head := _head(points, body)) is not None:
                axes.add_collection(PolyCollection([head], facecolors=[color], linewidths=0, **where), autolim=False)


def _head(points: Floats, body: Body) -> Floats | None:
    """Return the corners (n, 2) of a disc around the head, or None if the head is missing."""
    joint = next((body.graph.joints.index(name) for name in HEADS if name in body.graph.joints), None)
    if joint is None or np.isnan(points[joint]).any():
        return None
    turn = np.linspace(0, 2 * np.pi, 25)
    return points[joint] + HEAD_RADIUS * body.size[1] * np.stack([np.cos(turn), np.sin(turn)], -1)


def bare(axes: Axes, along: Along = "across") -> None:
    """Remove frame and ticks: stick figures have no scale; across the time axis they lie between 0 and 1."""
    axes.tick_params(left=False, bottom=False, labelleft=False, labelbottom=False)
    axes.spines[:].set_visible(False)
    axes.set_ylim(0, 1) if along == "across" else axes.set_xlim(0, 1)


def _check_std(std: Any) -> Floats:
    """Check positive and finite σ (τ,)."""
    values = as_array(std).astype(np.float64)
    if values.ndim != 1 or not len(values):
        raise ShapeError(f"std must have shape (τ,), one per block; got {values.shape}.")
    if not (np.isfinite(values).all() and (values > 0).all()):
        raise VarianceError("std must be positive and finite in every block.")
    return values
