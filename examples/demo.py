"""uDTW in one minute: learn at which steps a sensor is unreliable, and get a better alignment.

A smooth shape is recorded twice: by x at a constant pace, and by y at a pace that differs between recordings. In every
recording the sensor of x is disturbed during the same steps: it jumps up or down and jitters. From the recordings alone
(no labels, no known noise) the variance of every step of x and of y is learned by minimising the uDTW objective
d² + βΩ. All printed numbers are measured on recordings that were not used for learning.

    python examples/demo.py --out out
"""

import argparse
import io
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

import udtw
from udtw._io.atomic import write_atomically
from udtw._io.progress import progress_bar
from udtw.plots import plot_alignment

STEPS_X, STEPS_Y = 90, 100
DISTURBED = slice(25, 36)
BUMPS = ((1.0, 0.10), (-0.8, 0.22), (1.2, 0.34), (-0.7, 0.46), (1.0, 0.57), (-1.1, 0.70), (0.9, 0.82), (-0.6, 0.92))
BUMP_HEIGHT, BUMP_WIDTH = 4.0, 0.03
NOISE, JUMP, JITTER = 0.35, 4.0, 2.0
PACE = 0.6  # y runs through the shape as t ** exp(u), u uniform in ±PACE

GAMMA, BETA = 0.3, 1.0
SIGMA_RANGE = (0.5, 4.0)
TRAIN_PAIRS, TEST_PAIRS, UPDATES, LEARNING_RATE = 32, 64, 250, 0.1


@dataclass(frozen=True)
class Recordings:
    """B pairs and their true warps."""

    x: Tensor  # (B, N, 1)
    y: Tensor  # (B, M, 1)
    warp: Tensor  # (B, N): the (fractional) step of y that corresponds to each step of x


def shape(time: Tensor) -> Tensor:
    """The underlying curve at times in [0, 1]: a sum of bumps."""
    heights, centres = torch.tensor(BUMPS).T
    return BUMP_HEIGHT * (heights * torch.exp(-0.5 * ((time[..., None] - centres) / BUMP_WIDTH) ** 2)).sum(-1)


def record(pairs: int, generator: torch.Generator) -> Recordings:
    """Noisy pairs; x is disturbed during DISTURBED, and y has a different pace in every pair."""

    def noise(*size: int) -> Tensor:
        return torch.randn(*size, generator=generator)

    time_x, time_y = torch.linspace(0, 1, STEPS_X), torch.linspace(0, 1, STEPS_Y)
    pace = torch.exp(PACE * (2 * torch.rand(pairs, 1, generator=generator) - 1))
    x = shape(time_x) + NOISE * noise(pairs, STEPS_X)
    y = shape(time_y**pace) + NOISE * noise(pairs, STEPS_Y)
    jump = JUMP * noise(pairs, 1).sign()
    x[:, DISTURBED] += jump + JITTER * noise(pairs, STEPS_X)[:, DISTURBED]
    return Recordings(x[..., None], y[..., None], (STEPS_Y - 1) * time_x ** (1 / pace))


def bounded_sigma(raw: Tensor) -> Tensor:
    """σ between the bounds of SIGMA_RANGE, a scaled sigmoid of a free parameter."""
    low, high = SIGMA_RANGE
    return low + (high - low) * torch.sigmoid(raw)


def learn(data: Recordings, console: Console, *, per_step: bool) -> tuple[Tensor, Tensor]:
    """σ of x (N,) and of y (M,) that minimise the mean of d² + βΩ: one per step, or one per series."""
    low, high = SIGMA_RANGE
    start = math.log((1 - low) / (high - 1))  # σ = 1
    raw = [torch.full((n if per_step else 1,), start, requires_grad=True) for n in (STEPS_X, STEPS_Y)]
    optimizer = torch.optim.Adam(raw, lr=LEARNING_RATE)

    def sigmas() -> tuple[Tensor, Tensor]:
        return bounded_sigma(raw[0]).expand(STEPS_X), bounded_sigma(raw[1]).expand(STEPS_Y)

    with progress_bar("one σ per step  " if per_step else "one σ per series", UPDATES, console=console) as advance:
        for _ in range(UPDATES):
            sigma_x, sigma_y = sigmas()
            loss = udtw.align(data.x, data.y, sigma_x**2, sigma_y**2, gamma=GAMMA, beta=BETA).loss.mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            advance(note=f"loss {loss.item():.2f}")
    sigma_x, sigma_y = sigmas()
    return sigma_x.detach(), sigma_y.detach()


