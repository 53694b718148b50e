"""Stick figures along a time axis: what the figures of clips and of matches share."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.transforms import Affine2DBase
from numpy.typing import NDArray
from torch import Tensor

from udtw.errors import OptionError, ShapeError, VarianceError
from udtw.skeleton.graphs import Graph
from udtw.skeleton.graphs import graph as named_graph

# From blue (certain) to red (uncertain) without the pale middle of the usual maps: thin bones must stay visible.
STD_COLORS = LinearSegmentedColormap.from_list("udtw.std", ["#1F5FA8", "#7C5C9E", "#C8283A"])
PLAIN_COLOR = "#333333"
BONE_WIDTH = 1.3
PERSON_WIDTHS = (1.0, 0.6)
"""Widths of the bones of the first and the second person, relative to the figure's."""

HEADS = ("head", "nose")
HEAD_RADIUS = 0.055  # of the height of the body
FILLED = 0.94  # of its slot is filled by the largest figure
PAIR_ROOM = 1.25  # so that a pair is told apart from its neighbours
LEAST_SPREAD = 0.05
"""σ that differ by less than this share of their mean are shown on a range of this share: no drama out of nothing."""

Along = Literal["across", "down"]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Body:
    """A clip ready to draw: ``points`` (T, P, J, 2), x to the right and y up about the middle, and bones.

    ``size``: width and height that hold all figures but their outliers.
    """

    points: Floats
    graph: Graph
    size: tuple[float, float]


def body(frames: Any, graph: Graph | str, y_up: bool | None = None) -> Body:
    """Check and centre ``frames`` (T, J, C) or (T, P, J, C); infinite coordinates count as missing."""
    layout = named_graph(graph) if isinstance(graph, str) else graph
    array = np.asarray(frames.detach().cpu() if isinstance(frames, Tensor) else frames, dtype=np.float64)
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
    # One person is placed by the torso, and needs as much room on the left as on the right; a pair by its middle.
    pair = points.shape[1] > 1
    middle = (left + right) / 2 if pair else 0.0
    width, height = 2 * max(right - middle, middle - left), (high - low) * (1 + 2 * HEAD_RADIUS)
    width *= PAIR_ROOM if pair else 1
    least = 1e-6 + 0.2 * max(width, height)
    return Body(points - [middle, (low + high) / 2], layout, (float(max(width, least)), float(max(height, least))))


def _across(points: Floats, centre: int) -> Floats:
    """(T,) x of the first person's torso; where it is missing, the middle of whatever is seen."""
    found = points[:, 0, centre, 0]
    others = points[..., 0].reshape(len(points), -1)
    known = ~np.isnan(others)
    middle = np.where(known, others, 0).sum(1) / np.maximum(known.sum(1), 1)
    return np.where(np.isnan(found), middle, found)


class SlotTransform(Affine2DBase):
    """Body units to pixels, alike in both directions: figures keep their proportions on any axes, and their slots."""

    _invalid: int  # matplotlib's own mark that something below changed

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
    """(n,) places of at most ``most`` figures among steps 0 to ``steps`` − 1, in the middles of equal parts."""
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
    """The poses at ``frames``, each at its place on the time axis of ``axes`` and in its colour, without missing bones.

    Every person of a pose is a `LineCollection` of bones with the gid "pose FRAME person PERSON".
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
    """(n, 2) corners of a disc around the head, where the layout has one and it is seen."""
    joint = next((body.graph.joints.index(name) for name in HEADS if name in body.graph.joints), None)
    if joint is None or np.isnan(points[joint]).any():
        return None
    turn = np.linspace(0, 2 * np.pi, 25)
    return points[joint] + HEAD_RADIUS * body.size[1] * np.stack([np.cos(turn), np.sin(turn)], -1)


def bare(axes: Axes, along: Along = "across") -> None:
    """Figures have no scale of their own: no frame and no ticks, one unit wide across the time axis."""
    axes.tick_params(left=False, bottom=False, labelleft=False, labelbottom=False)
    axes.spines[:].set_visible(False)
    axes.set_ylim(0, 1) if along == "across" else axes.set_xlim(0, 1)


def check_std(std: Any) -> Floats:
    """(τ,) positive, finite σ."""
    values = np.asarray(std.detach().cpu() if isinstance(std, Tensor) else std, dtype=np.float64)
    if values.ndim != 1 or not len(values):
        raise ShapeError(f"std must have shape (τ,), one a block; got {values.shape}.")
    if not (np.isfinite(values).all() and (values > 0).all()):
        raise VarianceError("std must be positive and finite in every block.")
    return values


def std_norm(values: Floats, limits: tuple[float, float] | None = None) -> tuple[Normalize, float, float]:
    """From the smallest σ to the largest, or ``limits``; with both ends."""
    if limits is not None:
        low, high = limits
        if not 0 <= low < high:
            raise OptionError(f"std_range must be (low, high) with 0 ≤ low < high; got {limits}.")
    else:
        middle, spread = (values.min() + values.max()) / 2, max(np.ptp(values), LEAST_SPREAD * values.mean())
        low, high = float(middle - spread / 2), float(middle + spread / 2)
    return Normalize(low, high, clip=True), low, high
