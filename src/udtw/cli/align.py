"""``udtw align``: two series from files."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from udtw.cli import options
from udtw.cli.output import note, save_figure, show

if TYPE_CHECKING:
    from udtw.alignment import Alignment
    from udtw.metrics import Metric

SIGMA_RANGE = 0.5, 2.0
"""Bounds of a learned σ."""
MATRIX_CELLS = 2**22
"""The best path, which takes a matrix of N × M choices, is walked up to this size only."""
HARD_SHARE = 1e-8
"""γ as a share of the variance of the series, so small that only the best paths count."""


class Sigma(StrEnum):
    none = "none"
    column = "column"
    estimate = "estimate"
    learn = "learn"


class Side(StrEnum):
    x = "x"
    y = "y"


class View(StrEnum):
    matches = "matches"
    matrix = "matrix"


def align(
    a: Annotated[
        Path,
        typer.Argument(metavar="A", help="First series, x: CSV, TSV or .npy; rows are time steps, columns features."),
    ],
    b: Annotated[Path, typer.Argument(metavar="B", help="Second series, y, with as many features.")],
    metric: options.Metric = "udtw",
    gamma: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER|auto",
            help="Temperature γ of the paths, > 0: near 0 only the best path counts, large values count all paths. "
            "auto is 4: probabilities are then calibrated if σ is that of the noise.",
            show_default="that of the metric",
        ),
    ] = None,
    beta: options.Beta = None,
    sigma: Annotated[
        Sigma,
        typer.Option(
            help="Uncertainty of the steps (udtw): none (Σ = 1), the last column of each file (σ, not a feature), "
            "an estimate from the local roughness of the series, or learned for this pair: one σ in [0.5, 2] per step "
            "that minimises the loss."
        ),
    ] = Sigma.none,
    band: options.Band = None,
    weighting: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Energy of a path (udtw): likelihood (D/Σ + β log Σ; the loss is the free energy) or precision (D/Σ, "
            "the paper's; the loss is d² + βΩ).",
            show_default="likelihood",
        ),
    ] = None,
    warp_penalty: Annotated[
        float | None, typer.Option(help="Added to the energy for each non-diagonal step.", show_default="0")
    ] = None,
    relax: Annotated[
        str | None,
        typer.Option(
            metavar="x|y|both|COUNTS",
            help="Ends that may stay unmatched: of x, of y (A lies anywhere inside B), of both, or at most so many "
            "steps at x begin, x end, y begin, y end (`0,3,5,0`).",
            show_default="none",
        ),
    ] = None,
    znormalize: Annotated[
        bool, typer.Option("--znormalize", help="First scale each feature to mean 0, std 1.")
    ] = False,
    level: Annotated[float, typer.Option(help="Probability that the partner of a step lies in its interval.")] = 0.9,
    of: Annotated[Side, typer.Option(help="Whose steps are listed with their partners: those of A (x) or B (y).")] = (
        Side.x
    ),
    out: Annotated[
        Path | None, typer.Option(help="Write the matches here, one row per step (.csv, .tsv or .json).")
    ] = None,
    plot: options.Plot = None,
    view: Annotated[
        View, typer.Option(help="What --plot draws: both series with match lines, or the matrix of probabilities.")
    ] = View.matches,
    json: options.Json = False,
) -> None:
    """Align two series: their distance, the partner of every step, and how sure each match is.

    The distance is d² = E[D/Σ], the expected cost of a random path. The rows of `--out` have a step i (of A; of B with
    `--of y`), its most probable partner j, the probability of j, the interval from low to high that holds the partner
    with probability `--level`, its expected index, the probability that the step is matched at all, and σ of the step
    where it is known. Steps are counted from 0.

    Examples:

    - `udtw align a.csv b.csv`

    - `udtw align a.csv b.csv --sigma estimate --gamma auto --out matches.csv --plot matches.png`

    - `udtw align query.csv long.csv --relax y --znormalize`

    - `udtw align a.npy b.npy --metric dtw --warp-penalty 0.1 --band 0.1 --json | jq .distance`
    """
    from udtw.cli.files import check_table_name, read_series
    from udtw.cli.match_report import make_report
    from udtw.errors import OptionError, ShapeError
    from udtw.matches import tail_of
    from udtw.metrics import get_metric

    given = options.given(weighting=weighting, warp_penalty=warp_penalty, relax=options.parse_relax(relax))
    options.check_known(metric, given)
    params = options.given(gamma=_temperature(gamma, sigma), beta=beta) | {"band": options.parse_band(band)} | given
    chosen, udtw = get_metric(metric, **params), get_metric("udtw", **params)
    with options.named_as_flags():
        chosen.check()
        tail_of(level)
    if not chosen.uncertain and sigma != "none":
        raise OptionError(f"--sigma {sigma} belongs to --metric udtw; {metric} has no uncertainty.")
    if out is not None:
        check_table_name(out)
    for flag, wanted in (("--out", out), ("--plot", plot)):
        if wanted is not None and not _has_paths(chosen):
            raise OptionError(f"{flag} needs the paths of an alignment, and the metric {metric} has none.")
    x, y = read_series(a), read_series(b)
    variances: tuple[Any, Any] = (None, None)
    if sigma == "column":
        (x, first), (y, second) = _split_sigma(a, x), _split_sigma(b, y)
        variances = first, second
    if x.shape[1] != y.shape[1]:
        raise ShapeError(f"{a} has {x.shape[1]} feature(s), but {b} has {y.shape[1]}; they must be the same.")
    if znormalize:
        from udtw.data import znormalize as normalized

        x, y = normalized([x, y])
    if sigma == "estimate":
        variances = "estimate", "estimate"
    with options.named_as_flags():
        if sigma == "learn":
            variances = _learned(x, y, udtw)
        result, found = _measured(x, y, variances, chosen, udtw)
        report = None
        if found is not None:
            refit = _refit(x, y, variances, chosen, udtw)
            report = make_report(found, refit, level, of.value, soft="gamma" in chosen.params)
    if report is not None and found is not None:
        if out is not None:
            report.write(out)
            note(f"wrote {out}")
        if plot is not None:
            save_figure(_figure(x, y, found, view, level, of), plot)
    title = f"{a.name} and {b.name}"
    if json:
        show(title, result | (report.as_json() if report is not None else {}), True)
        return
    for line in _text(title, result, report, chosen, calibrated=sigma != "none" and params.get("gamma") == _auto()):
        typer.echo(line)


def _auto() -> float:
    from udtw.align import AUTO_GAMMA

    return AUTO_GAMMA


def _temperature(text: str | None, sigma: str) -> float | None:
    """γ of ``--gamma``."""
    from udtw.errors import GammaError, OptionError

    if text is None:
        return None
    if text == "auto":
        if sigma == "none":
            raise OptionError("--gamma auto needs variances: --sigma column, estimate or learn. Or give a number.")
        return _auto()
    try:
        return float(text)
    except ValueError:
        raise GammaError(f"--gamma must be a positive number or auto; got {text!r}.") from None


def _split_sigma(path: Path, table: Any) -> tuple[Any, Any]:
    """Features (T, d) and variances (T,) from a table whose last column is σ."""
    from udtw.errors import ShapeError, VarianceError

    if table.shape[1] < 2:
        raise ShapeError(f"{path} has one column; --sigma column needs the values followed by σ.")
    if not (table[:, -1] > 0).all():
        raise VarianceError(
            f"{path}: every σ in the last column must be positive; the smallest is {table[:, -1].min()}."
        )
    return table[:, :-1], table[:, -1] ** 2


def _learned(x: Any, y: Any, udtw: "Metric", steps: int = 150) -> tuple[Any, Any]:
    """Variances of the steps of x (N,) and y (M,) that minimise the loss, with σ in `SIGMA_RANGE`."""
    import numpy as np
    import torch

    first, second = torch.from_numpy(x), torch.from_numpy(y)
    free = [torch.zeros(len(series), dtype=first.dtype, requires_grad=True) for series in (first, second)]

    def variances() -> list[Any]:
        return [(SIGMA_RANGE[1] ** torch.tanh(value)) ** 2 for value in free]  # σ = 1 at the start

    optimizer = torch.optim.Adam(free, lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        udtw.function(first, second, *variances(), **udtw.params).loss.backward()
        optimizer.step()
    found = [value.detach().numpy() for value in variances()]
    log_sigma = np.abs(np.log2(np.concatenate(found))) / 2
    at_bound = (log_sigma > 0.95).mean()
    if at_bound > 0.1:
        note(
            f"{at_bound:.0%} of the learned σ lie at a bound of [{SIGMA_RANGE[0]:g}, {SIGMA_RANGE[1]:g}]: scale the "
            "data (--znormalize), or use --sigma estimate."
        )
    return found[0], found[1]


def _has_paths(metric: "Metric") -> bool:
    return bool(metric.takes_cost or metric.base or metric.name == "euclidean")


def _path_params(x: Any, y: Any, metric: "Metric", udtw: "Metric") -> dict[str, Any]:
    """Parameters of `udtw.align` under which it has the paths of ``metric``."""
    import numpy as np

    if "gamma" in metric.params:
        return dict(udtw.params)
    if metric.name == "euclidean":
        return dict(udtw.params) | {"band": 0, "relax": None, "gamma": 1.0}  # the diagonal
    scale = float(np.concatenate([x, y]).var(0).sum())
    return dict(udtw.params) | {"gamma": HARD_SHARE * scale if scale > 0 else 1.0}


def _refit(x: Any, y: Any, variances: tuple[Any, Any], metric: "Metric", udtw: "Metric") -> Any:
    """A function of four counts: the alignment whose ends may be relaxed by so many steps."""
    params = _path_params(x, y, metric, udtw)
    return lambda counts: udtw.function(x, y, *variances, **params | {"relax": counts})


def _measured(
    x: Any, y: Any, variances: tuple[Any, Any], metric: "Metric", udtw: "Metric"
) -> tuple[dict[str, Any], "Alignment | None"]:
    """What is printed, and the alignment with the paths of the metric; None for metrics without paths."""
    import torch

    from udtw.pair_block import Batch

    result: dict[str, Any] = {"metric": metric.name, "steps": [len(x), len(y)], "features": x.shape[1]}
    distance = omega = 0.0
    if not metric.uncertain:
        distance = loss = float(metric.between(*(Batch(torch.from_numpy(series)[None]) for series in (x, y))))
    if not _has_paths(metric):
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


def _figure(x: Any, y: Any, found: "Alignment", view: View, level: float, of: Side) -> Any:
    from udtw.plots import plot_alignment, plot_matches

    return plot_alignment(x, y, found) if view == "matrix" else plot_matches(x, y, found, level=level, of=of.value)


def _text(title: str, result: dict[str, Any], report: Any, metric: "Metric", calibrated: bool) -> list[str]:
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
        lines.append("The probabilities are calibrated if σ is that of the noise: --sigma estimate --gamma auto.")
    return lines
