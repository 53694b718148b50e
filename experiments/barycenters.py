"""Fréchet means of UCR classes by every metric: objective values, distance to unseen series, and figures.

For each data set, the seed draws a class and `MEMBERS` of its series; their mean is computed by every metric and γ with
at most `MAX_ITER` iterations. uDTW stands there twice: with the paper's weighting, where it regards differences below
``√NOISE`` as noise and has β = 1, so that σ_μ is a standard deviation in the units of the series and γ is in units of
``D / Σ``; and as the free energy with the defaults of `barycenter`, which learns the noise too. Objective values of
different metrics have different scales, so every mean is also judged by its average DTW to other series of the class.
"""

from typing import Any

import numpy as np

import udtw
from experiments import published
from experiments.experiment import Experiment, Results
from experiments.units import Unit
from udtw._engine.metrics import METRICS, Metric, get_metric
from udtw.data import available_ucr, load_ucr, znormalize
from udtw.demo.document import Document
from udtw.plots import plot_barycenter
from udtw.timeseries import Barycenter, barycenter

NAME = "barycenters"
MEMBERS, MAX_UNSEEN, MAX_ITER, MAX_LENGTH = 10, 50, 100, 300
GAMMAS = (0.1, 1.0, 10.0)
BETA, NOISE = 1.0, 0.01
METHODS = tuple(published.UCR)
FIGURES = 6
"""Data sets whose means are drawn."""
FREE_ENERGY = ("udtw", 0.0)
"""Method and γ of the free energy with its defaults; uDTW with a γ of its own has the paper's weighting."""
SHOWN = (("soft_dtw", 0.1), ("soft_dtw", 1.0), ("udtw", 1.0), FREE_ENERGY)
"""Metric and γ of the means that are drawn."""


def units(*, datasets: list[str] | None, seeds: list[int], quick: bool, data_dir: str | None) -> list[Unit]:
    """List a unit for each data set, seed, metric and γ, except data sets with missing values or different lengths."""
    names = datasets or [name for name in available_ucr(data_dir) if _plain(name, data_dir)]
    found = []
    for seed in seeds:
        for name in names[:3] if quick else names:
            for metric in METHODS:
                gammas = [{"gamma": gamma} for gamma in GAMMAS] if "gamma" in METRICS[metric].params else [{}]
                own = {"beta": BETA, "noise": NOISE} if METRICS[metric].uncertain else {}
                found += [Unit(NAME, name, metric, seed, gamma | own) for gamma in gammas]
            found.append(Unit(NAME, name, FREE_ENERGY[0], seed, {}))
    return found


def _plain(name: str, data_dir: str | None) -> bool:
    X = load_ucr(name, data_dir).train.X
    return isinstance(X, np.ndarray) and X.ndim == 2 and X.shape[1] <= MAX_LENGTH and not np.isnan(X).any()


def members(name: str, seed: int, data_dir: str | None) -> tuple[np.ndarray, np.ndarray, Any]:
    """Return (series to average (n, T), unseen series of the class (m, T), the class)."""
    whole = load_ucr(name, data_dir).all
    rng = np.random.default_rng(seed)
    classes, counts = np.unique(whole.y, return_counts=True)
    label = rng.choice(classes[counts > MEMBERS] if (counts > MEMBERS).any() else classes)
    order = rng.permutation(np.flatnonzero(whole.y == label))
    X = znormalize(np.asarray(whole.X)[order])
    return X[:MEMBERS], X[MEMBERS : MEMBERS + MAX_UNSEEN], label


