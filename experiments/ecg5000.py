"""ECG5000 forecasting: the last 40 % of a heartbeat from its first 60 %, trained with each loss.

500 series are for training and 4500 for testing, as published; 100 of the 500 are held out for validation: they decide
when training stops, how wide bands are, and which parameters are chosen. A unit is one training. Units of
"ecg5000-tuning" train with the `CANDIDATES` and never read the test series; their seed is a fold of cross-validation,
so that each of the 500 series is judged once. Units of "ecg5000" train with `RECIPES`, hold out
series chosen by the seed, and are tested. `udtw reproduce ecg5000` runs both, and its report says whether the tuning
chose `RECIPES` again.
"""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import ttest_rel

from experiments import published
from experiments.estimator_options import estimator_options
from experiments.experiment import Experiment, Results, chosen_datasets
from experiments.units import Unit
from udtw._engine.align import align, dtw, soft_dtw_divergence
from udtw._engine.metrics import METRICS
from udtw.data import load_ucr
from udtw.demo.document import Document, mean_std
from udtw.plots import plot_forecast
from udtw.timeseries import SequenceForecaster

PAPER = "udtw_paper"
"""uDTW with the paper's weighting, as a row of its own."""
LABELS = {name: METRICS[name].label for name in published.ECG5000} | {PAPER: "uDTW, paper's weighting"}
"""Name of a row to its label, in the order of the tables."""

Runs = dict[int, dict[str, Any]]
"""Seed to result."""
ByLoss = dict[str, Runs]

SEEDS = list(range(5))
FOLDS = 5
TUNING_SEEDS = range(FOLDS)
NAME, TUNING, DATASET = "ecg5000", "ecg5000-tuning", "ECG5000"
OBSERVED = 0.6
BAND = 0.9
"""Coverage that intervals should have."""
EXAMPLES = 6
QUICK_EPOCHS = 5
MEASURES = {"mse": "MSE", "dtw": "DTW", "sdtw_div": "sDTW div.", "udtw": "uDTW"}
LEVEL = 0.05
NOTE = (
    "Means over the test series, mean ± standard deviation over {seeds} (initial weights, validation split and "
    "batches). MSE: squared error per step; DTW: sum of squared differences along the best path, not normalized; sDTW "
    "div.: γ = 1; uDTW: E[D/Σ] + E[log Σ], γ = 1, with the same Σ for all rows, the variance of each step over the "
    "training series (it can be negative). Lower is better. ▼ / ▲: lower / higher than the Euclidean-trained row by "
    "Student's paired t-test at 0.05."
)

COMMON = {"hidden": 256, "dropout": 0.2, "batch_size": 50, "max_epochs": 150, "patience": 30, "learning_rate": 1e-3}

_RATES = ({"learning_rate": 1e-3}, {"learning_rate": 2e-3}, {"learning_rate": 3e-3})


def _own_candidates(loss: str) -> list[dict[str, Any]]:
    """Return two values of the most important parameter of this loss."""
    if loss == PAPER:
        return [{"weighting": "precision", "beta": beta} for beta in (0.1, 0.02)]
    if METRICS[loss].uncertain:
        return [{"warp_penalty": penalty} for penalty in (1.0, 2.0)]
    if "gamma" in METRICS[loss].params:
        return [{"gamma": gamma} for gamma in (0.1, 1.0)]
    return [{"dropout": dropout} for dropout in (0.0, 0.2)]


CANDIDATES: dict[str, list[dict[str, Any]]] = {
    loss: [{**own, **rate} for own in _own_candidates(loss) for rate in _RATES] for loss in LABELS
}
"""Parameters to try, equally many for each loss: three learning rates times two values of its own parameter."""

_CHOSEN = {"euclidean": 0, "soft_dtw": 2, "soft_dtw_divergence": 2, "udtw": 1, PAPER: 1}
RECIPES = {loss: CANDIDATES[loss][place] for loss, place in _CHOSEN.items()}
"""The candidates that are tested; the report says whether the tuning (`choose`) takes the same."""


def tuning_units(seeds: Sequence[int] = TUNING_SEEDS) -> list[Unit]:
    """List all `CANDIDATES` for each seed."""
    return [
        Unit(TUNING, DATASET, loss, seed, COMMON | params)
        for loss, candidates in CANDIDATES.items()
        for params in candidates
        for seed in seeds
    ]


