"""Draw which patches of two images an alignment matches, and how certain each match is."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import Colormap, LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from udtw.errors import NonFiniteError, OptionError, ShapeError, VarianceError
from udtw.fewshot.model import UNORDERED
from udtw.images.projection import token_order
from udtw.plots.image_maps import FRAME_COLOR, FRAME_WIDTH, as_pixels, without_ticks
from udtw.plots.style import (
    FONT,
    STD_COLORS,
    Floats,
    as_array,
    check_path_power,
    draw_coupling,
    new_figure,
    set_power_ticks,
    set_std_ticks,
    std_norm,
)

HEIGHT_INCHES, BAR_INCHES, LABEL_INCHES, TITLE_INCHES = 2.1, 0.1, (0.8, 0.6), 0.18
"""Height of the images and of a color bar, room for axis labels in width and height, and height of a title line."""

GAP = 0.12
"""Distance between the two images, as a share of their height."""

LINE_WIDTH, DOT_SIZE = 1.4, 14
PLAIN_COLORS = "viridis"
RANK_DIGITS = 2
APART = 2
"""Least distance of drawn matches in rows or columns, in at least one image, while enough matches remain."""


@dataclass(frozen=True)
class ImageMatch:
    """Hold two images and the alignment of their tokens: the arguments of `plot_image_match`."""

    image_x: Any
    image_y: Any
    coupling: Any
    grid_x: tuple[int, int]
    grid_y: tuple[int, int]
    var_x: Any = None
    var_y: Any = None
    order: str = "raster"
    title: str | None = None


@dataclass(frozen=True)
class DrawnMatch:
    """Hold a checked match, ready to draw.

    ``pixels`` are (H, W, 3), ``coupling`` and ``std`` √Σ are (N, M), and ``cells`` (K, 2) are the token numbers of the
    strongest patch matches.
    """

    match: ImageMatch
    pixels: tuple[Floats, Floats]
    coupling: Floats
    std: Floats | None
    cells: NDArray[np.int64]

    @property
    def widths(self) -> tuple[float, float]:
        """Return the widths of the images at height 1."""
        x, y = (one.shape[1] / one.shape[0] for one in self.pixels)
        return x, y

    @property
    def strength(self) -> Floats:
        """Return the color values (K,) of the lines: σ of the match if known, else the coupling."""
        values = self.coupling if self.std is None else self.std
        return values[self.cells[:, 0], self.cells[:, 1]]

    def ends(self, gap: float) -> tuple[Floats, Floats]:
        """Return the ends (K, 2) of the lines in x and in y, across and down, for images of height 1 ``gap`` apart."""
        left, right = (
            patch_centres(self.match.order, grid)[self.cells[:, side]] * (self.widths[side], 1)
            for side, grid in enumerate((self.match.grid_x, self.match.grid_y))
        )
        return left, right + np.array([self.widths[0] + gap, 0])


def plot_image_match(
    image_x: Any,
    image_y: Any,
    coupling: Any,
    grid_x: tuple[int, int],
    grid_y: tuple[int, int],
    *,
    n_matches: int = 12,
    path_power: float = 0.25,
    **match_options: Any,
) -> Figure:
    """Plot two images with lines between the most strongly matched patches, and the coupling π*.

    The lines are `strongest_matches`. Their color is the σ of the match, ``√(½[σ²(x) + σ²(y)])``, from blue (certain)
    to red, on a scale that is logarithmic about 1; without variances it is the coupling. Rings mark the same matches in
    the coupling, where tokens of x run down and tokens of y run right. Axes are labeled "match0" and "coupling0". The
    figure is not registered with pyplot: save it with ``savefig``.

    Parameters
    ----------
    image_x, image_y : PIL images or arrays (H, W, 3)
        Images as seen by the backbone, cropped.
    coupling : (N, M)
        π* from `udtw.align`, tokens in reading order.
    grid_x, grid_y : (h, w) with h·w = N, and the same with M
    n_matches : int
        Largest number of lines.
    path_power : float in (0, 1]
        Colors show ``coupling ** path_power`` to make small probabilities visible.
    **match_options
        ``var_x`` (N,) and ``var_y`` (M,), variances σ² of the tokens in reading order, both or neither; ``order``, the
        reading order, "raster" by default, "snake", "hilbert", "set" or "grid"; and ``title``.

    Examples
    --------
    >>> import numpy as np
    >>> from udtw.plots import plot_image_match
    >>> image = np.zeros((32, 32, 3))
    >>> figure = plot_image_match(image, image, np.eye(16), (4, 4), (4, 4), n_matches=3, title="an image and itself")
    >>> [axes.get_label() for axes in figure.axes[:2]]
    ['match0', 'coupling0']
    """
    return _plot([ImageMatch(image_x, image_y, coupling, grid_x, grid_y, **match_options)], n_matches, path_power)


def plot_match_pair(
    matched: Mapping[str, Any], unmatched: Mapping[str, Any], *, n_matches: int = 12, path_power: float = 0.25
) -> Figure:
    """Plot a pair of one class above a pair of two classes, each as in `plot_image_match`, on the same scales.

    Each pair is a dict of arguments of `plot_image_match`: ``image_x``, ``image_y``, ``coupling``, ``grid_x``,
    ``grid_y`` and, optionally, ``var_x``, ``var_y``, ``order`` and ``title``. Axes are labeled "match0", "coupling0",
    "match1" and "coupling1".

    Examples
    --------
    >>> import numpy as np
    >>> from udtw.plots import plot_match_pair
    >>> image = np.zeros((32, 32, 3))
    >>> shared = {"image_x": image, "image_y": image, "grid_x": (4, 4), "grid_y": (4, 4)}
    >>> same = {**shared, "coupling": np.eye(16), "title": "same class"}
    >>> other = {**shared, "coupling": np.full((16, 16), 0.1), "title": "other class"}
    >>> figure = plot_match_pair(same, other, n_matches=3)
    >>> [axes.get_label() for axes in figure.axes[:4]]
    ['match0', 'coupling0', 'match1', 'coupling1']
    """
    return _plot([ImageMatch(**matched), ImageMatch(**unmatched)], n_matches, path_power)


def _plot(matches: list[ImageMatch], n_matches: int, path_power: float) -> Figure:
    if n_matches < 0:
        raise OptionError(f"n_matches must be 0 or more, the number of lines; got {n_matches}.")
    check_path_power(path_power)
    rows = [check_match(match, n_matches) for match in matches]
    if len({row.std is None for row in rows}) > 1:
        raise OptionError("Pass variances for both pairs or for neither: colors mean the same in both rows.")
    images = max(sum(row.widths) + GAP for row in rows)
    titles = sum(1 + one.title.count("\n") for one in matches if one.title)
    size = (
        HEIGHT_INCHES * (images + 1) + LABEL_INCHES[0],
        len(rows) * (HEIGHT_INCHES + LABEL_INCHES[1]) + TITLE_INCHES * titles + 5 * BAR_INCHES,
    )
    figure = new_figure(size, {}, w_pad=0.05, h_pad=0.07, wspace=0.0, hspace=0.0)
    panels: list[Any] = [[f"match{i}", f"coupling{i}"] for i in range(len(rows))]
    axes = figure.subplot_mosaic(
        [*panels, ["match_bar", "coupling_bar"]],
        width_ratios=[images, 1],
        height_ratios=[*[HEIGHT_INCHES] * len(rows), BAR_INCHES],
    )
    colors, norm, label = _scale(rows)
    for i, row in enumerate(rows):
        _draw_images(axes[f"match{i}"], row, colors, norm)
        drawn = _draw_coupling(axes[f"coupling{i}"], row, colors, norm, path_power)
    bar = _draw_bar(figure, axes["match_bar"], ScalarMappable(norm, colors), label, 1 / images)
    if isinstance(norm, LogNorm):
        set_std_ticks(bar)
    bar = _draw_bar(figure, axes["coupling_bar"], drawn, "coupling π*", 1.0)
    set_power_ticks(bar, path_power)
    return figure


def _draw_bar(figure: Figure, below: Axes, drawn: Any, label: str, width: float) -> Any:
    """Draw a color bar in the middle below a column, over a share ``width`` of it."""
    below.set_axis_off()
    place = below.inset_axes(((1 - width) / 2, 0, width, 1))
    bar = figure.colorbar(drawn, cax=place, orientation="horizontal")
    bar.set_label(label, fontsize=FONT, labelpad=1)
    place.tick_params(labelsize=FONT, length=2)
    return bar


def check_match(match: ImageMatch, n_matches: int) -> DrawnMatch:
    """Check a match and find its ``n_matches`` strongest patch matches."""
    coupling = as_array(match.coupling).astype(np.float64)
    sides = match.grid_x[0] * match.grid_x[1], match.grid_y[0] * match.grid_y[1]
    if coupling.shape != sides or 0 in sides:
        raise ShapeError(
            f"coupling must have shape {sides}, a row per token of the grid {match.grid_x} and a column per token of "
            f"{match.grid_y}; got {coupling.shape}."
        )
    if not np.isfinite(coupling).all():
        raise NonFiniteError("coupling holds NaN or infinity.")
    std = _match_std(match, sides)
    cells = strongest_matches(coupling, match.grid_x, match.grid_y, n_matches, order=match.order, std=std)
    return DrawnMatch(match, (as_pixels(match.image_x), as_pixels(match.image_y)), coupling, std, cells)


def _match_std(match: ImageMatch, sides: tuple[int, int]) -> Floats | None:
    """Return √Σ (N, M), where Σ = ½[σ²(x) + σ²(y)] as in `udtw.align`."""
    if (match.var_x is None) != (match.var_y is None):
        raise OptionError("Pass both var_x and var_y, or neither.")
    if match.var_x is None:
        return None
    variances = []
    for name, value, count in (("var_x", match.var_x, sides[0]), ("var_y", match.var_y, sides[1])):
        variance = as_array(value).astype(np.float64)
        if variance.shape != (count,):
            raise ShapeError(f"{name} must have shape ({count},), one per token; got {variance.shape}.")
        if not (np.isfinite(variance).all() and (variance > 0).all()):
            raise VarianceError(f"{name} must be positive and finite for every token.")
        variances.append(variance)
    return np.sqrt((variances[0][:, None] + variances[1][None, :]) / 2)


def _scale(rows: list[DrawnMatch]) -> tuple[Colormap | str, Normalize, str]:
    every = [row.std for row in rows if row.std is not None]
    if every:
        std = np.concatenate([one.ravel() for one in every])
        return STD_COLORS, std_norm(std), "σ of match"
    return PLAIN_COLORS, Normalize(0, 1), "coupling π* of match"


def _draw_images(axes: Axes, row: DrawnMatch, colors: Colormap | str, norm: Normalize) -> None:
    """Draw both images at height 1, x on the left; a white rim keeps the lines visible on any image."""
    without_ticks(axes)
    axes.spines[:].set_visible(False)
    left = (0.0, row.widths[0] + GAP)
    for pixels, start, width in zip(row.pixels, left, row.widths, strict=True):
        axes.imshow(pixels, extent=(start, start + width, 1, 0), interpolation="nearest")
        frame = Rectangle((start, 0), width, 1, fill=False, linewidth=FRAME_WIDTH, edgecolor=FRAME_COLOR, clip_on=False)
        axes.add_patch(frame)
    axes.set_xlim(0, left[1] + row.widths[1])
    axes.set_ylim(1, 0)
    ends = row.ends(GAP)
    segments = np.stack(ends, 1)
    below = LineCollection(list(segments), colors="white", linewidths=LINE_WIDTH + 1.2, gid="outlines", zorder=2)
    lines = LineCollection(list(segments), cmap=colors, norm=norm, linewidths=LINE_WIDTH, gid="matches", zorder=3)
    lines.set_array(row.strength)
    for drawn in (below, lines):
        axes.add_collection(drawn, autolim=False)
    for points in ends:
        colored: dict[str, Any] = {"c": row.strength, "cmap": colors, "norm": norm, "edgecolors": "white"}
        axes.scatter(points[:, 0], points[:, 1], s=DOT_SIZE, linewidths=0.8, zorder=4, **colored)
    if row.match.title:
        axes.set_title(row.match.title, fontsize=FONT)


def _draw_coupling(axes: Axes, row: DrawnMatch, colors: Colormap | str, norm: Normalize, power: float) -> Any:
    image = draw_coupling(axes, row.coupling, power, interpolation="nearest")
    rings: Any = ScalarMappable(norm, colors).to_rgba(row.strength)
    drawn: dict[str, Any] = {"facecolors": "none", "edgecolors": rings, "linewidths": 1.2}
    axes.scatter(row.cells[:, 1], row.cells[:, 0], s=28, gid="matches", **drawn)
    reading = "" if row.match.order == "raster" else f" ({row.match.order})"
    axes.set_xlabel(f"token of the right image{reading}", fontsize=FONT)
    axes.set_ylabel(f"token of the left image{reading}", fontsize=FONT)
    for axis in ("x", "y"):
        axes.locator_params(axis=axis, integer=True, nbins=5)
    axes.tick_params(labelsize=FONT)
    return image


def strongest_matches(
    coupling: Any,
    grid_x: tuple[int, int],
    grid_y: tuple[int, int],
    n_matches: int,
    *,
    order: str = "raster",
    std: Any = None,
) -> NDArray[np.int64]:
    """Return token indices (K, 2) of at most ``n_matches`` matches, strongest first, each patch at most once.

    Only mutual best matches are taken. Every path matches the first tokens with each other and the last tokens with
    each other, so these two matches carry no information and come last. Couplings equal to two digits are ranked by
    ``std`` (N, M), the more certain match first. To keep lines apart in the picture, a match comes after all others if
    both its patches are adjacent to those of a stronger one, or in the same rows.
    """
    values = as_array(coupling).astype(np.float64)
    best = (values > 0) & (values == values.max(1, keepdims=True)) & (values == values.max(0, keepdims=True))
    rows, columns = np.nonzero(best)
    # Without an order nothing is matched by force.
    forced = (order not in UNORDERED) & (
        (rows == 0) & (columns == 0) | (rows == values.shape[0] - 1) & (columns == values.shape[1] - 1)
    )
    rank_std = np.zeros(len(rows)) if std is None else as_array(std)[rows, columns]
    ranked = np.lexsort((rank_std, -np.round(values[rows, columns], RANK_DIGITS)))
    cells = np.stack([rows, columns], 1)
    places = np.concatenate(
        [_places(order, grid)[cells[:, side]] for side, grid in enumerate((grid_x, grid_y))], axis=1
    )  # (n, 4): row and column in x, row and column in y
    free, corners = ranked[~forced[ranked]], ranked[forced[ranked]]
    chosen: list[int] = []
    for candidates, apart in ((free, True), (free, False), (corners, False)):
        for i in candidates:
            steps = np.abs(places[chosen] - places[i]).reshape(-1, 2, 2)  # (k, images, rows and columns)
            alone = (steps.max(2) > 0).all()
            clear = (steps.max((1, 2)) >= APART).all() and (steps[:, :, 0].max(1) > 0).all()
            if len(chosen) < n_matches and alone and (clear or not apart):
                chosen.append(int(i))
    return cells[chosen]


def patch_centres(order: str, grid: tuple[int, int]) -> Floats:
    """Return the centers (h·w, 2) of the patches, across and down from 0 to 1, in reading order."""
    return (_places(order, grid)[:, ::-1] + 0.5) / np.array(grid)[::-1]


def _places(order: str, grid: tuple[int, int]) -> NDArray[np.int64]:
    """Return row and column (h·w, 2) of the tokens on the grid, in reading order."""
    return np.stack(np.divmod(token_order(order, grid), grid[1]), 1)
