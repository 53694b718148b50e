"""How a trained few-shot model aligns two token sequences: what its figures of skeletons and of images share."""

from typing import Any

import torch

from udtw._engine.align import align
from udtw._engine.alignment import Alignment
from udtw.errors import OptionError
from udtw.fewshot.comparators import AlignmentComparator, Comparison
from udtw.fewshot.recognizer import Recognizer
from udtw.fewshot.tokens import Tokens

SIGN = {True: "same class", False: "other class"}


def aligning_comparator(recognizer: Recognizer) -> AlignmentComparator:
    """The comparator of a model, or an error if its metric gives no coupling."""
    comparator = recognizer.model.comparator
    if not isinstance(comparator, AlignmentComparator) or "gamma" not in comparator.metric.params:
        raise OptionError(
            f"The model compares by {recognizer.recipe.metric!r}, which gives no coupling; use a model whose metric "
            "aligns at a temperature gamma."
        )
    return comparator


@torch.no_grad()
def model_alignment(comparator: AlignmentComparator, x: Tokens, y: Tokens) -> Alignment:
    """The alignment of x and y, (1, τ, d) each, under the model's energy and prior."""
    kept = ("gamma", "beta", "band", "weighting", "warp_penalty", "relax")
    # Results are lazy: what is read after this function must not ask for gradients of learned parameters.
    params: dict[str, Any] = {
        name: value.detach() if isinstance(value, torch.Tensor) else value
        for name, value in comparator.params().items()
        if name in kept
    }
    params.setdefault("weighting", "precision")
    return align(None, None, x.variance, y.variance, cost=comparator.between(x, y), **params)


def numbers(found: Comparison, comparator: AlignmentComparator, uncertain: bool) -> str:
    """What a title says of a comparison: the divergence, or of the paper's weighting d² and, with variances, Ω."""
    if comparator.metric.without_bias is not None:
        text = f"divergence = {float(found.distance):.3g}"
    elif comparator.by_precision:
        text = f"mean $d^2$ = {float(found.distance):.3g}"
    else:
        text = f"$d^2$ = {float(found.distance):.3g}"
        text += f",  Ω = {float(found.regularizer):.3g}" if uncertain else ""
    return text.replace("-", "−")
