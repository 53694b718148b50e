"""The table of metrics: each is one row, read by everything that takes ``metric=``.

`pairwise`, the estimators, `barycenter`, few-shot comparators, losses of the forecaster, `udtw.interop`, the choices of
the command line and the tables of the experiments all ask this table. `register_metric` adds a row; a `Metric` with its
parameters set can be passed wherever a name can.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import entry_points
from typing import Any

import numpy as np
import torch
from torch import Tensor

from udtw._engine import inputs
from udtw._engine.align import align, dtw, euclidean, soft_dtw, soft_dtw_divergence
from udtw._engine.likelihood import WEIGHTINGS, check_weighting
from udtw._engine.lower_bounds import Bounds, dtw_bounds, udtw_bounds
from udtw._engine.pair_block import Batch, PairBlock, parsed_band
from udtw._engine.problem import COST, DEVIATION, LOG_VARIANCE, ONE
from udtw._engine.series_set import SeriesSet
from udtw.errors import LengthError, OptionError

IGNORABLE = ("gamma", "beta", "lam", "band", "warp_penalty", "debias")
"""Parameters that a metric without them ignores, so that a loop over metrics may pass them."""
ENTRY_POINTS = "udtw.metrics"
"""Entry points of installed packages in this group are metrics too: name = "module:function"."""
UNORDERED = ("order", "shape", "reach")
"""Parameters of matches without an order, which blocks of pairs by index do not take."""
BLOCK_CELLS = 20_000_000
"""Cells of a block of pairs: about a tenth of a second of work."""


@dataclass(frozen=True, repr=False)
class Metric:
    """A distance between series: how it is computed for pairs and for tables, and its parameters.

    >>> from udtw._engine.metrics import get_metric
    >>> metric = get_metric("udtw", gamma=0.1)
    >>> get_metric("dtw", band=5)
    Metric('dtw', band=5, warp_penalty=0.0, relax=None, squared=True, normalize=None)
    >>> metric.uncertain, metric.with_params(beta=0.5).params["beta"]
    (True, 0.5)
    """

    name: str
    label: str
    """Short name in tables, such as "sDTW div."."""
    summary: str
    """One line for the documentation."""
    function: Callable[..., Any]
    """``function(x, y, **params)`` of (B, N, d), (B, M, d): distances (B,), differentiable, or an `Alignment`.

    An elastic metric also gets ``lengths_x, lengths_y``, an uncertain one ``var_x, var_y`` (None where absent).
    """
    params: Mapping[str, Any] = field(default_factory=dict)
    """Parameters by name, with the values that are set (at first the defaults)."""
    of_block: Callable[..., np.ndarray | None] | None = None
    """``of_block(block, **params)``: (1, pairs) without gradients, faster than ``function``; None if these parameters
    need ``function``."""
    lower_bound: Callable[..., Bounds | None] | None = None
    """``lower_bound(x, y, **params)``: `Bounds` for two collections, or None if there are none for these parameters."""
    elastic: bool = True
    """Whether series of different lengths can be compared."""
    uncertain: bool = False
    """Whether it takes variances of the steps."""
    takes_cost: bool = False
    """Whether ``function`` also takes a ready-made ``cost`` (B, N, M) with x = y = None."""
    choices: Mapping[str, tuple] = field(default_factory=dict)
    """Values that a parameter may have, where they are few."""
    base: str | None = None
    """Name of the metric of which this one is the debiased form: ``d(x, y) − ½[d(x, x) + d(y, y)]``."""

    def __repr__(self) -> str:
        params = "".join(f", {name}={value!r}" for name, value in self.params.items())
        return f"Metric({self.name!r}{params})"

    def with_params(self, **params: Any) -> "Metric":
        """Return the same metric with some parameters set.

        >>> from udtw._engine.metrics import get_metric
        >>> get_metric("dtw").with_params(band=0.1).params["band"]
        0.1
        """
        unknown = sorted(params.keys() - self.params.keys())
        if unknown:
            known = ", ".join(self.params) or "none"
            raise OptionError(f"metric={self.name!r} has no parameter {', '.join(unknown)}; it has {known}.")
        return replace(self, params={**self.params, **params})

    def check(self) -> None:
        """Raise a named error for values of parameters that cannot be used."""
        if "gamma" in self.params:
            inputs.read_gamma(self.params["gamma"], 1, torch.zeros(1, dtype=torch.float64))
        if "band" in self.params:
            parsed_band(self.params["band"])
        if self.params.get("weighting") in WEIGHTINGS:
            check_weighting(self.params["weighting"], self.params["lam"])
        for name, known in self.choices.items():
            if self.params[name] not in known:
                raise OptionError(
                    f"{name}={self.params[name]!r} does not go with metric={self.name!r}; use one of {known}.",
                    parameter=name,
                )

    @property
    def without_bias(self) -> "Metric | None":
        """The metric of which this one is the debiased form, with the same parameters; None if it is not debiased."""
        if self.params.get("debias") and self.params["weighting"] == "likelihood":  # else Ω is not debiased
            return self.with_params(debias=False)
        return None if self.base is None else get_metric(self.base).with_params(**self.params)

    @property
    def unnormalized(self) -> "Metric":
        """The same metric without division by a length: for a mean, in which that is a constant."""
        return self.with_params(normalize=None) if "normalize" in self.params else self

    def compare(self, x: Batch, y: Batch) -> Any:
        """Return what ``function`` returns for the pairs x[b], y[b]: distances (B,) or an `Alignment`."""
        options = dict(self.params)
        if self.elastic:
            options |= {"lengths_x": x.lengths, "lengths_y": y.lengths}
        elif x.values.shape[1] != y.values.shape[1] or x.lengths is not None or y.lengths is not None:
            raise LengthError(
                f"metric={self.name!r} compares step by step and needs series of one length; got up to "
                f"{x.values.shape[1]} and {y.values.shape[1]} steps."
            )
        if self.uncertain:
            options |= {"var_x": x.variances, "var_y": y.variances}
        return self.function(x.values, y.values, **options)

    def between(self, x: Batch, y: Batch) -> Tensor:
        """(B,) distances of x[b] to y[b], or the loss of an `Alignment`; differentiable in values and variances."""
        result = self.compare(x, y)
        return result if isinstance(result, Tensor) else result.loss

    def values(self, block: PairBlock) -> np.ndarray:
        """(1, pairs) distances of a block of pairs, without gradients."""
        fast = None if self.of_block is None else self.of_block(block, **self.params)
        if fast is not None:
            return fast
        rows, columns = block.left.values.shape[1], block.right.values.shape[1]
        dtype = torch.from_numpy(block.left.values[:0]).dtype
        x, y = Batch.of(block.left, dtype), Batch.of(block.right, dtype)
        with torch.no_grad():
            parts = [
                self.between(x[torch.from_numpy(block.i)[part]], y[torch.from_numpy(block.j)[part]])
                for part in torch.arange(len(block)).split(max(1, BLOCK_CELLS // (8 * rows * columns)))
            ]
        return torch.cat(parts).cpu().numpy()[None]

    def bounds(self, x: SeriesSet, y: SeriesSet) -> Bounds | None:
        """Lower bounds of the distances between two collections; None if there are none."""
        return None if self.lower_bound is None else self.lower_bound(x, y, **self.params)


def _scaled(values: np.ndarray, block: PairBlock, normalize: str | None, path_length: np.ndarray | None) -> np.ndarray:
    if normalize == "length":
        return values / block.lengths.max(0)
    return values / path_length if normalize == "path" else values


def _rooted(values: np.ndarray, squared: bool) -> np.ndarray:
    return values if squared else np.sqrt(np.maximum(values, 0))


def udtw_parts(
    block: PairBlock,
    *,
    gamma: float,
    beta: float,
    lam: float,
    weighting: str,
    normalize: str | None,
    debias: bool = False,
    order: str = "path",
    **prior: Any,
) -> tuple[np.ndarray, np.ndarray, np.ndarray | float]:
    """``d²``, ``Ω`` and ``λΩ'`` of the pairs of a block, (pairs,) each; never debiased."""
    if order != "path" or prior.get("gap_penalty") is not None:
        raise OptionError("d² and Ω of a table are those of paths without gaps; use gap_penalty=None and order='path'.")
    prior = {name: value for name, value in prior.items() if name not in UNORDERED}
    wanted = [COST]
    if block.uncertain:
        wanted += [LOG_VARIANCE, DEVIATION] if lam else [LOG_VARIANCE]
    if normalize == "path":
        wanted.append(ONE)
    price = beta if weighting == "likelihood" else None
    sums = block.path_sums(wanted, gamma, beta=price, **prior)[1:]
    path_length = sums[-1] if normalize == "path" else None
    distance = _scaled(sums[0], block, normalize, path_length)
    omega = _scaled(sums[1], block, normalize, path_length) if block.uncertain else np.zeros_like(distance)
    extra = lam * _scaled(sums[2], block, normalize, path_length) if block.uncertain and lam else 0
    return distance, omega, extra


