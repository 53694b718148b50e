"""Draw images and their tokens: the uncertainty σ of each patch, attention, and principal components."""

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure, SubFigure
from matplotlib.image import AxesImage

from udtw.errors import LengthError, NonFiniteError, OptionError, ShapeError, VarianceError
from udtw.images.backbones.pixels import to_rgb
from udtw.plots.style import FONT, Floats, as_array, new_figure, set_std_ticks, std_norm

# From blue (certain) to red (uncertain). The image shows through the pale middle.
MAP_HEX = ("#1450A0", "#F4F1EA", "#C01024")
MAP_COLORS = LinearSegmentedColormap.from_list("udtw.sigma_map", list(MAP_HEX))
OPACITY = 0.62
"""Opacity of a map over its image."""

FADED = (0.25, 0.75)
"""Gray values of black and white in an image under a map, so that colors show on its darkest and lightest parts."""

LUMA = (0.299, 0.587, 0.114)
FRAME_WIDTH, FRAME_COLOR = 0.5, "#999999"
COLUMN_INCHES, BAR_INCHES = 1.9, 0.11
TITLE_LETTERS = 22
INTERPOLATIONS = ("bilinear", "nearest")
ATTENTION_COLORS = "viridis"
ATTENTION_QUANTILE = 0.995
"""Quantile above which attention has one color: a few patches of a ViT may take nearly all of it."""

CLIPPED = (0.02, 0.98)
"""Quantiles of a component shown as 0 and 1 of its color."""

NEGLIGIBLE = 1e-10
"""Share of the first component's variance below which others are rounding errors."""


def plot_uncertainty(
    images: Sequence[Any],
    sigma: Any,
    grid: tuple[int, int],
    attention: Any = None,
    *,
    titles: Sequence[str] | None = None,
    std_range: tuple[float, float] | None = None,
    interpolation: str = "bilinear",
    figure: Figure | SubFigure | None = None,
) -> Figure | SubFigure:
    """Plot a row per image: the image, the uncertainty σ of its patches over it, and the backbone's attention.

    σ goes from blue (0.5) to red (2), logarithmic about 1; attention has its own scale. Each token covers an equal part
    of the image. Axes are labeled "image0", "sigma0", "attention0", "image1", and so on.

    Parameters
    ----------
    images : PIL images or arrays (H, W, 3)
        As the backbone saw them, cropped.
    sigma : (n, h·w) row by row, or (n, h, w)
        σ of every token, the square root of `Tokens.variance`.
    grid : (h, w)
    attention : like sigma, optional
        Attention of every token, drawn in a third column.
    titles : n names, optional
    std_range : (low, high)
        Values of σ shown in pure blue and pure red; by default (0.5, 2), or wider if σ exceeds it. The range does not
        shrink to that of the images, so that figures are comparable and small differences look small.
    interpolation : "bilinear" or "nearest"
        Whether to interpolate between patches or draw one color per patch.
    figure : Figure or SubFigure, optional
        Where to draw; by default a new figure, not registered with pyplot: save it with ``savefig``.

    Examples
    --------
    >>> import numpy as np
    >>> from udtw.plots import plot_uncertainty
    >>> image, sigma = np.zeros((32, 32, 3)), np.linspace(0.5, 2, 16)
    >>> figure = plot_uncertainty([image], sigma[None], grid=(4, 4), titles=["black"])
    >>> [axes.get_label() for axes in figure.axes]
    ['image0', 'sigma0', 'sigma_bar']
    """
    if interpolation not in INTERPOLATIONS:
        raise OptionError(f"interpolation must be one of {INTERPOLATIONS}; got {interpolation!r}.")
    pixels = _check_images(images, titles)
    std = _as_maps("sigma", sigma, grid, len(pixels))
    if not (std > 0).all():
        raise VarianceError("sigma must be positive for every token.")
    maps: dict[str, tuple[Floats, Any, Normalize, str]] = {
        "sigma": (std, MAP_COLORS, std_norm(std, std_range), "uncertainty σ")
    }
    if attention is not None:
        values = _as_maps("attention", attention, grid, len(pixels))
        maps["attention"] = (values, ATTENTION_COLORS, _attention_norm(values), "attention")
    figure, axes = _image_rows(pixels, titles, ["image", *maps], figure, bars=True)
    axes["image0"].set_title("image", fontsize=FONT)
    for column, (values, colors, norm, title) in maps.items():
        for i, image in enumerate(pixels):
            drawn = _show_map(axes[f"{column}{i}"], image, values[i], colors, norm, interpolation)
        axes[f"{column}0"].set_title(title, fontsize=FONT)
        extend = "max" if norm.vmax is not None and values.max() > norm.vmax else "neither"
        place = axes[f"{column}_bar"]
        bar = figure.colorbar(drawn, cax=place, orientation="horizontal", extend=extend)
        bar.set_label(title.rpartition(" ")[2], fontsize=FONT, labelpad=1)
        place.set_facecolor(str(sum(FADED) / 2))  # the maps lie on gray as well
        place.tick_params(labelsize=FONT, length=2)
        if column == "sigma":
            set_std_ticks(bar)
        else:
            place.locator_params(nbins=4)
    return figure


