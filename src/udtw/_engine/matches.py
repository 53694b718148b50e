"""`Matches`: for every step of one sequence its partner in the other, and how sure that is."""

from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from udtw._engine.inputs import Form
from udtw.errors import OptionError

UNMATCHED = 1e-9
"""A step whose probability of having a partner is below this has none."""


def tail_of(level: float) -> float:
    """Return the probability on either side of a credible interval."""
    if not 0 < level < 1:
        raise OptionError(f"level must lie between 0 and 1, such as 0.9; got {level!r}.", parameter="level")
    return 0.5 * (1 - level)


WIDE_RATIO, LEAST_WIDE, LARGEST_GAP = 1.5, 3, 2
"""A match is doubtful if its interval spans more than 1.5 times the median and more than three steps; stretches that
are at most two steps apart count as one."""


class Stretch(NamedTuple):
    """Steps ``first`` to ``last`` whose partners lie between ``low`` and ``high``, all ends included."""

    first: int
    last: int
    low: int
    high: int


class _Labelled:
    """Base with a slot, so that labels are not among the fields that ``vars`` lists."""

    __slots__ = ("_labels",)
    _labels: tuple[Any, Any]


@dataclass(frozen=True, repr=False)
class Matches(_Labelled):
    """For each step: ``index`` of its most probable partner, and where the partner lies. All (B, N), or (N,).

    A step that is matched several times has several partners; the probabilities below are those of a partner that is
    drawn at random from them, given that the step has one. Steps past the length of a padded sequence, and steps that
    relaxed ends or gaps leave without any partner, have index −1 and NaN.

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
    """Probability that the step has a partner at all: 1 unless ends are relaxed or gaps are allowed."""

    @classmethod
    def of(cls, sums: Tensor, steps: Tensor, form: Form, labels: tuple[Any, Any] = (None, None)) -> "Matches":
        """From the sums (B, N, 7) of `Backend.match_sums`; ``steps`` (B,) are the lengths of the first sequence.

        ``labels``: the pandas indices of the steps and of their partners, or None.
        """
        total, moment, best, index, matched, low, high = sums.unbind(2)
        inside = torch.arange(sums.shape[1], device=sums.device) < steps[:, None]
        real = inside & (matched > UNMATCHED)
        nan = torch.full_like(total, torch.nan)
        size = total.clamp_min(torch.finfo(total.dtype).tiny)
        counts = [torch.where(real, one.long(), -1) for one in (index, low, high)]
        values = [torch.where(real, one, nan) for one in (best / size, moment / size)]
        index, low, high = (form.restore(one) for one in counts)
        probability, expected = (form.restore(one) for one in values)
        matches = cls(
            index, probability, expected, low, high, form.restore(torch.where(inside, matched.clamp(0, 1), nan))
        )
        object.__setattr__(matches, "_labels", labels)
        return matches

    def __repr__(self) -> str:
        shape = torch.as_tensor(self.low).shape
        pairs = "" if len(shape) == 1 else f"{shape[0]} pair(s) of "
        width = torch.as_tensor(self.high) - torch.as_tensor(self.low)
        real = width[torch.as_tensor(self.low) >= 0]
        median = f"median interval of {int(real.median()) + 1} step(s)" if len(real) else "none matched"
        return f"Matches({pairs}{shape[-1]} steps, {median})"

    def doubtful(self) -> list[Stretch]:
        """Return the stretches of steps whose intervals are much wider than those of the others; of one pair only.

        Steps that are more likely unmatched than matched are left out.

        >>> import udtw
        >>> udtw.align([0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 2.0, 3.0], gamma=0.01).matches().doubtful()
        []
        """
        low, high, matched = (torch.as_tensor(one).cpu().numpy() for one in (self.low, self.high, self.matched))
        if low.ndim != 1:
            raise OptionError("doubtful() tells the stretches of one pair; align the pair alone.")
        real = matched >= 0.5
        width = high - low
        if not real.any():
            return []
        wide = real & (width > max(WIDE_RATIO * float(np.median(width[real])), LEAST_WIDE))
        stretches: list[Stretch] = []
        for i in np.flatnonzero(wide).tolist():
            here = Stretch(i, i, int(low[i]), int(high[i]))
            if stretches and i - stretches[-1].last <= 1 + LARGEST_GAP:
                before = stretches.pop()
                here = Stretch(before.first, i, min(before.low, here.low), max(before.high, here.high))
            stretches.append(here)
        return stretches

    def to_frame(self) -> Any:
        """Return a pandas data frame with one row per step; of one pair only.

        The column ``j`` is the ``index`` of the most probable partner. If the series were pandas objects, the rows have
        the index of the one, and a column ``partner`` holds the label of that partner (missing where there is none).

        >>> import udtw
        >>> udtw.align([0.0, 1.0], [0.0, 1.0], gamma=0.1).matches().to_frame()["j"].tolist()
        [0, 1]
        """
        import pandas

        columns = {one.name: torch.as_tensor(getattr(self, one.name)).numpy() for one in fields(Matches)}
        if columns["index"].ndim != 1:
            raise OptionError("A data frame holds the matches of one pair; choose one, or use the arrays.")
        steps, partners = getattr(self, "_labels", (None, None))
        frame = pandas.DataFrame(columns, index=steps).rename(columns={"index": "j"})
        if partners is not None:
            partner = pandas.Series(partners[columns["index"]], index=frame.index)
            frame["partner"] = partner.where(frame["j"] >= 0)
        return frame
