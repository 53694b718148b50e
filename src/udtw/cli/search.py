"""``udtw search``: where a query occurs in a long series."""

from pathlib import Path
from typing import Annotated, Any

import typer

from udtw.cli import options
from udtw.cli.output import show, write_table
from udtw.data.table import AS_IT_IS, ReadOptions


def search(
    query: Annotated[Path, typer.Argument(metavar="QUERY", help="Series to find, in any format of `udtw align`.")],
    stream: Annotated[Path, typer.Argument(metavar="STREAM", help="The long series, with as many features.")],
    k: Annotated[int, typer.Option("--k", "-k", min=1, help="Maximum number of matches, which do not overlap.")] = 5,
    gamma: Annotated[
        str,
        typer.Option(
            metavar="NUMBER|auto",
            help="Temperature γ of the probabilities; auto is 4 times the variance of the noise, as estimated from the "
            "roughness of both series.",
        ),
    ] = "auto",
    warp_penalty: Annotated[
        float,
        typer.Option(help="Penalty added for each non-diagonal step; with 0 the query may be squeezed into few steps."),
    ] = 0.0,
    level: Annotated[float, typer.Option(help="Probability that beginning and end lie in their intervals.")] = 0.9,
    znormalize: Annotated[
        bool, typer.Option("--znormalize", help="First scale each feature of each file to mean 0, std 1.")
    ] = False,
    reading: ReadOptions = AS_IT_IS,
    out: Annotated[Path | None, options.table_option("the matches")] = None,
    json: options.Json = False,
) -> None:
    """Find the best matches of a short series in a long one, by exact DTW with free begin and end.

    For each match: its first and last step in the stream (counted from 0) and their times, the distance, the
    probability that it lies there, and the intervals that hold begin and end with probability `--level`.

    Examples:

    - `udtw search query.csv stream.csv --k 3 --out hits.csv`

    - `udtw search heartbeat.csv ecg.parquet --columns mV --znormalize --warp-penalty 0.1`
    """
    from udtw._engine.matches import tail_of
    from udtw.cli.align import parse_gamma
    from udtw.cli.files import read_pair
    from udtw.timeseries import SubsequenceSearch

    tail_of(level)
    x, y, _ = read_pair(query, stream, reading, znormalized=znormalize)
    temperature = _noise_temperature(x.values, y.values) if gamma == "auto" else parse_gamma(gamma, False)
    finder = SubsequenceSearch(x.values, gamma=temperature or 1.0, warp_penalty=warp_penalty)
    rows = []
    for rank, one in enumerate(finder.search(y.values, k=k, level=level, progress=len(y.values) > 2**18), start=1):
        row: dict[str, Any] = {"rank": rank, "begin": int(y.steps[one.begin]), "end": int(y.steps[one.end])}
        if y.time_text:
            row |= {"time_begin": y.time_text[one.begin], "time_end": y.time_text[one.end]}
        row |= {"distance": one.distance, "probability": one.probability}
        for name, (low, high) in (("begin", one.begin_interval), ("end", one.end_interval)):
            row |= {f"{name}_low": int(y.steps[low]), f"{name}_high": int(y.steps[high])}
        rows.append(row)
    if out is not None:
        write_table(out, rows)
    if json:
        show(
            "",
            {"query_steps": len(x.values), "stream_steps": len(y.values), "gamma": temperature, "matches": rows},
            True,
        )
        return
    typer.echo(
        f"{query.name} ({len(x.values):,} steps) in {stream.name} ({len(y.values):,} steps), γ = {temperature:g}"
    )
    for row in rows:
        when = f" ({row['time_begin']} to {row['time_end']})" if "time_begin" in row else ""
        typer.echo(
            f"{row['rank']}. steps {row['begin']} to {row['end']}{when}: distance {row['distance']:.6g}, probability "
            f"{row['probability']:.2f}; begin between {row['begin_low']} and {row['begin_high']}, end between "
            f"{row['end_low']} and {row['end_high']}"
        )


def _noise_temperature(x: Any, y: Any) -> float:
    """Return 4 times the mean variance of the noise of both series; 1 if it cannot be estimated."""
    from udtw._engine.align import AUTO_GAMMA
    from udtw.cli.align import estimate_variances

    first, second = estimate_variances(x, y)
    return 1.0 if first is None else AUTO_GAMMA * 0.5 * float(first.mean() + second.mean())
