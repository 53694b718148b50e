"""``udtw cluster``: groups of similar series."""

import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from udtw.cli import options
from udtw.cli.output import messages, note, show


class Method(StrEnum):
    kmeans = "kmeans"
    kmedoids = "kmedoids"


def cluster_series(
    source: Annotated[
        str,
        typer.Argument(
            metavar="FILE|NAME",
            help="A file with one series per row (or, with --id-column, one row per step), or the name of a data set.",
        ),
    ],
    k: Annotated[int, typer.Option("--k", "-k", min=1, help="Number of clusters.")] = 3,
    method: Annotated[
        Method, typer.Option(help="Clusters about their means, or about the most central of their series.")
    ] = Method.kmeans,
    metric: options.Metric = "udtw",
    gamma: options.Gamma = None,
    band: options.Band = None,
    warp_penalty: Annotated[
        float | None, typer.Option(help="Added for each non-diagonal step.", show_default="that of the method")
    ] = None,
    max_iter: Annotated[
        int | None, typer.Option(min=1, help="Maximum number of rounds.", show_default="that of the method")
    ] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Do not scale each series to mean 0, std 1 first.")] = False,
    label_column: options.LabelColumn = None,
    id_column: options.IdColumn = None,
    columns: options.Columns = None,
    time_column: options.TimeColumn = None,
    transpose: options.Transpose = False,
    missing: options.Missing = options.MissingPolicy.raise_,
    decimal: options.Decimal = None,
    data_dir: options.DataDir = None,
    jobs: Annotated[int, typer.Option(help="Threads; -1: all cores.")] = 1,
    seed: options.Seed = 0,
    out: Annotated[Path | None, typer.Option(help="Write the cluster of each series here (.csv, .tsv, .json).")] = None,
    centers: Annotated[Path | None, typer.Option(help="Write the centres here, one row per step.")] = None,
    model: Annotated[
        Path | None, typer.Option(help="Save the clusters here (.safetensors), for `udtw predict`.")
    ] = None,
    json: options.Json = False,
) -> None:
    """Group series by their distance: k-means about barycenters, or k-medoids.

    If the file has a column of labels (`--label-column`), the agreement with them is printed (adjusted Rand index: 1 is
    perfect, 0 is chance). Clusters are numbered from 0.

    Examples:

    - `udtw cluster series.csv --k 4 --out clusters.csv --centers centers.csv`

    - `udtw cluster long.csv --id-column sensor --k 2 --method kmedoids --metric dtw --band 0.1`

    - `udtw cluster cbf --k 3`
    """
    import numpy as np

    from udtw.cli.classify import check_model_name
    from udtw.cli.files import check_table_name, read_options, write_table
    from udtw.timeseries import TimeSeriesKMeans, TimeSeriesKMedoids, save_model

    for path in (out, centers):
        if path is not None:
            check_table_name(path)
    if model is not None:
        check_model_name(model)
    reading = read_options(
        columns, missing, label_column=label_column, id_column=id_column, time_column=time_column, transpose=transpose,
        decimal=decimal,
    )  # fmt: skip
    series, labels, ids, names = _series(source, reading, not raw, data_dir, seed)
    given = options.given(gamma=gamma, warp_penalty=warp_penalty, max_iter=max_iter, band=options.parse_band(band))
    kind: Any = TimeSeriesKMeans if method == Method.kmeans else TimeSeriesKMedoids
    estimator = kind(k, metric=metric, n_jobs=jobs, random_state=seed, **given)
    begin = time.perf_counter()
    with options.named_as_flags(), messages().status(f"clustering {len(series)} series …"):
        estimator.fit(series)
    found = estimator.labels_
    rows = [{"series": name, "cluster": int(one)} for name, one in zip(ids, found, strict=True)]
    if out is not None:
        write_table(out, rows)
    if centers is not None:
        write_table(centers, _center_rows(estimator.cluster_centers_, names))
    if model is not None:
        save_model(
            model, estimator, {"task": "cluster", "znormalized": not raw, "reading": vars(reading), "names": names}
        )
        note(f"wrote {model}")
    result: dict[str, Any] = {
        "series": len(series),
        "method": str(method),
        "metric": metric,
        "k": k,
        "znormalized": not raw,
        "seed": seed,
        "sizes": {str(one): int((found == one).sum()) for one in range(k)},
        "inertia": float(estimator.inertia_),
        "rounds": int(estimator.n_iter_),
        "seconds": time.perf_counter() - begin,
    }
    if labels is not None:
        from sklearn.metrics import adjusted_rand_score

        result["adjusted_rand_index"] = float(adjusted_rand_score(np.asarray(labels).astype(str), found))
    show(f"Clusters of {source}", result | ({"clusters": rows} if json else {}), json)


def _series(
    source: str, reading: Any, normalize: bool, data_dir: Path | None, seed: int
) -> tuple[Any, Any, list[str], list[str]]:
    """Series, labels if there are any, names of the series, and names of the features."""
    from udtw.cli.files import load_dataset, read_series_table
    from udtw.data import znormalize
    from udtw.data.table_files import is_file_name

    if not is_file_name(source):
        data = load_dataset(source, data_dir, seed=seed, normalize=normalize).train
        return data.X, data.y, [str(row) for row in range(len(data))], ["value"]
    table = read_series_table(Path(source), reading)
    series = znormalize(table.values) if normalize else table.values
    return series, table.labels, table.ids, table.series[0].names


def _center_rows(centers: Any, names: list[str]) -> list[dict[str, Any]]:
    return [
        {"cluster": number, "step": step, **{name: float(value) for name, value in zip(names, row, strict=True)}}
        for number, center in enumerate(centers)
        for step, row in enumerate(center)
    ]
