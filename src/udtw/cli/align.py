"""``udtw align``: the command, and how the alignment is computed; `udtw.cli.match_report` prints it."""

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer

from udtw._engine.align import AUTO_GAMMA
from udtw._engine.alignment import Alignment
from udtw._engine.likelihood import LEAST_ROUGHNESS, roughness
from udtw._engine.match import Match, match
from udtw._engine.matches import tail_of
from udtw._engine.metrics import Metric, get_metric
from udtw._engine.pair_block import Batch
from udtw.cli import options
from udtw.cli.align_many import align_many
from udtw.cli.files import read_many, read_pair, read_ties
from udtw.cli.match_report import make_match_report, make_report, warped_rows
from udtw.cli.output import note, save_figure, show, working, write_table
from udtw.data.series_files import Series
from udtw.data.table import AS_IT_IS, ReadOptions
from udtw.errors import GammaError, OptionError

SIGMA_FACTOR = 4.0
"""A learned σ lies between the estimate divided by this factor and the estimate times this factor."""
SIGMA_SPREAD = 0.5
"""Prior standard deviation of log σ around the estimate."""
AT_BOUND, WORTH_SAYING = 0.95, 0.1
"""A learned log σ is at its bound from this share of the way on; if more than a tenth are, the user is warned."""
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
        typer.Argument(
            metavar="A",
            help="First series, x: .csv, .tsv, .txt, .xlsx, .parquet, .json, .npy, .npz (or .gz of these), or - for "
            "standard input. Rows are time steps, columns features; one row of numbers is a series too.",
        ),
    ],
    b: Annotated[Path, typer.Argument(metavar="B", help="Second series, y, with as many features.")],
    others: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[C]...", help="Further series: all are then put on one axis (`udtw.match_many`)."),
    ] = None,
    metric: options.Metric = "udtw",
    gamma: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER|auto",
            help="Temperature γ of the paths, > 0: near 0 only the best path counts, large values count all paths. "
            "auto is 4, which is right for independent Gaussian noise of standard deviation σ.",
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
            show_default="found from the pair",
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
            help="Ends that may stay unmatched: of x, of y (A lies anywhere inside B), of both, or at most these "
            "numbers of steps at x begin, x end, y begin, y end (`0,3,5,0`).",
            show_default="none",
        ),
    ] = None,
    anchors: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Tie points, a table with the columns i, j and sd: step i of A belongs to step j of B, give or take "
            "sd steps; empty or 0 is exact. Steps are counted from 0.",
        ),
    ] = None,
    reading: ReadOptions = AS_IT_IS,
    znormalize: Annotated[
        bool, typer.Option("--znormalize", help="First scale each feature to mean 0, std 1.")
    ] = False,
    level: Annotated[float, typer.Option(help="Probability that the partner of a step lies in its interval.")] = 0.9,
    of: Annotated[Side, typer.Option(help="Series whose steps are listed with their partners: A (x) or B (y).")] = (
        Side.x
    ),
    out: Annotated[Path | None, options.table_option("the matches, one row per step,")] = None,
    warped: Annotated[
        Path | None, options.table_option("B on the steps of A, mean and standard deviation of each column,")
    ] = None,
    plot: options.Plot = None,
    view: Annotated[
        View, typer.Option(help="What --plot draws: both series with match lines, or the matrix of probabilities.")
    ] = View.matches,
    json: options.Json = False,
) -> None:
    """Align two series: whether they match at all, the partner of every step, and how sure each match is.

    The noise between the series is estimated from the pair: its size, gain, offset, drift, correlation and a lag. The
    first line is the verdict: good, weak, or no match, in which case the intervals mean nothing and no lines are drawn.
    With `--gamma`, `--beta`, `--sigma`, `--weighting`, `--warp-penalty`, `--relax`, `--anchors` or another `--metric`,
    the pair is aligned with these settings as they are, without a verdict.

    The rows of `--out` have a step i (of A; of B with `--of y`), its most probable partner j, the times of both if the
    files have a time column, the probability of j, the interval from low to high that holds the partner with
    probability `--level`, its expected index, the probability that the step is matched at all, and σ of both. Steps
    are counted from 0, as they are in the files. The columns used are reported on standard error.

    With more than two files, all series are put on one axis: the verdict, gain and noise of each, and in `--out` a row
    for each series and step of the axis, with the step of the series there, its interval and the values.

    Examples:

    - `udtw align a.csv b.csv`

    - `udtw align a.csv b.csv c.csv d.csv --out joint.csv --plot joint.png`

    - `udtw align a.csv b.csv --out matches.csv --plot matches.png`

    - `udtw align a.csv b.csv --warped b_on_a.csv`

    - `udtw align a.csv b.csv --columns temp,humidity --time-column timestamp --missing interpolate --decimal ,`

    - `udtw align query.csv long.csv --relax y --znormalize`

    - `udtw align a.csv b.csv --anchors ties.csv`

    - `udtw align a.npy b.npy --metric dtw --warp-penalty 0.1 --band 0.1 --json | jq .distance`
    """
    given = options.given(weighting=weighting, warp_penalty=warp_penalty, relax=options.parse_relax(relax))
    options.check_known(metric, given)
    tail_of(level)
    if others:
        plain = (gamma, beta, sigma, anchors, band, warped) == (None,) * 6 and of == Side.x and view == View.matches
        if metric != "udtw" or given or not plain:
            raise OptionError(
                "More than two series are matched with the noise that udtw finds: leave out all options but --level, "
                "--out, --plot, --json, --znormalize and those of reading."
            )
        files = [a, b, *others]
        align_many(files, read_many(files, reading, znormalized=znormalize), level, (out, plot), json)
        return
    if metric == "udtw" and not given and (gamma, beta, sigma, anchors) == (None, None, None, None):
        x, y, _ = read_pair(a, b, reading, znormalized=znormalize)
        if of == Side.y:
            a, b, x, y = b, a, y, x
        _match_files((a, b), (x, y), of.value, level, options.parse_band(band), (out, warped, plot), view, json)
        return
    if warped is not None:
        raise OptionError(
            "--warped belongs to the match that udtw finds by itself: leave out --metric, --gamma, --beta, --sigma, "
            "--weighting, --warp-penalty, --relax and --anchors."
        )
    uncertain = get_metric(metric).uncertain
    sigma = sigma or (Sigma.estimate if uncertain else Sigma.none)
    if not uncertain and sigma != Sigma.none:
        raise OptionError(f"--sigma {sigma} belongs to --metric udtw; {metric} has no uncertainty.")
    temperature = parse_gamma(gamma, sigma != Sigma.none)
    params = options.given(gamma=temperature, beta=beta) | {"band": options.parse_band(band)} | given
    chosen, udtw = get_metric(metric, **params), get_metric("udtw", **params)
    chosen.check()
    for flag, path in (("--out", out), ("--plot", plot)):
        if path is not None and not has_paths(chosen):
            raise OptionError(f"{flag} needs the paths of an alignment, and the metric {metric} has none.")

    if anchors is not None and metric != "udtw":
        raise OptionError(f"--anchors belongs to --metric udtw; got {metric}.")

    x, y, variances = read_pair(a, b, reading, with_sigma=sigma == Sigma.column, znormalized=znormalize)
    if anchors is not None:
        ties = read_ties(anchors, reading.decimal, x, y)
        chosen = udtw = replace(udtw, function=partial(udtw.function, anchors=ties))
    with working(f"aligning {len(x.values):,} with {len(y.values):,} steps …"):
        if sigma in (Sigma.estimate, Sigma.learn):
            variances = estimate_variances(x.values, y.values)
        if sigma == Sigma.learn and variances[0] is not None:
            variances = learn_variances(x.values, y.values, variances, udtw)
        aligned = compute(x.values, y.values, variances, chosen, udtw)
        report = make_report(aligned, x, y, level, of.value)
        if plot is not None:
            save_figure(_figure(x, y, aligned.alignment, view, level, of.value), plot)
    if out is not None:
        write_table(out, report.rows())
    if json:
        used = {"files": [str(a), str(b)], "columns": x.names, "time_columns": [x.time_name, y.time_name]}
        show("", report.numbers | used | {"sigma": str(sigma)} | report.matches_as_json(), True)
        return
    for line in report.lines(f"{a.name} and {b.name}"):
        typer.echo(line)
    if report.soft:
        typer.echo(
            "Intervals count the noise of --sigma and --gamma only; without these options udtw finds the noise between "
            "the series and says whether they match."
        )


