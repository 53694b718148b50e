"""``udtw barycenter``: the mean of a set of series, and its uncertainty."""

from pathlib import Path
from typing import Annotated, Any

import typer

from udtw.cli import options
from udtw.cli.output import check_figure_name, save_figure, show


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
        str, typer.Option(help="What udtw means: `likelihood`, the free energy, or `precision`, the paper's.")
    ] = "likelihood",
    warp_penalty: Annotated[float | None, typer.Option(help="ω, paid for each non-diagonal step.")] = None,
    noise: Annotated[
        float | None,
        typer.Option(
            help="Variance of the steps of the series themselves (udtw); σ_μ is what exceeds it. By default all of the "
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
            help="Whether to normalise each series; by default data sets are normalised and files are not.",
        ),
    ] = None,
    columns: options.Columns = None,
    time_column: options.TimeColumn = None,
    label_column: options.LabelColumn = None,
    id_column: options.IdColumn = None,
    transpose: options.Transpose = False,
    missing: options.Missing = options.MissingPolicy.raise_,
    decimal: options.Decimal = None,
    data_dir: options.DataDir = None,
    seed: options.Seed = 0,
    out: Annotated[Path | None, typer.Option(help="Write the mean as CSV: one row per step, σ_μ last (udtw).")] = None,
    plot: options.Plot = None,
    json: options.Json = False,
) -> None:
    """Average series: their Fréchet mean, for udtw with the uncertainty σ_μ of each of its steps.

    Examples:

    - `udtw barycenter cbf --class 2 --plot mean.png`

    - `udtw barycenter series.csv --metric soft_dtw --gamma 0.1 --out mean.csv`

    - `udtw barycenter GunPoint --class 1 --data-dir ~/ucr --json`
    """
    from udtw._engine.metrics import get_metric
    from udtw.cli.files import check_table_name, read_options
    from udtw.timeseries import barycenter as mean_of

    if out is not None:
        check_table_name(out)
    if plot is not None:
        check_figure_name(plot)
    reading = read_options(
        columns, missing, time_column=time_column, label_column=label_column, id_column=id_column, transpose=transpose,
        decimal=decimal,
    )  # fmt: skip
    series, described = _series(source, label, znormalize, data_dir, seed, reading)
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
    result: dict[str, Any] = described | {
        "metric": metric,
        **used,
        "length": len(found.mean),
        "objective": found.objective,
        "objective_at_start": found.trace[0],
        "iterations": found.n_iter,
        "converged": found.converged,
    }
    if json:
        result |= {"mean": found.mean, "sigma": sigma}
    elif sigma is not None:
        result["sigma_mean_and_largest"] = [float(sigma.mean()), float(sigma.max())]
    show(f"Mean of {source}", result, json)


def _series(
    source: str, label: str | None, znormalize: bool | None, data_dir: Path | None, seed: int, reading: Any
) -> tuple[Any, dict[str, Any]]:
    from udtw.cli.files import load_dataset, read_series_table
    from udtw.data import znormalize as normalized
    from udtw.data.table_files import is_file_name
    from udtw.errors import OptionError

    if is_file_name(source):
        table = read_series_table(Path(source), reading, labels=label is not None)
        series: Any = table.values
        if label is not None:
            if table.labels is None:
                raise OptionError(f"--class chooses by label, but {source} has none; name its column: --label-column.")
            if label not in table.labels:
                classes = ", ".join(sorted(set(table.labels)))
                raise OptionError(f"{source} has no class {label!r}; its classes are {classes}.")
            series = [row for row, own in zip(series, table.labels, strict=True) if own == label]
        series = normalized(series) if znormalize else series
        return series, {"file": source, "class": label, "series": len(series), "znormalized": bool(znormalize)}
    data = load_dataset(source, data_dir, seed=seed, normalize=znormalize is not False).train
    known = [str(name) for name in dict.fromkeys(sorted(data.y.tolist()))]
    if label is not None and label not in known:
        raise OptionError(f"{source} has no class {label!r}; its classes are {', '.join(known)}.")
    chosen = [row for row, name in zip(data.X, data.y.tolist(), strict=True) if label in (None, str(name))]
    return chosen, {"dataset": source, "class": label, "series": len(chosen), "znormalized": znormalize is not False}


def _weights(text: str | None) -> list[float] | None:
    from udtw.errors import OptionError

    try:
        return None if text is None else [float(part) for part in options.parse_list(text) or []]
    except ValueError:
        raise OptionError(f"--weights must be numbers such as 0.25,0.75; got {text!r}.") from None


def _write_mean(path: Path, mean: Any, sigma: Any) -> None:
    from udtw.cli.files import write_table

    columns = [mean] if mean.ndim == 1 else list(mean.T)
    names = ["value"] if mean.ndim == 1 else [f"value_{i}" for i in range(len(columns))]
    if sigma is not None:
        columns, names = [*columns, sigma], [*names, "sigma"]
    write_table(
        path, [dict(zip(names, row, strict=True)) for row in zip(*(one.tolist() for one in columns), strict=True)]
    )