def _udtw_of_block(block: PairBlock, *, weighting: str, debias: bool, **params: Any) -> np.ndarray | None:
    order, *_ = (params.pop(name) for name in UNORDERED)
    if debias or order != "path":
        return None
    if weighting == "precision":
        distance, omega, extra = udtw_parts(block, weighting=weighting, **params)
        return (distance + params["beta"] * omega + extra)[None]
    del params["lam"]
    return _soft_dtw_of_block(block, **params)


def _dtw_of_block(block: PairBlock, *, normalize: str | None, squared: bool, **prior: Any) -> np.ndarray:
    return _rooted(_scaled(block.least_costs(**prior)[None], block, normalize, None), squared)


def _soft_dtw_of_block(block: PairBlock, *, gamma: float, normalize: str | None, **energy: Any) -> np.ndarray:
    sums = block.path_sums([ONE] if normalize == "path" else [], gamma, **energy)
    return _scaled(sums[:1], block, normalize, sums[1] if normalize == "path" else None)


def _euclidean_of_block(block: PairBlock, *, normalize: str | None, squared: bool) -> np.ndarray:
    sizes = np.union1d(block.left.lengths, block.right.lengths)
    if sizes.size > 1:
        raise LengthError(
            f"The Euclidean distance needs series of one length; got lengths {sizes[:5].tolist()}. Use metric='dtw'."
        )
    out = np.empty(len(block), block.left.values.dtype)
    for i in np.unique(block.i):
        mine = block.i == i
        difference = block.right.values[block.j[mine]] - block.left.values[i]
        out[mine] = np.einsum("jtd,jtd->j", difference, difference)
    return _rooted((out / sizes[0] if normalize == "length" else out)[None], squared)


