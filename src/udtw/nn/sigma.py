"""SigmaNet and PairSigmaNet: networks that predict variances σ² of steps, or of matches."""

import math
import warnings
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from udtw._engine import inputs
from udtw._engine.deprecation import REMOVED_IN
from udtw._io.hub import HubModel
from udtw._io.memory import refuse_if_too_large
from udtw.errors import OptionError, ShapeError


@dataclass(frozen=True)
class SigmaRange:
    """Map unbounded numbers to σ: ``σ = low + (high − low)·sigmoid(raw)``.

    >>> from udtw.nn.sigma import SigmaRange
    >>> SigmaRange.of((0.25, 4.0)).start
    1.0
    """

    low: float
    high: float

    @classmethod
    def of(cls, sigma_range: Any) -> "SigmaRange":
        """Return the range of two numbers (low, high); an `OptionError` unless 0 < low < high."""
        try:
            low, high = (float(limit) for limit in sigma_range)
        except (TypeError, ValueError):
            raise OptionError(f"sigma_range must be two numbers, (low, high); got {sigma_range!r}.") from None
        if not 0 < low < high < math.inf:
            raise OptionError(f"sigma_range must satisfy 0 < low < high; got {sigma_range!r}.")
        return cls(low, high)

    @property
    def start(self) -> float:
        """Return 1 if the range contains it, so that training starts without uncertainty; else the middle."""
        return 1.0 if self.low < 1 < self.high else 0.5 * (self.low + self.high)

    def raw(self, sigma: float) -> float:
        """Return the number from which `sigma` makes ``sigma``."""
        return math.log((sigma - self.low) / (self.high - sigma))

    def sigma(self, raw: Tensor) -> Tensor:
        """Return σ of unbounded numbers."""
        return self.low + (self.high - self.low) * torch.sigmoid(raw)