def _attention_norm(attention: Floats) -> Normalize:
    low, high = float(attention.min()), float(np.quantile(attention, ATTENTION_QUANTILE))
    return Normalize(low, high if high > low else float(attention.max()))


def plot_components(
    images: Sequence[Any],
    before: Any,
    after: Any,
    grid: tuple[int, int],
    *,
    titles: Sequence[str] | None = None,
    figure: Figure | SubFigure | None = None,
) -> Figure | SubFigure:
    """Plot each image beside the first three principal components of its tokens, before and after projection.

    Red, green and blue are the first, second and third component; see `component_colors`. The components are those of
    the tokens of all images together, so that within a column similar colors mean similar tokens. The sign of a
    component after the projection is the one that correlates with the component before it. Axes are labeled "image0",
    "before0", "after0", "image1", and so on.

    Parameters
    ----------
    images : PIL images or arrays (H, W, 3)
        As the backbone saw them, cropped.
    before, after : (n, h·w, D) and (n, h·w, d)
        Tokens row by row.
    grid : (h, w)
    titles : n names, optional
    figure : Figure or SubFigure, optional
        Where to draw; by default a new figure, not registered with pyplot: save it with ``savefig``.

    Examples
    --------
    >>> import numpy as np
    >>> from udtw.plots import plot_components
    >>> tokens = np.random.default_rng(0).normal(size=(1, 16, 8))
    >>> figure = plot_components([np.zeros((32, 32, 3))], tokens, tokens[..., :4], grid=(4, 4))
    >>> [axes.get_label() for axes in figure.axes]
    ['image0', 'before0', 'after0']
    """
    pixels = _check_images(images, titles)
    first = principal_components(_tokens("before", before, grid, len(pixels)))
    then = principal_components(_tokens("after", after, grid, len(pixels)), like=first)
    colors = {"before": component_colors(first), "after": component_colors(then)}
    figure, axes = _image_rows(pixels, titles, ["image", *colors], figure, bars=False)
    for i, image in enumerate(pixels):
        height, width = image.shape[:2]
        for column, values in colors.items():
            without_ticks(axes[f"{column}{i}"])
            axes[f"{column}{i}"].imshow(
                values[i].reshape(*grid, 3), extent=(0, width, height, 0), interpolation="nearest"
            )
    for column, title in (("image", "image"), ("before", "backbone's tokens"), ("after", "after the projection")):
        axes[f"{column}0"].set_title(title, fontsize=FONT)
    return figure


def principal_components(tokens: Floats, like: Floats | None = None) -> Floats:
    """Project tokens (n, T, D) on the three directions of largest variance over all images together, (n, T, 3).

    The sign of a component is the one that correlates with that component of ``like`` (n, T, 3); without ``like``, the
    one that makes the direction's largest weight positive. Missing components (D < 3, or no variance) are zero.
    """
    n, count, dim = tokens.shape
    flat = tokens.reshape(-1, dim) - tokens.reshape(-1, dim).mean(0)
    variances, directions = np.linalg.eigh(flat.T @ flat)
    variances, directions = variances[::-1][:3], directions[:, ::-1][:, :3]
    largest = np.abs(directions).argmax(0)
    directions = directions * np.sign(directions[largest, np.arange(directions.shape[1])])
    components = np.zeros((len(flat), 3))
    significant = variances > NEGLIGIBLE * max(variances[0], 1e-300)
    components[:, : directions.shape[1]] = np.where(significant, flat @ directions, 0)
    if like is not None:
        components *= np.where((components * like.reshape(-1, 3)).sum(0) < 0, -1, 1)
    return components.reshape(n, count, 3)


def component_colors(components: Floats) -> Floats:
    """Scale each component (n, T, 3) to [0, 1] from its 2nd to its 98th percentile over all images; ½ if constant."""
    flat = components.reshape(-1, 3)
    low, high = np.quantile(flat, CLIPPED, axis=0)
    equal = high <= low  # all but a few tokens are equal
    low, high = np.where(equal, flat.min(0), low), np.where(equal, flat.max(0), high)
    spread = high - low
    scaled = np.where(spread > 0, (components - low) / np.where(spread > 0, spread, 1), 0.5)
    return np.clip(scaled, 0, 1)


def _tokens(name: str, values: Any, grid: tuple[int, int], count: int) -> Floats:
    array = as_array(values).astype(np.float64)
    if array.ndim != 3 or array.shape[:2] != (count, grid[0] * grid[1]) or array.shape[2] == 0:
        raise ShapeError(
            f"{name} must have shape ({count}, {grid[0] * grid[1]}, D), {count} image(s) of {grid[0]} × {grid[1]} "
            f"tokens; got {array.shape}."
        )
    if not array.size:
        raise LengthError(f"The grid {grid} has no tokens.")
    if not np.isfinite(array).all():
        raise NonFiniteError(f"{name} holds NaN or infinity.")
    return array


