"""Torch around the kernels: compile, func, higher derivatives, determinism, and errors that name what is wrong."""

import pytest
import torch
from torch.func import grad, vmap

import udtw
from tests._kernels.gpu.interpreter import quicken, tiling
from udtw._kernels import backends
from udtw._kernels.gpu import launch, operators

quicken()
NUMPY_WARNS = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of what a GPU computes without a word
OPTIONS = {"gamma": 0.5, "backend": "triton"}


@pytest.fixture(autouse=True)
def _small_tiles():
    with tiling(2, 4, 8):
        yield


def series(seed: int = 0, count: int = 2, steps: int = 4, **options) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, steps, 1, generator=generator, dtype=torch.float64, **options)


X, Y = series(0), series(1, steps=3)
VARIANCES = series(2).abs()[:, :, 0] + 0.5, series(3, steps=3).abs()[:, :, 0] + 0.5


def losses(backend: str, **options):
    return {
        "free energy": lambda x: udtw.align(x, Y, *VARIANCES, gamma=0.5, backend=backend, **options).loss,
        "paper": lambda x: (
            udtw.align(x, Y, *VARIANCES, gamma=0.5, backend=backend, weighting="precision", **options).loss
        ),
        "coupling": lambda x: udtw.align(x, Y, gamma=0.5, backend=backend, **options).coupling.square().sum((1, 2)),
        "warps": lambda x: udtw.align(x, Y, gamma=0.5, backend=backend, **options).warps,
    }


