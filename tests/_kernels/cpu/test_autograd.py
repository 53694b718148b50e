"""Derivatives of every order, by autograd and by torch.func, and what becomes of those that are not finite."""

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

import udtw
from tests._kernels.cpu.operands import (
    BETA,
    COST,
    FIELD,
    GAMMA,
    JOINT,
    LENGTHS,
    LENGTHS_OF_BOTH,
    VAR_X,
    VAR_Y,
    WARP,
    X,
    Y,
    described,
    leaves,
)
from udtw._kernels.cpu import operators

FUNCTIONS = {
    "steps": (
        lambda x, y, a, b, g: udtw.align(x, y, a, b, gamma=g, lam=0.3, weighting="precision").loss,
        (X, Y, VAR_X, VAR_Y, GAMMA),
    ),
    "ragged": (lambda x, y, a, b, g: udtw.align(x, y, a, b, gamma=g, **LENGTHS).loss, (X, Y, VAR_X, VAR_Y, GAMMA)),
    "banded": (lambda x, y, a, b, g: udtw.align(x, y, a, b, gamma=g, band=1).loss, (X, Y, VAR_X, VAR_Y, GAMMA)),
    "posterior": (
        lambda x, y, a, b, g, p, w: (
            udtw.align(x, y, a, b, gamma=g, beta=p, warp_penalty=w, relax=(1, 0, 0, 1), **LENGTHS).loss
        ),
        (X, Y, VAR_X, VAR_Y, GAMMA, BETA, WARP),
    ),
    "mean under the posterior": (
        lambda x, y, v, g, p, w: udtw.align(x, y, variance=v, gamma=g, beta=p, warp_penalty=w, relax="x").distance,
        (X, Y, JOINT, GAMMA, BETA, WARP),
    ),
    "features": (
        lambda x, y, a, b: udtw.align(x, y, a, b, warp_penalty=0.3).loss,
        (X, Y, VAR_X[..., None] * X.exp(), VAR_Y[..., None] * Y.exp()),
    ),
    "joint": (lambda x, y, v, g: udtw.align(x, y, variance=v, gamma=g).loss, (X, Y, JOINT, GAMMA)),
    "cost": (lambda c, v, g: udtw.align(None, None, cost=c, variance=v, gamma=g).loss, (COST, JOINT, GAMMA)),
    "usual": (lambda x, y, a, b: udtw.align(x, y, a, b, gamma=0.3).loss, (X, Y, VAR_X, VAR_Y)),
    "parts": (lambda x, y, v: udtw.align(x, y, variance=v, beta=0.5).regularizer, (X, Y, JOINT)),
    "soft_min": (lambda x, y, g: udtw.soft_dtw(x, y, gamma=g), (X, Y, GAMMA)),
    "divergence": (lambda x, y, g: udtw.soft_dtw_divergence(x, y, gamma=g), (X, Y, GAMMA)),
    "normalised": (lambda x, y, a, b: udtw.align(x, y, a, b, normalize="path").loss, (X, Y, VAR_X, VAR_Y)),
    "coupling": (lambda c, g: udtw.PathDistribution(c, g).coupling, (COST, GAMMA)),
    "entropy": (lambda c, g: udtw.PathDistribution(c, g).entropy, (COST, GAMMA)),
    "expect": (lambda c, g, f: udtw.PathDistribution(c, g).expect(f, f.square())[1], (COST, GAMMA, FIELD)),
    "dtw": (lambda x, y, a, b: udtw.dtw(x, y, var_x=a, var_y=b), (X, Y, VAR_X, VAR_Y)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradcheck(name):
    function, tensors = FUNCTIONS[name]
    assert gradcheck(function, leaves(tensors))


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name != "dtw"])
def test_second_derivatives_are_exact(name):
    function, tensors = FUNCTIONS[name]
    assert gradgradcheck(function, leaves(tensors))


@pytest.mark.parametrize("quantity", ["loss", "coupling"])
def test_second_derivatives_of_the_portable_backend(quantity):
    def function(x, y, a, b, g):
        return getattr(udtw.align(x, y, a, b, gamma=g, backend="portable"), quantity)

    tensors = leaves((X, Y, VAR_X, VAR_Y, GAMMA))
    assert gradcheck(function, tensors)
    assert gradgradcheck(function, tensors)


def test_third_derivatives_agree_with_the_portable_backend():
    def third(backend):
        (c,) = leaves([COST])
        (first,) = torch.autograd.grad(udtw.align(None, None, cost=c, backend=backend).loss.sum(), c, create_graph=True)
        (second,) = torch.autograd.grad(first.square().sum(), c, create_graph=True)
        return torch.autograd.grad(second.square().sum(), c)[0]

    assert torch.allclose(third("numba"), third("portable"), rtol=1e-9, atol=1e-9)


SMALL = {
    "usual": lambda b, x, y, a, v: udtw.align(x, y, a, v, beta=0.5, backend=b).loss,
    "temperature": lambda b, x, y, a, g: (
        udtw.align(x, y, a, gamma=g.square(), lam=0.3, backend=b, weighting="precision").loss
    ),
    "coupling": lambda b, x, y, a, g: udtw.align(x, y, a, gamma=g.square(), backend=b).coupling,
    "expect": lambda b, c, f, g: udtw.PathDistribution(c, g.square(), backend=b).expect(f, f * c)[1],
}


