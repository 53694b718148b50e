"""Draw the uncertainty, tokens and matches of a trained model on images with cached tokens."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure, SubFigure
from torch import Tensor

from udtw.errors import DataError, OptionError
from udtw.fewshot.tokens import Tokens
from udtw.images.backbones.pixels import Framing, to_rgb
from udtw.images.projection import token_order
from udtw.images.recognizer import ImageRecognizer
from udtw.images.tokens import TokenSet
from udtw.images.tokens.store import Images, digest_of
from udtw.plots.image_maps import plot_components, plot_uncertainty
from udtw.plots.image_match import plot_match_pair
from udtw.plots.model_alignment import SIGN, aligning_comparator, model_alignment, numbers
from udtw.plots.style import shared_limits


def picture(tokens: TokenSet, images: Images, index: int) -> np.ndarray:
    """Return image ``index`` of ``tokens``, (H, W, 3) uint8, as seen by the backbone: resized and cropped.

    Images are looked up by name, since the tokens may belong to a part of ``images``. Their identity tells how
    the images were framed; without it, the whole image is returned.
    """
    name = tokens.names[index]
    if name not in images.names:
        raise DataError(f"{images.name} has no image {name!r}; the tokens were extracted from another data set.")
    at = images.names.index(name)
    if digest_of(images, at) != tokens.digests[index]:
        raise DataError(f"The image {name!r} of {images.name} has changed since its tokens were extracted.")
    image = images.image(at)
    used = tokens.identity["backbone"].get("framing")
    if used is None:
        return np.array(to_rgb(image))
    framing = Framing(tuple(used["resize"]), tuple(used["crop"]), used["fit"], used["resample"])
    return (255 * framing(image)).round().byte().permute(1, 2, 0).numpy()


def show_uncertainty(
    recognizer: ImageRecognizer, tokens: TokenSet, images: Images, indices: Sequence[int], **options: Any
) -> Figure | SubFigure:
    """Plot σ in the images at ``indices`` of ``tokens``, beside the attention if it was stored.

    ``options`` are those of `udtw.plots.plot_uncertainty`.
    """
    variance = _encoded(recognizer, tokens, indices).variance
    if variance is None:
        raise OptionError(
            f"The model's metric {recognizer.recipe.metric!r} has no uncertainty; use a model whose metric has one."
        )
    attention = tokens.attention(indices) if tokens.has_attention else None
    sigma, recipe = _row_by_row(recognizer, tokens, variance).sqrt(), recognizer.recipe
    scale = shared_limits(sigma.numpy(), recipe.sigma_range)
    options = {"titles": _classes(tokens, indices), "std_range": scale} | options
    return plot_uncertainty([picture(tokens, images, i) for i in indices], sigma, tokens.grid, attention, **options)


def show_components(
    recognizer: ImageRecognizer, tokens: TokenSet, images: Images, indices: Sequence[int], **options: Any
) -> Figure | SubFigure:
    """Plot the tokens of the backbone and of the model as colors, for the images at ``indices`` of ``tokens``.

    ``options`` are those of `udtw.plots.plot_components`.
    """
    projected = _row_by_row(recognizer, tokens, _encoded(recognizer, tokens, indices).features)
    pictures = [picture(tokens, images, i) for i in indices]
    options = {"titles": _classes(tokens, indices)} | options
    return plot_components(pictures, tokens.tokens(indices), projected, tokens.grid, **options)


def show_match(
    recognizer: ImageRecognizer, tokens: TokenSet, images: Images, i: int, j: int, k: int, **options: Any
) -> Figure:
    """Plot how the model aligns image ``i`` with ``j``, of the same class, and with ``k``, of another.

    Titles give the model's distance d² and, if its metric has one, the regularizer Ω. ``options`` are those of
    `udtw.plots.plot_match_pair`.
    """
    return plot_match_pair(*describe_matches(recognizer, tokens, images, i, j, k), **options)


def describe_matches(
    recognizer: ImageRecognizer, tokens: TokenSet, images: Images, i: int, j: int, k: int
) -> list[dict[str, Any]]:
    """Return the arguments of `udtw.plots.plot_match_pair` for the matches of `show_match`."""
    comparator = aligning_comparator(recognizer)
    classes = _classes(tokens, (i, j, k))
    if classes[0] != classes[1] or classes[0] == classes[2]:
        raise OptionError(f"Images i and j must be of one class, and k of another; got {', '.join(classes)}.")
    pictures = [picture(tokens, images, index) for index in (i, j, k)]
    encoded = _encoded(recognizer, tokens, (i, j, k))
    matches = []
    for other in (1, 2):
        x, y = encoded[:1], encoded[other : other + 1]
        variances = {} if x.variance is None or y.variance is None else {"var_x": x.variance[0], "var_y": y.variance[0]}
        with torch.no_grad():
            comparison = comparator.paired(x, y)
        title = (
            f"{SIGN[other == 1]}: {classes[0]} – {classes[other]}\n{numbers(comparison, comparator, bool(variances))}"
        )
        matches.append(
            {
                "image_x": pictures[0], "image_y": pictures[other], "grid_x": tokens.grid, "grid_y": tokens.grid,
                "coupling": model_alignment(comparator, x, y).coupling[0], **variances,
                "order": recognizer.recipe.order, "title": title,
            }
        )  # fmt: skip
    return matches


def _encoded(recognizer: ImageRecognizer, tokens: TokenSet, indices: Sequence[int]) -> Tokens:
    """Encode these images, with tokens in the recipe's order."""
    return recognizer.encode(recognizer.source(tokens).batch(np.asarray(indices)))


def _row_by_row(recognizer: ImageRecognizer, tokens: TokenSet, values: Tensor) -> Tensor:
    """Move ``values`` (B, T, …) of tokens from the recipe's order to the order of the grid."""
    moved = torch.empty_like(values)
    moved[:, token_order(recognizer.recipe.order, tokens.grid)] = values
    return moved


def _classes(tokens: TokenSet, indices: Sequence[int]) -> list[str]:
    return [tokens.classes[tokens.labels[i]] for i in indices]
