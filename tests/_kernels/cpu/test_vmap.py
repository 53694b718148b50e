"""torch.func.vmap: every operator does at once what a loop does."""

import pytest
import torch

import udtw
from tests._kernels.cpu.operands import (
    BETA,
    COST,
    COSTS,
    FIELD,
    GAMMA,
    LENGTHS_OF_BOTH,
    MASKS,
    VAR_X,
    VAR_Y,
    WARP,
    X,
    Y,
    described,
    leaves,
)
from udtw._kernels.cpu import (
    operators,
    vmap,  # noqa: F401 (the rules of the operators)
)

HOW = 0.0, True, True, True
OPERATORS = {
    "path_sums": lambda p, f: operators.path_sums(*p, [0, 1]),
    "path_least": lambda p, f: operators.path_least(*p),
    "path_loss_and_grads": lambda p, f: operators.path_loss_and_grads(*p, *HOW),
    "path_gradients": lambda p, f: operators.path_gradients(f[:, 0, :2].T.repeat(3, 1), None, *p, True, True, True),
    "path_pullback": lambda p, f: operators.path_pullback(
        p[6], None, None, *operators.path_loss_and_grads(*p, *HOW)[3:], *p, *HOW
    ),
    "path_coupling": lambda p, f: operators.path_coupling(None, None, f.square(), *p[3:]),
    "path_least_mask": lambda p, f: operators.path_least_mask(None, None, f.square(), *p[3:]),
    "path_expectations": lambda p, f: operators.path_expectations(
        torch.stack([f, 2 * f]), None, None, f.square(), *p[3:]
    ),
}


WITHOUT_FIELD = ("path_sums", "path_least", "path_loss_and_grads", "path_pullback")
EVERY = [(name, mapped) for mapped in ("everything", "all but the lengths") for name in OPERATORS]
EVERY += [(name, "the field") for name in OPERATORS if name not in WITHOUT_FIELD]


@pytest.mark.parametrize(("name", "mapped"), EVERY)
def test_every_operator_under_vmap_does_at_once_what_a_loop_does(monkeypatch, name, mapped):
    values = (*(torch.stack([t, t.flip(0) + 1]) for t in (X, Y, VAR_X, VAR_Y, GAMMA, BETA, WARP)),)
    lengths = torch.stack([LENGTHS_OF_BOTH, LENGTHS_OF_BOTH.flip(1)])
    fields = torch.stack([FIELD, 1 - FIELD])
    if mapped == "the field":
        values = tuple(v[:1].expand_as(v) for v in values)
    if mapped != "everything":
        lengths = lengths[:1].expand_as(lengths)

    def call(x, y, a, b, gamma, beta, warp, lengths, field):  # noqa: PLR0913 (what vmap maps over)
        relax = torch.tensor([[1, 0], [0, 1], [1, 0], [0, 1]])
        return OPERATORS[name](described((x, y, None, a, b, None), gamma, lengths, beta, warp, relax), field)

    everything = (*values, lengths, fields)
    axes = (*[None if mapped == "the field" else 0] * 7, 0 if mapped == "everything" else None, 0)
    given = [t if axis == 0 else t[0] for t, axis in zip(everything, axes, strict=True)]
    runs = []
    with monkeypatch.context() as patch:
        patch.setattr(operators, "run", lambda *args, own=operators.run: runs.append(args) or own(*args))
        found = torch.func.vmap(call, in_dims=axes)(*given)
    assert len(runs) == 1  # without a rule torch would loop
    for v in range(2):
        truth = call(*(t[v] for t in everything))
        for mine, one in zip(found, truth, strict=True) if isinstance(truth, tuple | list) else [(found, truth)]:
            assert mine[v].shape == one.shape
            assert torch.allclose(mine[v], one, rtol=1e-12)


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


MAPPED = {
    "one mask a call": lambda m, n: {"band": m[0]},
    "one mask a pair": lambda m, n: {"band": m},
    "one mask a call, other lengths": lambda m, n: {"band": m[0], "lengths": (n, 3)},
    "one mask a pair, other lengths": lambda m, n: {"band": m, "lengths": (n, 3)},
}


@pytest.mark.parametrize(
    ("calls", "axes"), [(2, (0, 0, 0)), (2, (0, None, 0)), (2, (0, 0, None)), (2, (3, 3, 1)), (1, (0, 0, 0))]
)
@pytest.mark.parametrize("pairs", [2, 3])
@pytest.mark.parametrize("kind", MAPPED)
def test_vmap_over_masks_and_lengths_of_several_pairs(kind, pairs, calls, axes):
    """Mapped over the first axis, the last, or not at all."""
    lengths = torch.tensor([[4, 3, 2], [4, 4, 3]])

    def soft_min(cost, mask, n):
        return udtw.PathDistribution(cost, 0.7, **MAPPED[kind](mask, n)).soft_min

    mapped = [t[:calls, :pairs] if axis is not None else t[:1, :pairs].expand_as(t[:, :pairs])
              for t, axis in zip((COSTS, MASKS, lengths), axes, strict=True)]  # fmt: skip
    given = [t[0] if axis is None else t.movedim(0, axis) for t, axis in zip(mapped, axes, strict=True)]
    found = torch.func.vmap(soft_min, in_dims=axes)(*given)
    for v in range(calls):
        assert torch.allclose(found[v], soft_min(*(t[v] for t in mapped)), rtol=1e-13)


@pytest.mark.parametrize("shape", [(1, 3), (4, 1)])
def test_vmap_over_costs_of_one_row_or_column_with_masks(shape):
    costs, mask = COSTS[:, :, : shape[0], : shape[1]], torch.ones(3, *shape, dtype=torch.bool)
    found = torch.func.vmap(lambda cost: udtw.PathDistribution(cost, band=mask).soft_min)(costs)
    assert torch.allclose(found, costs.sum((2, 3)), rtol=1e-13)