_NORMALIZE = {"normalize": (None, "length", "path")}
_BY_LENGTH = {"normalize": (None, "length")}
_ROWS = (
    Metric(
        "euclidean", "Euclidean", "`Σ_t ‖x_t − y_t‖²`, step by step; series of one length only",
        euclidean, {"squared": True, "normalize": None},
        of_block=_euclidean_of_block, elastic=False, choices=_BY_LENGTH,
    ),
    Metric(
        "dtw", "DTW", "the least sum of squared distances along a path",
        dtw, {"band": None, "warp_penalty": 0.0, "relax": None, "squared": True, "normalize": None},
        of_block=_dtw_of_block, lower_bound=dtw_bounds, takes_cost=True, choices=_BY_LENGTH,
    ),
    Metric(
        "soft_dtw", "sDTW", "`−γ log Z`; can be negative, and is not zero for equal series",
        soft_dtw, {"gamma": 1.0, "band": None, "warp_penalty": 0.0, "relax": None, "normalize": None},
        of_block=_soft_dtw_of_block, takes_cost=True, choices=_NORMALIZE,
    ),
    Metric(
        "soft_dtw_divergence", "sDTW div.", "soft-DTW minus half the self-distances; zero for equal series",
        soft_dtw_divergence, {"gamma": 1.0, "band": None, "warp_penalty": 0.0, "relax": None, "normalize": None},
        base="soft_dtw", choices=_NORMALIZE,
    ),
    Metric(
        "udtw", "uDTW", "the free energy with variances of the steps, or the paper's `d² + βΩ + λΩ'`",
        align,
        {
            "gamma": 1.0, "beta": 1.0, "lam": 0.0, "band": None, "weighting": "likelihood", "warp_penalty": 0.0,
            "relax": None, "gap_penalty": None, "gap_opening": 0.0, "order": "path", "shape": None, "reach": None,
            "debias": False, "normalize": None,
        },
        of_block=_udtw_of_block, lower_bound=udtw_bounds, uncertain=True, takes_cost=True,
        choices=_NORMALIZE | {"weighting": WEIGHTINGS},
    ),
)  # fmt: skip
METRICS: dict[str, Metric] = {row.name: row for row in _ROWS}
"""Name to `Metric`. Change it by `register_metric`."""


