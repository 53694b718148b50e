"""Estimates of memory: what they grow with, and against what really is allocated."""

import numpy as np
import pytest
import torch
from torch.func import vmap

import udtw
from udtw._engine.prior import Prior
from udtw._engine.problem import Problem
from udtw._io import memory
from udtw._kernels import backends, memory_estimate
from udtw._kernels.cpu import launch
from udtw._kernels.cpu.backend import GRIDS, scratch_bytes
from udtw._kernels.reference.torch_backends import GRIDS_PER_FIELD

QUESTIONS = tuple(GRIDS)


def backend(name):
    return backends.choose(name, torch.zeros(1))


def problem(count, rows, columns, dtype=torch.float32, grad=False):
    cost = torch.zeros(1, 1, 1, dtype=dtype, requires_grad=grad).expand(count, rows, columns)
    return Problem(torch.ones(count), torch.tensor([[rows], [columns]]).expand(2, count), Prior(), cost=cost)


@pytest.mark.parametrize("name", ["numba", "portable"])
@pytest.mark.parametrize("question", QUESTIONS)
def test_estimates_grow_with_every_size(name, question):
    def needed(*sizes, **options):
        return backend(name).bytes_needed(problem(*sizes, **options), question)

    small = needed(8, 300, 200)
    assert 0 < small < needed(9, 300, 200)
    assert small < needed(8, 310, 200)
    assert small < needed(8, 300, 210)
    assert small <= needed(8, 300, 200, dtype=torch.float64)
    assert small <= needed(8, 300, 200, grad=True)


def test_the_kernels_keep_no_grid_for_the_distance_of_sequences():
    x = torch.zeros(4, 30_000, 1, requires_grad=True)
    found = Problem(torch.ones(4), torch.full((2, 4), 30_000), Prior(), x=x, y=x)
    grid = 4 * 30_000 * 30_000 * 4
    needed = backend("numba").bytes_needed
    assert needed(found, "expectations") < grid / 8  # scratch memory of the backward sweep
    with torch.no_grad():
        assert needed(found, "expectations") == 0


def test_a_gradient_in_gamma_is_computed_in_double_precision():
    plain = problem(8, 300, 200, grad=True)
    tilted = plain.replace(gamma=torch.ones(8, requires_grad=True))
    needed = backend("numba").bytes_needed
    more = needed(tilted, "expectations") - needed(plain, "expectations")
    assert more >= 3 * 8 * 8 * 300 * 200  # the cost, its gradient, and that rounded


def of_sequences(dim, count=2, rows=5, columns=4, **options):
    x, y = torch.zeros(count, rows, dim, **options), torch.zeros(count, columns, dim, **options)
    return Problem(torch.ones(count), torch.tensor([[rows], [columns]]).expand(2, count), Prior(), x=x, y=y)


@pytest.mark.parametrize(("dim", "tables"), [(1, 2), (2, 3), (16, 3), (17, 4), (40, 4)])
def test_a_cost_matrix_takes_few_grids_however_many_features(dim, tables):
    """Differences are added up one feature at a time; a gradient keeps all of them."""
    grid = 2 * 5 * 4 * 4
    assert memory_estimate.cost_matrix(of_sequences(dim)) == tables * grid
    assert memory_estimate.cost_matrix(of_sequences(dim, dtype=torch.float64)) == 2 * tables * grid
    kept = dim if dim <= 16 else 0
    assert memory_estimate.cost_matrix(of_sequences(dim, requires_grad=True)) == (tables + kept) * grid
    noisy = of_sequences(dim).replace(var_x=torch.ones(2, 5), var_y=torch.ones(2, 4))
    assert memory_estimate.cost_matrix(noisy) == (tables + 2) * grid
    assert memory_estimate.cost_matrix(problem(2, 5, 4)) == 0


@pytest.mark.parametrize(("grad", "grids"), [(False, 1), (True, 3)])
def test_every_field_takes_its_copy_and_with_a_gradient_two_more(grad, grids):
    asked = problem(8, 300, 200, grad=grad)
    field = torch.zeros(1, 1, 1).expand(8, 300, 200)

    def needed(count, name):
        return backend(name).bytes_needed(asked, "expectations", fields=[field] * count)

    assert needed(5, "numba") - needed(3, "numba") == 2 * grids * 4 * 8 * 300 * 200
    each = GRIDS_PER_FIELD[grad] * 8 * 8 * 300 * (300 + 200)
    assert needed(5, "portable") - needed(3, "portable") == 2 * each
    assert backend("portable").bytes_needed(asked, "expectations", built_in=2) == needed(2, "portable")
    assert backend("portable").bytes_needed(asked, "expectations") == needed(0, "portable")


