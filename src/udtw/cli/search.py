"""``udtw search``: where a query occurs in a long series."""

from pathlib import Path
from typing import Annotated, Any

import typer

from udtw.cli import options
from udtw.cli.output import save_figure, show, write_table
from udtw.data.table import AS_IT_IS, ReadOptions


def search(
    query: Annotated[Path, typer.Argument(metavar="QUERY", help="Series to find, in any format of `udtw align`.")],
    stream: Annotated[Path, typer.Argument(metavar="STREAM", help="The long series, with as many features.")],
    k: Annotated[int, typer.Option("--k", "-k", min=1, help="Maximum number of matches, which do not overlap.")] = 5,
    gamma: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER|auto",
            help="Temperature γ of the probabilities; auto is 4 times the variance of the noise, as estimated from the "
            "roughness of both series and from what the best match leaves.",
            show_default="auto",
        ),
    ] = None,
    warp_penalty: Annotated[
        float | None,
        typer.Option(
            help="Penalty added for each non-diagonal step; with 0 the query may be squeezed into few steps.",
            show_default="1.25 γ",
        ),
    ] = None,
    level: Annotated[float, typer.Option(help="Probability that beginning and end lie in their intervals.")] = 0.9,
    znormalize: Annotated[
        bool,
        typer.Option(
            "--znormalize", help="Compare shapes: scale the query and each window of the stream to mean 0, std 1."
        ),
    ] = False,
    reading: ReadOptions = AS_IT_IS,
    out: Annotated[Path | None, options.table_option("the matches")] = None,
    plot: options.Plot = None,
    json: options.Json = False,
) -> None:
    """Find the best matches of a short series in a long one, by exact DTW with free begin and end.

    For each match: its first and last step in the stream (counted from 0) and their times, the distance, the
    probability that it lies there, and the intervals that hold begin and end with probability `--level`.

    Examples:

    - `udtw search query.csv stream.csv --k 3 --out hits.csv`

    - `udtw search heartbeat.csv ecg.parquet --columns mV --znormalize --plot hits.png`
    """
    from udtw._engine.matches import tail_of
    from udtw.cli.align import parse_gamma
    from udtw.cli.figures import search_figure
    from udtw.cli.files import read_pair
    from udtw.timeseries import SubsequenceSearch

    tail_of(level)
    x, y, _ = read_pair(query, stream, reading)
    temperature = None if gamma in (None, "auto") else parse_gamma(gamma, False)
    normalize = "window" if znormalize else None
    finder = SubsequenceSearch(x.values, gamma=temperature, warp_penalty=warp_penalty, normalize=normalize)
    found = finder.search(y.values, k=k, level=level, progress=len(y.values) > 2**18)
    rows = []
    for rank, one in enumerate(found, start=1):
        row: dict[str, Any] = {"rank": rank, "begin": int(y.steps[one.begin]), "end": int(y.steps[one.end])}
        if y.time_text:
            row |= {"time_begin": y.time_text[one.begin], "time_end": y.time_text[one.end]}
        row |= {"distance": one.distance, "probability": one.probability}
        for name, (low, high) in (("begin", one.begin_interval), ("end", one.end_interval)):
            row |= {f"{name}_low": int(y.steps[low]), f"{name}_high": int(y.steps[high])}
        rows.append(row)
    if out is not None:
        write_table(out, rows)
    if plot is not None:
        save_figure(search_figure(y, found), plot)
    if json:
        show(
            "",
            {"query_steps": len(x.values), "stream_steps": len(y.values), "matches": rows},
            True,
        )
        return
    typer.echo(f"{query.name} ({len(x.values):,} steps) in {stream.name} ({len(y.values):,} steps)")
    for row in rows:
        when = f" ({row['time_begin']} to {row['time_end']})" if "time_begin" in row else ""
        typer.echo(
            f"{row['rank']}. steps {row['begin']} to {row['end']}{when}: distance {row['distance']:.6g}, probability "
            f"{row['probability']:.2f}; begin between {row['begin_low']} and {row['begin_high']}, end between "
            f"{row['end_low']} and {row['end_high']}"
        )