def units(
    seeds: Sequence[int] = SEEDS,
    recipes: dict[str, dict[str, Any]] | None = None,
    *,
    datasets: list[str] | None = None,
    quick: bool = False,
    data_dir: Any = None,
) -> list[Unit]:
    """List the tuning, and one training for each loss and seed with `RECIPES`, evaluated on the test series.

    Given ``recipes``, or with ``quick`` (a few epochs, to see that all works), there is no tuning. ``data_dir`` is read
    by `work` only.
    """
    chosen_datasets(datasets, [DATASET])
    chosen = RECIPES if recipes is None else recipes
    common = COMMON | {"max_epochs": QUICK_EPOCHS} if quick else COMMON
    final = [Unit(NAME, DATASET, loss, seed, common | params) for loss, params in chosen.items() for seed in seeds]
    return final if quick or recipes is not None else tuning_units() + final


def work(unit: Unit, data_dir: Any = None) -> dict[str, Any]:
    """Measure one training on the validation series and, unless it belongs to the tuning, on the test series."""
    data = load_ucr(unit.dataset, data_dir)
    series = np.asarray(data.train.X, float)
    cut = round(OBSERVED * series.shape[1])
    tuning = unit.experiment == TUNING
    folds = np.array_split(np.random.default_rng(0 if tuning else unit.seed).permutation(len(series)), FOLDS)
    held = folds.pop(unit.seed if tuning else 0)
    valid, train = series[held], series[np.concatenate(folds)]
    options: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in unit.options.items()}
    begin = time.perf_counter()
    loss = "udtw" if unit.method == PAPER else unit.method
    forecaster = SequenceForecaster(loss, random_state=unit.seed, **estimator_options(SequenceForecaster, options))
    forecaster.fit(train[:, :cut], train[:, cut:], valid[:, :cut], valid[:, cut:])
    result: dict[str, Any] = {"seconds": time.perf_counter() - begin, "epochs": forecaster.n_iter_}
    spread = train[:, cut:].var(0)
    result["valid"] = judge(forecaster.predict(valid[:, :cut]), valid[:, cut:], spread)
    if tuning:
        return result
    test = np.asarray(data.test.X, float)
    past, future = test[:, :cut], test[:, cut:]
    forecast, std = forecaster.predict(past, return_std=True)
    low, high = forecaster.predict_interval(past, BAND)
    result["test"] = judge(forecast, future, spread) | judge_std(forecast, std, future)
    result["test"] |= judge_interval(low, high, future)
    shown = np.linspace(0, len(test) - 1, min(EXAMPLES, len(test))).astype(int)
    arrays = {"past": past, "future": future, "forecast": forecast, "low": low, "high": high}
    result["examples"] = {name: np.round(array[shown], 4).tolist() for name, array in arrays.items()}
    return result


def judge(forecast: NDArray, truth: NDArray, spread: NDArray) -> dict[str, float]:
    """Return means over the series of (n, T) arrays.

    - ``mse``: squared error per step;
    - ``dtw``: least sum of squared differences along a path, not divided by anything;
    - ``sdtw_div``: soft-DTW divergence, γ = 1;
    - ``udtw``: ``E[D/Σ] + E[log Σ]``, γ = 1, where Σ comes from the data, so that no forecaster is judged by its own
      network: ``Σ_mn = ½(s_m + s_n)`` with s = ``spread`` (T,), the variance of each step of the future over the
      training series.
    """
    x, y = forecast[..., None], truth[..., None]
    return {
        "mse": float(np.square(forecast - truth).mean()),
        "dtw": float(dtw(x, y).mean()),
        "sdtw_div": float(soft_dtw_divergence(x, y, gamma=1.0).mean()),
        "udtw": float(align(x, y, spread, spread, gamma=1.0, beta=1.0, weighting="precision").loss.mean()),
    }


def judge_std(forecast: NDArray, std: NDArray, truth: NDArray) -> dict[str, float]:
    """Measure how well ``std`` describes the errors.

    - ``coverage``: share of steps within 1.96 std (0.95 if Gaussian);
    - ``nll``: Gaussian negative log-likelihood per step.
    """
    ratio = (truth - forecast) / std
    likelihood = 0.5 * np.square(ratio) + np.log(std) + 0.5 * np.log(2 * np.pi)
    return {"coverage": float((np.abs(ratio) < 1.96).mean()), "nll": float(likelihood.mean())}