def warp_error(coupling: Tensor, truth: Tensor) -> Tensor:
    """(B, N): |E[n | m] − true n| for every step m of x, with ``E[n | m] = Σ_n π*_mn n / Σ_n π*_mn``."""
    steps = torch.arange(coupling.shape[2], dtype=coupling.dtype)
    return (coupling @ steps / coupling.sum(2) - truth).abs()


def measure(alignment: udtw.Alignment, truth: Tensor) -> dict[str, float]:
    """The numbers of the table: means over the pairs."""
    error = warp_error(alignment.coupling, truth)
    return {
        "distance d² = E[C]": alignment.distance.mean().item(),
        "regulariser Ω = E[log Σ]": alignment.regularizer.mean().item(),
        "loss d² + βΩ": alignment.loss.mean().item(),
        "path entropy H (nats)": alignment.paths.entropy.mean().item(),
        "warp error, all steps": error.mean().item(),
        "warp error, disturbed steps": error[:, DISTURBED].mean().item(),
        "warp error, other steps": error[:, ~disturbed_mask()].mean().item(),
    }


def disturbed_mask() -> Tensor:
    mask = torch.zeros(STEPS_X, dtype=torch.bool)
    mask[DISTURBED] = True
    return mask


def comparison(columns: dict[str, dict[str, float]]) -> Table:
    """A table with one row per quantity and one column per way to set σ."""
    table = Table(title=f"{TEST_PAIRS} unseen pairs, γ = {GAMMA}, β = {BETA:g} (means; warp error in steps of y)")
    table.add_column("")
    for name in columns:
        table.add_column(name, justify="right")
    for row in next(iter(columns.values())):
        table.add_row(row, *(f"{column[row]:.2f}" for column in columns.values()))
    return table


def report_sigma(console: Console, sigma_x: Tensor, sigma_y: Tensor) -> None:
    mask = disturbed_mask()
    first, last = DISTURBED.start, DISTURBED.stop - 1
    largest = sorted(torch.topk(sigma_x, int(mask.sum())).indices.tolist())
    console.print(
        f"Learned σ of x: {sigma_x[mask].mean():.2f} at the disturbed steps {first} to {last}, "
        f"{sigma_x[~mask].mean():.2f} elsewhere. Learned σ of y: {sigma_y.mean():.2f}."
    )
    console.print(
        f"Of the {len(largest)} steps of x with the largest σ, {int(mask[largest].sum())} are disturbed: {largest}."
    )


def save_picture(data: Recordings, alignment: udtw.Alignment, folder: Path) -> Path:
    """The path of the picture of the first pair, written atomically."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / "demo_alignment.png"
    buffer = io.BytesIO()
    plot_alignment(data.x, data.y, alignment, index=0).savefig(buffer, format="png", dpi=200)
    write_atomically(target, buffer.getvalue())
    return target


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Learn step-wise uncertainty by uncertainty-DTW, on generated data.")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the picture (default: %(default)s)")
    options = parser.parse_args(argv)

    console = Console(markup=False, highlight=False, soft_wrap=True)
    generator = torch.Generator().manual_seed(0)
    train, test = record(TRAIN_PAIRS, generator), record(TEST_PAIRS, generator)
    console.print(f"Learning from {TRAIN_PAIRS} generated pairs of {STEPS_X} and {STEPS_Y} steps.")
    sigmas = {
        "σ = 1": (torch.ones(STEPS_X), torch.ones(STEPS_Y)),
        "one σ per series": learn(train, console, per_step=False),
        "one σ per step": learn(train, console, per_step=True),
    }
    alignments = {
        name: udtw.align(test.x, test.y, sigma_x**2, sigma_y**2, gamma=GAMMA, beta=BETA)
        for name, (sigma_x, sigma_y) in sigmas.items()
    }
    console.print(comparison({name: measure(alignment, test.warp) for name, alignment in alignments.items()}))
    dtw, soft = udtw.dtw(test.x, test.y).mean().item(), udtw.soft_dtw(test.x, test.y, gamma=GAMMA).mean().item()
    console.print(f"For comparison, without variances: DTW {dtw:.2f}, soft-DTW {soft:.2f}.")
    report_sigma(console, *sigmas["one σ per step"])
    picture = save_picture(test, alignments["one σ per step"], options.out)
    console.print(f"Open {picture} for the first pair: series, coupling, paths and uncertainty.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
