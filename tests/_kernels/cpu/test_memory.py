"""No compiler checks the bounds of the kernels' vector stores, so these tests surround every buffer with canaries."""

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings

import udtw
from tests.problems import cases
from udtw._kernels.cpu import launch, pack, threads

CANARY = 64


class GuardedScratch:
    """Stands in for `threads.scratch`: buffers of exactly the size asked for, between canaries."""

    def __init__(self):
        self.blocks: list[np.ndarray] = []

    def __call__(self, name: str, size: int, dtype: np.dtype) -> np.ndarray:
        block = np.full(size + 2 * CANARY, 77, dtype)
        block[CANARY : CANARY + size] = 0
        self.blocks.append(block)
        return block[CANARY : CANARY + size]

    def intact(self) -> bool:
        return all((block[:CANARY] == 77).all() and (block[-CANARY:] == 77).all() for block in self.blocks)


@pytest.fixture
def guarded(monkeypatch):
    scratch = GuardedScratch()
    monkeypatch.setattr(launch, "scratch", scratch)
    return scratch


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("table_cells", [1, 2**20])
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(case=cases(max_side=40))
def test_sweeps_stay_inside_their_scratch_memory(guarded, monkeypatch, dtype, table_cells, case):
    monkeypatch.setattr(launch, "TABLE_CELLS", table_cells)
    guarded.blocks.clear()
    alignment, leaves = case.align("numba", dtype)
    alignment.loss.sum().backward(retain_graph=True)
    alignment.coupling.square().sum().backward()
    alignment.paths.mode()
    alignment.paths.sample(1, generator=0)
    assert guarded.intact()
    assert all(torch.isfinite(leaf.grad).all() for leaf in leaves.values())


def test_large_gradients_leave_no_infinity_in_scratch_memory():
    """A later sweep, of other shapes, may meet any number that is left there, and times zero it must be zero."""
    threads.clear_scratch()
    x, y = (torch.randn(3, 8, 1, generator=torch.Generator().manual_seed(seed)) for seed in range(2))
    distance = udtw.align(x.requires_grad_(), y, gamma=1e-5, distance="soft_min", weighting="precision").distance
    (1e35 * distance).sum().backward()
    assert torch.isfinite(x.grad).all()
    assert np.isfinite(threads.scratch("work", 1, np.dtype(np.float32))).all()


def test_gradients_that_are_not_wanted_are_not_written():
    """Without variances their gradients are empty arrays; a write to one, even of zero, would damage the heap."""
    w, nothing = np.zeros(64), np.zeros((0, 0, 1))
    index, length = np.array([0, 1]), np.array([5, 5])
    # In Python, which checks what Numba does not.
    pack.add_back.py_func(w, 0, 16, nothing, index, length, 0, 2, 5, False, 2.0)
