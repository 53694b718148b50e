"""``udtw align``: two series from files."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from udtw.cli import options
from udtw.cli.output import check_figure_name, messages, save_figure, show


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
        typer.Argument(
            metavar="A",
            help="First series, x: .csv, .tsv, .txt, .xlsx, .parquet, .json, .npy, .npz (or .gz of these), or - for "
            "standard input. Rows are time steps, columns features; one row of numbers is a series too.",
        ),
    ],
    b: Annotated[Path, typer.Argument(metavar="B", help="Second series, y, with as many features.")],
    metric: options.Metric = "udtw",
    gamma: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER|auto",
            help="Temperature γ of the paths, > 0: near 0 only the best path counts, large values count all paths. "
            "auto is 4: probabilities are then calibrated if σ is that of the noise.",
            show_default="auto with σ, else that of the metric",
        ),
    ] = None,
    beta: options.Beta = None,
    sigma: Annotated[
        Sigma | None,
        typer.Option(
            help="Uncertainty of the steps (udtw): none (Σ = 1), the last column of each file (σ, not a feature), "
            "an estimate from the local roughness of the series, or learned for this pair: σ per step, between a "
            "quarter of the estimate and four times it.",
            show_default="estimate for udtw",
        ),
    ] = None,
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
    columns: options.Columns = None,
    time_column: options.TimeColumn = None,
    transpose: options.Transpose = False,
    missing: options.Missing = options.MissingPolicy.raise_,
    decimal: options.Decimal = None,
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
    `--of y`), its most probable partner j, the times of both if the files have a time column, the probability of j, the
    interval from low to high that holds the partner with probability `--level`, its expected index, the probability
    that the step is matched at all, and σ of both. Steps are counted from 0, as they are in the files. Which columns
    are used is said on standard error.

    Examples:

    - `udtw align a.csv b.csv`

    - `udtw align a.csv b.csv --out matches.csv --plot matches.png`

    - `udtw align a.csv b.csv --columns temp,humidity --time-column timestamp --missing interpolate --decimal ,`

    - `udtw align query.csv long.csv --relax y --znormalize`

    - `udtw align a.npy b.npy --metric dtw --warp-penalty 0.1 --band 0.1 --json | jq .distance`
    """
    from udtw._engine.matches import tail_of
    from udtw._engine.metrics import get_metric
    from udtw.cli import align_pair
    from udtw.cli.files import check_table_name, read_options
    from udtw.cli.match_report import make_report
    from udtw.errors import OptionError

    given = options.given(weighting=weighting, warp_penalty=warp_penalty, relax=options.parse_relax(relax))
    options.check_known(metric, given)
    uncertain = get_metric(metric).uncertain
    sigma = sigma or (Sigma.estimate if uncertain else Sigma.none)
    temperature = align_pair.temperature(gamma, sigma)
    params = options.given(gamma=temperature, beta=beta) | {"band": options.parse_band(band)} | given
    chosen, udtw = get_metric(metric, **params), get_metric("udtw", **params)
    with options.named_as_flags():
        chosen.check()
        tail_of(level)
    if not uncertain and sigma != "none":
        raise OptionError(f"--sigma {sigma} belongs to --metric udtw; {metric} has no uncertainty.")
    if out is not None:
        check_table_name(out)
    if plot is not None:
        check_figure_name(plot)
    for flag, wanted in (("--out", out), ("--plot", plot)):
        if wanted is not None and not align_pair.has_paths(chosen):
            raise OptionError(f"{flag} needs the paths of an alignment, and the metric {metric} has none.")
    reading = read_options(columns, missing, time_column=time_column, transpose=transpose, decimal=decimal)
    x, y, variances = align_pair.read_pair(a, b, reading, sigma == "column")
    if znormalize:
        x, y = align_pair.znormalized(x, y, variances)
    sizes = len(x.values), len(y.values)
    with options.named_as_flags(), messages().status(f"aligning {sizes[0]:,} with {sizes[1]:,} steps …"):
        if sigma in ("estimate", "learn"):
            variances = align_pair.estimated(x.values, y.values)
        if sigma == "learn":
            variances = align_pair.learned(x.values, y.values, variances, udtw)
        result, found = align_pair.measured(x.values, y.values, variances, chosen, udtw)
        report = None
        if found is not None:
            refit = align_pair.refit(x.values, y.values, variances, chosen, udtw)
            report = make_report(found, refit, (x, y), level, of.value, soft="gamma" in chosen.params)
        if report is not None and found is not None and plot is not None:
            save_figure(align_pair.figure(x, y, found, view, level, of), plot)
    if report is not None and out is not None:
        report.write(out)
    title = f"{a.name} and {b.name}"
    if json:
        used = {"files": [str(a), str(b)], "columns": x.names, "time_columns": [x.time_name, y.time_name]}
        show(title, result | used | {"sigma": str(sigma)} | (report.as_json() if report is not None else {}), True)
        return
    calibrated = sigma != "none" and temperature == align_pair.auto_gamma()
    for line in align_pair.text(title, result, report, chosen, calibrated=calibrated):
        typer.echo(line)
