"""The compiled operators as citizens of torch: opcheck, shapes for tracing, torch.compile, autocast."""

import pytest
import torch

import udtw
from tests._kernels.cpu.operands import (
    BETA,
    COST,
    FIELD,
    GAMMA,
    JOINT,
    LENGTHS_OF_BOTH,
    RELAX,
    VAR_X,
    VAR_Y,
    WARP,
    X,
    Y,
    described,
    leaves,
    normal,
)
from udtw._kernels.cpu import (
    autograd,  # noqa: F401 (derivatives of the operators)
    operators,
)
from udtw.errors import GammaError, LengthError

LENGTHS = torch.tensor([[4, 3], [3, 2]])
PRIORS = {
    "precision": {},
    "likelihood": {"beta": BETA, "warp": WARP, "relax": RELAX},
}
"""What describes a problem beside its data, γ and lengths."""


def _arguments(requires_grad: bool = True, prior: str = "precision", gamma_too: bool = True):
    def leaf(tensor):
        return tensor.clone().requires_grad_(requires_grad)

    more = {k: leaf(v) if v.is_floating_point() else v for k, v in PRIORS[prior].items()}
    data = leaf(X), leaf(Y), None, leaf(VAR_X), leaf(VAR_Y), None
    return described(data, leaf(GAMMA) if gamma_too else GAMMA, LENGTHS, **more)


@pytest.mark.parametrize("prior", PRIORS)
def test_opcheck_sums(prior):
    torch.library.opcheck(operators.path_sums, (*_arguments(prior=prior), [0, 1, 4]))


@pytest.mark.parametrize("prior", PRIORS)
def test_opcheck_operators_of_paths(prior):
    arguments = _arguments(prior=prior)
    torch.library.opcheck(operators.path_coupling, arguments)
    torch.library.opcheck(operators.path_expectations, (FIELD[None].clone().requires_grad_(), *arguments))
    torch.library.opcheck(operators.path_least_mask, _arguments(False, prior))
    torch.library.opcheck(operators.path_least, _arguments(False, prior))


@pytest.mark.parametrize("prior", PRIORS)
def test_opcheck_loss_and_grads(prior):
    energy = prior == "likelihood"
    arguments = _arguments(prior=prior, gamma_too=energy)
    torch.library.opcheck(operators.path_loss_and_grads, (*arguments, 0.5, energy, energy, energy))


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
    inputs, how = _arguments(False), (0.5, False, False, False)
    _, _, _, *grads = operators.path_loss_and_grads(*inputs, *how)
    derivatives = tuple(None if d is None else d.double() for d in USED_RESULTS[used])
    torch.library.opcheck(operators.path_pullback, (*derivatives, *grads, *inputs, *how))
    found = operators.path_pullback(*derivatives, *grads, *inputs, *how)
    factors = operators.loss_factors(*derivatives, *how[:2])
    expected = operators.path_gradients(factors, None, *inputs, False, False, False)[: operators.N_GRADS]
    for one, other in zip(found, expected, strict=True):
        assert torch.allclose(one, other, rtol=1e-12, atol=1e-14)


def test_pullback_of_the_free_energy():
    inputs, how = _arguments(False, "likelihood"), (0.0, True, True, True)
    loss, _, _, *grads = operators.path_loss_and_grads(*inputs, *how)
    assert torch.allclose(loss, operators.path_sums(*inputs, [])[:, 0])
    by_loss = torch.tensor([2.0, -3.0], dtype=torch.float64)
    found = operators.path_pullback(by_loss, None, None, *grads, *inputs, *how)
    factors = operators.loss_factors(by_loss, None, None, *how[:2])
    expected = operators.path_gradients(factors, None, *inputs, True, True, False)[: operators.N_GRADS]
    for one, other in zip(found, expected, strict=True):
        assert torch.allclose(one, other, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("prior", PRIORS)
def test_opcheck_gradients(prior):
    torch.library.opcheck(
        operators.path_gradients, (normal(6, 2), FIELD, *_arguments(False, prior), True, prior == "likelihood", True)
    )


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


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("form", FORMS)
def test_shapes_for_tracing_are_those_of_the_results(form, prior):
    energy = prior == "likelihood"
    problem = described(FORMS[form], GAMMA, LENGTHS, **PRIORS[prior])
    how = (0.5, energy, energy, energy)
    grads = operators.path_loss_and_grads(*problem, *how)[3:]
    calls = [
        (operators.path_sums, *problem, [0, 1, 3]),
        (operators.path_least, *problem),
        (operators.path_loss_and_grads, *problem, *how),
        (operators.path_pullback, GAMMA, None, None, *grads, *problem, *how),
        (operators.path_gradients, normal(6, 2), None, *problem, False, False, False),
        (operators.path_gradients, normal(6, 2), FIELD, *problem, True, energy, True),
        (operators.path_coupling, *problem),
        (operators.path_least_mask, *problem),
        (operators.path_expectations, torch.stack([FIELD] * 3), *problem),
    ]
    for call in calls:
        traced, real = shapes_when_traced(*call)
        assert traced == real, call[0]


@pytest.mark.parametrize("lengths", [[[5, 3], [2, 3]], [[4, 3], [2, 4]], [[4, 0], [2, 3]], [[4, 3], [0, 3]]])
def test_operators_refuse_lengths_outside_of_the_arrays(lengths):
    """Where lengths are traced nobody has looked at them before, and the kernels would read beside the arrays."""
    with pytest.raises(LengthError, match=r"must lie between 1 and the padded length"):
        operators.path_sums(*described(FORMS["steps"], GAMMA, torch.tensor(lengths)), [0])


@pytest.mark.parametrize("bad", [0.0, -1.0, torch.inf, torch.nan])
def test_operators_refuse_a_gamma_that_is_no_temperature(bad):
    gamma = torch.tensor([1.0, bad], dtype=torch.float64)
    with pytest.raises(GammaError, match="positive finite"):
        operators.path_sums(*described(FORMS["steps"], gamma, LENGTHS_OF_BOTH), [0])


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


def test_autocast_computes_in_float32():
    x, y = torch.randn(2, 6, 32), torch.randn(2, 5, 32)
    expected = udtw.align(x, y).loss
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.nn.functional.linear(x, torch.eye(32)).dtype == torch.bfloat16
        found = udtw.align(x, y).loss
    assert found.dtype == torch.float32
    assert torch.equal(found, expected)
