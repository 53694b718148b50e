"""All pairs of two collections of series, in parallel and in bounded memory."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from udtw import inputs, prior
from udtw.errors import BackendError, LengthError, OptionError, ShapeError
from udtw.kernels import backends
from udtw.kernels.cpu.threads import available_cores
from udtw.kernels.problem import COST, DEVIATION, LOG_VARIANCE, ONE
from udtw.memory import refuse_if_too_large
from udtw.pairwise_blocks import Block, blocks, least_costs, path_sums, workspace_bytes
from udtw.series import SeriesSet, load_series

METRICS = ("euclidean", "dtw", "soft_dtw", "soft_dtw_divergence", "udtw")


def pairwise(
    X: Any,
    Y: Any = None,
    metric: str = "udtw",
    n_jobs: int | None = None,
    *,
    gamma: float = 1.0,
    beta: float = 1.0,
    lam: float = 0.0,
    var_x: Any = None,
    var_y: Any = None,
    band: Any = None,
    squared: bool = True,
    normalize: str | None = None,
    nan_policy: str = "raise",
    return_parts: bool = False,
    progress: bool = False,
    backend: str = "auto",
) -> Any:
    """Distances between every series of ``X`` and every series of ``Y``: (len(X), len(Y)). No gradients.

    Parameters
    ----------
    X, Y : (n, T), (n, T, d), or a list of arrays (T_i,) or (T_i, d)
        NumPy (or torch; then a torch tensor comes back). Without ``Y``, X is compared with itself and only one
        triangle is computed.
    metric : "euclidean", "dtw", "soft_dtw", "soft_dtw_divergence" or "udtw"
        "udtw" gives ``d² + βΩ + λΩ'``, which is ``d²`` where no variances are given.
    n_jobs : int, optional
        Threads; None is 1, -1 all cores. Under ``joblib.parallel_config`` with a backend of processes or machines
        (loky, Dask) its workers compute the table instead, each with one thread: the same bits.
    gamma, beta, lam, band, normalize : as in `udtw.align`
        A band is a radius, a fraction or "itakura" here.
    var_x, var_y : one array of variances σ² a series, optional
        For "udtw". Without ``Y``, ``var_x`` serves both.
    squared : bool
        False takes the root ("euclidean" and "dtw" only).
    nan_policy : "raise" or "omit"
        What to do about steps with NaN: a named error, or leave them out.
    return_parts : bool
        For "udtw": return ``(d², Ω)`` instead of their sum.
    progress : bool
        Show a progress bar (needs the package rich).
    """
    if metric not in METRICS:
        raise OptionError(f"metric must be one of {METRICS}; got {metric!r}.")
    if normalize not in (None, "length", "path") or (normalize == "path" and metric in ("euclidean", "dtw")):
        raise OptionError(f"normalize={normalize!r} does not go with metric={metric!r}; use None or 'length'.")
    if metric != "udtw" and (var_x is not None or var_y is not None or return_parts):
        raise OptionError(f"var_x, var_y and return_parts belong to metric='udtw'; got metric={metric!r}.")
    if not squared and metric not in ("euclidean", "dtw"):
        raise OptionError(f"squared=False belongs to 'euclidean' and 'dtw'; got metric={metric!r}.")
    left = load_series("X", X, var_x, nan_policy)
    symmetric = Y is None
    if symmetric and var_y is not None:
        raise OptionError("var_y needs Y; without Y, var_x serves both sides.")
    right = left if symmetric else load_series("Y", Y, var_y, nan_policy)
    left, right = matched(left, right)
    _refuse_if_too_large(left, right, metric, 2 if return_parts else 1)
    threads = threads_of(n_jobs)
    request = blocks(left, right, symmetric, parsed_band(band), positive(gamma), threads, backend_of(backend))
    with _progress_bar(progress, request.total, metric) as advance:
        if metric == "euclidean":
            parts = [_euclidean(left, right, normalize)]
        elif metric == "dtw":
            parts = request.fill(1, partial(dtw_values, normalize=normalize), advance)
        elif metric == "udtw":
            value = partial(udtw_values, beta=beta, lam=lam, normalize=normalize, return_parts=return_parts)
            parts = request.fill(2 if return_parts else 1, value, advance)
        else:
            parts = [_soft_dtw(request, metric == "soft_dtw_divergence", normalize, advance)]
    if not squared:
        parts = [np.sqrt(np.maximum(part, 0)) for part in parts]
    if isinstance(X, Tensor):
        return tuple(map(torch.from_numpy, parts)) if return_parts else torch.from_numpy(parts[0])
    return tuple(parts) if return_parts else parts[0]


def _scale(values: np.ndarray, block: Block, normalize: str | None, path_length: np.ndarray | None) -> np.ndarray:
    if normalize == "length":
        return values / block.lengths.max(0)
    return values / path_length if normalize == "path" else values


def udtw_values(block: Block, beta: float, lam: float, normalize: str | None, return_parts: bool) -> np.ndarray:
    """``d² + βΩ + λΩ'`` of the pairs of a block, (1, pairs); or ``d²`` and ``Ω``, (2, pairs)."""
    wanted = [COST]
    uncertain = block.left.variances is not None
    if uncertain:
        wanted += [LOG_VARIANCE, DEVIATION] if lam else [LOG_VARIANCE]
    if normalize == "path":
        wanted.append(ONE)
    sums = path_sums(block, wanted)[1:]
    path_length = sums[-1] if normalize == "path" else None
    distance = _scale(sums[0], block, normalize, path_length)
    omega = _scale(sums[1], block, normalize, path_length) if uncertain else np.zeros_like(distance)
    if return_parts:
        return np.stack([distance, omega])
    extra = lam * _scale(sums[2], block, normalize, path_length) if uncertain and lam else 0
    return (distance + beta * omega + extra)[None]


