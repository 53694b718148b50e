"""ECG5000 forecasting: the last 40 % of a heartbeat from its first 60 %, trained with each loss, judged each way.

500 series to train with, 4500 to test on, as published; 100 of the 500 (another hundred for each seed) are kept for
validation: they stop the training, and the tuning is decided on them alone. A unit is one training; "ecg5000-tuning"
units try the `CANDIDATES` and never look at the test series, "ecg5000" units train with `RECIPES`, what the tuning
chose, and do. `udtw reproduce ecg5000` runs both, and its report says whether the tuning chose `RECIPES` again.
"""

import time
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from udtw.align import align, dtw, soft_dtw_divergence
from udtw.data import load_ucr
from udtw.errors import OptionError
from udtw.experiments.document import Document
from udtw.experiments.units import Unit
from udtw.timeseries import SequenceForecaster

TITLE = "ECG5000: forecasting the rest of a heartbeat"
SEEDS = list(range(10))
TUNING_SEEDS = range(5)
EXPERIMENT, TUNING, DATASET = "ecg5000", "ecg5000-tuning", "ECG5000"
OBSERVED = 0.6
VALIDATION = 0.2
EXAMPLES = 6
QUICK_EPOCHS = 5

COMMON = {"hidden": 256, "dropout": 0.2, "batch_size": 50, "max_epochs": 150, "patience": 30, "learning_rate": 1e-3}

_RATES = ({"learning_rate": 1e-3}, {"learning_rate": 3e-3})
_GAMMAS = [{"gamma": gamma, **rate} for gamma in (0.1, 1.0) for rate in _RATES]
_UNCERTAIN = {"gamma": 0.1, "sigma": "context", "sigma_range": [1.0, 1.5]}
CANDIDATES: dict[str, list[dict[str, Any]]] = {
    "euclidean": [{"dropout": dropout, **rate} for dropout in (0.0, 0.2) for rate in _RATES],
    "soft_dtw": _GAMMAS,
    "soft_dtw_divergence": _GAMMAS,
    "udtw": [{**_UNCERTAIN, "beta": beta, **rate} for beta in (0.1, 0.02) for rate in _RATES],
}
"""As many for each loss: two learning rates, the same for all, times two values of what is most its own."""

RECIPES = {
    "euclidean": CANDIDATES["euclidean"][3],
    "soft_dtw": CANDIDATES["soft_dtw"][1],
    "soft_dtw_divergence": CANDIDATES["soft_dtw_divergence"][1],
    "udtw": CANDIDATES["udtw"][0],
}
"""What the tuning chose (`choose`): the least mean validation DTW over its seeds."""


def tuning_units(seeds: Iterable[int] = TUNING_SEEDS) -> list[Unit]:
    """All `CANDIDATES` for each seed."""
    seeds = list(seeds)
    return [
        Unit(TUNING, DATASET, loss, seed, COMMON | params)
        for loss, candidates in CANDIDATES.items()
        for params in candidates
        for seed in seeds
    ]


def units(
    seeds: Iterable[int] = SEEDS,
    recipes: dict[str, dict[str, Any]] | None = None,
    *,
    datasets: list[str] | None = None,
    quick: bool = False,
    data_dir: Any = None,
) -> list[Unit]:
    """The tuning, and one training for each loss and seed with `RECIPES`, judged on the test series.

    With ``recipes`` of one's own, or ``quick`` (a few epochs, to see that all works), without the tuning. There is one
    data set, which is read by `work` alone.
    """
    if datasets not in (None, [DATASET]):
        raise OptionError(f"This experiment has one data set, {DATASET}; got {datasets}.")
    seeds = list(seeds)
    chosen = RECIPES if recipes is None else recipes
    common = COMMON | {"max_epochs": QUICK_EPOCHS} if quick else COMMON
    final = [
        Unit(EXPERIMENT, DATASET, loss, seed, common | params) for loss, params in chosen.items() for seed in seeds
    ]
    return final if quick or recipes is not None else tuning_units() + final


