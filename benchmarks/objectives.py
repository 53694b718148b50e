"""Objectives for learned variances, compared: on known warps, and for forecasting. ``python -m benchmarks.objectives``.

Known warps (`experiments.calibration`): a SigmaNet learns from unlabeled pairs; the error of the expected match
in steps and the coverage of 90 % intervals are those of other pairs. The series are fixed there, so that "faithful" is
the same as "expected energy".

Forecasting: `Forecaster` learns the last 40 % of series from their first 60 %, for a fixed number of epochs. Series are
those of the training split; a fifth of them, chosen by the seed, is held out and judged. The test split is not read.
"""

import argparse
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import udtw
from udtw._io.training import cosine
from udtw.data import load_ucr
from udtw.data.generators import known_warps
from udtw.nn import SigmaNet
from udtw.timeseries.forecaster_model import Forecaster, Scale

DATASETS = ("ECG5000", "SyntheticControl", "PowerCons", "Plane")
KAPPA, PRIOR_VARIANCE, NU = 0.5, 1.0, 5.0


class PrecisionNet(SigmaNet):
    """Variances ``1/λ`` with ``λ = softplus(·)``, which are not bounded, instead of a sigmoid; 1 at the start."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        nn.init.constant_(self.net[-1].bias, math.log(math.e - 1))  # type: ignore[arg-type]

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        return 1 / (nn.functional.softplus(self._raw(x, lengths).mean(-1)) + 1e-3)


@dataclass
class Method:
    """How a batch of pairs becomes a loss, and how it is aligned afterwards."""

    objective: str = "faithful"
    likelihood: str = "gauss"
    warm_up: float = 0.0
    prior: float = 0.0
    net: type[SigmaNet] = SigmaNet
    gamma: float = 4.0
    beta: float = 1.0

    def make_net(self, sigma: tuple[float, float]) -> SigmaNet:
        return self.net(1, 32, context=9, sigma_range=sigma, sigma_init=1.0)

    def energy(self, distance: Tensor, variance: Tensor) -> Tensor:
        """Compute the cost of a match."""
        if self.likelihood == "student_t":
            return (NU + 1) * torch.log1p(distance / (NU * variance)) + self.beta * variance.log()
        return distance / variance + self.beta * variance.log()

    def align(self, x: Tensor, y: Tensor, var_x: Tensor | None, var_y: Tensor | None) -> udtw.Alignment:
        """Align under the energy of this method."""
        if self.likelihood == "gauss" or var_x is None or var_y is None:
            return udtw.align(x, y, var_x, var_y, gamma=self.gamma, beta=self.beta, weighting="likelihood")
        level = 0.5 * (var_x.log().mean(1) + var_y.log().mean(1))[:, None, None]
        energy = self.energy((x - y.mT).square(), pair_variance(var_x, var_y)) - self.beta * level
        return udtw.align(None, None, cost=energy, gamma=self.gamma, weighting="likelihood")

    def loss(self, x: Tensor, y: Tensor, net: SigmaNet, progress: float) -> Tensor:
        """Return the mean loss over the batch, per step."""
        if progress < self.warm_up:
            return self.align(x, y, None, None).loss.mean() / x.shape[1]
        faithful = self.objective == "faithful"
        var_x, var_y = (net(one.detach() if faithful else one) for one in (x, y))
        found = self.align(x, y, var_x, var_y)
        if self.objective == "free_energy":
            return found.loss.mean() / x.shape[1]
        coupling, variance, distance = found.coupling.detach(), pair_variance(var_x, var_y), (x - y.mT).square()
        field = self.energy(distance.detach() if faithful else distance, variance)
        if faithful:
            field = field + distance
        if self.objective == "beta_nll":
            field = field * variance.detach() ** KAPPA
        total = (coupling * field).sum((1, 2))
        for one in (var_x, var_y):
            total = total + self.prior * (PRIOR_VARIANCE / one + one.log()).sum(1)
        return total.mean() / x.shape[1]


def pair_variance(var_x: Tensor, var_y: Tensor) -> Tensor:
    return 0.5 * (var_x[:, :, None] + var_y[:, None, :])


METHODS: dict[str, Method] = {
    "unit variance": Method(warm_up=2.0),
    "free energy": Method("free_energy"),
    "expected energy": Method("expected"),
    "beta-NLL": Method("beta_nll"),
    "faithful": Method("faithful"),
    "faithful, warm-up": Method(warm_up=0.5),
    "faithful, softplus precision": Method(net=PrecisionNet),
    "faithful, inverse-gamma prior": Method(prior=0.1),
    "faithful, Student t": Method(likelihood="student_t"),
}


def descend(
    parameters: list[nn.Parameter],
    loss: Callable[[Tensor, float], Tensor],
    count: int,
    *,
    steps: int,
    rate: float,
    seed: int,
) -> None:
    """Run Adam with batches of 32 shuffled indices below ``count`` and a cosine learning rate."""
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(parameters, lr=rate)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = rate * cosine(step, steps)
        batch = torch.randperm(count, generator=generator)[:32]
        optimizer.zero_grad()
        loss(batch, step / steps).backward()
        optimizer.step()


def on_known_warps(method: Method, seed: int, steps: int) -> dict[str, float]:
    """Measure error and coverage in percent of 90 % intervals on 200 pairs after training on 150 others."""
    torch.manual_seed(seed)
    train, test = known_warps(150, 2 * seed + 1), known_warps(200, 2 * seed)
    x, y = (torch.from_numpy(train[side]).float()[..., None] for side in "xy")
    net = method.make_net((0.1, 3.1))
    if method.warm_up < 1:
        descend(
            list(net.parameters()),
            lambda b, at: method.loss(x[b], y[b], net, at),
            len(x),
            steps=steps,
            rate=0.02,
            seed=seed,
        )
    x, y = (torch.from_numpy(test[side]).float()[..., None] for side in "xy")
    with torch.no_grad():
        variances = (None, None) if method.warm_up >= 1 else (net(x), net(y))
        matches = method.align(x, y, *variances).matches(0.9)
    truth, noisy = test["match"], test["var_x"] > 1
    inside = (truth >= matches.low.numpy() - 0.5) & (truth <= matches.high.numpy() + 0.5)
    error = np.abs(matches.expected.numpy() - truth)
    return {"error": error.mean(), "coverage": 100 * inside.mean(), "in bursts": 100 * inside[noisy].mean()}


def on_forecasts(method: Method, dataset: str, data_dir: str | None, seed: int, steps: int) -> dict[str, float]:
    """Measure MSE, DTW, and rank correlation of σ with the size of the error, on held-out training series."""
    torch.manual_seed(seed)
    series = np.asarray(load_ucr(dataset, data_dir).train.X, float)
    series = series[np.random.default_rng(seed).permutation(len(series))][:500, :, None]
    cut, held = round(0.6 * series.shape[1]), len(series) // 5
    scale = Scale.of(series[held:])
    data = torch.from_numpy(scale.apply(series)).float()
    past, future = data[:, :cut], data[:, cut:]
    model = Forecaster((cut, 1), (series.shape[1] - cut, 1), [256])
    net = method.make_net((0.3, 3.0))
    parameters = [*model.parameters(), *net.parameters()]
    x, y = past[held:], future[held:]
    descend(
        parameters, lambda b, at: method.loss(model(x[b]), y[b], net, at), len(x), steps=steps, rate=1e-3, seed=seed
    )
    with torch.no_grad():
        found, truth = model(past[:held]), future[:held]
        sigma, error = net(found).flatten(), (found - truth)[..., 0].abs().flatten()
        ranks = torch.stack([one.argsort().argsort().float() for one in (sigma, error)])
        return {
            "MSE": float(error.square().mean()),
            "DTW": float(udtw.dtw(found, truth, normalize="length").mean()),
            "rank corr.": 0.0 if method.warm_up >= 1 else float(torch.corrcoef(ranks)[0, 1]),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", help="folder of the UCR archive; without it only known warps")
    parser.add_argument("--only", nargs="*", choices=METHODS, default=list(METHODS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--gamma", type=float, default=1.0, help="of the forecasters; 4 on known warps")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for where in ("known warps", *(DATASETS if options.data_dir else ())):
        for name in options.only:
            begin, method, rows = time.perf_counter(), METHODS[name], []
            for seed in range(options.seeds):
                if where == "known warps":
                    if name != "faithful, warm-up":
                        rows.append(on_known_warps(method, seed, options.steps))
                else:
                    method.gamma = options.gamma
                    rows.append(on_forecasts(method, where, options.data_dir, seed, options.steps))
            if rows:
                table = {key: [row[key] for row in rows] for key in rows[0]}
                parts = [f"{key} {np.mean(values):.3f} ± {np.std(values):.3f}" for key, values in table.items()]
                seconds = (time.perf_counter() - begin) / len(rows)
                print(f"{where:17} {name:30} {'   '.join(parts)}   ({seconds:.1f} s)", flush=True)


if __name__ == "__main__":
    main()