def dtw_values(block: Block, normalize: str | None) -> np.ndarray:
    """Classical DTW of the pairs of a block, (1, pairs)."""
    return _scale(least_costs(block)[None], block, normalize, None)


def _soft_min(block: Block, normalize: str | None) -> np.ndarray:
    """The soft-DTW value of the pairs of a block, (1, pairs)."""
    sums = path_sums(block, [ONE] if normalize == "path" else [])
    return _scale(sums[:1], block, normalize, sums[1] if normalize == "path" else None)


def _soft_dtw(request, divergence: bool, normalize: str | None, advance) -> np.ndarray:
    value = partial(_soft_min, normalize=normalize)
    [table] = request.fill(1, value, advance)
    if not divergence:
        return table
    of_left = request.selves(request.left, value)
    of_right = of_left if request.symmetric else request.selves(request.right, value)
    table = table - 0.5 * (of_left[:, None] + of_right[None, :])
    if request.symmetric:
        np.fill_diagonal(table, 0)
    return table


def _euclidean(left: SeriesSet, right: SeriesSet, normalize: str | None) -> np.ndarray:
    sizes = np.union1d(left.lengths, right.lengths)
    if sizes.size > 1:
        raise LengthError(
            f"The Euclidean distance needs series of one length; got lengths {sizes[:5].tolist()}. Use metric='dtw'."
        )
    out = np.empty((len(left), len(right)), left.values.dtype)
    for i, one in enumerate(left.values):
        difference = right.values - one
        out[i] = np.einsum("jtd,jtd->j", difference, difference)
    return out / sizes[0] if normalize == "length" else out


def matched(left: SeriesSet, right: SeriesSet) -> tuple[SeriesSet, SeriesSet]:
    """The same number of features, the same dtype, and variances on both sides or on neither."""
    if left.values.shape[2] != right.values.shape[2]:
        raise ShapeError(
            f"X and Y must have the same number of features; got {left.values.shape[2]} and {right.values.shape[2]}."
        )
    dtype = np.result_type(left.values, right.values)
    left, right = left.astype(dtype), right.astype(dtype)
    if left.variances is not None or right.variances is not None:
        left, right = left.with_unit_variances(), right.with_unit_variances()
    return left, right


def _refuse_if_too_large(left: SeriesSet, right: SeriesSet, metric: str, tables: int) -> None:
    item = left.values.itemsize
    if metric == "soft_dtw_divergence":
        tables += 2  # the self-distances' sums are spread out and subtracted in new tables
    needed = len(left) * len(right) * item * tables
    needed += right.values.nbytes if metric == "euclidean" else workspace_bytes(left, right)
    refuse_if_too_large(
        needed,
        f"{len(left):,} × {len(right):,} distances ({metric})",
        "Compare in parts, for example pairwise(X[:1000], Y), or pass float32 series.",
    )


def parsed_band(band: Any) -> prior.Band:
    if band is not None and not isinstance(band, int | float | str | np.number):
        raise OptionError("pairwise takes a radius, a fraction or 'itakura' as band; a mask belongs to udtw.align.")
    return prior.parse(band, 1, 1, 1, torch.device("cpu"))


def positive(gamma: float) -> float:
    return float(inputs.gamma(gamma, 1, torch.zeros(1, dtype=torch.float64))[0])


def threads_of(n_jobs: int | None) -> int:
    if n_jobs is None:
        return 1
    if n_jobs == 0 or n_jobs < -available_cores():
        raise OptionError(f"n_jobs must be a positive number of threads, or -1 for all cores; got {n_jobs}.")
    return n_jobs if n_jobs > 0 else available_cores() + 1 + n_jobs


def backend_of(backend: str) -> str:
    chosen = backends.choose(backend, torch.zeros(1))
    if chosen == "enumeration":
        raise BackendError("pairwise runs on 'numba' or 'portable'; enumeration is for single tiny pairs.")
    return chosen


@contextmanager
def _progress_bar(show: bool, total: int, label: str) -> Iterator[Callable[[int], None]]:
    if not show:
        yield lambda pairs: None
        return
    try:
        from rich.progress import Progress
    except ImportError as error:
        raise BackendError("progress=True needs the package rich: pip install 'udtw[progress]'.") from error
    with Progress() as bar:
        task = bar.add_task(f"pairwise {label}", total=total)
        yield lambda pairs: bar.advance(task, pairs)
