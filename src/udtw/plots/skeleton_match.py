"""Draw the couplings of a query clip with supports, of its own class and of others."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from udtw.errors import LengthError
from udtw.fewshot.comparators import AlignmentComparator
from udtw.fewshot.tokens import Tokens
from udtw.plots.model_alignment import SIGN, aligning_comparator, model_alignment, numbers
from udtw.plots.skeleton import Along, Body, bare, body, draw_figures, slots
from udtw.plots.style import (
    FONT,
    STD_COLORS,
    Floats,
    check_path_power,
    draw_coupling,
    draw_mode,
    new_figure,
    set_power_ticks,
    shade,
    std_norm,
)
from udtw.skeleton.blocks import block_spans
from udtw.skeleton.datasets import SkeletonSet
from udtw.skeleton.datasets.clip import Clip
from udtw.skeleton.recognizer import ActionRecognizer

MATRIX_INCHES, ACROSS_INCHES, DOWN_INCHES, STD_INCHES = 2.7, 0.8, 0.68, 0.12
LABEL_INCHES = (1.3, 1.1)
"""Room for labels and the color bar, in width and height."""

TITLE_LETTERS = 42  # fits above a matrix
BONE_WIDTH = 1.0


@dataclass(frozen=True)
class _Side:
    """Hold one clip on a margin: its poses, the middle frame of every block, and σ (τ,) if the model has one."""

    body: Body
    middles: Floats
    std: Floats | None


def plot_match(
    query: Clip,
    supports: Sequence[Clip],
    recognizer: ActionRecognizer,
    *,
    classes: Sequence[str] | None = None,
    n_poses: tuple[int, int] = (5, 7),
    path_power: float = 0.1,
    std_range: tuple[float, float] | None = None,
    y_up: bool | None = None,
    **figure_options: Any,
) -> Figure:
    """Plot the couplings π* of a query with each support, with the clips and their σ on the margins.

    Blocks of the query run down, blocks of a support run right. Each title says whether the classes are the same, and
    gives the model's distance d² and regularizer Ω. Stick figures and strips have the color of their block's σ, from
    blue (the smallest in the figure) to red (the largest). The most probable path is drawn over the coupling. Axes are
    labeled "query", "query_std" and, by the number of the support, "support0", "support0_std", "coupling0", and so on.
    The figure is not registered with pyplot: save it with ``savefig``.

    Parameters
    ----------
    query : Clip
    supports : sequence of Clip
        Usually one clip of the query's class and one of another.
    recognizer : ActionRecognizer
        A model whose metric aligns the clips.
    classes : sequence of str, optional
        Names of the labels, as in `SkeletonSet.classes`.
    n_poses : (int, int)
        Largest number of stick figures along the query, and along each support.
    path_power : float in (0, 1]
        Colors show ``coupling ** path_power`` to make small probabilities visible.
    std_range : (low, high)
        Values of σ shown in pure blue and pure red; by default (0.5, 2), or wider if σ exceeds it.
    y_up : bool
        As in `plot_clip`.
    **figure_options
        Passed to `matplotlib.figure.Figure`, such as ``figsize``; by default the cells of the matrices are about
        square.

    Examples
    --------
    >>> from udtw.plots import plot_match
    >>> from udtw.skeleton import ActionRecognizer, Recipe, make_actions
    >>> clips = make_actions(2, 2, random_state=0)
    >>> model = ActionRecognizer(Recipe(dim=8, joint_dim=4, width=8, depth=1, heads=2), clips.graph)
    >>> figure = plot_match(clips[0], [clips[2], clips[1]], model, classes=clips.classes)
    >>> [axes.get_title().split(":")[0] for axes in figure.axes if "class" in axes.get_title()]
    ['same class', 'other class']
    """
    check_path_power(path_power)
    if len(supports) == 0:
        raise LengthError("supports is empty; at least one is needed.")
    comparator = aligning_comparator(recognizer)
    tokens = _tokens([query, *supports], recognizer)
    sides = [_side(clip, one, recognizer, y_up) for clip, one in zip([query, *supports], tokens, strict=True)]
    figure, axes = _panels(len(sides[0].middles), [len(one.middles) for one in sides[1:]], figure_options)
    every = [one.std for one in sides if one.std is not None]
    norm = std_norm(np.concatenate(every), std_range) if every else None
    _draw_side(axes["query"], axes["query_std"], sides[0], norm, n_poses[0], "down")
    _label_query(axes["query"], len(sides[0].middles), _named(query, classes))
    for i, support in enumerate(supports):
        _draw_side(axes[f"support{i}"], axes[f"support{i}_std"], sides[i + 1], norm, n_poses[1], "across")
        matrix, film = axes[f"coupling{i}"], axes[f"support{i}"]
        image = _draw_coupling(matrix, tokens[0], tokens[i + 1], comparator, path_power)
        for strip in (film, axes[f"support{i}_std"]):
            strip.sharex(matrix)
        matrix.set_xlabel("block of the support", fontsize=FONT)
        with torch.no_grad():
            comparison = comparator(tokens[0], tokens[i + 1])
        title = _wrapped(f"{SIGN[support.label == query.label]}: {_named(support, classes)}")
        film.set_title(
            f"{title}\n{numbers(comparison, comparator, tokens[0].variance is not None)}", fontsize=FONT, pad=8
        )
    bar = figure.colorbar(
        image, ax=[axes[f"coupling{i}"] for i in range(len(supports))], location="right", aspect=25, pad=0.015
    )
    bar.set_label("coupling π*", fontsize=FONT)
    set_power_ticks(bar, path_power)
    bar.ax.tick_params(labelsize=FONT)
    if norm is not None:
        _draw_std_bar(figure, axes["corner"], norm)
    return figure


def _tokens(clips: Sequence[Clip], recognizer: ActionRecognizer) -> list[Tokens]:
    """Encode each clip on its own to tokens (1, τ, d); the model keeps its mode, training or evaluation."""
    names = [f"class {label}" for label in range(max(clip.label for clip in clips) + 1)]
    training = recognizer.model.training
    try:
        return [
            recognizer.tokens(SkeletonSet.from_clips("clips", recognizer.graph_name, names, [clip])) for clip in clips
        ]
    finally:
        recognizer.model.train(training)


def _side(clip: Clip, tokens: Tokens, recognizer: ActionRecognizer, y_up: bool | None) -> _Side:
    recipe = recognizer.recipe
    middles = block_spans(len(clip), recipe.block_size, recipe.stride).mean(1) - 0.5
    std = None if tokens.std is None else tokens.std[0].cpu().double().numpy()
    return _Side(body(clip.frames, recognizer.graph, y_up), middles, std)


def _panels(rows: int, columns: Sequence[int], options: dict[str, Any]) -> tuple[Figure, dict[Any, Axes]]:
    """Create axes: the query on the left, each support above its coupling, strips of σ between clips and matrices."""
    count = len(columns)
    height = MATRIX_INCHES * min(max(rows * count / sum(columns), 0.7), 1.4)
    size = (
        DOWN_INCHES + STD_INCHES + count * MATRIX_INCHES + LABEL_INCHES[0],
        ACROSS_INCHES + STD_INCHES + height + LABEL_INCHES[1],
    )
    figure = new_figure(size, options, w_pad=0.02, h_pad=0.015, wspace=0.0, hspace=0.0)
    axes = figure.subplot_mosaic(
        [
            ["corner", "corner", *(f"support{i}" for i in range(count))],
            [".", ".", *(f"support{i}_std" for i in range(count))],
            ["query", "query_std", *(f"coupling{i}" for i in range(count))],
        ],
        width_ratios=[DOWN_INCHES, STD_INCHES, *[MATRIX_INCHES] * count],
        height_ratios=[ACROSS_INCHES, STD_INCHES, height],
    )
    axes["corner"].set_axis_off()
    return figure, axes


def _draw_side(film: Axes, strip: Axes, side: _Side, norm: Normalize | None, n_poses: int, along: Along) -> None:
    """Draw stick figures along the blocks, each the middle frame of the block beside it, and a strip of their σ."""
    places = slots(len(side.middles), n_poses)
    frames = np.round(np.interp(places, np.arange(len(side.middles)), side.middles)).astype(int)
    colors: list[Any] = [shade(0.8)] * len(places)
    if side.std is not None and norm is not None:
        colors = list(STD_COLORS(norm(side.std[np.round(places).astype(int)])))
        values = side.std[None, :] if along == "across" else side.std[:, None]
        strip.imshow(values, cmap=STD_COLORS, norm=norm, aspect="auto")
    bare(film, along)
    draw_figures(film, side.body, frames, places, colors, along, BONE_WIDTH)
    strip.tick_params(left=False, bottom=False, labelleft=False, labelbottom=False)
    strip.spines[:].set_visible(False)


def _label_query(film: Axes, count: int, name: str) -> None:
    film.set_ylim(count - 0.5, -0.5)
    film.tick_params(left=True, labelleft=True, labelsize=FONT)
    film.locator_params(axis="y", integer=True, nbins=6)
    film.set_ylabel(_wrapped(f"block of the query: {name}"), fontsize=FONT)


def _draw_coupling(matrix: Axes, query: Tokens, support: Tokens, comparator: AlignmentComparator, power: float) -> Any:
    """Draw π* of the pair under the model's temperature and variances, and its most probable path."""
    alignment = model_alignment(comparator, query, support)
    image = draw_coupling(matrix, alignment.coupling[0].cpu().double().numpy(), power)
    draw_mode(matrix, np.asarray(alignment.paths.mode()[0]))
    matrix.tick_params(left=False, labelleft=False, labelsize=FONT)
    matrix.locator_params(axis="x", integer=True, nbins=6)
    return image


def _draw_std_bar(figure: Figure, corner: Axes, norm: Normalize) -> None:
    """Draw the scale of σ in the corner left free by the margins."""
    place = corner.inset_axes((0.05, 0.4, 0.8, 0.12))
    bar = figure.colorbar(ScalarMappable(norm, STD_COLORS), cax=place, orientation="horizontal")
    bar.ax.set_title("σ of block", fontsize=FONT, pad=3)
    low, high = norm.vmin or 0.5, norm.vmax or 2.0
    ticks = [low, (low * high) ** 0.5, high]  # more would overlap
    bar.set_ticks(ticks, labels=[f"{tick:.2g}" for tick in ticks])
    bar.minorticks_off()
    bar.ax.tick_params(labelsize=FONT, length=2)


def _named(clip: Clip, classes: Sequence[str] | None) -> str:
    return clip.name if classes is None else str(classes[clip.label])


def _wrapped(text: str) -> str:
    return textwrap.fill(text, TITLE_LETTERS, break_on_hyphens=False)
