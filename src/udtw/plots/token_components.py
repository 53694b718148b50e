"""The component figure: tokens as colours, before and after the projection."""

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure, SubFigure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from udtw.errors import LengthError, NonFiniteError, ShapeError
from udtw.plots.token_maps import (
    FONT,
    SMALL_FONT,
    Floats,
    as_array,
    check_images,
    row_inches,
    show_image,
    without_ticks,
)

COLUMN_INCHES, LABEL_INCHES = 1.9, (0.4, 0.5)
TITLE_LETTERS = 22
CLIPPED = (0.02, 0.98)
"""Quantiles that are shown as none and as all of a colour."""

NOTHING = 1e-10
"""Components with less than this share of the first one's variance are rounding errors."""


def plot_components(
    images: Sequence[Any],
    before: Any,
    after: Any,
    grid: tuple[int, int],
    *,
    titles: Sequence[str] | None = None,
    figure: Figure | SubFigure | None = None,
) -> Figure | SubFigure:
    """Draw each image beside the first three principal components of its tokens, before and after the projection.

    Red, green and blue are the first, second and third component; see `component_colors`. The components are those of
    the tokens of all images together, so that like colours are like tokens, within a column; those after the projection
    have the sign in which they go along with those before. Axes are labelled "image0", "before0", "after0", "image1"…

    Parameters
    ----------
    images : PIL images or arrays (H, W, 3)
        As the backbone saw them, cropped.
    before, after : (n, h·w, D) and (n, h·w, d)
        Tokens row by row.
    grid : (h, w)
    titles : n names, optional
    figure : Figure or SubFigure, optional
        Where to draw; by default a new figure. It belongs to nobody: save it with ``savefig``.
    """
    pixels = check_images(images, titles)
    first = principal_components(_tokens("before", before, grid, len(pixels)))
    then = principal_components(_tokens("after", after, grid, len(pixels)), like=first)
    colors = {"before": component_colors(first), "after": component_colors(then)}
    heights = row_inches(pixels, COLUMN_INCHES)
    if figure is None:
        figure = Figure(
            figsize=(3 * COLUMN_INCHES + LABEL_INCHES[0], sum(heights) + LABEL_INCHES[1]),
            layout=ConstrainedLayoutEngine(w_pad=0.03, h_pad=0.05, wspace=0.0, hspace=0.0),
        )
    axes = figure.subplot_mosaic(
        [[f"{column}{i}" for column in ("image", "before", "after")] for i in range(len(pixels))], height_ratios=heights
    )
    for i, image in enumerate(pixels):
        show_image(axes[f"image{i}"], image)
        if titles is not None:
            axes[f"image{i}"].set_ylabel(textwrap.fill(titles[i], TITLE_LETTERS), fontsize=SMALL_FONT)
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
    """(n, T, 3): tokens (n, T, D) along the three directions in which they vary most, all images together.

    Of the two signs that one is taken in which a component goes along with that of ``like`` (n, T, 3), or else in which
    the direction's largest weight is positive. Components that are not there (D < 3, or no variance) are zero.
    """
    n, count, dim = tokens.shape
    flat = tokens.reshape(-1, dim) - tokens.reshape(-1, dim).mean(0)
    variances, directions = np.linalg.eigh(flat.T @ flat)
    variances, directions = variances[::-1][:3], directions[:, ::-1][:, :3]
    largest = np.abs(directions).argmax(0)
    directions = directions * np.sign(directions[largest, np.arange(directions.shape[1])])
    found = np.zeros((len(flat), 3))
    found[:, : directions.shape[1]] = np.where(variances > NOTHING * max(variances[0], 1e-300), flat @ directions, 0)
    if like is not None:
        found *= np.where((found * like.reshape(-1, 3)).sum(0) < 0, -1, 1)
    return found.reshape(n, count, 3)


def component_colors(components: Floats) -> Floats:
    """(n, T, 3) in [0, 1]: each component between its 2nd and 98th percentile over all images; zeros are ½."""
    flat = components.reshape(-1, 3)
    low, high = np.quantile(flat, CLIPPED, axis=0)
    rare = high <= low  # all but a few tokens are alike
    low, high = np.where(rare, flat.min(0), low), np.where(rare, flat.max(0), high)
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