@pytest.mark.parametrize("name", SMALL)
def test_curvature_agrees_with_plain_torch(name):
    """As `test_second_derivatives_are_exact`, in a moment; every pair has its own weight."""
    x, y, a, b = X[:, :2], Y, VAR_X[:, :2], VAR_Y
    given = {"expect": (COST, FIELD, GAMMA), "usual": (x, y, a, b)}.get(name, (x, y, a, GAMMA))

    def curvature(backend):
        inputs = leaves(given)
        value = SMALL[name](backend, *inputs)
        weights = torch.linspace(0.5, 2, value.numel(), dtype=torch.float64).reshape(value.shape)
        grads = torch.autograd.grad((weights * value).sum(), inputs, create_graph=True)
        return torch.autograd.grad(sum((s * s.detach()).sum() for s in grads), inputs)

    for mine, truth in zip(curvature("numba"), curvature("portable"), strict=True):
        assert torch.allclose(mine, truth, rtol=1e-8, atol=1e-10)


def test_hessian_by_torch_func():
    def loss(x, backend):
        return udtw.align(x, Y[0], VAR_X[0], VAR_Y[0], backend=backend).loss

    mine = torch.func.jacrev(torch.func.jacrev(lambda x: loss(x, "numba")))(X[0])
    truth = torch.autograd.functional.hessian(lambda x: loss(x, "portable"), X[0])
    assert torch.allclose(mine, truth, rtol=1e-9, atol=1e-10)


def test_only_wanted_gradients_come_back_and_every_scale_gives_the_same_bits():
    leaf, fixed = X.clone().requires_grad_(), (Y, VAR_X, VAR_Y)
    (alike,) = torch.autograd.grad(udtw.align(leaf, *fixed).loss.mean(), leaf)
    each = torch.full((2,), 0.5, dtype=torch.float64, requires_grad=True)
    (apart,) = torch.autograd.grad(udtw.align(leaf, *fixed).loss, leaf, each)
    assert torch.equal(alike, apart)
    udtw.align(leaf, *fixed).loss.mean().backward()
    assert torch.equal(leaf.grad, alike)
    assert all(t.grad is None for t in fixed)


def test_a_gradient_that_is_not_finite_stays_with_its_pair():
    x, y = leaves((X, Y))
    udtw.align(x, y).loss.backward(torch.tensor([1.0, torch.inf], dtype=torch.float64))
    assert torch.isfinite(x.grad[0]).all()
    assert x.grad[1].isnan().all()
    (again,) = leaves([X])
    udtw.align(again, Y).loss.sum().backward()
    assert torch.isfinite(again.grad).all()


@pytest.mark.parametrize("value", ["distance", "regularizer"])
def test_a_gradient_that_is_not_finite_leaves_nothing_behind(value):
    gradients = []
    for last in (1.0, torch.inf, torch.nan, 1.0):
        x, var_x = leaves((X, VAR_X))
        weights = torch.tensor([1.0, last], dtype=torch.float64)
        getattr(udtw.align(x, Y, var_x, VAR_Y, beta=0.3), value).backward(weights)
        gradients.append(torch.cat([x.grad.flatten(1), var_x.grad], dim=1))
    assert torch.equal(gradients[0], gradients[-1])
    assert all(torch.equal(found[0], gradients[0][0]) for found in gradients)


def test_a_derivative_that_is_not_finite_makes_all_gradients_of_its_pair_nan_and_no_other():
    """Even where one number of many is to blame: half a gradient would look like one."""
    field = torch.ones_like(COST)
    field[1, 3, 2] = torch.inf  # the last cell: no other cell depends on it
    weights = torch.tensor([1.0, torch.inf], dtype=torch.float64)
    for value, bad in (("soft_min", weights), ("coupling", field)):
        gradients = []
        for derivative in (bad, torch.ones_like(bad)):
            (cost,) = leaves([COST])
            getattr(udtw.PathDistribution(cost, 0.7), value).backward(derivative)
            gradients.append(cost.grad)
        assert gradients[0][1].isnan().all()
        assert torch.equal(gradients[0][0], gradients[1][0])
        assert torch.isfinite(gradients[1]).all()


class Stopped(torch.autograd.Function):
    """The identity, whose derivative is undefined: autograd then hands None to what was before it."""

    @staticmethod
    def forward(ctx, value):
        return value.clone()

    @staticmethod
    def backward(ctx, grad):
        return None


def test_an_undefined_derivative_gives_none():
    inputs = leaves((X, Y, VAR_X, VAR_Y))
    x, y, a, b = inputs
    by_library = udtw.align(*inputs).loss
    by_operator = operators.path_loss_and_grads(
        *described((x, y, None, a, b, None), GAMMA, LENGTHS_OF_BOTH), 0.5, False, False, False
    )[0]
    for loss in (by_library, by_operator):
        assert torch.autograd.grad(Stopped.apply(loss).sum(), inputs, allow_unused=True) == (None,) * 4
