"""Known warps: how far the expected match is off, and how often its credible interval holds the true match.

A smooth series of `STEPS` steps and a warped copy of it, both with noise of variance `NOISE` and a burst of `BURST`
steps with variance `BURST_NOISE`. Every method aligns the same `PAIRS` pairs of each seed; learned variances come from
other pairs, without labels.
"""

from typing import Any

import numpy as np
import torch

import udtw
from experiments.experiment import Experiment, Results, chosen_datasets
from experiments.units import Unit
from udtw.data.generators import BURST, BURST_NOISE, NOISE, STEPS, known_warps
from udtw.demo.document import Document, mean_std
from udtw.nn import fit_noise
from udtw.plots import plot_calibration

NAME = "calibration"
DATASET = "known-warps"
PAIRS, TRAINING_PAIRS = 200, 150
LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
METHODS: dict[str, dict[str, Any]] = {
    "soft-DTW": {"weighting": "precision", "variance": "none"},
    "uDTW, paper's weighting": {"weighting": "precision", "variance": "true"},
    "uDTW, likelihood": {"weighting": "likelihood", "variance": "true"},
    "uDTW, likelihood, learned variance": {"weighting": "likelihood", "variance": "learned"},
}
GAMMAS = {"soft-DTW": (0.1, 1.0, 2.0, 4.0, 8.0), "uDTW, paper's weighting": (0.1, 1.0, 4.0)}
"""Temperatures that are tried; γ = 4 for the others (see docs/mathematics.md)."""


def units(*, datasets: list[str] | None, seeds: list[int], quick: bool, data_dir: str | None) -> list[Unit]:
    """List a unit for each method, temperature and seed."""
    pairs = {"pairs": 20, "training_pairs": 20, "max_iter": 10} if quick else {}
    return [
        Unit(NAME, dataset, method, seed, settings | {"gamma": gamma} | pairs)
        for dataset in chosen_datasets(datasets, [DATASET])
        for method, settings in METHODS.items()
        for gamma in GAMMAS.get(method, (4.0,))
        for seed in seeds
    ]


def work(unit: Unit, data_dir: str | None) -> dict[str, Any]:
    """Measure the mean error of the expected match in steps, and the coverage at all `LEVELS`, by kind of step."""
    options = unit.options
    data = known_warps(options.get("pairs", PAIRS), 2 * unit.seed)
    x, y = data["x"][:, :, None], data["y"][:, :, None]
    variances: tuple[Any, Any] = {"none": (None, None), "true": (data["var_x"], data["var_y"])}.get(
        options["variance"], (None, None)
    )
    if options["variance"] == "learned":
        other = known_warps(options.get("training_pairs", TRAINING_PAIRS), 2 * unit.seed + 1)
        pairs = list(zip(other["x"], other["y"], strict=True))
        net = fit_noise(pairs, max_iter=options.get("max_iter", 200), random_state=unit.seed)
        with torch.no_grad():
            variances = tuple(net(torch.from_numpy(one).float()).double().numpy() for one in (x, y))
    found = udtw.align(x, y, *variances, gamma=options["gamma"], weighting=options["weighting"])
    noisy = data["var_x"] > NOISE
    matches = found.matches()
    error = np.abs(matches.expected - data["match"])
    coverage = {}
    for level in LEVELS:
        at = found.matches(level)
        inside = (data["match"] >= at.low - 0.5) & (data["match"] <= at.high + 0.5)
        coverage[str(level)] = {"all": float(inside.mean()), "bursts": float(inside[noisy].mean())}
    return {"error": float(error.mean()), "error_in_bursts": float(error[noisy].mean()), "coverage": coverage}


def report(results: Results, document: Document) -> None:
    """Report one row for each method and temperature, and stated against observed coverage."""
    found: dict[tuple[str, float], list[dict[str, Any]]] = {}
    for unit, result in results:
        found.setdefault((unit.method, unit.options["gamma"]), []).append(result)
    errors = {key: float(np.mean([r["error"] for r in mine])) for key, mine in found.items()}
    best = min((error for (method, _), error in errors.items() if method == "soft-DTW"), default=np.nan)
    rows, curves = [], {}
    for method, gamma in sorted(found, key=lambda key: (list(METHODS).index(key[0]), key[1])):
        mine = found[method, gamma]
        cover = [[100 * r["coverage"]["0.9"][part] for r in mine] for part in ("all", "bursts")]
        ratio = f"{errors[method, gamma] / best:.2f}"
        rows.append([method, gamma, mean_std([r["error"] for r in mine], 2), ratio, *(mean_std(c, 1) for c in cover)])
        observed = [float(np.mean([r["coverage"][str(level)]["all"] for r in mine])) for level in LEVELS]
        curves[f"{method}, γ = {gamma:g}"] = observed
    document.table(
        "Error of the expected match in steps, and coverage of 90 % intervals in %",
        ["method", "γ", "error", "error / soft-DTW's best", "all steps", "inside bursts"],
        rows,
        f"Mean ± standard deviation over the seeds; {PAIRS} pairs each. The true variances are {NOISE} and, in bursts "
        f"of {BURST} of {STEPS} steps, {BURST_NOISE:g}; learned ones come from {TRAINING_PAIRS} other pairs without "
        "labels.",
    )
    shown = {name: values for name, values in curves.items() if name.endswith(("γ = 1", "γ = 4"))}
    if shown:
        document.figure(plot_calibration(LEVELS, shown), "Stated and observed coverage")


EXPERIMENT = Experiment(NAME, "Calibration on known warps", units, work, report, seeds=(0, 1, 2, 3, 4))