@pytest.mark.parametrize("name", losses("triton"))
def test_second_derivatives(name):
    found = []
    for backend in ("triton", "portable"):
        x = X.clone().requires_grad_()
        first = torch.autograd.grad(losses(backend)[name](x).sum(), x, create_graph=True)[0]
        found.append((first, torch.autograd.grad(first.square().sum(), x)[0]))
    for mine, truth in zip(*found, strict=True):
        assert torch.allclose(mine, truth, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", losses("triton"))
def test_func_grad_and_vmap(name):
    mine, truth = losses("triton")[name], losses("portable")[name]
    assert torch.allclose(grad(lambda x: mine(x).sum())(X), grad(lambda x: truth(x).sum())(X))
    many = torch.stack([X, X + 0.3])
    expected = torch.stack([grad(lambda x: truth(x).sum())(x) for x in many])
    assert torch.allclose(vmap(grad(lambda x: mine(x).sum()))(many), expected)


@pytest.mark.parametrize("name", ["free energy", "paper", "coupling"])
def test_compile_without_graph_breaks(name):
    mine = losses("triton")[name]
    compiled = torch.compile(mine, fullgraph=True, backend="aot_eager")
    x, same = X.clone().requires_grad_(), X.clone().requires_grad_()
    value, truth = compiled(x), mine(same)
    assert torch.allclose(value, truth)
    both = (torch.autograd.grad(v.sum(), leaf)[0] for v, leaf in ((value, x), (truth, same)))
    assert torch.allclose(*both)


def test_operators_are_what_they_say():
    """Schema, fake tensors and autograd registration by torch's own checks."""
    gamma, lengths = torch.full((2,), 0.5, dtype=torch.float64), torch.tensor([[4, 3], [3, 3]])
    energy = (X - Y.transpose(1, 2)).square().requires_grad_()
    tests = ("test_schema", "test_faketensor")
    fields = energy.detach()[None].clone()
    torch.library.opcheck(
        operators.gpu_sums, (energy, gamma, None, lengths, None, fields, [0, -1, -2]), test_utils=tests
    )
    torch.library.opcheck(operators.gpu_coupling, (energy, gamma, gamma, lengths, None), test_utils=tests)
    torch.library.opcheck(operators.gpu_transitions, (energy, gamma, None, lengths, None), test_utils=tests)
    torch.library.opcheck(operators.gpu_least, (energy, gamma, None, lengths, None, True), test_utils=tests)
    described = (None, None, X, Y, *VARIANCES, gamma, gamma, None, lengths, None)
    torch.library.opcheck(operators.gpu_loss, (*described, 0.0, False, True), test_utils=tests)
    out = operators.gpu_loss(*described, 0.0, False, True)
    given = (gamma, gamma, *out[3:], *described, 0.0, False, False)
    torch.library.opcheck(operators.gpu_loss_grads, given, test_utils=tests)


def test_results_are_the_same_bits_each_time():
    def once():
        x = X.float().requires_grad_()
        value = udtw.align(x, Y.float(), **OPTIONS).loss
        return value.detach(), torch.autograd.grad(value.sum(), x)[0]

    for mine, again in zip(once(), once(), strict=True):
        assert torch.equal(mine, again)


def test_autocast_changes_nothing():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = udtw.align(X.float(), Y.float(), **OPTIONS).loss
    assert torch.equal(found, udtw.align(X.float(), Y.float(), **OPTIONS).loss)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("what", ["x", "cost", "field"])
@NUMPY_WARNS
def test_values_that_are_not_finite_are_named(bad, what):
    values = X.clone() if what == "x" else torch.rand(2, 4, 3, dtype=torch.float64)
    values[1, 2] = bad
    uses = {
        "x": lambda: udtw.align(values, Y, **OPTIONS).loss,
        "cost": lambda: udtw.PathDistribution(values, **OPTIONS).soft_min,
        "field": lambda: udtw.PathDistribution(torch.ones(2, 4, 3, dtype=torch.float64), **OPTIONS).expect(values),
    }
    with pytest.raises(udtw.errors.UdtwError, match=what):
        uses[what]()


@pytest.mark.parametrize("size", [1e30, -1e30])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@NUMPY_WARNS
def test_an_overflow_is_reported(size, dtype):
    with pytest.raises(udtw.errors.RangeError, match="gamma"):
        udtw.PathDistribution(torch.full((3, 3), size, dtype=dtype), **OPTIONS).soft_min  # noqa: B018


def test_a_cell_that_is_too_expensive_is_avoided():
    cost = torch.rand(4, 4, dtype=torch.float64)
    cost[1, 1] = cost[2, 1] = 1e30
    found, truth = (udtw.PathDistribution(cost, gamma=0.5, backend=name) for name in ("triton", "portable"))
    assert torch.allclose(found.soft_min, truth.soft_min)
    assert torch.allclose(found.coupling, truth.coupling)


@pytest.mark.parametrize("gamma", [0.0, -1.0, float("nan")])
@NUMPY_WARNS
def test_a_temperature_that_is_none_is_named(gamma):
    with pytest.raises(udtw.errors.UdtwError, match="gamma"):
        udtw.align(X, Y, gamma=torch.full((2,), gamma, dtype=torch.float64), backend="triton").loss  # noqa: B018


@NUMPY_WARNS
def test_variances_must_be_positive():
    with pytest.raises(udtw.errors.UdtwError, match="var_x"):
        udtw.align(X, Y, -VARIANCES[0], 4 + VARIANCES[1], **OPTIONS).loss  # noqa: B018


def test_a_mask_without_a_path_is_named():
    with pytest.raises(udtw.errors.BandError, match="no path"):
        udtw.PathDistribution(X[0] - Y[0].T, band=torch.eye(4, 3, dtype=torch.bool), **OPTIONS).soft_min  # noqa: B018


def test_it_fits_the_interpreters_device_and_floats_only():
    triton = backends.choose("triton", X)
    assert "is on meta" in triton.misfit(torch.zeros(1, device="meta"))
    assert "float16" in triton.misfit(torch.zeros(1, dtype=torch.float16))
    assert backends.choose("auto", X).name == "numba"


def test_missing_memory_is_told_with_its_size(monkeypatch):
    def full(*args, **options):
        raise torch.OutOfMemoryError("no memory")

    monkeypatch.setattr(launch, "forward", full)
    with pytest.raises(udtw.errors.SizeError, match=r"takes about .* GB on cpu"):
        udtw.align(X, Y, **OPTIONS).loss  # noqa: B018


@pytest.mark.parametrize("name", ["free energy", "paper", "coupling"])
@pytest.mark.parametrize(
    "options",
    [{"band": 1}, {"band": "itakura"}, {"band": torch.ones(4, 3, dtype=torch.bool).tril(1)}, {"lengths_x": [4, 2]}, {}],
    ids=["radius", "itakura", "mask", "lengths", "plain"],
)
def test_second_derivatives_across_tiles_and_in_bands(name, options):
    """Tiles of 2 × 2 cells, so that the pairs of 4 × 3 have four of them."""
    with tiling(1, 2, 2):
        found = []
        for backend in ("triton", "portable"):
            x = X.clone().requires_grad_()
            first = torch.autograd.grad(losses(backend, **options)[name](x).sum(), x, create_graph=True)[0]
            found.append((first, torch.autograd.grad(first.square().sum(), x)[0]))
    for mine, truth in zip(*found, strict=True):
        assert torch.allclose(mine, truth, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("options", [{}, {"relax": "both", "warp_penalty": 0.1}], ids=["plain", "relaxed"])
@pytest.mark.parametrize("weighting", ["likelihood", "precision"])
def test_an_empty_batch_has_empty_results_and_gradients(weighting, options):
    x, y = X[:0].clone().requires_grad_(), Y[:0]
    a = udtw.align(x, y, *(v[:0] for v in VARIANCES), weighting=weighting, **OPTIONS, **options)
    assert a.loss.shape == (0,)
    assert torch.autograd.grad(a.loss.sum(), x)[0].shape == x.shape
    assert a.coupling.shape == (0, 4, 3)
    assert udtw.dtw(x, y, backend="triton").shape == (0,)


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1), (2, 20)])
@pytest.mark.parametrize("weighting", ["likelihood", "precision"])
def test_single_steps_and_very_unequal_lengths(weighting, shape):
    found = []
    for backend in ("triton", "portable"):
        x, y = (series(seed, steps=steps, requires_grad=True) for seed, steps in enumerate(shape))
        loss = udtw.align(x, y, gamma=0.5, weighting=weighting, backend=backend).loss
        found.append((loss, *torch.autograd.grad(loss.sum(), (x, y))))
    for mine, truth in zip(*found, strict=True):
        assert torch.allclose(mine, truth, rtol=1e-9, atol=1e-9)


def test_strided_input_is_read_as_it_is_meant():
    x, y = series(4, steps=8)[:, ::2], series(5, count=1, steps=3).expand(2, 3, 1)
    assert not x.is_contiguous()
    mine = udtw.align(x, y, **OPTIONS).loss
    assert torch.equal(mine, udtw.align(x.contiguous(), y.contiguous(), **OPTIONS).loss)


def test_a_device_that_fails_is_named(monkeypatch):
    def gone(*args, **options):
        raise torch.AcceleratorError("CUDA error: device lost\nmore lines")

    monkeypatch.setattr(launch, "forward", gone)
    with pytest.raises(udtw.errors.BackendError, match=r"device cpu failed: CUDA error: device lost\. "):
        udtw.align(X, Y, **OPTIONS).loss  # noqa: B018
