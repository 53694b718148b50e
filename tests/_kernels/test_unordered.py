"""Sets and grids: partners without an order, against the formula pair by pair."""

import numpy as np
import pytest
import torch
from torch import Tensor

import udtw
from udtw._kernels import unordered
from udtw.errors import NonFiniteError, OptionError, ShapeError, VarianceError

SHAPE = (2, 3)


def naive(leaves: dict[str, Tensor], lengths: Tensor, beta: bool) -> Tensor:
    """(B,): the free energy, written out."""
    place = torch.arange(6)
    places = torch.stack([place // 3, place % 3], 1).double()
    values = []
    for b, (n, m) in enumerate(lengths.T.tolist()):
        x, y = leaves["x"][b, :n], leaves["y"][b, :m]
        sigma = 0.5 * (leaves["var_x"][b, :n, None] + leaves["var_y"][b, None, :m])
        energy = (x[:, None] - y[None]).square()
        energy = (energy / sigma).sum(2) if sigma.ndim == 3 else energy.sum(2) / sigma
        log = sigma.log().sum(2) if sigma.ndim == 3 else sigma.log()
        if beta:
            energy = energy + leaves["beta"] * log
        if "reach" in leaves:
            apart = (places[:, None] - places[None]).square().sum(2)[:n, :m]
            energy = energy + apart / leaves["reach"] ** 2
        scores = -energy / leaves["gamma"]
        both = torch.logsumexp(scores, 1).sum() + torch.logsumexp(scores, 0).sum()
        values.append(-0.5 * leaves["gamma"] * both)
    return torch.stack(values)


@pytest.mark.parametrize("grid", [False, True])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize(("dim", "by_feature"), [(2, False), (20, False), (3, True)])
def test_values_and_gradients_of_every_order_are_those_of_the_formula(grid, padded, dim, by_feature):
    generator = torch.Generator().manual_seed(dim + 10 * grid)

    def tensor(*shape: int) -> Tensor:
        return torch.rand(shape, generator=generator, dtype=torch.float64) + 0.3

    columns, features = (6 if grid else 5), (dim,) if by_feature else ()
    leaves = {"x": 2 * tensor(3, 6, dim), "y": 2 * tensor(3, columns, dim)}
    leaves |= {"var_x": tensor(3, 6, *features), "var_y": tensor(3, columns, *features)}
    leaves |= {"gamma": tensor(), "beta": tensor()} | ({"reach": tensor()} if grid else {})
    lengths = torch.tensor([[6, 3, 1], [2, columns, 4]]) if padded else torch.tensor([[6], [columns]]).expand(2, 3)
    for leaf in leaves.values():
        leaf.requires_grad_()
    options = {"order": "grid", "shape": SHAPE} if grid else {"order": "set"}
    a = udtw.align(**leaves, **options, lengths_x=lengths[0], lengths_y=lengths[1])
    expected = naive(leaves, lengths, beta=True)
    assert torch.allclose(a.loss, expected, rtol=1e-10)
    every = list(leaves.values())
    mine = torch.autograd.grad(a.loss.square().sum(), every, create_graph=True)
    truth = torch.autograd.grad(expected.square().sum(), every, create_graph=True)
    plain = torch.autograd.grad(a.loss.square().sum(), every, retain_graph=True)
    second = [
        torch.autograd.grad(sum(g.square().sum() for g in one), every, retain_graph=True) for one in (mine, truth)
    ]
    for one, two, known in zip(mine, plain, truth, strict=True):
        assert torch.allclose(one, known, rtol=1e-9, atol=1e-9)
        assert torch.allclose(two, known, rtol=1e-9, atol=1e-9)
    for one, known in zip(*second, strict=True):
        assert torch.allclose(one, known, rtol=1e-7, atol=1e-7)
    (by_gamma,) = torch.autograd.grad(a.loss.sum(), leaves["gamma"])
    assert by_gamma.item() == pytest.approx(-a.paths.entropy.sum().item(), rel=1e-9)
    assert torch.allclose(a.coupling.sum((1, 2)), lengths.sum(0).double() / 2)


def test_one_step_against_a_padded_set():
    """Its one row is not a table with a row for each column."""
    generator = torch.Generator().manual_seed(0)
    x, y, noise = (torch.rand(2, steps, 2, generator=generator, dtype=torch.float64) + 0.3 for steps in (1, 5, 5))
    alone = udtw.align(x, y[:, :3], noise[:, :1], noise[:, :3], order="set")
    padded = udtw.align(x, y, noise[:, :1], noise, order="set", lengths_x=[1, 1], lengths_y=[3, 3])
    assert torch.allclose(padded.loss, alone.loss, rtol=1e-12)
    dtw = [udtw.dtw(x, one, order="set", lengths_y=[3, 3]) for one in (y[:, :3], y)]
    assert torch.allclose(*dtw, rtol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("grid", [False, True])
@pytest.mark.parametrize("features", [3, 24])
def test_the_compiled_kernel_finds_what_torch_finds(monkeypatch, dtype, grid, features):
    generator = torch.Generator().manual_seed(0)
    shapes = {"x": (9, 30, features), "y": (9, 30, features), "var_x": (9, 30), "var_y": (9, 30)}
    drawn = {name: torch.rand(shape, generator=generator, dtype=dtype) + 0.2 for name, shape in shapes.items()}
    drawn |= {"gamma": torch.tensor(0.3, dtype=dtype), "beta": torch.tensor(0.8, dtype=dtype)}
    options = {"order": "grid", "shape": (5, 6)} if grid else {"order": "set"}
    drawn |= {"reach": torch.tensor(1.5, dtype=dtype)} if grid else {}
    lengths = {"lengths_x": torch.arange(22, 31), "lengths_y": torch.arange(9) * 3 + 1}
    found = []
    for kernel in (unordered.choices_kernel, lambda: None):
        monkeypatch.setattr(unordered, "choices_kernel", kernel)
        leaves = {name: one.clone().requires_grad_() for name, one in drawn.items()}
        loss = udtw.align(**leaves, **options, **lengths).loss
        (loss * torch.linspace(1, 2, 9, dtype=dtype)).sum().backward(retain_graph=True)
        first = [one.grad.clone() for one in leaves.values()]
        loss.sum().backward()
        found.append([loss.detach(), *first, *(one.grad for one in leaves.values())])
    tolerance = 1e-11 if dtype == torch.float64 else 2e-5
    for mine, known in zip(*found, strict=True):
        assert torch.allclose(mine, known, rtol=tolerance, atol=tolerance * float(known.abs().max()))


@pytest.mark.parametrize("features", [3, 24])
def test_a_common_offset_costs_no_digits(features):
    """Neither of values nor of gradients: differences are taken about a center."""
    generator = torch.Generator().manual_seed(0)
    found = []
    for offset in (0.0, 1e7):
        generator.manual_seed(0)
        x, y = (
            (torch.rand(2, steps, features, generator=generator, dtype=torch.float64) + offset).requires_grad_()
            for steps in (6, 5)
        )
        beta = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
        loss = udtw.align(x, y, beta=beta, order="set").loss
        found.append([loss.detach(), *torch.autograd.grad(loss.sum(), [x, y, beta], materialize_grads=True)])
    for near, far in zip(*found, strict=True):
        torch.testing.assert_close(far, near, rtol=1e-6, atol=1e-6)
    assert found[0][-1] == 0  # without variances β has no price


def test_what_is_not_finite_is_named():
    x = torch.rand(2, 30, 24)
    x[1, 3, 5] = torch.nan
    with pytest.raises(NonFiniteError, match="x"):
        udtw.align(x, torch.rand(2, 30, 24), order="set")


def test_matches_are_the_choices_of_each_side():
    x, y = np.array([[0.0], [5.0], [9.0]]), np.array([[9.0], [0.1]])
    a = udtw.align(x, y, gamma=0.1, order="set")
    assert a.matches().index.tolist() == [1, 0, 0]
    assert a.matches(of="y").index.tolist() == [2, 0]
    assert np.allclose(a.matches().matched, 1)
    assert float(udtw.dtw(x, y, order="set")) == pytest.approx(0.5 * (0.01 + 16 + 0 + 0 + 0.01))
    assert float(a.paths.length) == pytest.approx(2.5)


def test_order_does_not_matter():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((7, 3)), rng.standard_normal((5, 3))
    one, other = (udtw.align(z, y, order="set").loss for z in (x, x[rng.permutation(7)]))
    assert one == pytest.approx(other, rel=1e-12)
    assert one == pytest.approx(udtw.align(y, x, order="set").loss, rel=1e-12)


def test_a_short_reach_leaves_each_token_its_own_place():
    x = np.random.default_rng(0).standard_normal((6, 2))
    a = udtw.align(x, x[::-1].copy(), order="grid", shape=SHAPE, reach=1e-3)
    assert np.allclose(a.coupling, np.eye(6), atol=1e-12)
    far = udtw.align(x, x[::-1].copy(), order="grid", shape=SHAPE, reach=1e6)
    assert far.loss == pytest.approx(udtw.align(x, x[::-1].copy(), order="set").loss, rel=1e-9)


def test_tables_debiased_distances_and_given_costs():
    rng = np.random.default_rng(0)
    series = rng.standard_normal((3, 4, 2))
    table = udtw.pairwise(series, order="set", gamma=0.5)
    assert table[0, 1] == pytest.approx(udtw.align(series[0], series[1], order="set", gamma=0.5).loss)
    assert np.allclose(np.diag(udtw.pairwise(series, order="set", debias=True)), 0)
    by_path = udtw.pairwise(series, order="set", gamma=0.5, normalize="path")
    assert by_path[0, 1] == pytest.approx(table[0, 1] / 4)
    cost = ((series[0][:, None] - series[1][None]) ** 2).sum(2)
    given = udtw.align(None, None, cost=cost, order="set", gamma=0.5)
    assert given.loss == pytest.approx(table[0, 1])


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"order": "bag"}, OptionError),
        ({"order": "set", "band": 1}, OptionError),
        ({"order": "set", "warp_penalty": 0.1}, OptionError),
        ({"order": "set", "gap_penalty": 0.1}, OptionError),
        ({"order": "set", "reach": 1.0}, OptionError),
        ({"shape": SHAPE}, OptionError),
        ({"order": "grid", "shape": SHAPE}, OptionError),
        ({"order": "grid", "reach": 1.0}, OptionError),
        ({"order": "grid", "shape": (2, 2), "reach": 1.0}, ShapeError),
        ({"order": "grid", "shape": SHAPE, "reach": -1.0}, OptionError),
        ({"order": "grid", "shape": SHAPE, "reach": float("nan")}, NonFiniteError),
        ({"order": "set", "var_x": -1.0}, VarianceError),
    ],
)
def test_unusable_options_are_named(options, error):
    with pytest.raises(error):
        udtw.align(torch.zeros(2, 6, 1), torch.zeros(2, 6, 1), **options)


def test_there_are_no_paths_to_ask_for():
    paths = udtw.align([0.0, 1.0], [0.0, 1.0], order="set").paths
    for question in (paths.mode, paths.sample, lambda: paths.log_prob([[0, 0]]), lambda: paths.ends):
        with pytest.raises(OptionError, match="no paths"):
            question()