def _match_files(
    files: tuple[Path, Path],
    pair: tuple[Series, Series],
    of: str,
    level: float,
    band: Any,
    outputs: tuple[Path | None, Path | None, Path | None],
    view: View,
    json: bool,
) -> None:
    """Match two series that were read, and write and print what was found, the verdict first."""
    (x, y), (out, warped, plot) = _without_constant(*pair), outputs
    with working(f"matching {len(x.values):,} with {len(y.values):,} steps …"):
        matched: Match = match(x.values, y.values, level=level, band=band)
        report = make_match_report(matched, x, y, of)
        if plot is not None:
            save_figure(_match_figure(x, y, matched, view), plot)
    if out is not None:
        write_table(out, report.rows())
    if warped is not None:
        write_table(warped, warped_rows(matched, *pair), "--warped")
    if matched.trust.verdict == "none":
        for path in (one for one in (out, warped) if one is not None):
            note(f"warning: the series do not match; {path} is not to be trusted")
    if json:
        names = {"files": [str(one) for one in files], "columns": x.names, "time_columns": [x.time_name, y.time_name]}
        show("", report.numbers | names | report.matches_as_json(), True)
        return
    for line in report.lines(f"x is {files[0].name}, y is {files[1].name}"):
        typer.echo(line)


def _without_constant(x: Series, y: Series) -> tuple[Series, Series]:
    """Leave out columns that are constant in x or in y, unless all are."""
    varies = (x.values.std(0) > 0) & (y.values.std(0) > 0)
    if varies.all() or not varies.any():
        return x, y
    names = [name for name, kept in zip(x.names, varies, strict=True) if kept]
    constant = [name for name in x.names if name not in names]
    note(f"left out {', '.join(constant)}: constant in one of the series")
    first, second = (replace(one, values=one.values[:, varies], names=names) for one in (x, y))
    return first, second


