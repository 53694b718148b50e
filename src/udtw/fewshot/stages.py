"""Schedules by which features and variances learn: which of the two the loss of a step trains."""

from collections.abc import Callable
from dataclasses import replace

from torch import Tensor

from udtw.errors import OptionError
from udtw.fewshot.tokens import Tokens

SIGMA_TRAININGS = ("joint", "warm_up", "after", "faithful", "beta_nll")
WARM_UP = 0.25
"""Share of the steps with Σ = 1 in "warm_up"; "after" has half of them."""
KAPPA = 0.5
"""Exponent of σ² in "beta_nll"."""


Stages = Callable[[int], tuple[str, ...]]
"""``stages(number)``: the stages of step ``number`` of a training, see `stages_of`."""


def together(number: int) -> tuple[str, ...]:
    """Return the `Stages` of a training in which features and variances always learn together."""
    return ("both",)


def stages_of(sigma_training: str, number: int, n_steps: int) -> tuple[str, ...]:
    """Return the stages of step ``number`` of ``n_steps``; the loss of the step is the sum of theirs.

    - "both": features and variances learn;
    - "features": Σ = 1, so that the features learn alone;
    - "sigma": the features pass no gradient, so that the variances learn alone;
    - "scaled": as "both", with the gradients of a token multiplied by its σ^2κ, κ = `KAPPA`: uncertain tokens learn as
      fast as the others.

    "joint" has "both" in all steps, "warm_up" "features" in the first quarter and "both" then, "after" "features" in
    the first half and "sigma" then, "faithful" "features" and "sigma" in all steps, "beta_nll" "scaled" in all steps.

    >>> stages_of("joint", 0, 100), stages_of("faithful", 0, 100)
    (('both',), ('features', 'sigma'))
    >>> [stages_of("warm_up", number, 100) for number in (24, 25)]
    [('features',), ('both',)]
    >>> [stages_of("after", number, 100) for number in (49, 50)]
    [('features',), ('sigma',)]
    """
    if sigma_training not in SIGMA_TRAININGS:
        raise OptionError(f"sigma_training must be one of {SIGMA_TRAININGS}; got {sigma_training!r}.")
    if sigma_training == "warm_up":
        return ("features",) if number < WARM_UP * n_steps else ("both",)
    if sigma_training == "after":
        return ("features",) if number < 0.5 * n_steps else ("sigma",)
    return {"joint": ("both",), "faithful": ("features", "sigma"), "beta_nll": ("scaled",)}[sigma_training]


def scaled_gradients(tokens: Tokens) -> Tokens:
    """Return the same tokens, whose features and variances pass gradients multiplied by sg(σ²)^κ, κ = `KAPPA`."""
    assert tokens.variance is not None, "of the SigmaNet"
    factor = tokens.variance.detach() ** KAPPA
    of_features = factor if factor.ndim == 3 else factor[..., None]
    return replace(
        tokens, features=_scaled(tokens.features, of_features), variance=_scaled(tokens.variance, factor)
    )  # fmt: skip


def _scaled(values: Tensor, factor: Tensor) -> Tensor:
    fixed = values.detach()
    return fixed + factor * (values - fixed)