def judge_interval(low: NDArray, high: NDArray, truth: NDArray) -> dict[str, float]:
    """Return the share of true values between the bounds, and the mean and median width of the intervals."""
    width = high - low
    inside = (low <= truth) & (truth <= high)
    return {"covered": float(inside.mean()), "width": float(width.mean()), "median_width": float(np.median(width))}


def choose(results: Results, by: str = "dtw") -> dict[str, dict[str, Any]]:
    """Return the parameters of each loss with the least mean validation measure over the seeds of the tuning."""
    best: dict[str, tuple[float, dict[str, Any]]] = {}
    for loss, params, means in tried_candidates(results):
        if loss not in best or means[by] < best[loss][0]:
            best[loss] = means[by], params
    return {loss: params for loss, (_, params) in best.items()}


def tried_candidates(results: Results) -> list[tuple[str, dict[str, Any], dict[str, float]]]:
    """List (loss, parameters, mean validation measures over the seeds) of all candidates of the tuning."""
    found: dict[tuple[str, Any], list[dict[str, float]]] = {}
    for unit, result in results:
        if unit.experiment == TUNING:
            found.setdefault((unit.method, unit.params), []).append(result["valid"])
    seeds = max(map(len, found.values()), default=0)
    return [
        (
            loss,
            Unit(TUNING, DATASET, loss, 0, params).options,
            {m: float(np.mean([v[m] for v in runs])) for m in runs[0]},
        )
        for (loss, params), runs in found.items()
        # A candidate that failed for some seed must not win because its other seeds were easy.
        if len(runs) == seeds
    ]


def report(results: Results, document: Document) -> None:
    """Add the tables and the figure of the ECG5000 experiment to ``document``; results of others are ignored."""
    by_loss: ByLoss = {}
    for unit, result in results:
        if unit.experiment == NAME:
            by_loss.setdefault(unit.method, {})[unit.seed] = result
    rows = [loss for loss in LABELS if loss in by_loss]
    document.text("## ECG5000: forecasting the last 40 % of a heartbeat")
    if not rows:
        document.text("No results yet.")
        return
    seeds = max(len(by_loss[loss]) for loss in rows)
    document.table(
        "Trained with (rows), judged by (columns)",
        ["trained with", *MEASURES.values(), "seconds"],
        [[LABELS[loss], *(_cell(by_loss, loss, m) for m in MEASURES), _seconds(by_loss[loss])] for loss in rows],
        note=NOTE.format(seeds="1 seed" if seeds == 1 else f"{seeds} seeds"),
    )
    _compare(document, by_loss)
    document.table(
        "The paper's numbers",
        ["trained with", *MEASURES.values()],
        [[LABELS[loss], *figures] for loss, figures in published.ECG5000.items() if loss in rows],
        note="The paper does not state its scale; its caption calls the columns the training distance and the rows the "
        "test distance. Only the order within a column can be compared.",
    )
    document.table(
        "Uncertainty of the forecasts",
        [
            "trained with",
            f"within {100 * BAND:g} % intervals",
            "their mean width",
            "median width",
            "negative log-likelihood per step",
        ],
        [
            [
                LABELS[loss],
                *(mean_std(_values(by_loss[loss], m), 3) for m in ("covered", "width", "median_width", "nll")),
            ]
            for loss in rows
        ],
        note=f"Intervals: predict_interval(level={BAND}), calibrated on the validation series; likelihood: Gaussian, "
        "of predict(return_std=True). σ depends on the past for uDTW, on the forecast for the paper's weighting, for "
        "the others on the step only.",
    )
    _tuning(document, results)
    _figure(document, by_loss)


def _values(runs: Runs, measure: str) -> list[float]:
    return [result["test"][measure] for result in runs.values()]


def _paired(by_loss: ByLoss, loss: str, other: str, measure: str) -> tuple[list[float], list[float]]:
    """Return the measure of two losses, for the seeds that both have."""
    seeds = sorted(set(by_loss[loss]) & set(by_loss[other]))
    mine, theirs = ([by_loss[name][seed]["test"][measure] for seed in seeds] for name in (loss, other))
    return mine, theirs


def _cell(by_loss: ByLoss, loss: str, measure: str) -> str:
    text = mean_std(_values(by_loss[loss], measure), 3)
    if loss == "euclidean" or "euclidean" not in by_loss:
        return text
    return text + significance(*_paired(by_loss, loss, "euclidean", measure))


