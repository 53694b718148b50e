"""uDTW as a training loss."""

from typing import Any

from torch import Tensor, nn

from udtw.align import Alignment, align
from udtw.errors import OptionError, ShapeError
from udtw.nn.sigma import PairSigmaNet, SigmaNet

REDUCTIONS = ("mean", "sum", "none")


class UDTWLoss(nn.Module):
    """``loss(pred, target) = mean over the batch of d² + βΩ (+ λΩ')``.

    Parameters
    ----------
    sigma : SigmaNet or PairSigmaNet, optional
        Predicts the variances of both sequences; it is trained with the model if its parameters are given to the
        optimiser. Without it, and without variances in the call, Σ = 1 and the loss is the sharp soft-DTW ``E[D]``.
    gamma, beta, lam, band, distance, debias, normalize, backend, weighting, warp_penalty
        As in `udtw.align`. With ``weighting="likelihood"`` the loss is the free energy.
    reduction : "mean", "sum" or "none"

    Examples
    --------
    >>> import torch
    >>> from udtw.nn import SigmaNet, UDTWLoss
    >>> loss = UDTWLoss(SigmaNet(1, context=9), gamma=1.0, beta=0.1, normalize="length")
    >>> pred, target = torch.zeros(8, 20, 1, requires_grad=True), torch.randn(8, 25, 1)
    >>> loss(pred, target).backward()
    >>> pred.grad.shape
    torch.Size([8, 20, 1])
    >>> UDTWLoss(reduction="none")(pred, target).shape
    torch.Size([8])
    """

    def __init__(  # noqa: PLR0913 (keyword options of a public class)
        self, sigma: SigmaNet | PairSigmaNet | None = None, *, gamma: float = 1.0, beta: float = 1.0, lam: float = 0.0,
        band: Any = None, distance: str = "expected", debias: bool = False, normalize: str | None = None,
        reduction: str = "mean", backend: str = "auto", weighting: str = "likelihood", warp_penalty: Any = 0.0,
    ) -> None:  # fmt: skip
        super().__init__()
        if reduction not in REDUCTIONS:
            raise OptionError(f"reduction must be one of {REDUCTIONS}; got {reduction!r}.")
        self.sigma = sigma
        self.reduction = reduction
        self.options = {
            "gamma": gamma, "beta": beta, "lam": lam, "band": band, "distance": distance, "debias": debias,
            "normalize": normalize, "backend": backend, "weighting": weighting, "warp_penalty": warp_penalty,
        }  # fmt: skip

    def align(
        self, pred: Tensor, target: Tensor, var_pred: Tensor | None = None, var_target: Tensor | None = None, *,
        variance: Tensor | None = None, lengths_pred: Tensor | None = None, lengths_target: Tensor | None = None,
    ) -> Alignment:  # fmt: skip
        """The alignment behind the loss: distance, regulariser, coupling and variance of each pair."""
        pred, target = _with_features("pred", pred), _with_features("target", target)
        given = any(v is not None for v in (var_pred, var_target, variance))
        if not given and isinstance(self.sigma, PairSigmaNet):
            variance = self.sigma(pred, target)
        elif not given and self.sigma is not None:
            var_pred = self.sigma(pred, lengths_pred)
            var_target = self.sigma(target, lengths_target)
        return align(
            pred, target, var_pred, var_target, variance=variance, lengths_x=lengths_pred, lengths_y=lengths_target,
            **self.options,
        )  # fmt: skip

    def forward(
        self, pred: Tensor, target: Tensor, var_pred: Tensor | None = None, var_target: Tensor | None = None,
        **options: Any,
    ) -> Tensor:  # fmt: skip
        """The loss of ``pred`` (B, N, d) against ``target`` (B, M, d), or (B, N) and (B, M) for univariate series.

        Variances in the call (``var_pred``, ``var_target``, or ``variance`` (B, N, M)) replace those of the
        network; ``lengths_pred`` and ``lengths_target`` are the true lengths of padded series.
        """
        loss = self.align(pred, target, var_pred, var_target, **options).loss
        return loss if self.reduction == "none" else loss.mean() if self.reduction == "mean" else loss.sum()

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in self.options.items() if value is not None)


def _with_features(name: str, batch: Tensor) -> Tensor:
    if batch.ndim not in (2, 3):
        raise ShapeError(f"{name} must have shape (B, T, d), or (B, T) if univariate; got {tuple(batch.shape)}.")
    return batch[..., None] if batch.ndim == 2 else batch
