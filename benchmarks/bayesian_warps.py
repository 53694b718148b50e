"""Posteriors of known warps, ours and that of fdasrsf. `python -m benchmarks.bayesian_warps --pairs 20`.

`fdasrsf.pairwise_align_bayes` (2.7.3, not among the extras of udtw) draws smooth warps by Markov chain Monte Carlo; it
knows one noise level, of the derivative's square root. The pairs are those of ``udtw reproduce calibration``. The error
is that of the expected match in steps, the coverage that of 90 % intervals. Without fdasrsf only our rows are printed.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

import udtw
from experiments.calibration import TRAINING_PAIRS
from udtw.data.generators import NOISE, STEPS, known_warps
from udtw.nn import fit_noise

LEVEL = 0.9
SMOOTHING = 25
"""How often fdasrsf's own filter smooths; its default."""


@dataclass(frozen=True)
class Posterior:
    """Of each step of x: the expected match, and the first and last index of its interval."""

    expected: np.ndarray
    low: np.ndarray
    high: np.ndarray


Method = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], Posterior]
"""From x, y and the true variances of their steps."""


def ours(variances: Callable[..., tuple[Any, Any]]) -> Method:
    """Align by the likelihood at γ = 4 with the ``variances`` of x, y and their true variances."""

    def method(x: np.ndarray, y: np.ndarray, var_x: np.ndarray, var_y: np.ndarray) -> Posterior:
        found = udtw.align(x, y, *variances(x, y, var_x, var_y), gamma=4.0, weighting="likelihood").matches(LEVEL)
        return Posterior(found.expected, found.low, found.high)

    return method


def learned_variances(pairs: int) -> Callable[..., tuple[Any, Any]]:
    """Train a network on ``pairs`` other pairs, without labels, and return its variances."""
    other = known_warps(pairs, 1)
    net = fit_noise(list(zip(other["x"], other["y"], strict=True)))

    def variances(x: np.ndarray, y: np.ndarray, *_: np.ndarray) -> tuple[Any, Any]:
        with torch.no_grad():
            of_x, of_y = (net(torch.from_numpy(one).float()[None, :, None])[0].double().numpy() for one in (x, y))
        return of_x, of_y

    return variances


def sampled(iterations: int, smooth: bool) -> Method:
    """Sample with fdasrsf and its default options except the number of ``iterations``, a quarter of them burn-in."""
    from fdasrsf import pairwise_align_bayes
    from fdasrsf.utility_functions import smooth_data

    options = {
        "iter": iterations,
        "burnin": iterations // 4,
        "alpha0": 0.1,
        "beta0": 0.1,
        "propvar": 1,
        "initcoef": np.repeat(0, 20),
        "npoints": 200,
        "extrainfo": True,
        "zpcn": {"betas": np.array([0.5, 0.5, 0.005, 0.0001]), "probs": np.array([0.1, 0.1, 0.7, 0.1])},
    }

    def method(x: np.ndarray, y: np.ndarray, *_: np.ndarray) -> Posterior:
        if smooth:
            x, y = smooth_data(np.stack([x, y], 1), SMOOTHING).T
        # It warps its second argument onto the first, y∘γ ≈ x, on the unit interval: γ is the match of a step of x.
        warps = (STEPS - 1) * pairwise_align_bayes(x, y, np.arange(float(STEPS)), options).gamma_mat
        # Of whole steps, as our intervals are.
        low, high = np.quantile(np.rint(warps), [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=1)
        return Posterior(warps.mean(1), low, high)

    return method


def methods(training_pairs: int, iterations: int, console: Console) -> Iterator[tuple[str, Method]]:
    """List methods by name; each is created when it is selected."""
    yield "udtw, variances estimated", ours(lambda *_: ("estimate", "estimate"))
    begin = time.perf_counter()
    variances = learned_variances(training_pairs)
    console.print(f"fit_noise, {training_pairs} other pairs: {time.perf_counter() - begin:.1f} s")
    yield "udtw, variances learned", ours(variances)
    yield "udtw, true variances", ours(lambda x, y, var_x, var_y: (var_x, var_y))
    try:
        yield "fdasrsf", sampled(iterations, False)
        yield "fdasrsf, series smoothed", sampled(iterations, True)
    except ImportError as error:
        console.print(f"fdasrsf is left out: {error}")


def measure(method: Method, data: dict[str, np.ndarray]) -> list[str]:
    """Measure error, coverage of all steps and inside bursts, seconds and processor seconds per pair."""
    pairs = [tuple(data[name][i] for name in ("x", "y", "var_x", "var_y")) for i in range(len(data["x"]))]
    found, clock, processor = [], [], []
    for pair in pairs:
        begin = time.perf_counter(), time.process_time()
        found.append(method(*pair))
        clock.append(time.perf_counter() - begin[0])
        processor.append(time.process_time() - begin[1])
    expected, low, high = (np.stack([getattr(one, name) for one in found]) for name in ("expected", "low", "high"))
    match, noisy = data["match"], data["var_x"] > NOISE
    inside = (match >= low - 0.5) & (match <= high + 0.5)
    return [
        f"{np.abs(expected - match).mean():.2f}",
        f"{100 * inside.mean():.1f} %",
        f"{100 * inside[noisy].mean():.1f} %",
        f"{np.median(clock):.2g}",
        f"{np.median(processor):.2g}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bayesian_warps", description=__doc__)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--training-pairs", type=int, default=TRAINING_PAIRS, help="for the learned variances")
    parser.add_argument("--iterations", type=int, default=20_000, help="of fdasrsf for each pair")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # as fdasrsf runs; on a busy machine a second thread that waits would be all that is timed
    np.random.seed(arguments.seed)  # noqa: NPY002 (fdasrsf draws from NumPy's global generator)
    console, data = Console(width=120), known_warps(arguments.pairs, 2 * arguments.seed)
    headings = ["error", "coverage", "inside bursts", "s per pair", "processor s"]
    table = Table("method", *headings, title=f"{arguments.pairs} known warps of {STEPS} steps, 90 % intervals")
    same = np.abs(np.arange(STEPS) - data["match"]).mean()
    console.print(f"error if nothing were warped: {same:.2f}")
    for name, method in methods(arguments.training_pairs, arguments.iterations, console):
        if name.startswith("udtw"):
            measure(method, {key: values[:1] for key, values in data.items()})  # compiles
        line = measure(method, data)
        console.print(name, *(f"{heading} {value}" for heading, value in zip(headings, line, strict=True)), sep=" · ")
        table.add_row(name, *line)
    console.print(table)


if __name__ == "__main__":
    main()
