"""``udtw barycenter``: the mean of a set of series, and its uncertainty."""

from pathlib import Path
from typing import Annotated, Any

import typer

from udtw._engine.metrics import get_metric
from udtw.cli import options
from udtw.cli.command import IDS, LABELS
from udtw.cli.files import read_any, scaled
from udtw.cli.output import save_figure, show, write_table
from udtw.data.series_files import SeriesTable
from udtw.data.table import AS_IT_IS, ReadOptions
from udtw.data.table_files import is_file_name
from udtw.errors import OptionError


def barycenter(
    source: Annotated[
        str,
        typer.Argument(
            metavar="FILE|NAME",
            help="A file with one series per row (or, with --id-column, one row per step), or the name of a data set.",
        ),
    ],
    label: Annotated[
        str | None, typer.Option("--class", help="Average this class of the file, or of the data set's train split.")
    ] = None,
    metric: options.Metric = "udtw",
    gamma: options.Gamma = None,
    beta: options.Beta = None,
    weighting: Annotated[
        str, typer.Option(help="Objective of udtw: `likelihood` (the free energy) or `precision` (the paper's).")
    ] = "likelihood",
    warp_penalty: Annotated[float | None, typer.Option(help="Penalty ω added for each non-diagonal step.")] = None,
    noise: Annotated[
        float | None,
        typer.Option(
            help="Noise variance of the series themselves (udtw); σ_μ is what exceeds it. By default the whole "
            "variance is learned."
        ),
    ] = None,
    weights: Annotated[str | None, typer.Option(help="One number per series, as in `0.25,0.75`.")] = None,
    length: Annotated[int | None, typer.Option(help="Steps of the mean; by default the average length.")] = None,
    max_iter: Annotated[int, typer.Option(help="Maximum number of iterations.")] = 100,
    znormalize: Annotated[
        bool | None,
        typer.Option(
            "--znormalize/--raw",
            help="Scale each series to mean 0, std 1; by default data sets are scaled and files are not.",
        ),
    ] = None,
    reading: Annotated[ReadOptions, LABELS, IDS] = AS_IT_IS,
    data_dir: options.DataDir = None,
    seed: options.Seed = 0,
    out: Annotated[Path | None, options.table_option("the mean, one row per step, σ_μ last (udtw),")] = None,
    plot: options.Plot = None,
    json: options.Json = False,
) -> None:
    """Average series: their Fréchet mean, for udtw with the uncertainty σ_μ of each of its steps.

    Examples:

    - `udtw barycenter cbf --class 2 --plot mean.png`

    - `udtw barycenter series.csv --metric soft_dtw --gamma 0.1 --out mean.csv`

    - `udtw barycenter GunPoint --class 1 --data-dir ~/ucr --json`
    """
    from udtw.timeseries import barycenter as mean_of

    is_file = is_file_name(source)
    normalize = not is_file if znormalize is None else znormalize
    table = _of_class(source, read_any(source, reading, data_dir, seed, labels=label is not None), label)
    series = scaled(table, normalize)
    used = options.given(gamma=gamma, beta=beta, noise=noise, warp_penalty=warp_penalty)
    used |= {"weighting": weighting} if get_metric(metric).uncertain else {}
    found = mean_of(series, metric, **used, weights=_weights(weights), length=length, max_iter=max_iter)
    uncertain = bool(found.variance.any())
    sigma = found.variance**0.5 if uncertain else None
    if out is not None:
        _write_mean(out, found.mean, sigma)
    if plot is not None:
        from udtw.plots import plot_barycenter

        save_figure(plot_barycenter(series, {get_metric(metric).label: found}), plot)
    result: dict[str, Any] = {
        "file" if is_file else "dataset": source,
        "class": label,
        "series": len(table),
        "znormalized": normalize,
        "metric": metric,
        **used,
        "length": len(found.mean),
        "objective": found.loss,
        "objective_at_start": found.trace[0],
        "iterations": found.n_iter,
        "converged": found.converged,
    }
    if json:
        result |= {"mean": found.mean, "sigma": sigma}
    elif sigma is not None:
        result["sigma_mean_and_largest"] = [float(sigma.mean()), float(sigma.max())]
    show(f"Mean of {source}", result, json)


def _of_class(source: str, table: SeriesTable, label: str | None) -> SeriesTable:
    """Return the series of a class; all of them if ``label`` is None."""
    if label is None:
        return table
    if table.labels is None:
        raise OptionError(f"--class chooses by label, but {source} has none; name its column: --label-column.")
    chosen = [one for one in table.series if str(one.label) == label]
    if not chosen:
        classes = ", ".join(str(one) for one in sorted(set(table.labels.tolist())))
        raise OptionError(f"{source} has no class {label!r}; its classes are {classes}.")
    return SeriesTable(chosen)


def _weights(text: str | None) -> list[float] | None:
    try:
        return None if text is None else [float(part) for part in options.parse_list(text) or []]
    except ValueError:
        raise OptionError(f"--weights must be numbers such as 0.25,0.75; got {text!r}.") from None


def _write_mean(path: Path, mean: Any, sigma: Any) -> None:
    columns = [mean] if mean.ndim == 1 else list(mean.T)
    names = ["value"] if mean.ndim == 1 else [f"value_{i}" for i in range(len(columns))]
    if sigma is not None:
        columns, names = [*columns, sigma], [*names, "sigma"]
    write_table(
        path, [dict(zip(names, row, strict=True)) for row in zip(*(one.tolist() for one in columns), strict=True)]
    )
