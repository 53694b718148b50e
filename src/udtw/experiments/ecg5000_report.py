"""The ECG5000 tables: what each loss is worth by each measure, beside the paper's numbers."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from udtw.experiments.document import Document
from udtw.experiments.ecg5000 import COMMON, EXPERIMENT, RECIPES, TUNING_SEEDS, candidates, choose
from udtw.experiments.units import Unit

NAMES = {"euclidean": "Euclidean", "soft_dtw": "sDTW", "soft_dtw_divergence": "sDTW div.", "udtw": "uDTW"}
MEASURES = {"mse": "MSE", "dtw": "DTW", "sdtw_div": "sDTW div.", "udtw": "uDTW"}
LEVEL = 0.05

PAPER = {
    "euclidean": (32.1, 20.0, 15.3, 14.4),
    "soft_dtw": (38.6, 17.2, 22.6, 32.1),
    "soft_dtw_divergence": (24.6, 38.9, 20.0, 15.4),
    "udtw": (23.0, 16.7, 16.8, 8.27),
}

SCALE_NOTE = (
    "Means over the test series, mean ± standard deviation over {seeds} seed(s) (initial weights, validation split and "
    "batches). MSE: squared error a step; DTW: sum of squared differences along the best path, not normalised; sDTW "
    "div.: γ = 1; uDTW: E[D/Σ] + E[log Σ], γ = 1, with the same Σ for all rows, the variance of each step over the "
    "training series (it can be negative). Lower is better. ▼ / ▲: lower / higher than the Euclidean-trained row by "
    "Student's paired t-test at 0.05."
)


def report(results: Iterable[tuple[Unit, dict[str, Any]]], document: Document) -> None:
    """Add the tables and the figure of the ECG5000 experiment to ``document``; results of others are ignored."""
    found = list(results)
    by_loss: dict[str, dict[int, dict[str, Any]]] = {}
    for unit, result in found:
        if unit.experiment == EXPERIMENT:
            by_loss.setdefault(unit.method, {})[unit.seed] = result
    rows = [loss for loss in NAMES if loss in by_loss]
    document.text("## ECG5000: forecasting the last 40 % of a heartbeat")
    if not rows:
        document.text("No results yet.")
        return
    seeds = max(len(by_loss[loss]) for loss in rows)
    document.table(
        "Trained with (rows), judged by (columns)",
        ["trained with", *MEASURES.values(), "seconds"],
        [[NAMES[loss], *(_cell(by_loss, loss, m) for m in MEASURES), _seconds(by_loss[loss])] for loss in rows],
        note=SCALE_NOTE.format(seeds=seeds),
    )
    _compare(document, by_loss)
    document.table(
        "The paper's numbers",
        ["trained with", *MEASURES.values()],
        [[NAMES[loss], *PAPER[loss]] for loss in rows],
        note="The paper does not state its scale; its caption calls the columns the training distance and the rows the "
        "test distance. Only the order within a column can be compared.",
    )
    document.table(
        "Uncertainty of the forecasts",
        ["trained with", "share within 1.96 std", "negative log-likelihood a step"],
        [[NAMES[loss], *(_plain(by_loss[loss], m) for m in ("coverage", "nll"))] for loss in rows],
        note="std: predict(return_std=True); for uDTW the SigmaNet's σ on the forecast, for the others one number a "
        "step, both scaled on the validation series. 0.95 would be right for Gaussian errors.",
    )
    _tuning(document, found)
    _figure(document, by_loss)


def _values(runs: dict[int, dict[str, Any]], measure: str) -> dict[int, float]:
    return {seed: result["test"][measure] for seed, result in runs.items()}


def _plain(runs: dict[int, dict[str, Any]], measure: str) -> str:
    values = list(_values(runs, measure).values())
    spread = f" ± {np.std(values, ddof=1):.3f}" if len(values) > 1 else ""
    return f"{np.mean(values):.3f}{spread}"


def _cell(by_loss: dict[str, dict[int, dict[str, Any]]], loss: str, measure: str) -> str:
    text = _plain(by_loss[loss], measure)
    if loss == "euclidean" or "euclidean" not in by_loss:
        return text
    own, base = _values(by_loss[loss], measure), _values(by_loss["euclidean"], measure)
    shared = sorted(set(own) & set(base))
    return text + significance([own[s] for s in shared], [base[s] for s in shared])


def significance(values: list[float], baseline: list[float]) -> str:
    """ " ▼" if ``values`` are lower than ``baseline`` by the paired t-test at `LEVEL`, " ▲" if higher, else ""."""
    from scipy.stats import ttest_rel

    difference = np.subtract(values, baseline)
    if len(difference) < 2 or not difference.any():
        return ""
    constant = np.ptp(difference) == 0  # the test would divide by zero; there is nothing left to doubt
    if not constant and ttest_rel(values, baseline).pvalue >= LEVEL:
        return ""
    return " ▼" if difference.mean() < 0 else " ▲"


def _seconds(runs: dict[int, dict[str, Any]]) -> str:
    return f"{np.mean([result['seconds'] for result in runs.values()]):.1f}"


def _compare(document: Document, by_loss: dict[str, dict[int, dict[str, Any]]]) -> None:
    """The question of the experiment in one sentence, and uDTW against every other loss."""
    if not {"euclidean", "udtw"} <= set(by_loss):
        return
    dtw, mse = (_change(by_loss, "euclidean", measure)[0] for measure in ("dtw", "mse"))
    document.text(
        f"Trained with uDTW, the test DTW is {abs(dtw):.1f} % {'lower' if dtw < 0 else 'higher'} than trained with the "
        f"Euclidean loss, and the MSE {abs(mse):.1f} % {'lower' if mse < 0 else 'higher'}."
    )
    rows = []
    for loss, name in NAMES.items():
        if loss in by_loss and loss != "udtw":
            changes = [_change(by_loss, loss, measure) for measure in ("dtw", "mse")]
            rows.append([name, *(text for change, p in changes for text in (f"{change:+.1f} %", f"{p:.3f}"))])
    document.table(
        "Trained with uDTW, compared with another loss",
        ["against", "DTW", "p", "MSE", "p"],
        rows,
        note="Change of the mean over the seeds that both have, and p of Student's paired t-test over them.",
    )


def _change(by_loss: dict[str, dict[int, dict[str, Any]]], loss: str, measure: str) -> tuple[float, float]:
    """Of uDTW against ``loss``: change of the mean in %, and p of the paired t-test (NaN if it cannot be had)."""
    from scipy.stats import ttest_rel

    own, base = _values(by_loss["udtw"], measure), _values(by_loss[loss], measure)
    shared = sorted(set(own) & set(base))
    mine, theirs = [own[s] for s in shared], [base[s] for s in shared]
    p = float(ttest_rel(mine, theirs).pvalue) if len(shared) > 1 and np.ptp(np.subtract(mine, theirs)) > 0 else np.nan
    return 100 * (float(np.mean(mine)) / float(np.mean(theirs)) - 1), p


def _tuning(document: Document, results: list[tuple[Unit, dict[str, Any]]]) -> None:
    """Every candidate on the validation series, and whether the choice is that of the table above."""
    tried, chosen = candidates(results), choose(results)
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
            [NAMES[loss], ", ".join(f"{k} {params[k]}" for k in varied[loss]), f"{means['mse']:.3f}",
             f"{means['dtw']:.3f}", "yes" if params == chosen[loss] else ""]
            for loss in NAMES for other, params, means in tried if other == loss
        ],
        note=f"Over {len(TUNING_SEEDS)} seeds; the least DTW is chosen, test series are not looked at. "
        + ("The rows above were trained with this choice." if agrees else
           "This is NOT the choice that the rows above were trained with (RECIPES in udtw.experiments.ecg5000)."),
    )  # fmt: skip


def _figure(document: Document, by_loss: dict[str, dict[int, dict[str, Any]]]) -> None:
    from udtw.plots import plot_forecast

    shown = {loss: runs[min(runs)]["examples"] for loss, runs in by_loss.items() if loss in ("udtw", "euclidean")}
    if not shown:
        return
    examples = next(iter(shown.values()))
    forecasts = {NAMES[loss]: shown[loss]["forecast"] for loss in ("udtw", "euclidean") if loss in shown}
    std = {NAMES["udtw"]: shown["udtw"]["std"]} if "udtw" in shown else None
    figure = plot_forecast(examples["past"], examples["future"], forecasts, std)
    document.figure(figure, "Test heartbeats, spread over the file: forecasts of the first seed, with ± 2 std of uDTW.")