def work(unit: Unit, data_dir: Any = None) -> dict[str, Any]:
    """Train as the unit says; its measures on validation and, unless it belongs to the tuning, on test series."""
    data = load_ucr(unit.dataset, data_dir)
    series = np.asarray(data.train.X, float)
    cut = round(OBSERVED * series.shape[1])
    order = np.random.default_rng(unit.seed).permutation(len(series))
    held = int(VALIDATION * len(series))
    valid, train = series[order[:held]], series[order[held:]]
    options: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in unit.options.items()}
    begin = time.perf_counter()
    forecaster = SequenceForecaster(unit.method, random_state=unit.seed, **options)
    forecaster.fit(train[:, :cut], train[:, cut:], valid[:, :cut], valid[:, cut:])
    result: dict[str, Any] = {"seconds": time.perf_counter() - begin, "epochs": forecaster.n_iter_}
    spread = train[:, cut:].var(0)
    result["valid"] = judge(forecaster.predict(valid[:, :cut]), valid[:, cut:], spread)
    if unit.experiment == TUNING:
        return result
    test = np.asarray(data.test.X, float)
    past, future = test[:, :cut], test[:, cut:]
    forecast, std = forecaster.predict(past, return_std=True)
    result["test"] = judge(forecast, future, spread) | judge_std(forecast, std, future)
    shown = np.linspace(0, len(test) - 1, min(EXAMPLES, len(test))).astype(int)
    arrays = {"past": past, "future": future, "forecast": forecast, "std": std}
    result["examples"] = {name: np.round(array[shown], 4).tolist() for name, array in arrays.items()}
    return result


def judge(forecast: NDArray, truth: NDArray, spread: NDArray) -> dict[str, float]:
    """Means over the series of (n, T) arrays.

    - ``mse``: squared error a step;
    - ``dtw``: least sum of squared differences along a path, not divided by anything;
    - ``sdtw_div``: soft-DTW divergence, γ = 1;
    - ``udtw``: ``E[D/Σ] + E[log Σ]``, γ = 1, where Σ comes from the data and not from a model, so that no forecaster is
      judged by a network of its own: ``Σ_mn = ½(s_m + s_n)``, s being ``spread`` (T,), the variance of each step of the
      future over the training series.
    """
    x, y = forecast[..., None], truth[..., None]
    return {
        "mse": float(np.square(forecast - truth).mean()),
        "dtw": float(dtw(x, y).mean()),
        "sdtw_div": float(soft_dtw_divergence(x, y, gamma=1.0).mean()),
        "udtw": float(align(x, y, spread, spread, gamma=1.0, beta=1.0).loss.mean()),
    }


def judge_std(forecast: NDArray, std: NDArray, truth: NDArray) -> dict[str, float]:
    """How well ``std`` describes the errors: the share of steps within 1.96 std (0.95 if Gaussian), and the Gaussian
    negative log-likelihood a step."""
    ratio = (truth - forecast) / std
    likelihood = 0.5 * np.square(ratio) + np.log(std) + 0.5 * np.log(2 * np.pi)
    return {"coverage": float((np.abs(ratio) < 1.96).mean()), "nll": float(likelihood.mean())}


def choose(results: Iterable[tuple[Unit, dict[str, Any]]], by: str = "dtw") -> dict[str, dict[str, Any]]:
    """The parameters of each loss with the least mean validation measure over the seeds of the tuning."""
    best: dict[str, tuple[float, dict[str, Any]]] = {}
    for loss, params, means in candidates(results):
        if loss not in best or means[by] < best[loss][0]:
            best[loss] = means[by], params
    return {loss: params for loss, (_, params) in best.items()}


def candidates(
    results: Iterable[tuple[Unit, dict[str, Any]]],
) -> list[tuple[str, dict[str, Any], dict[str, float]]]:
    """(loss, parameters, mean validation measures over the seeds) of all that was tried in the tuning."""
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
        # A candidate that failed for some seed must not win by having met only easy ones.
        if len(runs) == seeds
    ]


def report(results: Iterable[tuple[Unit, dict[str, Any]]], document: Document) -> None:
    """Add the tables and the figure to ``document``; see `udtw.experiments.ecg5000_report`."""
    from udtw.experiments import ecg5000_report  # which reads the constants above

    ecg5000_report.report(results, document)
