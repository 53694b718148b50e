"""The steps of ``udtw align``: reading the pair, its variances, its numbers, and what is printed."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from udtw.cli.output import note

if TYPE_CHECKING:
    from udtw._engine.alignment import Alignment
    from udtw._engine.metrics import Metric
    from udtw.data.series_files import ReadOptions, Series

SIGMA_FACTOR = 4.0
"""A learned σ lies between the estimate divided by this and the estimate times this."""
SIGMA_SPREAD = 0.5
"""Standard deviation of log σ around the estimate, before the pair is seen."""
AT_BOUND, WORTH_SAYING = 0.95, 0.1
"""A σ is at a bound from this share of the way to it on; a warning is given if more than a tenth of them are."""
MATRIX_CELLS = 2**22
"""The best path, which takes a matrix of N × M choices, is walked up to this size only."""
HARD_SHARE = 1e-8
"""γ as a share of the variance of the series, so small that only the best paths count."""


def read_pair(a: Path, b: Path, reading: "ReadOptions", with_sigma: bool) -> tuple["Series", "Series", tuple[Any, Any]]:
    """Both series with the same features, and their variances if the last column is σ."""
    from udtw.cli.files import read_series
    from udtw.errors import OptionError, ShapeError

    if str(a) == str(b) == "-":
        raise OptionError("Only one of the two series can come from standard input.")
    x, y = read_series(a, reading), read_series(b, reading)
    variances: list[Any] = [None, None]
    if with_sigma:
        (x, variances[0]), (y, variances[1]) = _split_sigma(a, x), _split_sigma(b, y)
    if x.values.shape[1] != y.values.shape[1]:
        raise ShapeError(
            f"{a} has {x.values.shape[1]} feature(s) ({', '.join(x.names)}), but {b} has {y.values.shape[1]} "
            f"({', '.join(y.names)}); they must be the same. Choose some with --columns."
        )
    if x.names != y.names and set(x.names) == set(y.names) and len(set(x.names)) == len(x.names):
        order = [y.names.index(name) for name in x.names]
        y = replace(y, values=y.values[:, order], names=x.names)
        note(f"{b.name}: columns in the order of {a.name}: {', '.join(x.names)}")
    return x, y, (variances[0], variances[1])


def _split_sigma(path: Path, series: "Series") -> tuple["Series", Any]:
    """The series without its last column, and that column, σ, as variances (T,)."""
    from udtw.errors import ShapeError, VarianceError

    if series.values.shape[1] < 2:
        raise ShapeError(f"{path} has one column of numbers; --sigma column needs the values followed by σ.")
    sigma = series.values[:, -1]
    if not (sigma > 0).all():
        raise VarianceError(f"{path}: every σ in the last column must be positive; the smallest is {sigma.min()}.")
    return replace(series, values=series.values[:, :-1], names=series.names[:-1]), sigma**2


def znormalized(x: "Series", y: "Series", variances: tuple[Any, Any]) -> tuple["Series", "Series"]:
    """Both series with mean 0 and standard deviation 1 in every feature."""
    from udtw.data import znormalize
    from udtw.errors import OptionError

    if variances[0] is not None:
        raise OptionError("--znormalize changes the units of the values, so that --sigma column no longer fits them.")
    first, second = znormalize([x.values, y.values])
    return replace(x, values=first), replace(y, values=second)


def auto_gamma() -> float:
    """γ of ``--gamma auto``."""
    from udtw._engine.align import AUTO_GAMMA

    return AUTO_GAMMA


def temperature(text: str | None, sigma: str) -> float | None:
    """γ of ``--gamma``; None for the default of the metric."""
    from udtw.errors import GammaError, OptionError

    if text == "auto" and sigma == "none":
        raise OptionError("--gamma auto needs variances: --sigma column, estimate or learn. Or give a number.")
    if text is None or text == "auto":
        return None if sigma == "none" else auto_gamma()
    try:
        return float(text)
    except ValueError:
        raise GammaError(f"--gamma must be a positive number or auto; got {text!r}.") from None


def estimated(x: np.ndarray, y: np.ndarray) -> tuple[Any, Any]:
    """Variances of the steps of x (N,) and y (M,) from their roughness; a warning is printed if they are at a bound.

    None for both if a series is too short or constant, which is said.
    """
    import torch

    from udtw._engine.align import LEAST_ROUGHNESS
    from udtw._engine.likelihood import roughness

    found = []
    for name, series in (("x", x), ("y", y)):
        least = LEAST_ROUGHNESS * float(series.var(0).mean())
        if len(series) < 3 or least <= 0:
            reason = "has fewer than three steps" if len(series) < 3 else "is constant"
            note(f"{name} {reason}, so that its noise cannot be estimated: --sigma none is used")
            return None, None
        own = np.maximum(roughness(torch.from_numpy(series)).numpy(), least)
        at_bound = float((own <= least).mean())
        if at_bound > WORTH_SAYING:
            note(
                f"warning: σ of {at_bound:.0%} of the steps of {name} sits at its lower bound, 1 % of the standard "
                "deviation: the series is too smooth (or rounded) for its noise to be estimated, and matches look "
                "surer than they are. If you know σ, use --sigma column; else --sigma none with a --gamma."
            )
        found.append(own)
    return found[0], found[1]


def learned(x: np.ndarray, y: np.ndarray, start: tuple[Any, Any], udtw: "Metric", steps: int = 150) -> tuple[Any, Any]:
    """Variances of the steps of x (N,) and y (M,) of the greatest posterior probability.

    σ is log-normal around the estimate, with `SIGMA_SPREAD`; without that, every well matched step would
    take the least σ allowed.
    """
    import torch

    if start[0] is None:
        return None, None
    first, second = torch.from_numpy(x), torch.from_numpy(y)
    level = [torch.from_numpy(one).sqrt() for one in start]
    free = [torch.zeros(len(series), dtype=first.dtype, requires_grad=True) for series in (first, second)]

    def log_ratios() -> list[Any]:
        return [np.log(SIGMA_FACTOR) * torch.tanh(value) for value in free]

    def variances() -> list[Any]:
        return [(sigma * one.exp()) ** 2 for sigma, one in zip(level, log_ratios(), strict=True)]

    optimizer = torch.optim.Adam(free, lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        surprise = sum(one.square().sum() for one in log_ratios()) / (2 * SIGMA_SPREAD**2)
        (udtw.function(first, second, *variances(), **udtw.params).loss + udtw.params["gamma"] * surprise).backward()
        optimizer.step()
    ratios = np.abs(np.concatenate([value.detach().numpy() for value in log_ratios()])) / np.log(SIGMA_FACTOR)
    at_bound = float((ratios > AT_BOUND).mean())
    if at_bound > WORTH_SAYING:
        note(
            f"warning: {at_bound:.0%} of the learned σ sit at a bound, a quarter of the estimate or four times it: "
            "use --sigma estimate."
        )
    found = [value.detach().numpy() for value in variances()]
    return found[0], found[1]


def has_paths(metric: "Metric") -> bool:
    """Whether the metric has paths, whose matches can be told."""
    return bool(metric.takes_cost or metric.base or metric.name == "euclidean")


def _path_params(x: Any, y: Any, metric: "Metric", udtw: "Metric") -> dict[str, Any]:
    """Parameters of `udtw.align` under which it has the paths of ``metric``."""
    if "gamma" in metric.params:
        return dict(udtw.params)
    if metric.name == "euclidean":
        return dict(udtw.params) | {"band": 0, "relax": None, "gamma": 1.0}  # the diagonal
    scale = float(np.concatenate([x, y]).var(0).sum())
    return dict(udtw.params) | {"gamma": HARD_SHARE * scale if scale > 0 else 1.0}


def refit(x: Any, y: Any, variances: tuple[Any, Any], metric: "Metric", udtw: "Metric") -> Any:
    """A function of four counts: the alignment whose ends may be relaxed by so many steps."""
    params = _path_params(x, y, metric, udtw)
    return lambda counts: udtw.function(x, y, *variances, **params | {"relax": counts})


def measured(
    x: Any, y: Any, variances: tuple[Any, Any], metric: "Metric", udtw: "Metric"
) -> tuple[dict[str, Any], "Alignment | None"]:
    """What is printed, and the alignment with the paths of the metric; None for metrics without paths."""
    import torch

    from udtw._engine.pair_block import Batch

    result: dict[str, Any] = {"metric": metric.name, "steps": [len(x), len(y)], "features": x.shape[1]}
    distance = omega = 0.0
    if not metric.uncertain:
        distance = loss = float(metric.between(*(Batch(torch.from_numpy(series)[None]) for series in (x, y))))
    if not has_paths(metric):
        return result | {"distance": distance}, None
    found: Alignment = udtw.function(x, y, *variances, **_path_params(x, y, metric, udtw))
    if metric.uncertain:
        distance, omega, loss = float(found.distance), float(found.regularizer), float(found.loss)
    soft = "gamma" in metric.params
    shown = ("band", "gamma", "beta", "warp_penalty", "relax") if soft else ("band", "warp_penalty", "relax")
    result |= {name: udtw.params[name] for name in shown if metric.name != "euclidean" or name == "band"}
    if metric.uncertain:
        result["weighting"] = udtw.params["weighting"]
    # For one path the length is known without a matrix of choices.
    best = len(found.paths.mode()) if len(x) * len(y) <= MATRIX_CELLS else None
    return result | {
        "distance": distance,
        "regularizer": omega,
        "loss": loss,
        **({"free_energy": float(found.free_energy)} if soft else {}),
        "entropy": max(float(found.paths.entropy), 0.0) if soft else 0.0,
        **({"warps": float(found.warps)} if soft else {}),
        "path_length": float(found.paths.length) if soft or best is None else float(best),
        "best_path_length": best,
    }, found


def figure(x: "Series", y: "Series", found: "Alignment", view: str, level: float, of: str) -> Any:
    """The picture of ``--plot``, with the times of the files at its axes."""
    from udtw.plots import plot_alignment, plot_matches

    if view == "matrix":
        return plot_alignment(x.values, y.values, found)

    def times(series: "Series") -> Any:
        omitted = series.steps[-1] + 1 > len(series.steps)
        return series.time_text or (series.steps if omitted else None)

    return plot_matches(x.values, y.values, found, level=level, of=str(of), times=(times(x), times(y)))


def text(title: str, result: dict[str, Any], report: Any, metric: "Metric", calibrated: bool) -> list[str]:
    """A few lines for people."""
    steps, features = result["steps"], result["features"]
    named = f"{metric.name}, γ = {result['gamma']:g}" if "gamma" in result else metric.name
    lines = [
        f"{title}: {steps[0]:,} and {steps[1]:,} steps of {features} feature{'s' * (features > 1)}, {named}",
        f"distance {result['distance']:.6g}"
        + (f", free energy {result['free_energy']:.6g}" if metric.uncertain else ""),
    ]
    if report is None:
        return lines
    lines += report.stretch_lines()
    if "gamma" not in result:
        path = f"one path of {result['best_path_length']} matches" if result["best_path_length"] else "one path"
        return [*lines, f"{metric.name} has {path} and no probabilities; --metric udtw says how sure each match is"]
    lines += report.lines()
    if not calibrated:
        lines.append("The probabilities are calibrated if σ is that of the noise and γ is 4, as they are by default.")
    return lines