class SigmaNet(HubModel, nn.Module):
    """Predict one variance per step: ``σ_t = low + (high − low)·sigmoid(mean_features(f(x)_t))``; returns σ², (B, T).

    With ``per_feature=True`` no mean is taken: ``σ_tl = low + (high − low)·sigmoid(f(x)_tl)``, (B, T, d).

    Three kinds of ``f``, all with Xavier-normal weights and zero bias:

    - per step (the default, the paper's): FC(d → hidden)-ReLU-FC(hidden → d); ``hidden=0`` is one FC(d → d), as for
      image tokens;
    - with ``context=k``: the first layer is a convolution over k steps, so that σ depends on the shape around a step.
      For a univariate series anything less can only learn a function of the amplitude;
    - with ``length=T``: the whole series at once, FC(T·d → hidden)-ReLU-FC(hidden → T). A series of another length is
      resampled to T steps and its σ back, linearly.

    Parameters
    ----------
    dim : int
        Number of features d per step.
    hidden : int, optional
        Width of the hidden layer; 2d by default (at least 16 with context, 64 for whole series).
    context : int
        Kernel size of the first convolution; must be odd.
    length : int, optional
        Number of steps of the whole-series network.
    sigma_range : (low, high)
        Range of σ.
    sigma_init : float, optional
        σ before any training, set by the bias of the last layer; the middle of the range by default.
    per_feature : bool
        Predict one variance for each feature of a step.

    Examples
    --------
    >>> import torch
    >>> from udtw.nn import SigmaNet
    >>> net = SigmaNet(1, context=9, sigma_range=(0.5, 2.0), sigma_init=1.0)
    >>> net(torch.zeros(2, 30, 1)).shape
    torch.Size([2, 30])
    >>> net(torch.zeros(1, 3, 1))
    tensor([[1., 1., 1.]], grad_fn=<PowBackward0>)
    >>> SigmaNet(3, per_feature=True)(torch.zeros(2, 30, 3)).shape
    torch.Size([2, 30, 3])
    """

    def __init__(
        self, dim: int, hidden: int | None = None, *, context: int = 1, length: int | None = None,
        sigma_range: tuple[float, float] = (0.5, 2.0), sigma_init: float | None = None, per_feature: bool = False,
        **old: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        self.range = _range_of("SigmaNet", sigma_range, old)
        if context < 1 or context % 2 == 0:
            raise OptionError(f"context must be an odd number of steps, 1 or more; got {context}.")
        if length is not None and context != 1:
            raise OptionError("A whole-series network (length=) sees every step already; leave context=1.")
        self.dim, self.context, self.length = dim, context, length
        self.per_feature = per_feature
        if hidden is None:
            hidden = 64 if length is not None else max(2 * dim, 16) if context > 1 else 2 * dim
        self._hidden = hidden
        self.net = self._layers(dim, hidden, context, length, dim if per_feature else 1)
        for layer in self.net:
            if isinstance(layer, nn.Linear | nn.Conv1d):
                initialize(layer)
        if sigma_init is not None:
            if not self.range.low < sigma_init < self.range.high:
                raise OptionError(
                    f"sigma_init must lie inside sigma_range, ({self.range.low:g}, {self.range.high:g}); "
                    f"got {sigma_init}."
                )
            last = self.net[-1]
            assert isinstance(last.bias, nn.Parameter), "the last layer is an FC with a bias"
            nn.init.constant_(last.bias, self.range.raw(sigma_init))

    @staticmethod
    def _layers(dim: int, hidden: int, context: int, length: int | None, per_step: int) -> nn.Sequential:
        inputs, outputs = (dim, dim) if length is None else (length * dim, length * per_step)
        if context > 1:
            first: nn.Module = nn.Conv1d(dim, max(hidden, 1), context, padding=context // 2)
            return nn.Sequential(first, nn.ReLU(), nn.Conv1d(max(hidden, 1), dim, 1))
        if hidden == 0:
            return nn.Sequential(nn.Linear(inputs, outputs))
        return nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, outputs))

    def forward(self, x: Any, lengths: Any = None) -> Tensor:
        """Return variances (B, T) of ``x`` (B, T, d), or (T,) of (T, d); 1 beyond ``lengths``.

        With ``per_feature`` they have the shape of ``x``. A list of tensors (T_i, d), a nested tensor or a
        PackedSequence is padded first.
        """
        x, lengths = inputs.pad_series("x", x, lengths)
        if x.ndim not in (2, 3) or x.shape[-1] != self.dim:
            raise ShapeError(f"SigmaNet expects (B, T, {self.dim}) or (T, {self.dim}); got {tuple(x.shape)}.")
        if x.ndim == 2:
            return self(x[None], lengths)[0]
        inside = None
        if lengths is not None:
            lengths = inputs.read_lengths("lengths", lengths, len(x), x.shape[1], x.device)
            inside = torch.arange(x.shape[1], device=x.device) < lengths[:, None]
            x = torch.where(inside[..., None], x, 0.0)
        raw = self._raw(x, lengths)
        variance = self.range.sigma(raw if self.per_feature else raw.mean(-1)).square()
        if inside is None:
            return variance
        return torch.where(inside[..., None] if self.per_feature else inside, variance, 1.0)

    def _raw(self, x: Tensor, lengths: Tensor | None) -> Tensor:
        """(B, T, d); with ``length`` (B, T, 1), unless there is one for each feature."""
        if self.length is not None:
            if lengths is None:
                raw = self.net(_resample(x.mT, self.length).mT.flatten(1)).unflatten(1, (self.length, -1))
                return _resample(raw.mT, x.shape[1]).mT
            rows = [self._raw(one[None, : int(n)], None)[0] for one, n in zip(x, lengths, strict=True)]
            return torch.stack([nn.functional.pad(row, (0, 0, 0, x.shape[1] - row.shape[0])) for row in rows])
        return self.net(x.mT).mT if self.context > 1 else self.net(x)

    @property
    def hub_config(self) -> dict[str, Any]:
        return {
            "dim": self.dim, "hidden": self._hidden, "context": self.context, "length": self.length,
            "sigma_range": [self.range.low, self.range.high], "per_feature": self.per_feature,
        }  # fmt: skip

    def extra_repr(self) -> str:
        return f"sigma in ({self.range.low:g}, {self.range.high:g})"


