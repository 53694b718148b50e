"""The match figure of images: which patches of two images an alignment brings together, and how far it trusts them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import Colormap, Normalize, PowerNorm
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from udtw.errors import NonFiniteError, OptionError, ShapeError, VarianceError
from udtw.plots.patch_matches import patch_centres, strongest_matches
from udtw.plots.stick_figures import STD_COLORS, std_norm
from udtw.plots.ticks import number, power_ticks
from udtw.plots.token_maps import FONT, FRAME_COLOR, FRAME_WIDTH, SMALL_FONT, Floats, as_array, as_pixels, without_ticks

HEIGHT_INCHES, BAR_INCHES, LABEL_INCHES, TITLE_INCHES = 2.1, 0.1, (0.8, 0.6), 0.18
"""Height of the images and of a colour bar, what axis labels take in width and height, and a line of a title."""

GAP = 0.12
"""Between the two images, as a share of their height."""

LINE_WIDTH, DOT_SIZE = 1.4, 14
PLAIN_COLORS = "viridis"


@dataclass(frozen=True)
class ImageMatch:
    """Two images and the alignment of their tokens.

    Parameters
    ----------
    image_x, image_y : PIL images or arrays (H, W, 3)
        As the backbone saw them, cropped.
    coupling : (N, M)
        π* of `udtw.align`, tokens in reading order.
    grid_x, grid_y : (h, w) with h·w = N, and the same with M
    var_x, var_y : (N,) and (M,), optional
        Variances σ² of the tokens, in reading order; both or none.
    order : "raster", "snake" or "hilbert"
        The reading order, see `udtw.images.order.token_order`.
    title : str, optional
    """

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
class _Drawn:
    """A match ready to draw: ``cells`` (K, 2) token numbers of its strongest patch matches, ``std`` √Σ (N, M)."""

    match: ImageMatch
    pixels: tuple[Floats, Floats]
    coupling: Floats
    std: Floats | None
    cells: NDArray[np.int64]

    @property
    def widths(self) -> tuple[float, float]:
        """Of the images at height 1."""
        x, y = (one.shape[1] / one.shape[0] for one in self.pixels)
        return x, y

    @property
    def strength(self) -> Floats:
        """(K,) what the colour of a line shows: σ of the match, or else the coupling."""
        values = self.coupling if self.std is None else self.std
        return values[self.cells[:, 0], self.cells[:, 1]]


def plot_image_match(
    image_x: Any,
    image_y: Any,
    coupling: Any,
    grid_x: tuple[int, int],
    grid_y: tuple[int, int],
    *,
    var_x: Any = None,
    var_y: Any = None,
    order: str = "raster",
    n_matches: int = 12,
    path_power: float = 0.25,
    title: str | None = None,
) -> Figure:
    """Draw two images with lines between the patches that are matched most strongly, and the coupling π*.

    Lines are `strongest_matches`. Their colour is the σ of the match, ``√(½[σ²(x) + σ²(y)])``, from blue (trusted) to
    red, on the range of all matches; without variances it is the coupling. Rings mark them in the coupling, where
    tokens of x run down and tokens of y run right. Axes are labelled "match0" and "coupling0". The figure belongs to
    nobody: save it with ``savefig``.

    Parameters
    ----------
    image_x, image_y, coupling, grid_x, grid_y, var_x, var_y, order, title
        See `ImageMatch`.
    n_matches : int
        Lines at most.
    path_power : float in (0, 1]
        Colours show ``coupling ** path_power``, so that faint probabilities can be seen.
    """
    match = ImageMatch(image_x, image_y, coupling, grid_x, grid_y, var_x, var_y, order, title)
    return _plot([match], n_matches, path_power)


def plot_match_pair(
    matched: ImageMatch, unmatched: ImageMatch, *, n_matches: int = 12, path_power: float = 0.25
) -> Figure:
    """Draw a pair that belongs together above one that does not, as in `plot_image_match`, on the same scales.

    Axes are labelled "match0", "coupling0", "match1" and "coupling1".
    """
    return _plot([matched, unmatched], n_matches, path_power)


def _plot(matches: list[ImageMatch], n_matches: int, path_power: float) -> Figure:
    if n_matches < 0:
        raise OptionError(f"n_matches is how many lines to draw, 0 or more; got {n_matches}.")
    if not 0 < path_power <= 1:
        raise OptionError(f"path_power must lie in (0, 1]; got {path_power}.")
    rows = [_prepared(match, n_matches) for match in matches]
    if len({row.std is None for row in rows}) > 1:
        raise OptionError("Variances are needed for both pairs or for none: the colours have one meaning.")
    images = max(sum(row.widths) + GAP for row in rows)
    titles = sum(1 + one.title.count("\n") for one in matches if one.title)
    figure = Figure(
        figsize=(
            HEIGHT_INCHES * (images + 1) + LABEL_INCHES[0],
            len(rows) * (HEIGHT_INCHES + LABEL_INCHES[1]) + TITLE_INCHES * titles + 5 * BAR_INCHES,
        ),
        layout=ConstrainedLayoutEngine(w_pad=0.05, h_pad=0.07, wspace=0.0, hspace=0.0),
    )
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
    _draw_bar(figure, axes["match_bar"], ScalarMappable(norm, colors), label, 1 / images)
    bar = _draw_bar(figure, axes["coupling_bar"], drawn, "coupling π*", 1.0)
    ticks = power_ticks(path_power)
    bar.set_ticks(ticks, labels=[number(tick) for tick in ticks])
    bar.minorticks_off()
    return figure


def _draw_bar(figure: Figure, below: Axes, drawn: Any, label: str, width: float) -> Any:
    """Below a column, in the middle of it, over a share ``width``."""
    below.set_axis_off()
    place = below.inset_axes(((1 - width) / 2, 0, width, 1))
    bar = figure.colorbar(drawn, cax=place, orientation="horizontal")
    bar.set_label(label, fontsize=FONT, labelpad=1)
    place.tick_params(labelsize=SMALL_FONT, length=2)
    place.locator_params(nbins=5)
    return bar


def _prepared(match: ImageMatch, n_matches: int) -> _Drawn:
    coupling = as_array(match.coupling).astype(np.float64)
    sides = match.grid_x[0] * match.grid_x[1], match.grid_y[0] * match.grid_y[1]
    if coupling.shape != sides or 0 in sides:
        raise ShapeError(
            f"coupling must have shape {sides}, one row a token of the grid {match.grid_x} and one column a token of "
            f"{match.grid_y}; got {coupling.shape}."
        )
    if not np.isfinite(coupling).all():
        raise NonFiniteError("coupling holds NaN or infinity.")
    std = _match_std(match, sides)
    cells = strongest_matches(coupling, match.grid_x, match.grid_y, n_matches, order=match.order, std=std)
    return _Drawn(match, (as_pixels(match.image_x), as_pixels(match.image_y)), coupling, std, cells)


def _match_std(match: ImageMatch, sides: tuple[int, int]) -> Floats | None:
    """√Σ (N, M), where Σ = ½[σ²(x) + σ²(y)] as in `udtw.align`."""
    if (match.var_x is None) != (match.var_y is None):
        raise OptionError("var_x and var_y are needed both, or none of them.")
    if match.var_x is None:
        return None
    variances = []
    for name, value, count in (("var_x", match.var_x, sides[0]), ("var_y", match.var_y, sides[1])):
        variance = as_array(value).astype(np.float64)
        if variance.shape != (count,):
            raise ShapeError(f"{name} must have shape ({count},), one a token; got {variance.shape}.")
        if not (np.isfinite(variance).all() and (variance > 0).all()):
            raise VarianceError(f"{name} must be positive and finite for every token.")
        variances.append(variance)
    return np.sqrt((variances[0][:, None] + variances[1][None, :]) / 2)


def _scale(rows: list[_Drawn]) -> tuple[Colormap | str, Normalize, str]:
    every = [row.std for row in rows if row.std is not None]
    if every:
        return STD_COLORS, std_norm(np.concatenate([one.ravel() for one in every]))[0], "σ of match"
    return PLAIN_COLORS, Normalize(0, 1), "coupling π* of match"


def _draw_images(axes: Axes, row: _Drawn, colors: Colormap | str, norm: Normalize) -> None:
    """Both images at height 1, x on the left. A line is white below its colour, to be seen on any image."""
    without_ticks(axes)
    axes.spines[:].set_visible(False)
    left = (0.0, row.widths[0] + GAP)
    for pixels, start, width in zip(row.pixels, left, row.widths, strict=True):
        axes.imshow(pixels, extent=(start, start + width, 1, 0), interpolation="nearest")
        frame = Rectangle((start, 0), width, 1, fill=False, linewidth=FRAME_WIDTH, edgecolor=FRAME_COLOR, clip_on=False)
        axes.add_patch(frame)
    axes.set_xlim(0, left[1] + row.widths[1])
    axes.set_ylim(1, 0)
    ends = [
        patch_centres(row.match.order, grid)[row.cells[:, side]] * (width, 1) + (start, 0)
        for side, (grid, start, width) in enumerate(
            zip((row.match.grid_x, row.match.grid_y), left, row.widths, strict=True)
        )
    ]
    segments = np.stack(ends, 1)
    below = LineCollection(list(segments), colors="white", linewidths=LINE_WIDTH + 1.2, gid="outlines", zorder=2)
    lines = LineCollection(list(segments), cmap=colors, norm=norm, linewidths=LINE_WIDTH, gid="matches", zorder=3)
    lines.set_array(row.strength)
    for drawn in (below, lines):
        axes.add_collection(drawn, autolim=False)
    for points in ends:
        axes.scatter(
            points[:, 0], points[:, 1], s=DOT_SIZE, c=row.strength, cmap=colors, norm=norm, edgecolors="white",
            linewidths=0.8, zorder=4,
        )  # fmt: skip
    if row.match.title:
        axes.set_title(row.match.title, fontsize=FONT)


def _draw_coupling(axes: Axes, row: _Drawn, colors: Colormap | str, norm: Normalize, power: float) -> Any:
    image = axes.imshow(
        np.clip(row.coupling, 0, 1), cmap="Greys", norm=PowerNorm(power, vmin=0, vmax=1), aspect="auto",
        interpolation="nearest",
    )  # fmt: skip
    rings: Any = ScalarMappable(norm, colors).to_rgba(row.strength)
    axes.scatter(
        row.cells[:, 1], row.cells[:, 0], s=28, facecolors="none", linewidths=1.2, gid="matches",
        edgecolors=rings,
    )  # fmt: skip
    reading = "" if row.match.order == "raster" else f" ({row.match.order})"
    axes.set_xlabel(f"token of the right image{reading}", fontsize=FONT)
    axes.set_ylabel(f"token of the left image{reading}", fontsize=FONT)
    for axis in ("x", "y"):
        axes.locator_params(axis=axis, integer=True, nbins=5)
    axes.tick_params(labelsize=SMALL_FONT)
    return image