def as_pixels(image: Any) -> Floats:
    """Convert a PIL image, or an array (H, W, 3) or (H, W) of integers up to 255 or floats up to 1, to (H, W, 3)."""
    array = as_array(to_rgb(image) if hasattr(image, "convert") else image)
    whole = array.dtype.kind in "iu"
    pixels = array.astype(np.float64) / (255 if whole else 1)
    if pixels.ndim == 2:
        pixels = pixels[..., None].repeat(3, -1)
    if pixels.ndim != 3 or pixels.shape[2] != 3 or 0 in pixels.shape:
        raise ShapeError(f"An image must be a PIL image, (H, W, 3) or (H, W); got an array of {array.shape}.")
    if not np.isfinite(pixels).all():
        raise NonFiniteError("An image holds NaN or infinity.")
    return np.clip(pixels, 0, 1)


def _as_maps(name: str, values: Any, grid: tuple[int, int], count: int) -> Floats:
    """Check finite ``values`` (n, h·w), row by row, or (n, h, w), and return them as (n, h, w)."""
    height, width = grid
    array = as_array(values)
    if array.shape not in ((count, height * width), (count, height, width)):
        raise ShapeError(
            f"{name} must have shape ({count}, {height * width}) or ({count}, {height}, {width}), {count} image(s) of "
            f"{height} × {width} tokens; got {array.shape}."
        )
    maps = array.astype(np.float64).reshape(count, height, width)
    if not np.isfinite(maps).all():
        raise NonFiniteError(f"{name} holds NaN or infinity.")
    return maps


def _check_images(images: Sequence[Any], titles: Sequence[str] | None) -> list[Floats]:
    """Return the pixels of all images; raise an error without images, or unless there is one title per image."""
    if len(images) == 0:
        raise LengthError("images is empty; at least one is needed.")
    if titles is not None and len(titles) != len(images):
        raise LengthError(f"titles must be one per image, {len(images)}; got {len(titles)}.")
    return [as_pixels(image) for image in images]


def _image_rows(
    pixels: list[Floats], titles: Sequence[str] | None, columns: Sequence[str], figure: Any, *, bars: bool
) -> tuple[Any, dict[Any, Axes]]:
    """Create the figure and its axes: per image a row of ``columns``, the first of which shows the image.

    With ``bars``, a last row below all columns but the first has room for color bars.
    """
    # Heights follow the proportions of the images, between half and twice the width.
    heights = [COLUMN_INCHES * min(max(one.shape[0] / one.shape[1], 0.5), 2.0) for one in pixels]
    rows: list[Any] = [[f"{column}{i}" for column in columns] for i in range(len(pixels))]
    if figure is None:
        room = (0.3, 0.85) if bars else (0.4, 0.5)  # for titles and labels
        size = (COLUMN_INCHES * len(columns) + room[0], sum(heights) + room[1])
        figure = new_figure(size, {}, w_pad=0.03, h_pad=0.05, wspace=0.0, hspace=0.0)
    if bars:  # a row of their own: below the last maps they would push these up
        rows.append([".", *(f"{column}_bar" for column in columns[1:])])
        heights.append(BAR_INCHES)
    axes = figure.subplot_mosaic(rows, height_ratios=heights)
    for i, image in enumerate(pixels):
        _show_image(axes[f"{columns[0]}{i}"], image)
        if titles is not None:
            axes[f"{columns[0]}{i}"].set_ylabel(textwrap.fill(titles[i], TITLE_LETTERS), fontsize=FONT)
    return figure, axes


def without_ticks(axes: Axes) -> None:
    """Leave only a thin frame (for white images), at the top of the slot, next to the title."""
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set(linewidth=FRAME_WIDTH, color=FRAME_COLOR)
    axes.set_anchor("N")


def _show_image(axes: Axes, pixels: Floats) -> AxesImage:
    """Draw the image in its proportions; coordinates count pixels, from the edge of the first one."""
    without_ticks(axes)
    height, width = pixels.shape[:2]
    return axes.imshow(pixels, extent=(0, width, height, 0), interpolation="nearest" if height < 64 else "antialiased")


def _show_map(
    axes: Axes, pixels: Floats, values: Floats, colors: Colormap | str, norm: Normalize, interpolation: str
) -> AxesImage:
    """Draw ``values`` (h, w) over the faded, gray image."""
    low, high = FADED
    _show_image(axes, (low + (high - low) * (pixels @ LUMA))[..., None].repeat(3, -1))
    height, width = pixels.shape[:2]
    return axes.imshow(
        values, extent=(0, width, height, 0), cmap=colors, norm=norm, alpha=OPACITY, interpolation=interpolation
    )
