"""``udtw cluster``: groups of similar series."""

import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from udtw.cli import options
from udtw.cli.command import IDS, LABELS
from udtw.cli.files import read_any, saved_form, scaled
from udtw.cli.output import save_figure, show, working, write_table, writing
from udtw.data.table import AS_IT_IS, ReadOptions
from udtw.errors import LengthError


class Method(StrEnum):
    kmeans = "kmeans"
    kmedoids = "kmedoids"


def cluster(
    source: Annotated[
        str,
        typer.Argument(
            metavar="FILE|NAME",
            help="A file with one series per row (or, with --id-column, one row per step), or the name of a data set.",
        ),
    ],
    k: Annotated[int, typer.Option("--k", "-k", min=1, help="Number of clusters.")] = 3,
    method: Annotated[
        Method, typer.Option(help="Cluster around means, or around the most central series.")
    ] = Method.kmeans,
    metric: options.Metric = "udtw",
    gamma: options.Gamma = None,
    band: options.Band = None,
    warp_penalty: Annotated[
        float | None, typer.Option(help="Penalty added for each non-diagonal step.", show_default="that of the method")
    ] = None,
    max_iter: Annotated[
        int | None, typer.Option(min=1, help="Maximum number of rounds.", show_default="that of the method")
    ] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Do not scale each series to mean 0, std 1 first.")] = False,
    reading: Annotated[ReadOptions, LABELS, IDS] = AS_IT_IS,
    data_dir: options.DataDir = None,
    jobs: Annotated[int, typer.Option(help="Threads; -1: all cores.")] = 1,
    seed: options.Seed = 0,
    out: Annotated[Path | None, options.table_option("the cluster of each series")] = None,
    centers: Annotated[Path | None, options.table_option("the centers, one row per step,")] = None,
    model: Annotated[Path | None, options.model_option("the clusters")] = None,
    plot: options.Plot = None,
    json: options.Json = False,
) -> None:
    """Group series by their distance: k-means with barycenters, or k-medoids.

    If the file has a column of labels (`--label-column`), the agreement with them is printed (adjusted Rand index: 1 is
    perfect, 0 is chance). Clusters are numbered from 0.

    Examples:

    - `udtw cluster series.csv --k 4 --out clusters.csv --centers centers.csv`

    - `udtw cluster long.csv --id-column sensor --k 2 --method kmedoids --metric dtw --band 0.1`

    - `udtw cluster cbf --k 3`
    """
    from udtw.timeseries import TimeSeriesKMeans, TimeSeriesKMedoids, save_model

    table = read_any(source, reading, data_dir, seed)
    if k > len(table):
        raise LengthError(f"--k {k}: {source} has only {len(table)} series, and every cluster needs one.")
    series = scaled(table, not raw)
    params = options.given(gamma=gamma, warp_penalty=warp_penalty, band=options.parse_band(band))
    given = {"metric_params": params, **options.given(max_iter=max_iter)}
    kind: Any = TimeSeriesKMeans if method == Method.kmeans else TimeSeriesKMedoids
    estimator = kind(k, metric=metric, n_jobs=jobs, random_state=seed, **given)
    begin = time.perf_counter()
    with working(f"clustering {len(series)} series …"):
        estimator.fit(series)
    found = estimator.labels_
    rows = [{"series": name, "cluster": int(one)} for name, one in zip(table.ids, found, strict=True)]
    if out is not None:
        write_table(out, rows)
    if centers is not None:
        write_table(centers, _center_rows(estimator.cluster_centers_, table.names), "--centers")
    if plot is not None:
        from udtw.cli.figures import cluster_figure

        save_figure(cluster_figure(series, found, estimator.cluster_centers_, table.names), plot)
    if model is not None:
        about = {"task": "cluster", "znormalized": not raw, **saved_form(table, reading)}
        with writing(model, "--model"):
            save_model(model, estimator, about)
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
    if table.labels is not None:
        from sklearn.metrics import adjusted_rand_score

        result["adjusted_rand_index"] = float(adjusted_rand_score(table.labels.astype(str), found))
    show(f"Clusters of {source}", result | ({"clusters": rows} if json else {}), json)


def _center_rows(centers: Any, names: list[str]) -> list[dict[str, Any]]:
    return [
        {"cluster": number, "step": step, **{name: float(value) for name, value in zip(names, row, strict=True)}}
        for number, center in enumerate(centers)
        for step, row in enumerate(center)
    ]
