"""Tokens: the padded batch of sequences that encoders return and comparators take."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import interpolate, pad

from udtw.errors import OptionError, ShapeError


@dataclass(frozen=True)
class Tokens:
    """A padded batch of token sequences.

    Parameters
    ----------
    features : Tensor (B, T, d)
    lengths : Tensor (B,)
        True lengths; later tokens are padding, which nothing reads.
    variance : Tensor (B, T) or (B, T, d), optional
        σ² of every token, or of every feature of it.
    noise : Tensor (B, T), optional
        Variance of the token's source, if the encoder states it: of the joints of a block, for example.
    weight : Tensor (B, T, d), optional
        Reliability of each feature, in (0, 1], if the encoder states it. See `AlignmentComparator`.

    Examples
    --------
    >>> import torch
    >>> from udtw.fewshot import Tokens
    >>> tokens = Tokens(torch.arange(8.0).reshape(2, 4, 1), torch.tensor([4, 2]))
    >>> tokens.mean()
    tensor([[1.5000],
            [4.5000]])
    >>> tokens[:1].resampled(3)[0, :, 0]
    tensor([0.0000, 1.5000, 3.0000])
    """

    features: Tensor
    lengths: Tensor
    variance: Tensor | None = None
    noise: Tensor | None = None
    weight: Tensor | None = None

    def __post_init__(self) -> None:
        if self.features.ndim != 3 or self.lengths.shape != self.features.shape[:1]:
            raise ShapeError(
                "Tokens need features (B, T, d) and lengths (B,); got "
                f"{tuple(self.features.shape)} and {tuple(self.lengths.shape)}."
            )
        for what, values in (("variance", self.variance), ("noise", self.noise)):
            by_feature = what == "variance" and values is not None and values.shape == self.features.shape
            if values is not None and values.shape != self.features.shape[:2] and not by_feature:
                raise ShapeError(
                    f"Tokens of shape {tuple(self.features.shape)} need a {what} of shape "
                    f"{tuple(self.features.shape[:2])}; got {tuple(values.shape)}."
                )
        if self.weight is not None and self.weight.shape != self.features.shape:
            raise ShapeError(
                f"Tokens of shape {tuple(self.features.shape)} need weights of that shape; got "
                f"{tuple(self.weight.shape)}."
            )

    def __len__(self) -> int:
        return self.features.shape[0]

    def __getitem__(self, which: Tensor | slice) -> "Tokens":
        known = (None if one is None else one[which] for one in (self.variance, self.noise, self.weight))
        return Tokens(self.features[which], self.lengths[which], *known)

    @property
    def inside(self) -> Tensor:
        """(B, T) boolean: False for padding."""
        return torch.arange(self.features.shape[1], device=self.features.device) < self.lengths[:, None]

    def trimmed(self) -> "Tokens":
        """Return the same sequences, padded to the longest of them and no further."""
        longest = int(self.lengths.max()) if len(self) else 0
        known = (None if one is None else one[:, :longest] for one in (self.variance, self.noise, self.weight))
        return Tokens(self.features[:, :longest], self.lengths, *known)

    def zero_padded(self) -> Tensor:
        """Return the features (B, T, d) with zeros in the padding, which then moves no mean."""
        if bool((self.lengths == self.features.shape[1]).all()):
            return self.features
        return torch.where(self.inside[..., None], self.features, 0)

    def detach(self) -> "Tokens":
        """Return the same tokens without gradients."""
        known = (None if one is None else one.detach() for one in (self.variance, self.noise, self.weight))
        return Tokens(self.features.detach(), self.lengths, *known)

    def mean(self, *, by_precision: bool = False) -> Tensor:
        """Return the mean token of every sequence, (B, d), weighted by 1/σ² if there are variances and it is asked."""
        share = self.inside[..., None].to(self.features.dtype)
        if by_precision and self.variance is not None:
            share = share / (self.variance if self.variance.ndim == 3 else self.variance[..., None])
        return torch.where(self.inside[..., None], self.features * share, 0.0).sum(1) / share.sum(1)

    @property
    def std(self) -> Tensor | None:
        """(B, T): σ of every token for pictures, ``√(σ² / mean weight of its features)``; None without variances."""
        if self.variance is None:
            return None
        variance = self.variance if self.variance.ndim == 2 else self.variance.mean(-1)
        return (variance if self.weight is None else variance / self.weight.mean(-1)).sqrt()

    def as_one(self) -> "Tokens":
        """Return all tokens in one sequence of B·T, padding as zeros, with the weights of their features."""
        features = self.zero_padded().flatten(0, 1)[None]
        weight = None if self.weight is None else self.weight.flatten(0, 1)[None]
        return Tokens(features, torch.full((1,), features.shape[1], device=features.device), weight=weight)

    def resampled(self, steps: int) -> Tensor:
        """Interpolate every sequence linearly to ``steps`` tokens, (B, steps, d); first and last stay as they are."""
        if bool((self.lengths == steps).all()) and self.features.shape[1] == steps:
            return self.features
        rows = [
            interpolate(one[None, : int(n)].mT, steps, mode="linear", align_corners=True)[0].mT
            for one, n in zip(self.features, self.lengths, strict=True)
        ]
        return torch.stack(rows)


def as_tokens(found: "Tokens | Tensor") -> Tokens:
    """Convert an encoder's result to `Tokens`: a tensor (B, T, d), a feature map (B, d, h, w), or one token each, (B,
    d).
    """
    if isinstance(found, Tokens):
        return found
    if not isinstance(found, Tensor) or found.ndim not in (2, 3, 4):
        got = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
        raise ShapeError(f"An encoder must return Tokens or a tensor (B, T, d), (B, d, h, w) or (B, d); got {got}.")
    features = found[:, None] if found.ndim == 2 else found.flatten(2).mT if found.ndim == 4 else found
    return Tokens(features, torch.full((len(features),), features.shape[1], device=features.device))


def concatenate(batches: Sequence[Tokens]) -> Tokens:
    """Join all sequences in one batch, padded to the longest."""
    longest = max(batch.features.shape[1] for batch in batches)
    features = [pad(b.features, (0, 0, 0, longest - b.features.shape[1])) for b in batches]
    lengths = torch.cat([b.lengths for b in batches])
    variance = _joined([b.variance for b in batches], longest, 1.0)
    noise = _joined([b.noise for b in batches], longest, 0.0)
    return Tokens(torch.cat(features), lengths, variance, noise, _joined([b.weight for b in batches], longest, 1.0))


def _joined(parts: Sequence[Tensor | None], longest: int, padding: float) -> Tensor | None:
    """Join (B, T) or (B, T, d) parts in one batch; None if one of them is None."""
    known = [
        pad(part, (*[0] * 2 * (part.ndim - 2), 0, longest - part.shape[1]), value=padding)
        for part in parts
        if part is not None
    ]
    return torch.cat(known) if len(known) == len(parts) else None


def prototypes(supports: Tokens, labels: Tensor, *, weighted: bool = False, rescaled: bool = False) -> Tokens:
    """Return one sequence per class, (n_way, τ', d): the mean of its supports, resampled to their mean length τ'.

    ``labels`` (B,) are 0 … n_way − 1. Sequences of one length (image tokens) are averaged as they are. Variances and
    noise are averaged likewise, and so are weights of features, by which features count in their mean. If ``weighted``,
    a token also counts by its precision 1/σ², and the variance is that of such a mean, 1/Σ(1/σ²): the posterior of what
    the supports have in common. If ``rescaled``, every mean gets the root mean square length ‖z‖ of the supports'
    tokens, as one that is compared by its direction needs.
    """
    steps = max(1, round(float(supports.lengths.float().mean())))
    n_way = int(labels.max()) + 1
    if len(labels.unique()) < n_way:
        raise OptionError(f"Labels of supports must be 0 … n_way − 1, each at least once; got {labels.tolist()}.")
    member = torch.nn.functional.one_hot(labels, n_way).to(supports.features.dtype).T
    weights = member / member.sum(1, keepdim=True)
    values, lengths = supports.resampled(steps), torch.full((n_way,), steps, device=labels.device)
    variance, noise, weight = (
        None if one is None else Tokens(one if one.ndim == 3 else one[..., None], supports.lengths).resampled(steps)
        for one in (supports.variance, supports.noise, supports.weight)
    )
    noise = None if noise is None else _means(weights, noise)[..., 0]
    share = torch.ones_like(values) if weight is None else weight
    if weighted and variance is not None:
        share, variance = share / variance, 1 / _means(member, 1 / variance)
    elif variance is not None:
        variance = _means(weights, variance)
    features = _means(member, values * share) / _means(member, share)
    if rescaled:
        usual = values.square().sum(-1).mean().sqrt()
        features = usual * torch.nn.functional.normalize(features, dim=-1)
    if variance is not None and supports.variance is not None and supports.variance.ndim == 2:
        variance = variance[..., 0]
    return Tokens(features, lengths, variance, noise, None if weight is None else _means(weights, weight))


def _means(weights: Tensor, values: Tensor) -> Tensor:
    """Return sums (C, T, d) of (B, T, d) with weights (C, B)."""
    return torch.einsum("cb,btd->ctd", weights, values)