@dataclass(frozen=True)
class Aligned:
    """Two series that have been compared: their distance and, if the metric has paths, their alignment."""

    x: np.ndarray
    y: np.ndarray
    variances: tuple[Any, Any]
    metric: Metric
    distance: float
    udtw: Metric
    """`udtw` with the parameters under which it has the paths of the metric."""
    alignment: Alignment | None

    @property
    def soft(self) -> bool:
        """Whether there are paths and they have probabilities."""
        return self.alignment is not None and "gamma" in self.metric.params

    def relaxed(self, counts: tuple[int, ...]) -> Alignment:
        """Align again with at most these ``counts`` of unmatched steps at x begin, x end, y begin and y end."""
        return self.udtw.function(self.x, self.y, *self.variances, **{**self.udtw.params, "relax": counts})


def has_paths(metric: Metric) -> bool:
    """Whether the metric compares along paths, so that steps have partners."""
    return bool(metric.takes_cost or metric.base or metric.name == "euclidean")


def compute(x: np.ndarray, y: np.ndarray, variances: tuple[Any, Any], metric: Metric, udtw: Metric) -> Aligned:
    """Compare series x (N, d) and y (M, d) whose steps have ``variances`` (N,) and (M,), or None.

    ``udtw`` is the metric of that name with the parameters of ``metric``: its alignment has the matches.
    """
    if metric.name == "euclidean":
        udtw = udtw.with_params(band=0, relax=None, gamma=1.0)  # the diagonal
    elif "gamma" not in metric.params:
        scale = float(np.concatenate([x, y]).var(0).sum())
        udtw = udtw.with_params(gamma=HARD_SHARE * scale if scale > 0 else 1.0)
    alignment = udtw.function(x, y, *variances, **udtw.params) if has_paths(metric) else None
    if metric.uncertain and alignment is not None:
        distance = float(alignment.distance)
    else:
        distance = float(metric.between(*(Batch(torch.from_numpy(one)[None]) for one in (x, y))))
    return Aligned(x, y, variances, metric, distance, udtw, alignment)


