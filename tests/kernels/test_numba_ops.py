"""The compiled operators as citizens of torch: autograd of every order, torch.func, torch.compile, autocast."""

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

import udtw
from udtw.kernels import numba_autograd, numba_ops  # noqa: F401 (the first gives the operators their derivatives)
from udtw.kernels.bands import NONE

RNG = torch.Generator().manual_seed(0)


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=RNG, dtype=torch.float64)


def positive(*shape: int) -> torch.Tensor:
    return torch.rand(*shape, generator=RNG, dtype=torch.float64) + 0.5


X, Y = normal(2, 4, 2), normal(2, 3, 2)
VAR_X, VAR_Y, JOINT = positive(2, 4), positive(2, 3), positive(2, 4, 3)
COST, GAMMA = normal(2, 4, 3).square(), torch.tensor([0.4, 2.0], dtype=torch.float64)
FIELD = normal(2, 4, 3)
LENGTHS = {"lengths_x": torch.tensor([4, 3]), "lengths_y": torch.tensor([2, 3])}

FUNCTIONS = {
    "steps": (lambda x, y, a, b, g: udtw.align(x, y, a, b, gamma=g, lam=0.3).loss, (X, Y, VAR_X, VAR_Y, GAMMA)),
    "ragged": (lambda x, y, a, b, g: udtw.align(x, y, a, b, gamma=g, **LENGTHS).loss, (X, Y, VAR_X, VAR_Y, GAMMA)),
    "banded": (lambda x, y, a, b, g: udtw.align(x, y, a, b, gamma=g, band=1).loss, (X, Y, VAR_X, VAR_Y, GAMMA)),
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


def leaves(tensors):
    return tuple(t.clone().requires_grad_() for t in tensors)


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


def _arguments(requires_grad: bool = True):
    def leaf(tensor):
        return tensor.clone().requires_grad_(requires_grad)

    lengths = torch.tensor([[4, 3], [3, 2]])
    return leaf(X), leaf(Y), None, leaf(VAR_X), leaf(VAR_Y), None, leaf(GAMMA), lengths, NONE, 0.0, None


def test_opcheck_sums():
    torch.library.opcheck(numba_ops.path_sums, (*_arguments(), [0, 1]))


def test_opcheck_cost_operators():
    cost = COST.clone().requires_grad_()
    lengths = torch.tensor([[4, 3], [3, 2]])
    band = (NONE, 0.0, None)
    torch.library.opcheck(numba_ops.path_coupling, (cost, GAMMA, lengths, *band))
    torch.library.opcheck(
        numba_ops.path_expectations, (FIELD[None].clone().requires_grad_(), cost, GAMMA, lengths, *band)
    )
    torch.library.opcheck(numba_ops.path_least_mask, (COST, GAMMA, lengths, *band))
    torch.library.opcheck(numba_ops.path_least, (X, Y, None, VAR_X, VAR_Y, None, GAMMA, lengths, *band))


def test_opcheck_loss_and_slopes():
    arguments = _arguments()
    constant_gamma = (*arguments[:6], GAMMA, *arguments[7:])
    torch.library.opcheck(numba_ops.path_loss_and_slopes, (*constant_gamma, 0.5))


USED_RESULTS = {
    "loss": (torch.tensor([2.0, 3.0]), None, None),
    "mean loss": (torch.tensor(0.5).expand(2), None, None),
    "the loss's parts": (None, torch.tensor([2.0, 3.0]), torch.tensor([1.0, 1.5])),
    "other combination": (torch.tensor([2.0, 3.0]), None, torch.tensor([1.0, 9.0])),
    "distance": (None, torch.tensor([2.0, 3.0]), None),
}


@pytest.mark.parametrize("used", USED_RESULTS)
def test_pullback(used):
    """Whatever the loss was made from, its gradients are those of `path_gradients`."""
    inputs, beta = _arguments(False), 0.5
    _, _, _, *slopes = numba_ops.path_loss_and_slopes(*inputs, beta)
    derivatives = tuple(None if d is None else d.double() for d in USED_RESULTS[used])
    torch.library.opcheck(numba_ops.path_pullback, (*derivatives, *slopes, *inputs, beta))
    found = numba_ops.path_pullback(*derivatives, *slopes, *inputs, beta)
    factors = numba_ops.loss_factors(*derivatives, beta)
    expected = numba_ops.path_gradients(factors, None, *inputs, False, False)[:6]
    for one, other in zip(found, expected, strict=True):
        assert torch.allclose(one, other, rtol=1e-12, atol=1e-14)


def test_opcheck_gradients():
    factors = normal(5, 2)
    torch.library.opcheck(numba_ops.path_gradients, (factors, FIELD, *_arguments(False), True, True))


def whole_alignment(x, y, a, b):
    found = udtw.align(x, y, a, b, gamma=0.3, band=2)
    return found.loss.sum() + found.coupling.square().sum() + found.paths.entropy.sum() + udtw.dtw(x, y).sum()


@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")  # torch's own compiler still imports torch.jit
@pytest.mark.parametrize("compiler", ["eager", "aot_eager", "inductor"])
def test_torch_compile_takes_everything_without_a_graph_break(compiler):
    torch._dynamo.reset()
    compiled = torch.compile(whole_alignment, fullgraph=True, backend=compiler)
    mine, reference = leaves((X, Y, VAR_X, VAR_Y)), leaves((X, Y, VAR_X, VAR_Y))
    found, expected = compiled(*mine), whole_alignment(*reference)
    assert torch.allclose(found, expected, rtol=1e-12)
    found.backward()
    expected.backward()
    for one, other in zip(mine, reference, strict=True):
        assert torch.allclose(one.grad, other.grad, rtol=1e-10, atol=1e-12)


def test_torch_compile_of_the_portable_backend():
    torch._dynamo.reset()

    def function(x, y):
        return udtw.align(x, y, gamma=0.3, backend="portable").loss.sum()

    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    assert torch.allclose(compiled(X, Y), function(X, Y))


def one_loss(x, y, a, b, g):
    return udtw.align(x, y, a, b, gamma=g, beta=0.5).loss


def test_torch_func_grad_and_vmap():
    arguments = (X, Y, VAR_X, VAR_Y, GAMMA)
    batched = one_loss(*arguments)
    assert torch.allclose(torch.func.vmap(one_loss)(*arguments), batched, rtol=1e-13)
    expected = torch.autograd.grad(one_loss(*(inputs := leaves(arguments))).sum(), inputs)
    by_grad = torch.func.grad(lambda *t: one_loss(*t).sum(), argnums=tuple(range(5)))(*arguments)
    per_sample = torch.func.vmap(torch.func.grad(one_loss, argnums=tuple(range(5))))(*arguments)
    for truth, one, other in zip(expected, by_grad, per_sample, strict=True):
        assert torch.allclose(one, truth, rtol=1e-12)
        assert torch.allclose(other, truth, rtol=1e-12)


def test_vmap_over_the_gradient_of_the_usual_loss():
    def loss(x, y, a, b):
        return udtw.align(x, y, a, b, beta=0.5).loss

    expected = torch.autograd.grad(loss(*(inputs := leaves((X, Y, VAR_X, VAR_Y)))).sum(), inputs)
    found = torch.func.vmap(torch.func.grad(loss, argnums=(0, 1, 2, 3)))(X, Y, VAR_X, VAR_Y)
    for one, other in zip(found, expected, strict=True):
        assert torch.allclose(one, other, rtol=1e-12)


def test_vmap_over_coupling_and_expectations_with_a_shared_mask():
    mask = torch.ones(4, 3, dtype=torch.bool).tril(1)

    def both(cost, field):
        paths = udtw.PathDistribution(cost, 0.7, band=mask)
        return paths.coupling, paths.expect(field)

    coupling, mean = torch.func.vmap(both)(COST, FIELD)
    reference = udtw.PathDistribution(COST, 0.7, band=mask)
    assert torch.allclose(coupling, reference.coupling)
    assert torch.allclose(mean, reference.expect(FIELD))


def test_hessian_by_torch_func():
    def loss(x, backend):
        return udtw.align(x, Y[0], VAR_X[0], VAR_Y[0], backend=backend).loss

    mine = torch.func.jacrev(torch.func.jacrev(lambda x: loss(x, "numba")))(X[0])
    truth = torch.autograd.functional.hessian(lambda x: loss(x, "portable"), X[0])
    assert torch.allclose(mine, truth, rtol=1e-9, atol=1e-10)


def test_autocast_computes_in_float32():
    x, y = torch.randn(2, 6, 32), torch.randn(2, 5, 32)
    expected = udtw.align(x, y).loss
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.nn.functional.linear(x, torch.eye(32)).dtype == torch.bfloat16
        found = udtw.align(x, y).loss
    assert found.dtype == torch.float32
    assert torch.equal(found, expected)


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