class PairSigmaNet(HubModel, nn.Module):
    """Predict one variance per match, ``σ²(x_m, y_n)``, (B, N, M), from both steps together.

    ``σ = low + (high − low)·sigmoid(w·ReLU(U x_m + V y_n + c))``. With ``symmetric`` (the default) ``V = U``, so
    that exchanging the sequences transposes the result.

    Parameters
    ----------
    dim : int
        Number of features d per step.
    hidden : int, optional
        Width of the hidden layer; 2d, but at least 16, by default.
    sigma_range : (low, high)
        Range of σ.
    symmetric : bool

    Examples
    --------
    >>> import torch
    >>> from udtw.nn import PairSigmaNet
    >>> net = PairSigmaNet(2)
    >>> x, y = torch.randn(4, 5, 2), torch.randn(4, 7, 2)
    >>> net(x, y).shape
    torch.Size([4, 5, 7])
    >>> torch.allclose(net(x, y).mT, net(y, x))
    True
    """

    of_pairs = True
    """Tells a `udtw.fewshot.FewShotModel` to call it with both sequences."""

    def __init__(
        self, dim: int, hidden: int | None = None, *, sigma_range: tuple[float, float] = (0.5, 2.0),
        symmetric: bool = True, **old: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        self.dim, self.range = dim, _range_of("PairSigmaNet", sigma_range, old)
        hidden = max(2 * dim, 16) if hidden is None else hidden
        self.of_x = nn.Linear(dim, hidden)
        self.of_y = self.of_x if symmetric else nn.Linear(dim, hidden)
        self.out = nn.Linear(hidden, 1)
        for layer in (self.of_x, self.of_y, self.out):
            initialize(layer)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Return (B, N, M) from (B, N, d) and (B, M, d); (N, M) from single sequences."""
        for name, sequence in (("x", x), ("y", y)):
            if sequence.ndim not in (2, 3) or sequence.shape[-1] != self.dim:
                raise ShapeError(
                    f"PairSigmaNet expects {name} as (B, T, {self.dim}) or (T, {self.dim}); "
                    f"got {tuple(sequence.shape)}."
                )
        self._refuse_if_too_large(x, y)
        hidden = torch.relu(self.of_x(x)[..., :, None, :] + self.of_y(y)[..., None, :, :])
        return self.range.sigma(self.out(hidden)[..., 0]).square()

    @property
    def hub_config(self) -> dict[str, Any]:
        return {
            "dim": self.dim, "hidden": self.out.in_features, "sigma_range": [self.range.low, self.range.high],
            "symmetric": self.of_y is self.of_x,
        }  # fmt: skip

    def _refuse_if_too_large(self, x: Tensor, y: Tensor) -> None:
        """Raise if the hidden layer of all matches, (B, N, M, hidden), before and after ReLU, exceeds the memory."""
        if torch.compiler.is_compiling() or x.device.type != "cpu" or type(x) is not Tensor:
            return
        rows, columns, hidden = x.shape[-2], y.shape[-2], self.out.in_features
        count = max(x.shape[0] if x.ndim == 3 else 1, y.shape[0] if y.ndim == 3 else 1)
        refuse_if_too_large(
            2 * count * rows * columns * hidden * x.element_size(),
            f"A PairSigmaNet with {hidden} hidden features on {count:,} pair(s) of {rows:,} × {columns:,} steps",
            "Use smaller batches, shorter sequences or fewer hidden features, or a SigmaNet, which sees one step.",
        )


def initialize(layer: nn.Linear | nn.Conv1d) -> None:
    """Draw Xavier-normal weights and set the bias to zero."""
    nn.init.xavier_normal_(layer.weight)
    assert layer.bias is not None, "all layers here have one"
    nn.init.zeros_(layer.bias)


def _range_of(name: str, sigma_range: Any, old: dict[str, Any]) -> SigmaRange:
    """Return the range of σ, from ``sigma_range`` or from the keywords of version 0.2."""
    if unknown := old.keys() - {"sigma_span", "sigma_min"}:
        raise TypeError(f"{name}() got an unexpected keyword argument {min(unknown)!r}")
    if old:
        warnings.warn(
            f"{name}(): 'sigma_span' and 'sigma_min' were replaced by 'sigma_range', the pair (sigma_min, sigma_min + "
            f"sigma_span), and will be removed in version {REMOVED_IN}.",
            FutureWarning,
            stacklevel=3,
        )
        low = old.get("sigma_min", 0.5)
        sigma_range = (low, low + old.get("sigma_span", 1.5))
    return SigmaRange.of(sigma_range)


def _resample(series: Tensor, steps: int) -> Tensor:
    """Interpolate the last axis of (B, C, T) linearly to ``steps`` values, keeping the first and the last."""
    if series.shape[-1] == steps:
        return series
    return nn.functional.interpolate(series, steps, mode="linear", align_corners=True)