def work(unit: Unit, data_dir: str | None) -> dict[str, Any]:
    """Compute the mean, its uncertainty, the trace of the objective, and the average DTW to unseen series."""
    seen, unseen, label = members(unit.dataset, unit.seed, data_dir)
    options = unit.options
    metric: str | Metric = unit.method
    if METRICS[unit.method].uncertain and options:  # the paper's weighting
        params = {name: options.pop(name) for name in ("gamma", "beta")}
        metric = get_metric(unit.method, weighting="precision", **params)
    found = barycenter(seen, metric, max_iter=MAX_ITER, **options)
    result = {
        "class": str(label),
        "mean": found.mean.tolist(),
        "variance": found.variance.tolist(),
        "objective": found.loss,
        "start": found.trace[0],
        "n_iter": found.n_iter,
        "converged": found.converged,
    }
    if unit.method == "euclidean":  # once for each class, for the figure
        result["series"] = seen.tolist()
    if len(unseen):
        result["dtw"] = float(udtw.pairwise(unseen, found.mean[None], metric="dtw").mean())
    return result


def report(results: Results, document: Document) -> None:
    """Report average DTW to unseen series relative to the Euclidean mean, objective values, and figures."""
    keys = sorted({(unit.method, unit.options.get("gamma", 0.0)) for unit, _ in results}, key=_order)
    table = {(unit.dataset, unit.seed, unit.method, unit.options.get("gamma", 0.0)): r for unit, r in results}
    cases = sorted({(unit.dataset, unit.seed) for unit, _ in results})
    whole = [c for c in cases if all("dtw" in table.get((*c, *key), {}) for key in keys)]
    document.text(
        f"{MEMBERS} series of a random class each, at most {MAX_ITER} iterations; uDTW with a γ has the paper's "
        f"weighting, β = {BETA:g} and noise {NOISE:g}, its γ in units of that noise; the free energy has its defaults. "
        "Means are judged by their average DTW to other series of the class."
    )
    rows = []
    for key in keys:
        mine = [table[(*c, *key)] for c in whole]
        base = [table[(*c, "euclidean", 0.0)]["dtw"] for c in whole]
        ratio = np.array([r["dtw"] for r in mine]) / np.array(base)
        rows.append(
            [
                _label(key),
                f"{ratio.mean():.3f} ± {ratio.std():.3f}",
                f"{np.mean([r['n_iter'] for r in mine]):.0f}",
                f"{100 * np.mean([r['converged'] for r in mine]):.0f} %",
            ]
        )
    document.table(
        f"DTW to unseen series, divided by that of the Euclidean mean ({len(whole)} classes; below 1 is better)",
        ["mean by", "mean ± std", "iterations", "converged"],
        rows,
    )
    document.table(
        "Objective: start → end",
        ["data set", "class", "seed", *(_label(key) for key in keys)],
        [
            [c[0], table[(*c, *keys[0])]["class"], c[1]]
            + [f"{table[(*c, *k)]['start']:.3g} → {table[(*c, *k)]['objective']:.3g}" for k in keys]
            for c in whole
        ],
    )
    _figures(document, table, whole)


def _figures(document: Document, table: dict, cases: list[tuple[str, int]]) -> None:
    import matplotlib.pyplot as plt

    for name, seed in cases[:: max(1, len(cases) // FIGURES)][:FIGURES]:
        series = np.array(table[name, seed, "euclidean", 0.0]["series"])
        means = {_label(key): _as_barycenter(table[(name, seed, *key)]) for key in SHOWN}
        figure = plot_barycenter(series, means)
        document.figure(figure, f"{name}, class {table[name, seed, 'euclidean', 0.0]['class']}, seed {seed}")
        plt.close(figure)


def _as_barycenter(result: dict[str, Any]) -> Barycenter:
    return Barycenter(
        np.array(result["mean"]),
        np.array(result["variance"]),
        result["objective"],
        [result["start"], result["objective"]],
        result["converged"],
        result["n_iter"],
    )


def _order(key: tuple[str, float]) -> tuple[int, float]:
    return METHODS.index(key[0]), key[1]


def _label(key: tuple[str, float]) -> str:
    if key == FREE_ENERGY:
        return "uDTW, free energy"
    name = "DTW (DBA)" if key[0] == "dtw" else METRICS[key[0]].label
    return name + (f", γ {key[1]:g}" if key[1] else "")


EXPERIMENT = Experiment(NAME, "Barycenters of UCR classes", units, work, report)
