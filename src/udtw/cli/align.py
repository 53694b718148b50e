"""``udtw align``: two series from files."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from udtw.cli import options
from udtw.cli.output import save_figure, show


class Sigma(StrEnum):
    none = "none"
    column = "column"
    learn = "learn"


def align(
    a: Annotated[
        Path, typer.Argument(metavar="A", help="First series: CSV, TSV or .npy; a row a time step, a column a feature.")
    ],
    b: Annotated[Path, typer.Argument(metavar="B", help="Second series, with as many features.")],
    metric: options.Metric = options.MetricName.udtw,
    gamma: options.Gamma = 1.0,
    beta: options.Beta = 1.0,
    sigma: Annotated[
        Sigma,
        typer.Option(
            help="Uncertainty of the steps (udtw): none (Σ = 1), the last column of each file (σ, not a feature), or "
            "one σ in [0.5, 2] a step, learned for this pair by minimising d² + βΩ."
        ),
    ] = Sigma.none,
    band: options.Band = None,
    znormalize: Annotated[
        bool, typer.Option("--znormalize", help="First bring each feature to mean 0, std 1.")
    ] = False,
    plot: options.Plot = None,
    json: options.Json = False,
) -> None:
    """Align two series and print their distance.

    The distance is d² = E[C], the expected cost of a random path; the regulariser is Ω = E[log Σ]; the loss is
    d² + βΩ; the entropy says how many paths matter (in nats).

    Examples:

    - `udtw align a.csv b.csv`

    - `udtw align a.csv b.csv --gamma 0.1 --sigma learn --plot alignment.png`

    - `udtw align a.npy b.npy --metric dtw --band 0.1 --json | jq .distance`
    """
    from udtw.cli.files import read_series
    from udtw.errors import OptionError, ShapeError

    if metric != "udtw" and sigma != "none":
        raise OptionError(f"--sigma {sigma} belongs to --metric udtw; {metric} knows no uncertainty.")
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
    limits = options.parse_band(band)
    if sigma == "learn":
        variances = _learned(x, y, gamma, beta, limits)
    result, found = _measured(x, y, variances, str(metric), gamma, beta, limits)
    if plot is not None:
        from udtw.plots import plot_alignment

        save_figure(plot_alignment(x, y, found), plot)
    show(f"{a.name} and {b.name}", result, json)


def _split_sigma(path: Path, table: Any) -> tuple[Any, Any]:
    """Features (T, d) and variances (T,) from a table whose last column is σ."""
    from udtw.errors import ShapeError, VarianceError

    if table.shape[1] < 2:
        raise ShapeError(f"{path} has one column; --sigma column needs the values and, behind them, σ.")
    if not (table[:, -1] > 0).all():
        raise VarianceError(f"{path}: every σ in the last column must be positive; the least is {table[:, -1].min()}.")
    return table[:, :-1], table[:, -1] ** 2


def _learned(x: Any, y: Any, gamma: float, beta: float, band: Any, steps: int = 150) -> tuple[Any, Any]:
    """Variances of the steps of x (N,) and y (M,) that minimise d² + βΩ, with σ in [0.5, 2]."""
    import torch

    from udtw.align import align as align_pair

    first, second = torch.from_numpy(x), torch.from_numpy(y)
    free = [torch.zeros(len(series), dtype=first.dtype, requires_grad=True) for series in (first, second)]

    def variances() -> list[Any]:
        return [(2 ** torch.tanh(value)) ** 2 for value in free]  # σ = 1 at the start

    optimizer = torch.optim.Adam(free, lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        align_pair(first, second, *variances(), gamma=gamma, beta=beta, band=band).loss.backward()
        optimizer.step()
    found = [value.detach().numpy() for value in variances()]
    return found[0], found[1]


def _measured(
    x: Any, y: Any, variances: tuple[Any, Any], metric: str, gamma: float, beta: float, band: Any
) -> tuple[dict[str, Any], Any]:
    """What is printed, and the alignment that is drawn; its paths are those of the metric."""
    from udtw import align

    soft = metric in ("soft_dtw", "soft_dtw_divergence")
    found = align.align(
        x, y, *variances, gamma=gamma, beta=beta, band=band, distance="soft_min" if soft else "expected",
        debias=metric == "soft_dtw_divergence",
    )  # fmt: skip
    mode = found.paths.mode()[0]
    result: dict[str, Any] = {"metric": metric, "steps": [len(x), len(y)], "features": x.shape[1], "band": band}
    if metric in ("dtw", "euclidean"):
        value = float(align.dtw(x, y, band=band) if metric == "dtw" else align.euclidean(x, y))
        length = len(mode) if metric == "dtw" else len(x)
        one_path = {"distance": value, "regularizer": 0.0, "loss": value, "entropy": 0.0}
        return result | one_path | {"path_length": float(length), "best_path_length": length}, found
    return result | {
        "gamma": gamma,
        "beta": beta,
        "distance": float(found.distance),
        "regularizer": float(found.regularizer),
        "loss": float(found.loss),
        "entropy": max(float(found.paths.entropy), 0.0),
        "path_length": float(found.coupling.sum()),
        "best_path_length": len(mode),
    }, found
