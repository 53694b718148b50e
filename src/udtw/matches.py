"""`Matches`: for every step of one sequence its partner in the other, and how sure that is."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from udtw.errors import OptionError
from udtw.inputs import Form


@dataclass(frozen=True)
class Matches:
    """For each step: ``index`` of its most probable partner, and where the partner lies. All (B, N), or (N,).

    A step that is matched several times has several partners; the probabilities below are those of a partner that is
    drawn at random from them. Steps past the length of a padded sequence have index −1 and NaN.

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

    @classmethod
    def of(cls, coupling: Tensor, steps: Tensor, level: float, form: Form) -> "Matches":
        """From the coupling (B, N, M); ``steps`` (B,) are the lengths of the first sequence."""
        if not 0 < level < 1:
            raise OptionError(f"level must lie between 0 and 1, such as 0.9; got {level!r}.")
        with torch.no_grad():
            share = coupling.double()
            share = share / share.sum(2, keepdim=True).clamp_min(torch.finfo(share.dtype).tiny)
            rounding = 1e-9
            probability = share.amax(2)
            index = (share >= probability[:, :, None] - rounding).int().argmax(2)
            place = torch.arange(share.shape[2], dtype=share.dtype, device=share.device)
            reached = share.cumsum(2)
            tail = 0.5 * (1 - level)
            low = (reached < tail + rounding).sum(2)
            high = (reached < 1 - tail - rounding).sum(2)
            real = torch.arange(share.shape[1], device=share.device) < steps[:, None]
            nan = torch.full_like(probability, torch.nan)
            counts = [torch.where(real, one, -1) for one in (index, low, high)]
            values = [torch.where(real, one, nan) for one in (probability, share @ place)]
        index, low, high = (form.restore(one) for one in counts)
        probability, expected = (form.restore(one) for one in values)
        return cls(index, probability, expected, low, high)

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