def significance(values: list[float], baseline: list[float]) -> str:
    """Return " ▼" if ``values`` are below ``baseline`` by the paired t-test at `LEVEL`, " ▲" if above, else ""."""
    difference = np.subtract(values, baseline)
    if len(difference) < 2 or not difference.any():
        return ""
    constant = np.ptp(difference) == 0  # the test would divide by zero, and the difference is certain
    if not constant and ttest_rel(values, baseline).pvalue >= LEVEL:
        return ""
    return " ▼" if difference.mean() < 0 else " ▲"


def _seconds(runs: Runs) -> str:
    return f"{np.mean([result['seconds'] for result in runs.values()]):.1f}"


def _compare(document: Document, by_loss: ByLoss) -> None:
    """Summarize the main finding in one sentence, and compare uDTW with every other loss."""
    if not {"euclidean", "udtw"} <= set(by_loss):
        return
    dtw, mse = (_change(by_loss, "euclidean", measure)[0] for measure in ("dtw", "mse"))
    document.text(
        f"Trained with uDTW, the test DTW is {abs(dtw):.1f} % {'lower' if dtw < 0 else 'higher'} than trained with the "
        f"Euclidean loss, and the MSE {abs(mse):.1f} % {'lower' if mse < 0 else 'higher'}."
    )
    rows = []
    for loss in LABELS:
        if loss in by_loss and loss != "udtw":
            changes = [_change(by_loss, loss, measure) for measure in ("dtw", "mse")]
            rows.append([LABELS[loss], *(text for change, p in changes for text in (f"{change:+.1f} %", f"{p:.3f}"))])
    document.table(
        "Trained with uDTW, compared with another loss",
        ["against", "DTW", "p", "MSE", "p"],
        rows,
        note="Change of the mean over the seeds that both have, and p of Student's paired t-test over them.",
    )


def _change(by_loss: ByLoss, loss: str, measure: str) -> tuple[float, float]:
    """Return the change of the mean of uDTW against ``loss`` in %, and p of the paired t-test (NaN if undefined)."""
    mine, theirs = _paired(by_loss, "udtw", loss, measure)
    p = float(ttest_rel(mine, theirs).pvalue) if len(mine) > 1 and np.ptp(np.subtract(mine, theirs)) > 0 else np.nan
    return 100 * (float(np.mean(mine)) / float(np.mean(theirs)) - 1), p


def _tuning(document: Document, results: Results) -> None:
    """Report all candidates on the validation series, and whether `RECIPES` are chosen again."""
    tried, chosen = tried_candidates(results), choose(results)
    if not tried:
        return
    own = {loss: sorted({k for other, params, _ in tried if other == loss for k in params}) for loss in chosen}
    varied = {
        loss: [k for k in own[loss] if len({str(p.get(k)) for other, p, _ in tried if other == loss}) > 1]
        for loss in chosen
    }
    agrees = all(chosen[loss] == COMMON | RECIPES[loss] for loss in chosen)
    document.table(
        "Tuning: means over the validation series",
        ["loss", "parameters", "MSE", "DTW", "chosen"],
        [
            [
                LABELS[loss],
                ", ".join(f"{k} {params[k]}" for k in varied[loss]),
                f"{means['mse']:.3f}",
                f"{means['dtw']:.3f}",
                "yes" if params == chosen[loss] else "",
            ]
            for loss in LABELS
            for other, params, means in tried
            if other == loss
        ],
        note=f"{FOLDS}-fold cross-validation on the training series. The least DTW is chosen; no test series is read. "
        + (
            "The rows above were trained with this choice."
            if agrees
            else "This is NOT the choice that the rows above were trained with (RECIPES in experiments.ecg5000)."
        ),
    )


def _figure(document: Document, by_loss: ByLoss) -> None:
    shown = {loss: runs[min(runs)]["examples"] for loss, runs in by_loss.items() if loss in ("udtw", "euclidean")}
    if not shown:
        return
    examples = next(iter(shown.values()))
    forecasts = {LABELS[loss]: shown[loss]["forecast"] for loss in ("udtw", "euclidean") if loss in shown}
    interval = {LABELS["udtw"]: (shown["udtw"]["low"], shown["udtw"]["high"])} if "udtw" in shown else None
    figure = plot_forecast(examples["past"], examples["future"], forecasts, interval=interval, level=BAND)
    document.figure(
        figure,
        f"Test heartbeats, spread over the file: forecasts of the first seed, with {100 * BAND:g} % intervals of uDTW.",
    )


EXPERIMENT = Experiment(NAME, "ECG5000: forecasting the rest of a heartbeat", units, work, report, SEEDS)
