"""k-means of series against tslearn and aeon, on the same data in one run. `python -m benchmarks.clustering`.

Generated Cylinder-Bell-Funnel series, and the training parts of UCR sets if ``--data-dir`` has them, z-normalized.
Every library gets the same number of clusters (that of the classes), starts and rounds, and for soft-DTW the same γ;
all else is its default, but aeon's first means, which are drawn by k-means++ as in the others. One thread each. The
adjusted Rand index is taken against the classes. Time is that of the processor in ``fit``, which does not depend on
other work on the machine. Both are averaged over the seeds.
"""

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.machine import use_cores

UCR = ("BME", "Coffee", "ECG200", "GunPoint", "Plane", "SyntheticControl", "UMD")
GAMMA = 1.0
MOST_SERIES = 100

Fit = Callable[[np.ndarray, int, int], np.ndarray]
"""Labels of the series (n, T), for a number of clusters and a seed."""


def ours(metric: str, n_init: int, max_iter: int) -> Fit:
    from udtw.timeseries import TimeSeriesKMeans

    params = None if metric == "udtw" else {"gamma": GAMMA}

    def fit(X: np.ndarray, count: int, seed: int) -> np.ndarray:
        model = TimeSeriesKMeans(
            count, metric=metric, metric_params=params, n_init=n_init, max_iter=max_iter, random_state=seed
        )
        return model.fit_predict(X)

    return fit


def tslearn(metric: str, n_init: int, max_iter: int) -> Fit:
    from tslearn.clustering import TimeSeriesKMeans

    params = {"gamma": GAMMA} if metric == "softdtw" else None

    def fit(X: np.ndarray, count: int, seed: int) -> np.ndarray:
        model = TimeSeriesKMeans(
            count, metric=metric, metric_params=params, n_init=n_init, max_iter=max_iter, random_state=seed
        )
        return model.fit_predict(X[:, :, None])

    return fit


def aeon(metric: str, n_init: int, max_iter: int) -> Fit:
    from aeon.clustering import TimeSeriesKMeans

    params = {"gamma": GAMMA} if metric == "soft_dtw" else None

    def fit(X: np.ndarray, count: int, seed: int) -> np.ndarray:
        model = TimeSeriesKMeans(
            count,
            distance=metric,
            distance_params=params,
            init="kmeans++",
            n_init=n_init,
            max_iter=max_iter,
            random_state=seed,
        )
        return model.fit_predict(X[:, None, :])

    return fit


def contenders(n_init: int, max_iter: int, names: list[str]) -> dict[str, Fit]:
    """List libraries and metrics by name."""
    every: dict[str, tuple[Callable[..., Fit], str]] = {
        "udtw DTW": (ours, "dtw"),
        "udtw soft-DTW": (ours, "soft_dtw"),
        "udtw uDTW": (ours, "udtw"),
        "tslearn DTW": (tslearn, "dtw"),
        "tslearn soft-DTW": (tslearn, "softdtw"),
        "aeon DTW": (aeon, "dtw"),
        "aeon soft-DTW": (aeon, "soft_dtw"),
    }
    return {
        name: make(metric, n_init, max_iter)
        for name, (make, metric) in every.items()
        if name.split()[0] in ("udtw", *names)
    }


def data(seed: int, data_dir: str | None, sets: list[str]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return series and classes by name of the set."""
    from udtw.data import available_ucr, cylinder_bell_funnel, load_ucr, znormalize

    drawn = cylinder_bell_funnel(30, 128, random_state=seed)
    found = {"generated CBF": (np.asarray(znormalize(drawn.X)), drawn.y)}
    known = available_ucr(data_dir) if data_dir else []
    for name in sets:
        if name in known:
            train = load_ucr(name, data_dir).train
            some = np.random.default_rng(seed).permutation(len(train.y))[:MOST_SERIES]
            found[name] = np.asarray(znormalize(np.asarray(train.X)[some])), np.asarray(train.y)[some]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", help="folder of UCR data sets")
    parser.add_argument("--datasets", default=",".join(UCR), help="UCR data sets, by name")
    parser.add_argument("--peers", default="tslearn,aeon", help="libraries to compare with")
    parser.add_argument("--n-init", type=int, default=1, help="starts")
    parser.add_argument("--max-iter", type=int, default=10, help="rounds of each start")
    parser.add_argument("--seeds", type=int, default=2, help="runs on each set")
    options = parser.parse_args()
    use_cores(1)
    from sklearn.metrics import adjusted_rand_score

    fits = contenders(options.n_init, options.max_iter, options.peers.split(","))
    small = np.random.default_rng(0).standard_normal((6, 16)).cumsum(1)
    scores: dict[str, list[tuple[float, float]]] = {name: [] for name in fits}
    print(f"k-means, n_init {options.n_init}, max_iter {options.max_iter}, {options.seeds} seed(s): ARI, seconds")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a peer has not converged
        for fit in fits.values():
            fit(small, 2, 0)  # compile
        for name in data(0, options.data_dir, options.datasets.split(",")):
            line = []
            for who, fit in fits.items():
                runs = [
                    _run(fit, *data(seed, options.data_dir, [name])[name], seed, adjusted_rand_score)
                    for seed in range(options.seeds)
                ]
                scores[who].append(tuple(np.mean(runs, 0)))
                line.append(f"{who} {scores[who][-1][0]:.2f} {scores[who][-1][1]:.2f}")
            print(f"{name:17s} " + " | ".join(line), flush=True)
    for who, found in scores.items():
        rand, seconds = np.mean(found, 0)
        print(f"{who:17s} mean ARI {rand:.3f}, {seconds:8.3f} s per fit")
    for metric in ("DTW", "soft-DTW"):
        for peer in options.peers.split(","):
            ratios = [b[1] / a[1] for a, b in zip(scores[f"udtw {metric}"], scores[f"{peer} {metric}"], strict=True)]
            spread = f"from {min(ratios):.0f} to {max(ratios):.0f}"
            print(f"{metric}: {np.median(ratios):.0f} times as fast as {peer} ({spread})")


def _run(fit: Fit, X: np.ndarray, y: Any, seed: int, score: Callable[..., float]) -> tuple[float, float]:
    begin = time.process_time()
    labels = fit(X, len(np.unique(y)), seed)
    return score(y, labels), time.process_time() - begin


if __name__ == "__main__":
    main()
