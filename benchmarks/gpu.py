"""``python -m benchmarks.gpu``: a training step on a GPU, against diagonal kernels in plain torch, eager and compiled.

Values and gradients are compared before anything is timed. Without a GPU it says so and ends with code 0.
"""

import argparse
import statistics
import sys
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

import udtw

SIZES = {"64 × 128²": (64, 128), "32 × 196²": (32, 196), "8 × 4096²": (8, 4096)}
ROUNDS = 20


def step(backend: str, weighting: str) -> Callable[..., tuple[Tensor, ...]]:
    """Return a function that computes the loss and its gradients in x, y and both variances."""

    def run(*leaves: Tensor) -> tuple[Tensor, ...]:
        loss = udtw.align(*leaves, gamma=0.1, weighting=weighting, backend=backend).loss.sum()
        return loss, *torch.autograd.grad(loss, leaves)

    return run


def leaves(count: int, length: int, device: str, seed: int = 0) -> list[Tensor]:
    """Return random walks x and y, and variances of their steps."""
    generator = torch.Generator().manual_seed(seed)
    walks = torch.randn(2, count, length, 1, generator=generator).cumsum(2)
    walks = (walks - walks.mean(2, keepdim=True)) / walks.std(2, keepdim=True)
    noise = torch.rand(2, count, length, generator=generator) + 0.5
    return [t.to(device).requires_grad_() for t in (*walks, *noise)]


def milliseconds(run: Callable[[], object]) -> float:
    """Return the median of `ROUNDS` runs, measured by events of the device."""
    times = []
    for _ in range(ROUNDS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        run()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    return statistics.median(times)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--weighting", choices=("likelihood", "precision"), default=None, help="default: both")
    options = parser.parse_args(arguments)
    reason = udtw.available_backends()["triton"]
    if reason is not None:
        print(f"skipped: {reason}")
        return 0
    if not torch.cuda.is_available():
        print("skipped: Triton's interpreter is no GPU")
        return 0
    print(torch.cuda.get_device_name(options.device))
    for weighting in [options.weighting] if options.weighting else ["likelihood", "precision"]:
        for name, (count, length) in SIZES.items():
            given = leaves(count, length, options.device)
            contenders = {"triton": step("triton", weighting)}
            if length < 1024:  # plain torch keeps some dozen tables of all cells
                contenders["portable"] = step("portable", weighting)
                contenders["portable, compiled"] = torch.compile(step("portable", weighting))
            results = {who: run(*given) for who, run in contenders.items()}
            truth = (
                step("portable", weighting)(*(t.detach().double().requires_grad_() for t in given[:4]))
                if (length < 1024)
                else results["triton"]
            )
            for who, found in results.items():
                for mine, known in zip(found, truth, strict=True):
                    off = float((mine - known).abs().max() / known.abs().max())
                    if not off < 2e-4:
                        print(f"{name}, {weighting}: {who} is off by {off:.1e}")
                        return 1
            times = {who: milliseconds(partial(run, *given)) for who, run in contenders.items()}
            text = ", ".join(f"{who} {time:.3f} ms" for who, time in times.items())
            print(f"{weighting:10} {name:10} {text}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
