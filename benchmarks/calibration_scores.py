"""Fits of γ and ω to whole paths and to matches, on known warps: ``python -m benchmarks.calibration_scores``.

For each seed, γ and ω are fitted to 100 pairs by the likelihood of the true path and by `udtw.calibrate`; the error of
the expected match in steps and the coverage of 90 % intervals are those of 200 other pairs. "copies" is
`udtw.calibrate` on the series x alone, which never sees a true alignment.
"""

import argparse
from typing import Any

import numpy as np
import torch

import udtw
from udtw.data.generators import known_warps

SEEDS, PAIRS = 3, 100


def path_through(positions: np.ndarray, columns: int) -> np.ndarray:
    """Return the path (L, 2) through the rounded positions; half of a jump lies in the row before it."""
    rows = np.rint(positions).astype(int)
    cells = [(0, j) for j in range(rows[0] + 1)]
    for i in range(1, len(rows)):
        last = cells[-1][1]
        before = max(0, rows[i] - last - 1) // 2
        cells += [(i - 1, last + j) for j in range(1, before + 1)]
        cells += [(i, j) for j in range(min(last + before + 1, rows[i]), rows[i] + 1)]
    return np.array([*cells, *((len(rows) - 1, j) for j in range(cells[-1][1] + 1, columns))])


def by_path_likelihood(data: dict[str, np.ndarray], variances: tuple[Any, Any]) -> dict[str, float]:
    """Fit γ and ω by the least ``−mean log π(true path)/length``."""
    x, y = (torch.from_numpy(data[side])[..., None] for side in "xy")
    given = [one if isinstance(one, str) or one is None else torch.from_numpy(one) for one in variances]
    paths = [path_through(one, y.shape[1]) for one in data["match"]]
    size = torch.tensor([len(path) for path in paths])
    place = torch.tensor([np.log(4.0), 0.0], dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([place], max_iter=50, line_search_fn="strong_wolfe")

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        gamma = place[0].exp()
        found = udtw.align(x, y, *given, gamma=gamma, warp_penalty=place[1] * gamma, weighting="likelihood")
        value = -(found.paths.log_prob(paths) / size).mean()
        value.backward()
        return value

    optimizer.step(closure)
    gamma = place[0].exp().item()
    return {"gamma": gamma, "warp_penalty": place[1].item() * gamma}


def main() -> None:
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    torch.set_num_threads(1)
    for kind in ("none", "true", "estimate"):
        rows: dict[str, list[list[float]]] = {}
        for seed in range(SEEDS):
            train, test = known_warps(PAIRS, 2 * seed + 1), known_warps(2 * PAIRS, 2 * seed)
            words = {"none": (None, None), "estimate": ("estimate", "estimate")}
            fit, judge = (words.get(kind, (data["var_x"], data["var_y"])) for data in (train, test))
            pairs = list(zip(train["x"], train["y"], strict=True))
            found = {
                "path likelihood": by_path_likelihood(train, fit),
                "matches": udtw.calibrate(pairs, warps=list(train["match"]), var_x=fit[0], var_y=fit[1]).options,
                "matches, copies": udtw.calibrate(list(train["x"]), var_x=fit[0]).options,
            }
            for name, options in found.items():
                given: dict[str, Any] = {"weighting": "likelihood", **options}
                a = udtw.align(test["x"][..., None], test["y"][..., None], *judge, **given)
                at, truth = a.matches(0.9), test["match"]
                inside = (truth >= at.low - 0.5) & (truth <= at.high + 0.5)
                error = np.abs(at.expected - truth).mean()
                rows.setdefault(name, []).append([error, 100 * inside.mean(), *options.values()])
        for name, values in rows.items():
            error, coverage, gamma, penalty = np.mean(values, 0)
            spread = [row[1] for row in values]
            print(
                f"variances: {kind:9} {name:16} error {error:.2f}  coverage {coverage:.1f} % "
                f"({min(spread):.1f} to {max(spread):.1f})  γ {gamma:.2f}  ω {penalty:.2f}"
            )


if __name__ == "__main__":
    main()
