"""The weights with which every `SlopeView` starts: trained on random tasks with random faults.

What a fault looks like is much the same in all series, and a small data set says little about it. Hence a network that
has seen thousands of random tasks (`random_tasks`), some with faults in all series and some with faults only
in those that look for neighbours. No data set takes part. The file in this package was made by

    python -m experiments.pretraining --out src/udtw/timeseries/slope_view.safetensors

when `Corruption` still drew its faults with NumPy. Since it draws them with torch, on the device of the series, the
command gives other weights of the same kind.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from experiments.random_tasks import random_task
from udtw._engine.metrics import Metric
from udtw._engine.pair_block import Batch
from udtw._engine.series_set import load_series
from udtw._io.atomic import write_atomically
from udtw._io.progress import progress_bar
from udtw._io.training import Task, Training, cosine
from udtw.timeseries.corruption import Corruption
from udtw.timeseries.neighbors import KNeighborsTimeSeriesClassifier
from udtw.timeseries.uncertainty import PENALTIES, neighbour_loss, neighbourhood_scale, pair_table
from udtw.timeseries.views import USUAL_RANGE, SlopeView

STEPS, SERIES, LEARNING_RATE, BETA = 12_000, 24, 0.01, 0.5
"""Tasks, series of each (at least), the largest rate of Adam, and the β that training starts with."""
FAULTS_EVERYWHERE, FAULTS_LATER = 0.5, 0.35
"""Shares of the tasks with faults in all series, and with faults only in those that look for neighbours."""


class Pretraining(Task):
    """A step is one random task: neighbourhood components with a random warp penalty."""

    schedule = staticmethod(cosine)

    def __init__(self, seed: int) -> None:
        torch.manual_seed(seed)
        series = load_series("X", random_task(SERIES, np.random.default_rng(seed))[0])  # of unit variance, as all are
        self.view = SlopeView.of_series(series, USUAL_RANGE, pretrained=False)
        self.scale = nn.Parameter(torch.zeros(()))
        self.log_beta = nn.Parameter(torch.tensor(math.log(BETA)))
        self.modules = {"view": self.view, "numbers": nn.ParameterList([self.scale, self.log_beta])}
        parameters = [p for module in self.modules.values() for p in module.parameters()]
        self.optimizers = {"all": torch.optim.Adam(parameters, lr=LEARNING_RATE)}
        self.generator = torch.Generator().manual_seed(seed)
        self.cells = SERIES**2 // 2 * 80**2

    def metric(self, penalty: float) -> Metric:
        return KNeighborsTimeSeriesClassifier()._metric().with_params(beta=self.log_beta.exp(), warp_penalty=penalty)

    def loss(self, rng: np.random.Generator) -> Tensor:
        """Of a random task."""
        batch, labels, possible = draw(rng)
        table = pair_table(self.view(batch), self.metric(float(rng.choice(PENALTIES))))
        others = table.detach().numpy() + np.diag(np.full(len(batch), np.inf))
        return neighbour_loss(table, labels, possible, self.scale.exp() * neighbourhood_scale(others))

    def step(self, number: int) -> float:
        value = self.loss(np.random.default_rng(int(torch.randint(2**31, (), generator=self.generator))))
        self.optimizers["all"].zero_grad()
        value.backward()
        self.optimizers["all"].step()
        return float(value.detach())


def draw(rng: np.random.Generator) -> tuple[Batch, Tensor, Tensor]:
    """Series of a random task, some with faults; their classes; and which of them may be neighbours of others."""
    X, y = random_task(SERIES, rng)
    series, kind = load_series("X", X), rng.random()
    share = rng.uniform(0.5, 1) if kind < FAULTS_EVERYWHERE else 0.5 if kind < FAULTS_EVERYWHERE + FAULTS_LATER else 0.0
    generator = torch.Generator().manual_seed(int(rng.integers(2**31)))
    broken, hit = Corruption(series).of_some(Batch.of(series), generator, share)
    possible = torch.ones_like(hit) if kind < FAULTS_EVERYWHERE else ~hit
    return broken, torch.from_numpy(y), possible


def pretrain(steps: int = STEPS, seed: int = 0, progress: bool = True) -> dict[str, Any]:
    """The trained view, β, and the losses of all steps."""
    task = Pretraining(seed)
    with progress_bar("random tasks", steps, progress) as advance:
        history = Training(task, steps).run(lambda number, loss: advance(1))
    return {"view": task.view, "beta": float(task.log_beta.detach().exp()), "losses": history.train}


def main() -> None:
    """Train, and write the file."""
    import argparse

    from safetensors.torch import save

    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--out", required=True)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    found = pretrain(options.steps, options.seed)
    weights = {name: one.detach() for name, one in found["view"].named_parameters()}
    write_atomically(Path(options.out), save(weights, {"beta": f"{found['beta']:.3f}", "steps": str(options.steps)}))
    losses = found["losses"]
    print(f"{options.out}: loss {np.mean(losses[:200]):.3f} -> {np.mean(losses[-200:]):.3f}, beta {found['beta']:.2f}")


if __name__ == "__main__":
    main()
