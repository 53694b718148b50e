"""The compiled operators as citizens of torch: autograd of every order, torch.func, torch.compile, autocast."""

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

import udtw
from udtw.errors import GammaError, LengthError
from udtw.kernels import numba_autograd, numba_ops, numba_vmap  # noqa: F401 (derivatives and rules of the operators)
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


SMALL = {
    "usual": lambda b, x, y, a, v: udtw.align(x, y, a, v, beta=0.5, backend=b).loss,
    "temperature": lambda b, x, y, a, g: udtw.align(x, y, a, gamma=g.square(), lam=0.3, backend=b).loss,
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
        slopes = torch.autograd.grad((weights * value).sum(), inputs, create_graph=True)
        return torch.autograd.grad(sum((s * s.detach()).sum() for s in slopes), inputs)

    for mine, truth in zip(curvature("numba"), curvature("portable"), strict=True):
        assert torch.allclose(mine, truth, rtol=1e-8, atol=1e-10)


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
    "mean loss": (torch.tensor(0.5, dtype=torch.float64).expand(2), None, None),  # a cast would lose the stride of zero
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


LENGTHS_OF_BOTH = torch.tensor([[4, 3], [2, 3]])
FORMS = {
    "steps": (X, Y, None, VAR_X, VAR_Y, None),
    "sequences": (X, Y, None, None, None, None),
    "joint": (X, Y, None, None, None, JOINT),
    "cost": (None, None, COST, None, None, None),
    "cost and joint": (None, None, COST, None, None, JOINT),
}


def shapes_when_traced(operator, *arguments):
    def shapes(arguments):
        found = operator(*arguments)
        return [(f.shape, f.dtype) for f in (found if isinstance(found, tuple | list) else [found])]

    on_meta = [a.to("meta") if isinstance(a, torch.Tensor) else a for a in arguments]
    return shapes(on_meta), shapes(arguments)


@pytest.mark.parametrize("form", FORMS)
def test_shapes_for_tracing_are_those_of_the_results(form):
    problem = (*FORMS[form], GAMMA, LENGTHS_OF_BOTH, NONE, 0.0, None)
    slopes = numba_ops.path_loss_and_slopes(*problem, 0.5)[3:]
    calls = [
        (numba_ops.path_sums, *problem, [0, 1, 3]),
        (numba_ops.path_least, *problem),
        (numba_ops.path_loss_and_slopes, *problem, 0.5),
        (numba_ops.path_pullback, GAMMA, None, None, *slopes, *problem, 0.5),
        (numba_ops.path_gradients, normal(5, 2), None, *problem, False, False),
        (numba_ops.path_gradients, normal(5, 2), FIELD, *problem, True, True),
    ]
    if form == "cost":
        described = (COST, *problem[6:])
        calls += [
            (numba_ops.path_coupling, *described),
            (numba_ops.path_least_mask, *described),
            (numba_ops.path_expectations, torch.stack([FIELD] * 3), *described),
        ]
    for call in calls:
        traced, real = shapes_when_traced(*call)
        assert traced == real, call[0]


OPERATORS = {
    "path_sums": lambda p, f: numba_ops.path_sums(*p, [0, 1]),
    "path_least": lambda p, f: numba_ops.path_least(*p),
    "path_loss_and_slopes": lambda p, f: numba_ops.path_loss_and_slopes(*p, 0.5),
    "path_gradients": lambda p, f: numba_ops.path_gradients(f[:, 0, :2].T.repeat(3, 1)[:5], None, *p, True, True),
    "path_pullback": lambda p, f: numba_ops.path_pullback(
        p[6], None, None, *numba_ops.path_loss_and_slopes(*p, 0.5)[3:], *p, 0.5
    ),
    "path_coupling": lambda p, f: numba_ops.path_coupling(f.square(), *p[6:]),
    "path_least_mask": lambda p, f: numba_ops.path_least_mask(f.square(), *p[6:]),
    "path_expectations": lambda p, f: numba_ops.path_expectations(torch.stack([f, 2 * f]), f.square(), *p[6:]),
}


WITHOUT_FIELD = ("path_sums", "path_least", "path_loss_and_slopes", "path_pullback")
MAPPED = [(name, mapped) for mapped in ("everything", "all but the lengths") for name in OPERATORS]
MAPPED += [(name, "the field") for name in OPERATORS if name not in WITHOUT_FIELD]


@pytest.mark.parametrize(("name", "mapped"), MAPPED)
def test_every_operator_under_vmap_does_at_once_what_a_loop_does(monkeypatch, name, mapped):
    values = (*(torch.stack([t, t.flip(0) + 1]) for t in (X, Y, VAR_X, VAR_Y, GAMMA)),)
    lengths = torch.stack([LENGTHS_OF_BOTH, LENGTHS_OF_BOTH.flip(1)])
    fields = torch.stack([FIELD, 1 - FIELD])
    if mapped == "the field":
        values = tuple(v[:1].expand_as(v) for v in values)
    if mapped != "everything":
        lengths = lengths[:1].expand_as(lengths)

    def call(x, y, a, b, gamma, lengths, field):
        return OPERATORS[name]((x, y, None, a, b, None, gamma, lengths, NONE, 0.0, None), field)

    everything = (*values, lengths, fields)
    axes = (*[None if mapped == "the field" else 0] * 5, 0 if mapped == "everything" else None, 0)
    given = [t if axis == 0 else t[0] for t, axis in zip(everything, axes, strict=True)]
    runs = []
    with monkeypatch.context() as patch:
        patch.setattr(numba_ops, "run", lambda *args, own=numba_ops.run: runs.append(args) or own(*args))
        found = torch.func.vmap(call, in_dims=axes)(*given)
    assert len(runs) == 1  # without a rule torch would loop
    for v in range(2):
        truth = call(*(t[v] for t in everything))
        for mine, one in zip(found, truth, strict=True) if isinstance(truth, tuple | list) else [(found, truth)]:
            assert mine[v].shape == one.shape
            assert torch.allclose(mine[v], one, rtol=1e-12)


@pytest.mark.parametrize("lengths", [[[5, 3], [2, 3]], [[4, 3], [2, 4]], [[4, 0], [2, 3]], [[4, 3], [0, 3]]])
def test_operators_refuse_lengths_outside_of_the_arrays(lengths):
    """Where lengths are traced nobody has looked at them before, and the kernels would read beside the arrays."""
    with pytest.raises(LengthError, match=r"must lie between 1 and the padded length"):
        numba_ops.path_sums(*FORMS["steps"], GAMMA, torch.tensor(lengths), NONE, 0.0, None, [0])


@pytest.mark.parametrize("bad", [0.0, -1.0, torch.inf, torch.nan])
def test_operators_refuse_a_gamma_that_is_no_temperature(bad):
    gamma = torch.tensor([1.0, bad], dtype=torch.float64)
    with pytest.raises(GammaError, match="positive finite"):
        numba_ops.path_sums(*FORMS["steps"], gamma, LENGTHS_OF_BOTH, NONE, 0.0, None, [0])


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


COSTS = normal(2, 3, 4, 3).square()  # two mapped calls with three pairs each
MASKS = torch.ones(2, 3, 4, 3, dtype=torch.bool)
for hole in [(0, 0, 1, 1), (0, 1, 0, 1), (1, 0, 2, 1), (1, 1, 3, 0)]:
    MASKS[hole] = False
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
    by_operator = numba_ops.path_loss_and_slopes(x, y, None, a, b, None, GAMMA, LENGTHS_OF_BOTH, NONE, 0.0, None, 0.5)[
        0
    ]
    for loss in (by_library, by_operator):
        assert torch.autograd.grad(Stopped.apply(loss).sum(), inputs, allow_unused=True) == (None,) * 4
