"""`Matches`: for every step of one sequence its partner in the other, and how sure that is."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from udtw.errors import OptionError
from udtw.inputs import Form
from udtw.prior import LEFT

ROUNDING = 1e-9
"""Probabilities that differ by less are taken for equal."""


def tail_of(level: float) -> float:
    """The probability on either side of a credible interval."""
    if not 0 < level < 1:
        raise OptionError(f"level must lie between 0 and 1, such as 0.9; got {level!r}.")
    return 0.5 * (1 - level)


def sums_of(coupling: Tensor, transitions: Tensor, tail: float) -> Tensor:
    """(B, N, 7) as in `Backend.match_sums`, from π* (B, N, M) and the transitions (3, B, N, M)."""
    coupling = coupling.double()
    total, best = coupling.sum(2), coupling.amax(2)
    index = (coupling >= best[:, :, None] * (1 - ROUNDING)).int().argmax(2)
    place = torch.arange(coupling.shape[2], dtype=coupling.dtype, device=coupling.device)
    reached = coupling.cumsum(2) / total[:, :, None].clamp_min(torch.finfo(total.dtype).tiny)
    low = (reached < tail + ROUNDING).sum(2)
    high = (reached < 1 - tail - ROUNDING).sum(2)
    entered = (coupling * (1 - transitions[LEFT].double())).sum(2)
    columns = total, coupling @ place, best, index, entered, low, high
    return torch.stack([column.double() for column in columns], 2)



@dataclass(frozen=True)
class Matches:
    """For each step: ``index`` of its most probable partner, and where the partner lies. All (B, N), or (N,).

    A step that is matched several times has several partners; the probabilities below are those of a partner that is
    drawn at random from them, given that the step has one. Steps past the length of a padded sequence, and steps that
    relaxed ends leave without any partner, have index −1 and NaN.

    >>> import udtw
    >>> found = udtw.align([0.0, 1.0, 2.0, 3.0], [0.0, 0.0, 1.0, 2.0, 3.0], gamma=0.1).matches(level=0.9)
    >>> found.index.tolist(), found.low.tolist(), found.high.tolist()
    ([0, 2, 3, 4], [0, 2, 3, 4], [1, 2, 3, 4])
    """

    index: Any
    """The most probable partner; of equals the first."""
    probability: Any
    """Of that partner."""
    expected: Any
    """The mean of the partner's index."""
    low: Any
    """The partner is at least here with probability ``1 − (1 − level)/2``, and at most at `high`."""
    high: Any

    matched: Any
    """Probability that the step has a partner at all: 1 unless ends are relaxed."""

    @classmethod
    def of(cls, sums: Tensor, steps: Tensor, form: Form) -> "Matches":
        """From the sums (B, N, 7) of `Backend.match_sums`; ``steps`` (B,) are the lengths of the first sequence."""
        total, moment, best, index, matched, low, high = sums.unbind(2)
        inside = torch.arange(sums.shape[1], device=sums.device) < steps[:, None]
        real = inside & (matched > ROUNDING)
        nan = torch.full_like(total, torch.nan)
        size = total.clamp_min(torch.finfo(total.dtype).tiny)
        counts = [torch.where(real, one.long(), -1) for one in (index, low, high)]
        values = [torch.where(real, one, nan) for one in (best / size, moment / size)]
        index, low, high = (form.restore(one) for one in counts)
        probability, expected = (form.restore(one) for one in values)
        return cls(
            index, probability, expected, low, high, form.restore(torch.where(inside, matched.clamp(0, 1), nan))
        )

    def to_frame(self) -> Any:
        """A pandas data frame with one row per step; of one pair only.

        >>> import udtw
        >>> udtw.align([0.0, 1.0], [0.0, 1.0], gamma=0.1).matches().to_frame()["index"].tolist()
        [0, 1]
        """
        import pandas

        columns = {name: torch.as_tensor(value).numpy() for name, value in vars(self).items()}
        if columns["index"].ndim != 1:
            raise OptionError("A data frame holds the matches of one pair; choose one, or use the arrays.")
        return pandas.DataFrame(columns)
