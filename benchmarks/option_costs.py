"""What each option of `udtw.align` makes of a training step, in units of the plain one, 64 pairs of 128 steps."""

from collections.abc import Callable
from typing import Any

import torch

import udtw
from benchmarks import peers
from benchmarks.cases import Found, Setting, raw
from benchmarks.data import Batch
from benchmarks.rows import AtMostTimes, Row
from benchmarks.timing import Call, interleave

COUNT, LENGTH = 64, 128
PLAIN = "the plain step"


def _ragged(seed: int) -> torch.Tensor:
    return torch.randint(LENGTH // 2, LENGTH + 1, (COUNT,), generator=torch.Generator().manual_seed(seed))


def _step(loss: Callable[[], torch.Tensor], *leaves: torch.Tensor) -> Call:
    def step() -> None:
        for leaf in leaves:
            leaf.grad = None
        loss().sum().backward()

    return step


def options(setting: Setting) -> Found:
    """Time a training step of the likelihood with one option or question each; what has no gradient is asked alone."""
    batch = Batch.make(COUNT, LENGTH, setting.seed)
    leaves = batch.leaves
    given = [leaf.detach() for leaf in leaves]
    gamma, beta = (torch.ones(COUNT, requires_grad=True) for _ in range(2))
    joint = (torch.rand(COUNT, LENGTH, LENGTH, generator=torch.Generator().manual_seed(0)) + 0.5).requires_grad_()

    def with_options(*more: torch.Tensor, **chosen: Any) -> Call:
        return _step(lambda: udtw.align(*leaves, **chosen).loss, *leaves, *more)

    def of_dim(dim: int) -> tuple[Call, Call]:
        """Return the step with ``dim`` features, and the matrix D of as many with its gradient."""
        wide = Batch.make(COUNT, LENGTH, setting.seed, dim)
        return peers.train_ours(wide, "likelihood"), peers.tokens_baseline(wide)["D by matmul"]

    (step_17, matrix_17), (step_256, matrix_256) = of_dim(17), of_dim(256)
    calls = {
        PLAIN: with_options(),
        "lengths": with_options(lengths_x=_ragged(1), lengths_y=_ragged(2)),
        "normalize='path'": with_options(normalize="path"),
        "joint variance": _step(lambda: udtw.align(batch.x, batch.y, variance=joint).loss, batch.x, batch.y, joint),
        "gradient in γ": with_options(gamma, gamma=gamma),
        "gradient in β": with_options(beta, beta=beta),
        "warp_penalty": with_options(warp_penalty=peers.WARP_PENALTY),
        "relax": with_options(relax="both"),
        "debias": with_options(debias=True),
        "coupling, no gradient": lambda: udtw.align(*given).coupling,
        "matches, no gradient": lambda: udtw.align(*given).matches(),
        "one sample each": lambda: udtw.align(*given).paths.sample(1),
        "d = 17": step_17,
        "d = 256": step_256,
    }
    bounds = {"matches, no gradient": 4.0}
    t = interleave(calls, setting.effort)
    rows: list[Row] = [
        AtMostTimes(f"{name}, {COUNT} × {LENGTH} × {LENGTH}", t[name], t[PLAIN], PLAIN, bounds.get(name, 2.0))
        for name in calls
        if name != PLAIN and not name.startswith("d =")
    ]
    matrices = interleave({"d = 17": matrix_17, "d = 256": matrix_256}, setting.effort)
    rows += [
        AtMostTimes(f"{name}, {COUNT} × {LENGTH} × {LENGTH}", t[name], of_matrix, "D and its gradient alone", 2.0)
        for name, of_matrix in matrices.items()
    ]
    return Found(rows, raw(t | {f"D and its gradient, {name}": timing for name, timing in matrices.items()}))


CASES = {"options": options}
