"""Uncertainty as reverse attention: the rank correlation of σ² and attention within images."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from udtw.errors import NonFiniteError, OptionError, ShapeError
from udtw.fewshot.evaluation import NORMAL_975
from udtw.images.backbones.base import needed
from udtw.images.projection import token_order

if TYPE_CHECKING:
    from udtw.images.recognizer import ImageRecognizer
    from udtw.images.tokens import TokenSet

KEPT_BITS = 20
"""Bits of a value that count for ranks; the others of single precision are rounding errors."""

BATCH = 64

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class RankCorrelation:
    """Spearman's ρ, ``mean ± half_width`` over ``n_images``; the interval is ``1.96·std/√n``.

    ``n_constant`` images are left out: all their tokens have the same uncertainty, or the same attention, so that there
    are no ranks. If no image is left the mean is NaN.
    """

    mean: float
    half_width: float
    n_images: int
    n_constant: int = 0

    def __str__(self) -> str:
        left_out = f", {self.n_constant} constant" if self.n_constant else ""
        return f"ρ = {self.mean:.3f} ± {self.half_width:.3f} ({self.n_images} images{left_out})".replace("-", "−")


def rank_correlations(variance: Any, attention: Any) -> Floats:
    """Return Spearman's ρ (B,) of ``variance`` and ``attention`` (B, T) for each image; NaN where a map is constant.

    −1 if attention reverses all ranks. Ties get their mean rank; values count as equal if they agree to six digits. σ
    instead of σ² gives the same.
    """
    ranks = []
    maps = {"variance": _maps("variance", variance), "attention": _maps("attention", attention)}
    if maps["variance"].shape != maps["attention"].shape:
        raise ShapeError(
            f"variance and attention must have the same shape (B, T); got {maps['variance'].shape} and "
            f"{maps['attention'].shape}."
        )
    rankdata = needed("scipy.stats", "Rank correlations").rankdata
    for values in maps.values():
        mantissa, exponent = np.frexp(values)
        rank = rankdata(np.ldexp(np.round(np.ldexp(mantissa, KEPT_BITS)), exponent), axis=1)
        ranks.append(rank - rank.mean(1, keepdims=True))
    x, y = ranks
    scale = np.sqrt((x**2).sum(1) * (y**2).sum(1))
    return np.where(scale > 0, (x * y).sum(1) / np.where(scale > 0, scale, 1), np.nan)


def summary(correlations: Floats) -> RankCorrelation:
    """Return mean and 95 % interval over the images of `rank_correlations`."""
    known = correlations[~np.isnan(correlations)]
    n = len(known)
    mean = float(known.mean()) if n else float("nan")
    spread = float(known.std(ddof=1)) if n > 1 else float("nan")
    return RankCorrelation(mean, NORMAL_975 * spread / max(n, 1) ** 0.5, n, len(correlations) - n)


def contrast(tokens: Any) -> Floats:
    """Return how far each of ``tokens`` (B, T, D) lies from the mean token of its image, ``‖x_t − x̄‖``, (B, T).

    A substitute for attention where the backbone has none: large for what stands out in its image, such as an object on
    a background. Unlike attention it ignores what the image shows, and is small for an object that fills the image.
    """
    array = _array(tokens)
    if array.ndim != 3 or 0 in array.shape:
        raise ShapeError(f"tokens must have shape (B, T, D), none of them zero; got {array.shape}.")
    return np.linalg.norm(array - array.mean(1, keepdims=True), axis=2)


def measure_reverse_attention(
    recognizer: "ImageRecognizer", tokens: "TokenSet", *, batch_size: int = BATCH
) -> dict[str, RankCorrelation]:
    """Measure rank correlations of a model's uncertainty over all images of ``tokens``, batch by batch.

    "contrast": with the contrast of the tokens as the projection standardizes them (raw features differ by orders of
    magnitude). "attention": with the attention, if it was kept when the tokens were extracted.

    Uncertainty as reverse attention is a negative correlation. Position in the image is part of it: where both maps
    decrease toward the edges, so do their ranks.
    """
    check_uncertain(recognizer)
    if batch_size < 1:
        raise OptionError(f"batch_size must be at least 1; got {batch_size}.")
    source, order = recognizer.source(tokens), token_order(recognizer.recipe.order, tokens.grid)
    encoder: Any = recognizer.model.encoder
    correlations: dict[str, list[Floats]] = {name: [] for name in ("attention", "contrast")[not tokens.has_attention :]}
    for start in range(0, len(tokens), batch_size):
        chosen = np.arange(start, min(start + batch_size, len(tokens)))
        batch = source.batch(chosen)
        variance = recognizer.encode(batch).variance
        standardized = (batch - encoder.mean.cpu()) / encoder.scale.cpu()
        correlations["contrast"].append(rank_correlations(variance, contrast(standardized)))
        if tokens.has_attention:
            correlations["attention"].append(rank_correlations(variance, tokens.attention(chosen)[:, order]))
    return {name: summary(np.concatenate([*parts, np.empty(0)])) for name, parts in correlations.items()}


def check_uncertain(recognizer: "ImageRecognizer") -> None:
    """Raise unless the model has a SigmaNet."""
    if recognizer.model.sigma is None:
        raise OptionError(f"The model compares by {recognizer.recipe.metric!r}, which has no uncertainty; use udtw.")


def _maps(name: str, values: Any) -> Floats:
    array = _array(values)
    if array.ndim != 2 or array.shape[1] == 0:
        raise ShapeError(f"{name} must have shape (B, T), one number per token; got {array.shape}.")
    if not np.isfinite(array).all():
        raise NonFiniteError(f"{name} holds NaN or infinity.")
    return array


def _array(values: Any) -> Floats:
    return np.asarray(values.detach().cpu() if isinstance(values, Tensor) else values).astype(np.float64)