def parse_gamma(text: str | None, with_variances: bool) -> float | None:
    """Return γ of ``--gamma``: a number, ``auto`` with variances; None for the default of the metric."""
    if text == "auto" and not with_variances:
        raise OptionError("--gamma auto needs variances: --sigma column, estimate or learn. Or give a number.")
    if text is None or text == "auto":
        return AUTO_GAMMA if with_variances else None
    try:
        number = float(text)
    except ValueError:
        raise GammaError(f"--gamma must be a positive number or auto; got {text!r}.") from None
    if number == 0:
        raise GammaError("--gamma must be positive; for the limit 0 use --metric dtw.")
    return number


def estimate_variances(x: np.ndarray, y: np.ndarray) -> tuple[Any, Any]:
    """Estimate the variances of the steps of x (N, d) and y (M, d) from their roughness.

    Return None for both, with a message, if a series is too short or constant.
    """
    variances = []
    for name, series in (("x", x), ("y", y)):
        least = LEAST_ROUGHNESS * float(series.var(0).mean())
        if len(series) < 3 or least <= 0:
            reason = "has fewer than three steps" if len(series) < 3 else "is constant"
            note(f"{name} {reason}, so that its noise cannot be estimated: --sigma none is used")
            return None, None
        variances.append(np.maximum(roughness(torch.from_numpy(series)).numpy(), least))
    return variances[0], variances[1]


def learn_variances(
    x: np.ndarray, y: np.ndarray, start: tuple[Any, Any], udtw: Metric, steps: int = 150
) -> tuple[Any, Any]:
    """Return the variances of the steps of x (N,) and y (M,) with the greatest posterior probability.

    σ is log-normal around the estimate ``start``, with standard deviation `SIGMA_SPREAD`; without that prior, every
    well matched step would take the least σ allowed.
    """
    first, second = torch.from_numpy(x), torch.from_numpy(y)
    level = [torch.from_numpy(one).sqrt() for one in start]
    free = [torch.zeros(len(series), dtype=first.dtype, requires_grad=True) for series in (first, second)]

    def log_ratios() -> list[Any]:
        return [np.log(SIGMA_FACTOR) * torch.tanh(value) for value in free]

    def variances() -> list[Any]:
        return [(sigma * one.exp()) ** 2 for sigma, one in zip(level, log_ratios(), strict=True)]

    optimizer = torch.optim.Adam(free, lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        surprise = sum(one.square().sum() for one in log_ratios()) / (2 * SIGMA_SPREAD**2)
        (udtw.function(first, second, *variances(), **udtw.params).loss + udtw.params["gamma"] * surprise).backward()
        optimizer.step()
    ratios = np.abs(np.concatenate([value.detach().numpy() for value in log_ratios()])) / np.log(SIGMA_FACTOR)
    at_bound = float((ratios > AT_BOUND).mean())
    if at_bound > WORTH_SAYING:
        note(
            f"warning: {at_bound:.0%} of the learned σ sit at a bound, a quarter of the estimate or four times it: "
            "use --sigma estimate."
        )
    learned = [value.detach().numpy() for value in variances()]
    return learned[0], learned[1]


def _figure(x: Series, y: Series, alignment: Any, view: str, level: float, of: str) -> Any:
    """Draw the alignment with the times of the files on its axes."""
    from udtw.cli.figures import breaks_of
    from udtw.plots import plot_alignment, plot_matches

    if view == View.matrix:
        return plot_alignment(x.values, y.values, alignment)
    labels: dict[str, Any] = {"times": (_times(x), _times(y)), "breaks": (breaks_of(x), breaks_of(y))}
    return plot_matches(x.values, y.values, alignment, level=level, of=of, **labels)


def _match_figure(x: Series, y: Series, matched: Match, view: View) -> Any:
    """Draw a match with the times of the files on its axes."""
    from udtw.cli.figures import breaks_of
    from udtw.plots import plot_alignment, plot_matches

    if view == View.matrix:
        return plot_alignment(x.values, y.values, matched.alignment, match=matched)
    labels: dict[str, Any] = {"times": (_times(x), _times(y)), "breaks": (breaks_of(x), breaks_of(y))}
    return plot_matches(x.values, y.values, matched.alignment, matches=matched, **labels)


def _times(series: Series) -> Any:
    """Return labels of the steps: times of the file, or numbers if steps were left out."""
    omitted = series.steps[-1] + 1 > len(series.steps)
    return series.time_text or (series.steps if omitted else None)