@cache
def _installed() -> dict[str, Any]:
    return {point.name: point for point in entry_points(group=ENTRY_POINTS)}


def metric_names() -> tuple[str, ...]:
    """Return the names of all metrics: the table's, then those of installed packages.

    >>> from udtw._engine.metrics import metric_names
    >>> metric_names()[:2]
    ('euclidean', 'dtw')
    """
    return (*METRICS, *(name for name in _installed() if name not in METRICS))


def get_metric(metric: "str | Metric", **params: Any) -> Metric:
    """Return the metric of that name with parameters set; a `Metric` is returned as it is.

    A `Metric` brings its own parameters, so ``params`` apply to names only. Those in `IGNORABLE` may be given to
    metrics that do not have them.

    >>> from udtw._engine.metrics import get_metric
    >>> get_metric("dtw", gamma=0.1, band=5).params["band"]
    5
    """
    if isinstance(metric, Metric):
        return metric
    if metric not in METRICS and metric in _installed():
        register_metric(metric, _installed()[metric].load())
    if metric not in METRICS:
        raise OptionError(f"metric must be one of {metric_names()} or a Metric; got {metric!r}.", parameter="metric")
    row = METRICS[metric]
    return row.with_params(**{name: v for name, v in params.items() if name in row.params or name not in IGNORABLE})


def register_metric(
    name: str,
    function: Callable[..., Any],
    *,
    label: str | None = None,
    summary: str | None = None,
    elastic: bool = False,
) -> Metric:
    """Add a metric to the table, for use by name everywhere; returns its row.

    Parameters
    ----------
    name : str
        New, or that of a metric registered before; the built-in ones cannot be replaced.
    function : callable
        ``function(x, y, *, parameter=default, ...)`` of tensors (B, N, d) and (B, M, d) returns distances (B,).
        Differentiable torch code can be trained through. Its keyword parameters with defaults are those of the metric.
    label, summary : str, optional
        Short name for tables, and a line for documentation (by default the function's first line).
    elastic : bool
        Whether series of different lengths can be compared. Then ``function`` also takes ``lengths_x`` and
        ``lengths_y``, (B,) integers or None if nothing is padded.

    Examples
    --------
    >>> import udtw
    >>> def largest_gap(x, y, *, scale=1.0):
    ...     return scale * (x - y).abs().amax((1, 2))
    >>> metric = udtw.register_metric("largest_gap", largest_gap)
    >>> udtw.pairwise([[0.0, 1.0], [0.0, 3.0]], metric="largest_gap", scale=2.0).tolist()
    [[0.0, 4.0], [4.0, 0.0]]
    """
    if not isinstance(name, str) or not name.isidentifier():
        raise OptionError(f"A metric's name must be a Python identifier; got {name!r}.")
    if name in {row.name for row in _ROWS}:
        raise OptionError(f"{name!r} is a built-in metric; choose another name.")
    reserved = ("lengths_x", "lengths_y")
    known = inspect.signature(function).parameters.values()
    params = {p.name: p.default for p in known if p.default is not p.empty and p.name not in reserved}
    text = summary or (inspect.getdoc(function) or name).splitlines()[0]
    METRICS[name] = Metric(name, label or name, text, function, params, elastic=elastic)
    return METRICS[name]
