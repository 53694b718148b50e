"""The uncertainty figure: how far a model trusts each patch of an image, beside where the backbone looks."""

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.colors import Normalize
from matplotlib.figure import Figure, SubFigure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from udtw.errors import OptionError, VarianceError
from udtw.plots.stick_figures import std_norm
from udtw.plots.token_maps import (
    FADED,
    FONT,
    MAP_COLORS,
    SMALL_FONT,
    Floats,
    as_maps,
    check_images,
    row_inches,
    show_image,
    show_map,
)

COLUMN_INCHES, BAR_INCHES, LABEL_INCHES = 1.9, 0.11, (0.3, 0.85)
"""Width of an image, height of a colour bar, and what titles and labels take in width and height."""

TITLE_LETTERS = 22
INTERPOLATIONS = ("bilinear", "nearest")
ATTENTION_COLORS = "viridis"
ATTENTION_QUANTILE = 0.995
"""Attention above this quantile is shown alike: a few patches of a ViT may take nearly all of it."""


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
    """Draw a row for each image: the image, the uncertainty σ of its patches over it, and the backbone's attention.

    σ goes from blue (the smallest of all images) to red (the largest), attention has a scale of its own; each token
    stands for an equal part of the image. Axes are labelled "image0", "sigma0", "attention0", "image1", and so on.

    Parameters
    ----------
    images : PIL images or arrays (H, W, 3)
        As the backbone saw them, cropped.
    sigma : (n, h·w) row by row, or (n, h, w)
        σ of every token, the root of `Tokens.variance`.
    grid : (h, w)
    attention : like sigma, optional
        Without it there is no third column.
    titles : n names, optional
    std_range : (low, high)
        σ that are shown in pure blue and pure red, to compare several figures; by default those of these images.
    interpolation : "bilinear" or "nearest"
        Between the middles of patches, or patches of one colour each.
    figure : Figure or SubFigure, optional
        Where to draw; by default a new figure of its own size. It belongs to nobody: save it with ``savefig``.
    """
    if interpolation not in INTERPOLATIONS:
        raise OptionError(f"interpolation must be one of {INTERPOLATIONS}; got {interpolation!r}.")
    pixels = check_images(images, titles)
    std = as_maps("sigma", sigma, grid, len(pixels))
    if not (std > 0).all():
        raise VarianceError("sigma must be positive for every token.")
    columns = ["image", "sigma"]
    if attention is not None:
        attention = as_maps("attention", attention, grid, len(pixels))
        columns.append("attention")
    heights = row_inches(pixels, COLUMN_INCHES)
    if figure is None:
        figure = Figure(
            figsize=(COLUMN_INCHES * len(columns) + LABEL_INCHES[0], sum(heights) + LABEL_INCHES[1]),
            layout=ConstrainedLayoutEngine(w_pad=0.03, h_pad=0.05, wspace=0.0, hspace=0.0),
        )
    # The bars have a row of their own: in that of the last image they would push its maps up.
    rows: list[Any] = [[f"{column}{i}" for column in columns] for i in range(len(pixels))]
    rows.append([".", *(f"{column}_bar" for column in columns[1:])])
    axes = figure.subplot_mosaic(rows, height_ratios=[*heights, BAR_INCHES])
    for i, image in enumerate(pixels):
        show_image(axes[f"image{i}"], image)
        if titles is not None:
            axes[f"image{i}"].set_ylabel(textwrap.fill(titles[i], TITLE_LETTERS), fontsize=SMALL_FONT)
    axes["image0"].set_title("image", fontsize=FONT)
    norm, *_ = std_norm(std, std_range)
    maps: dict[str, tuple[Floats, Any, Normalize, str]] = {"sigma": (std, MAP_COLORS, norm, "uncertainty σ")}
    if attention is not None:
        maps["attention"] = (attention, ATTENTION_COLORS, _attention_norm(attention), "attention")
    for column, (values, colors, norm, title) in maps.items():
        for i, image in enumerate(pixels):
            drawn = show_map(axes[f"{column}{i}"], image, values[i], colors, norm, interpolation)
        axes[f"{column}0"].set_title(title, fontsize=FONT)
        extend = "max" if norm.vmax is not None and values.max() > norm.vmax else "neither"
        place = axes[f"{column}_bar"]
        bar = figure.colorbar(drawn, cax=place, orientation="horizontal", extend=extend)
        bar.set_label(title.rpartition(" ")[2], fontsize=FONT, labelpad=1)
        place.set_facecolor(str(sum(FADED) / 2))  # the colours of the maps, which lie on grey
        place.tick_params(labelsize=SMALL_FONT, length=2)
        place.locator_params(nbins=4)
    return figure


def _attention_norm(attention: Floats) -> Normalize:
    low, high = float(attention.min()), float(np.quantile(attention, ATTENTION_QUANTILE))
    return Normalize(low, high if high > low else float(attention.max()))
