"""``udtw align``: two series from files."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from udtw.cli import options
from udtw.cli.output import save_figure, show

if TYPE_CHECKING:
    from udtw.metrics import Metric


class Sigma(StrEnum):
    none = "none"
    column = "column"
    estimate = "estimate"
    learn = "learn"


def align(
    a: Annotated[
        Path, typer.Argument(metavar="A", help="First series: CSV, TSV or .npy; rows are time steps, columns features.")
    ],
    b: Annotated[Path, typer.Argument(metavar="B", help="Second series, with as many features.")],
    metric: options.Metric = "udtw",
    gamma: options.Gamma = None,
    beta: options.Beta = None,
    sigma: Annotated[
        Sigma,
        typer.Option(
            help="Uncertainty of the steps (udtw): none (Σ = 1), the last column of each file (σ, not a feature), "
            "an estimate from the local roughness of the series, or learned for this pair: one σ in [0.5, 2] per step "
            "that minimises d² + βΩ."
        ),
    ] = Sigma.none,
    band: options.Band = None,
    weighting: Annotated[
        str | None,
        typer.Option(
            help="Energy of a path (udtw): precision (D/Σ, the paper's) or likelihood (D/Σ + β log Σ; the loss is then "
            "the free energy).",
            show_default="precision",
        ),
    ] = None,
    warp_penalty: Annotated[
        float | None, typer.Option(help="Added to the energy for each non-diagonal step.", show_default="0")
    ] = None,
    znormalize: Annotated[
        bool, typer.Option("--znormalize", help="First scale each feature to mean 0, std 1.")
    ] = False,
    plot: options.Plot = None,
    json: options.Json = False,
) -> None:
    """Align two series and print their distance.

    The distance is d² = E[C], the expected cost of a random path; the regulariser is Ω = E[log Σ]; the loss is
    d² + βΩ; the entropy (in nats) measures how many paths matter. For metrics without paths only the distance is
    printed.

    Examples:

    - `udtw align a.csv b.csv`

    - `udtw align a.csv b.csv --gamma 0.1 --sigma learn --plot alignment.png`

    - `udtw align a.csv b.csv --sigma estimate --weighting likelihood --gamma 4 --warp-penalty 0.1`

    - `udtw align a.npy b.npy --metric dtw --band 0.1 --json | jq .distance`
    """
    from udtw.cli.files import read_series
    from udtw.errors import OptionError, ShapeError
    from udtw.metrics import get_metric

    params = options.given(gamma=gamma, beta=beta) | {"band": options.parse_band(band)}
    params |= options.given(weighting=weighting, warp_penalty=warp_penalty)
    chosen, udtw = get_metric(metric, **params), get_metric("udtw", **params)
    chosen.check()
    if not chosen.uncertain and sigma != "none":
        raise OptionError(f"--sigma {sigma} belongs to --metric udtw; {metric} has no uncertainty.")
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
    if sigma == "learn":
        variances = _learned(x, y, udtw)
    result, found = _measured(x, y, variances, chosen, udtw)
    if plot is not None:
        from udtw.plots import plot_alignment

        if found is None:
            raise OptionError(f"--plot draws paths, and the metric {metric} has none.")
        save_figure(plot_alignment(x, y, found), plot)
    show(f"{a.name} and {b.name}", result, json)


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
    """Variances of the steps of x (N,) and y (M,) that minimise d² + βΩ, with σ in [0.5, 2]."""
    import torch

    first, second = torch.from_numpy(x), torch.from_numpy(y)
    free = [torch.zeros(len(series), dtype=first.dtype, requires_grad=True) for series in (first, second)]

    def variances() -> list[Any]:
        return [(2 ** torch.tanh(value)) ** 2 for value in free]  # σ = 1 at the start

    optimizer = torch.optim.Adam(free, lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        udtw.function(first, second, *variances(), **udtw.params).loss.backward()
        optimizer.step()
    found = [value.detach().numpy() for value in variances()]
    return found[0], found[1]


def _measured(
    x: Any, y: Any, variances: tuple[Any, Any], metric: "Metric", udtw: "Metric"
) -> tuple[dict[str, Any], Any]:
    """What is printed, and the alignment that is drawn: that of ``udtw``, which has the paths of all soft metrics.

    Metrics without paths have a distance only, and no alignment.
    """
    import torch

    from udtw.pair_block import Batch

    result: dict[str, Any] = {"metric": metric.name, "steps": [len(x), len(y)], "features": x.shape[1]}
    found = udtw.function(x, y, *variances, **udtw.params)
    if metric.uncertain:
        distance, omega, loss = float(found.distance), float(found.regularizer), float(found.loss)
    else:
        distance = loss = float(metric.between(*(Batch(torch.from_numpy(series)[None]) for series in (x, y))))
        omega = 0.0
    step_by_step = metric.name == "euclidean"  # its one path is the diagonal
    if not (metric.takes_cost or metric.base or step_by_step):
        return result | {"distance": distance}, None
    soft = "gamma" in metric.params
    best = len(x) if step_by_step else len(found.paths.mode()[0])
    result |= {name: udtw.params[name] for name in (("band", "gamma", "beta") if soft else ("band",))}
    return result | {
        "distance": distance,
        "regularizer": omega,
        "loss": loss,
        "entropy": max(float(found.paths.entropy), 0.0) if soft else 0.0,
        **({"warps": float(found.warps)} if soft and udtw.params["warp_penalty"] else {}),
        "path_length": float(found.coupling.sum() if soft else best),
        "best_path_length": best,
    }, found