def test_what_is_refused_is_what_is_needed(monkeypatch):
    seen = []
    monkeypatch.setattr(memory_estimate, "refuse", lambda needed, *_: seen.append(needed))
    asked, portable = problem(8, 300, 200), backend("portable")
    for options in ({}, {"built_in": 2}, {"fields": [asked.cost]}):
        portable._refuse_if_too_large(asked, "expectations", **options)
        assert seen.pop() == portable.bytes_needed(asked, "expectations", **options)


class Asked(Exception):
    """How many numbers of scratch memory a kernel asked for."""


@pytest.mark.parametrize(("rows", "columns"), [(60, 60), (300, 100), (1500, 1200), (12_000, 12_000), (40_000, 500)])
def test_the_estimate_of_scratch_memory_is_about_what_the_kernel_asks_for(monkeypatch, rows, columns):
    def scratch(name, size, dtype):
        if size > 1 and name == "work":
            raise Asked(size)
        return np.zeros(size, dtype)

    monkeypatch.setattr(launch, "scratch", scratch)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    asked = of_sequences(1, 16, rows, columns, requires_grad=True)
    with pytest.raises(Asked) as refused:
        backend("numba").loss_terms(asked, 1.0)
    [numbers] = refused.value.args
    assert 0.8 * 4 * numbers < scratch_bytes(asked) <= 4 * numbers


def test_scratch_memory_is_counted_for_each_thread_that_has_a_pair(monkeypatch):
    """Six tables for up to sixteen pairs at once, two diagonals longer than a pair is."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: 8)
    one = 16 * 6 * (60 + 50 - 1 + 2) * 50 * 4
    assert scratch_bytes(of_sequences(1, 64, 60, 50)) == 8 * one
    assert scratch_bytes(of_sequences(1, 3, 60, 50)) == 3 * one


def test_small_grids_are_not_estimated(monkeypatch):
    numba = backend("numba")
    monkeypatch.setattr(numba, "bytes_needed", lambda *args: 1 / 0)
    numba._refuse_if_too_large(problem(256, 20, 20), "coupling")
    with pytest.raises(ZeroDivisionError):
        numba._refuse_if_too_large(problem(2, 300, 300), "coupling")


@pytest.mark.parametrize("wrap", ["vmap", "fake", "meta"])
def test_tensors_without_memory_of_their_own_are_not_looked_at(monkeypatch, wrap):
    monkeypatch.setattr(memory_estimate, "refuse", lambda *args: 1 / 0)

    def look(cost):
        sizes = cost.shape if cost.ndim == 3 else (1, *cost.shape)
        one = problem(*sizes).replace(cost=cost.reshape(sizes))
        backend("numba")._refuse_if_too_large(one, "coupling")
        memory_estimate.refuse_cost_matrix(one)
        memory_estimate.refuse_copies(one)
        return cost.sum()

    if wrap == "vmap":
        vmap(look)(torch.zeros(2, 400, 400))
    elif wrap == "meta":
        look(torch.zeros(1, 400, 400, device="meta"))
    else:
        from torch._subclasses import FakeTensorMode

        with FakeTensorMode() as mode:
            look(mode.from_tensor(torch.zeros(1, 400, 400)))
    with pytest.raises(ZeroDivisionError):
        look(torch.zeros(1, 400, 400))


def test_a_refused_coupling_names_sizes_and_remedies(monkeypatch):
    monkeypatch.setattr(memory, "free_bytes", lambda: 2**30)
    cost = torch.zeros(1, 1, 1).expand(100, 3000, 2000)
    with pytest.raises(udtw.errors.SizeError) as refusal:
        udtw.PathDistribution(cost).coupling  # noqa: B018
    text = str(refusal.value)
    assert "Aligning 100 pair(s) of 3,000 × 2,000 steps (coupling) would take about 4." in text
    for remedy in ("smaller batches", "float32", memory.VARIABLE):
        assert remedy in text
