"""SigmaNet: networks that say how far each step, or each match, can be trusted. They return variances σ², not σ."""

import math

import torch
from torch import Tensor, nn

from udtw.errors import OptionError, ShapeError
from udtw.memory import refuse_if_too_large


class SigmaNet(nn.Module):
    """One variance a step: ``σ_t = a·sigmoid(mean_features(f(x)_t)) + b``; returns ``σ²``, (B, T).

    Three kinds of ``f``, all with Xavier-normal weights and zero bias:

    - per step (the default, the paper's): FC(d → hidden)-ReLU-FC(hidden → d); ``hidden=0`` is one FC(d → d), as for
      image tokens;
    - with ``context=k``, an odd number of steps: the first layer is a convolution over time, so that σ depends on the
      shape around a step. For a univariate series anything less can only learn a function of the amplitude;
    - with ``length=T``: the whole series at once, FC(T·d → hidden)-ReLU-FC(hidden → T). A series of another length is
      resampled to T steps and its σ back, linearly.

    Parameters
    ----------
    dim : int
        Features d of a step.
    hidden : int, optional
        Width of the hidden layer; 2d by default (at least 16 with context, 64 for whole series).
    context : int
        Steps that the first layer sees, odd.
    length : int, optional
        Steps of the whole-series network.
    a, b : float
        Range of σ: (b, a + b).
    start : float, optional
        σ before any training, by the bias of the last layer; b + a/2 by default.
    """

    def __init__(
        self,
        dim: int,
        hidden: int | None = None,
        *,
        context: int = 1,
        length: int | None = None,
        a: float = 1.5,
        b: float = 0.5,
        start: float | None = None,
    ) -> None:
        super().__init__()
        _check_range(a, b)
        if context < 1 or context % 2 == 0:
            raise OptionError(f"context must be an odd number of steps, 1 or more; got {context}.")
        if length is not None and context != 1:
            raise OptionError("A whole-series network (length=) sees every step already; leave context=1.")
        self.dim, self.context, self.length, self.a, self.b = dim, context, length, a, b
        if hidden is None:
            hidden = 64 if length is not None else max(2 * dim, 16) if context > 1 else 2 * dim
        self.net = self._layers(dim, hidden, context, length)
        for layer in self.net:
            if isinstance(layer, nn.Linear | nn.Conv1d):
                _initialise(layer)
        if start is not None:
            if not b < start < a + b:
                raise OptionError(f"start must lie between b and a + b, that is in ({b}, {a + b}); got {start}.")
            last = self.net[-1]
            assert isinstance(last.bias, nn.Parameter), "the last layer is an FC with a bias"
            nn.init.constant_(last.bias, math.log((start - b) / (a + b - start)))

    @staticmethod
    def _layers(dim: int, hidden: int, context: int, length: int | None) -> nn.Sequential:
        inputs, outputs = (dim, dim) if length is None else (length * dim, length)
        if context > 1:
            first: nn.Module = nn.Conv1d(dim, max(hidden, 1), context, padding=context // 2)
            return nn.Sequential(first, nn.ReLU(), nn.Conv1d(max(hidden, 1), dim, 1))
        if hidden == 0:
            return nn.Sequential(nn.Linear(inputs, outputs))
        return nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, outputs))

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Variances (B, T) of ``x`` (B, T, d); or (T,) of (T, d). Steps beyond ``lengths`` are not read and get 1."""
        if x.ndim not in (2, 3) or x.shape[-1] != self.dim:
            raise ShapeError(f"SigmaNet expects (B, T, {self.dim}) or (T, {self.dim}); got {tuple(x.shape)}.")
        if x.ndim == 2:
            return self(x[None], lengths)[0]
        inside = None if lengths is None else torch.arange(x.shape[1], device=x.device) < lengths[:, None]
        if inside is not None:
            x = torch.where(inside[..., None], x, 0.0)
        sigma = self.a * torch.sigmoid(self._raw(x, lengths)) + self.b
        variance = sigma.square()
        return variance if inside is None else torch.where(inside, variance, 1.0)

    def _raw(self, x: Tensor, lengths: Tensor | None) -> Tensor:
        if self.length is not None:
            if lengths is None:
                return _resample(self.net(_resample(x.mT, self.length).mT.flatten(1)), x.shape[1])
            rows = [self._raw(one[None, : int(n)], None)[0] for one, n in zip(x, lengths, strict=True)]
            return torch.stack([nn.functional.pad(row, (0, x.shape[1] - row.shape[0])) for row in rows])
        if self.context > 1:
            return self.net(x.mT).mean(1)
        return self.net(x).mean(-1)

    def extra_repr(self) -> str:
        return f"sigma in ({self.b:g}, {self.a + self.b:g})"


class PairSigmaNet(nn.Module):
    """One variance a match: ``σ²(x_m, y_n)``, (B, N, M), from both steps together.

    ``σ = a·sigmoid(w·ReLU(U x_m + V y_n + c)) + b``. With ``symmetric`` (the default) ``V = U``, so that exchanging the
    sequences transposes the result.
    """

    def __init__(
        self, dim: int, hidden: int | None = None, *, a: float = 1.5, b: float = 0.5, symmetric: bool = True
    ) -> None:
        super().__init__()
        _check_range(a, b)
        hidden = max(2 * dim, 16) if hidden is None else hidden
        self.dim, self.a, self.b = dim, a, b
        self.of_x = nn.Linear(dim, hidden)
        self.of_y = self.of_x if symmetric else nn.Linear(dim, hidden)
        self.out = nn.Linear(hidden, 1)
        for layer in (self.of_x, self.of_y, self.out):
            _initialise(layer)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """(B, N, M) from (B, N, d) and (B, M, d); (N, M) from single sequences."""
        for name, sequence in (("x", x), ("y", y)):
            if sequence.ndim not in (2, 3) or sequence.shape[-1] != self.dim:
                raise ShapeError(
                    f"PairSigmaNet expects {name} as (B, T, {self.dim}) or (T, {self.dim}); "
                    f"got {tuple(sequence.shape)}."
                )
        self._refuse_if_too_large(x, y)
        hidden = torch.relu(self.of_x(x)[..., :, None, :] + self.of_y(y)[..., None, :, :])
        return (self.a * torch.sigmoid(self.out(hidden)[..., 0]) + self.b).square()

    def _refuse_if_too_large(self, x: Tensor, y: Tensor) -> None:
        """The hidden layer of all matches, (B, N, M, hidden), is made and rectified."""
        if torch.compiler.is_compiling() or x.device.type != "cpu" or type(x) is not Tensor:
            return
        rows, columns, hidden = x.shape[-2], y.shape[-2], self.out.in_features
        count = max(x.shape[0] if x.ndim == 3 else 1, y.shape[0] if y.ndim == 3 else 1)
        refuse_if_too_large(
            2 * count * rows * columns * hidden * x.element_size(),
            f"A PairSigmaNet with {hidden} hidden features on {count:,} pair(s) of {rows:,} × {columns:,} steps",
            "Use smaller batches, shorter sequences or fewer hidden features, or a SigmaNet, which sees one step.",
        )


def _initialise(layer: nn.Linear | nn.Conv1d) -> None:
    nn.init.xavier_normal_(layer.weight)
    assert layer.bias is not None, "all layers here have one"
    nn.init.zeros_(layer.bias)


def _check_range(a: float, b: float) -> None:
    if not (a > 0 and b > 0):
        raise OptionError(f"σ = a·sigmoid(·) + b needs a > 0 and b > 0, so that σ is positive; got a={a}, b={b}.")


def _resample(series: Tensor, steps: int) -> Tensor:
    """Linear interpolation of the last axis to ``steps`` values; the ends stay the ends."""
    if series.shape[-1] == steps:
        return series
    shaped = series if series.ndim == 3 else series[:, None]
    out = nn.functional.interpolate(shaped, steps, mode="linear", align_corners=True)
    return out if series.ndim == 3 else out[:, 0]
