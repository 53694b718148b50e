"""Align two token sequences as a trained few-shot model does, for figures of skeletons and images."""

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
    """Return the comparator of a model, or raise an error if its metric has no coupling."""
    comparator = recognizer.model.comparator
    if not isinstance(comparator, AlignmentComparator) or "gamma" not in comparator.metric.params:
        raise OptionError(
            f"The model's metric {recognizer.recipe.metric!r} has no coupling; use a model whose metric aligns at a "
            "temperature gamma."
        )
    return comparator


@torch.no_grad()
def model_alignment(comparator: AlignmentComparator, x: Tokens, y: Tokens) -> Alignment:
    """Align x and y, (1, τ, d) each, under the model's energy and prior."""
    kept = ("gamma", "beta", "band", "weighting", "warp_penalty", "relax", "order", "shape", "reach")
    # Results are lazy: values read later must not require gradients of learned parameters.
    params: dict[str, Any] = {
        name: value.detach() if isinstance(value, torch.Tensor) else value
        for name, value in comparator.params(x.features.shape[1]).items()
        if name in kept
    }
    params.setdefault("weighting", "precision")
    variances = (None, None) if comparator.of_best else (x.variance, y.variance)
    return align(None, None, *variances, cost=comparator.between(x, y), **params)


def numbers(comparison: Comparison, comparator: AlignmentComparator, uncertain: bool) -> str:
    """Format a comparison for a title: what its distance is and, for the paper's weighting, also Ω (with variances)."""
    if comparator.evidence:
        text = f"energy of evidence = {float(comparison.distance):.3g}"
    elif comparator.metric.without_bias is not None:
        text = f"divergence = {float(comparison.distance):.3g}"
    elif comparator.by_precision:
        text = f"mean $d^2$ = {float(comparison.distance):.3g}"
    elif comparator.metric.params.get("weighting") != "precision":
        text = f"free energy = {float(comparison.distance):.3g}"
    else:
        text = f"$d^2$ = {float(comparison.distance):.3g}"
        text += f",  Ω = {float(comparison.regularizer):.3g}" if uncertain else ""
    return text.replace("-", "−")
