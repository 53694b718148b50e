"""UDTWLoss: the objective as a module."""

import math

import pytest
import torch
from torch import nn

import udtw
from udtw.errors import GammaError, OptionError, ShapeError
from udtw.nn import PairSigmaNet, SigmaNet, UDTWLoss


@pytest.fixture
def pair():
    generator = torch.Generator().manual_seed(0)
    return torch.randn(4, 9, 2, generator=generator), torch.randn(4, 11, 2, generator=generator)


def test_without_variances_it_is_the_mean_expected_cost(pair):
    torch.testing.assert_close(
        UDTWLoss(gamma=0.3, weighting="precision")(*pair), udtw.align(*pair, gamma=0.3).distance.mean()
    )
    torch.testing.assert_close(UDTWLoss(gamma=0.3)(*pair), udtw.soft_dtw(*pair, gamma=0.3).mean())


def test_the_network_predicts_the_variances_of_both_sequences(pair):
    x, y = pair
    options = {"gamma": 0.3, "beta": 0.7, "lam": 0.2, "normalize": "length", "weighting": "precision"}
    loss = UDTWLoss(SigmaNet(2, context=3), **options)
    expected = udtw.align(x, y, loss.sigma(x), loss.sigma(y), **options).loss
    torch.testing.assert_close(loss(x, y), expected.mean())


def test_a_pair_network_predicts_the_variances_of_matches(pair):
    loss = UDTWLoss(PairSigmaNet(2))
    torch.testing.assert_close(loss(*pair), udtw.align(*pair, variance=loss.sigma(*pair)).loss.mean())


def test_given_variances_replace_those_of_the_network(pair):
    x, y = pair
    var_x, var_y = torch.full((4, 9), 2.0), torch.full((4, 11), 3.0)
    given = UDTWLoss(SigmaNet(2))(x, y, var_x, var_y)
    torch.testing.assert_close(given, udtw.align(x, y, var_x, var_y).loss.mean())


def test_lengths_hide_padding_from_network_and_alignment(pair):
    x, y = pair
    padded = torch.cat([x, torch.full((4, 3, 2), torch.nan)], 1)
    loss = UDTWLoss(SigmaNet(2, context=5))
    torch.testing.assert_close(loss(padded, y, lengths_pred=torch.full((4,), 9)), loss(x, y))


@pytest.mark.parametrize(("reduction", "reduce"), [("mean", torch.mean), ("sum", torch.sum), ("none", lambda v: v)])
def test_reductions(pair, reduction, reduce):
    torch.testing.assert_close(UDTWLoss(reduction=reduction)(*pair), reduce(udtw.align(*pair).loss))


def test_two_axes_are_a_batch_of_univariate_series_for_one_more_version(pair):
    x, y = pair[0][..., 0], pair[1][..., 0]
    with pytest.warns(FutureWarning, match=r"\[\.\.\., None\] for a batch"):
        flat = UDTWLoss()(x, y)
    torch.testing.assert_close(flat, UDTWLoss()(x[..., None], y[..., None]))


def test_training_moves_series_and_network(pair):
    x, y = pair
    loss = UDTWLoss(SigmaNet(2), beta=0.1)
    guess = x.clone().requires_grad_()
    optimizer = torch.optim.Adam([guess, *loss.parameters()], lr=0.05)
    before = loss(guess, y).item()
    for _ in range(30):
        optimizer.zero_grad()
        loss(guess, y).backward()
        optimizer.step()
    assert loss(guess, y).item() < 0.7 * before


@pytest.mark.parametrize("sigma", [SigmaNet(2, context=3), PairSigmaNet(2)], ids=["steps", "matches"])
def test_it_compiles_without_a_graph_break(pair, sigma):
    loss = UDTWLoss(sigma)
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(*pair), loss(*pair))


@pytest.mark.parametrize("dynamic", [None, True])
def test_it_compiles_for_every_size_of_batch(dynamic):
    """The last batch of an epoch is smaller, and lengths differ from batch to batch."""
    loss = UDTWLoss(SigmaNet(2))
    torch._dynamo.reset()
    compiled = torch.compile(loss, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    for count, steps in ((4, 9), (3, 9), (2, 8)):
        x, y = torch.randn(count, steps, 2), torch.randn(count, steps + 1, 2)
        lengths = {"lengths_pred": torch.full((count,), steps - 1), "lengths_target": torch.full((count,), steps)}
        torch.testing.assert_close(compiled(x, y, **lengths), loss(x, y, **lengths))


def test_bad_options_and_shapes_are_named_errors(pair):
    with pytest.raises(OptionError, match="reduction"):
        UDTWLoss(reduction="median")
    with pytest.raises(ShapeError, match="pred"):
        UDTWLoss()(torch.zeros(3), torch.zeros(3))


def parameter(value):
    return nn.Parameter(torch.tensor(value))


def test_parameters_are_trained_and_stay_positive(pair):
    """The distance of the second pair to the first is to grow: that pulls γ and β down and ω up."""
    start = {"gamma": 0.5, "beta": 0.3, "warp_penalty": 0.2}
    loss = UDTWLoss(
        SigmaNet(2),
        weighting="likelihood",
        reduction="none",
        **{name: parameter(value) for name, value in start.items()},
    )
    assert {"log_gamma", "log_beta", "warp_penalty"} < dict(loss.named_parameters()).keys()
    assert loss.gamma.item() == pytest.approx(0.5)
    assert loss.beta.item() == pytest.approx(0.3)
    with torch.no_grad():
        variances = loss.sigma(pair[0]), loss.sigma(pair[1])
    torch.testing.assert_close(loss(*pair), udtw.align(*pair, *variances, weighting="likelihood", **start).loss)
    optimizer = torch.optim.SGD(loss.parameters(), lr=1.0)
    for _ in range(5):
        optimizer.zero_grad()
        values = loss(*pair)
        (values[0] - values[1]).backward()
        assert all(p.grad is not None and p.grad.isfinite().all() for p in loss.parameters())
        optimizer.step()
    assert loss.gamma.item() > 0
    assert loss.beta.item() > 0
    assert {"gamma": loss.gamma.item(), "beta": loss.beta.item()} != {"gamma": 0.5, "beta": 0.3}
    assert loss.warp_penalty.item() != pytest.approx(0.2)
    assert f"gamma={loss.gamma.item()}" in repr(loss)


@pytest.mark.parametrize("value", [2.0, [1.0, 2.0, 3.0, 4.0]])
def test_gradients_of_parameters_are_those_of_align(pair, value):
    loss = UDTWLoss(gamma=parameter(value), warp_penalty=parameter(0.1), weighting="likelihood")
    loss(*pair).backward()
    gamma, omega = torch.tensor(value, requires_grad=True), torch.tensor(0.1, requires_grad=True)
    udtw.align(*pair, gamma=gamma, warp_penalty=omega, weighting="likelihood").loss.mean().backward()
    torch.testing.assert_close(loss.log_gamma.grad, gamma.grad * gamma.detach())
    torch.testing.assert_close(loss.warp_penalty.grad, omega.grad)


def test_trained_parameters_are_saved(pair):
    options = {"weighting": "likelihood", "warp_penalty": 0.4}
    one = UDTWLoss(gamma=parameter(3.0), beta=0.2, **options)
    other = UDTWLoss(gamma=parameter(1.0), beta=0.2, **options)
    assert list(one.state_dict()) == ["log_gamma"]
    other.load_state_dict(one.state_dict())
    assert other.gamma.item() == pytest.approx(3.0)
    assert torch.equal(one(*pair), other(*pair))
    assert not list(UDTWLoss(gamma=torch.tensor(3.0), **options).parameters())


def test_a_given_parameter_may_be_frozen():
    frozen = UDTWLoss(gamma=nn.Parameter(torch.tensor(2.0), requires_grad=False), weighting="likelihood")
    assert not frozen.log_gamma.requires_grad


@pytest.mark.parametrize("normalize", [None, "length", "path"])
@pytest.mark.parametrize("kind", [SigmaNet, PairSigmaNet, None])
def test_faithful_separates_what_series_and_variances_learn_from(pair, normalize, kind):
    net = None if kind is None else kind(2)
    x, y = (one.clone().requires_grad_() for one in pair)
    options = {"gamma": 2.0, "beta": 0.7, "warp_penalty": 0.3, "weighting": "likelihood", "normalize": normalize}
    loss = UDTWLoss(net, objective="faithful", **options)
    loss(x, y).backward()
    with torch.no_grad():
        coupling = loss.align(x, y).coupling
    size = {None: torch.ones(4), "length": torch.full((4,), 11.0), "path": coupling.sum((1, 2))}[normalize]
    coupling = coupling / size[:, None, None] / 4
    distance = torch.cdist(x, y).square()
    grads = torch.autograd.grad((coupling * distance).sum(), [x, y], retain_graph=True)
    torch.testing.assert_close([x.grad, y.grad], list(grads))
    if net is None:
        torch.testing.assert_close(loss(x, y), 2 * (coupling * distance).sum())
        return
    if isinstance(net, PairSigmaNet):
        variance = net(*pair)
    else:
        variance = 0.5 * (net(pair[0])[:, :, None] + net(pair[1])[:, None, :])
    energy = distance.detach() / variance + 0.7 * variance.log()
    torch.testing.assert_close(loss(x, y), (coupling * (distance + energy)).sum())
    expected = torch.autograd.grad((coupling * energy).sum(), list(net.parameters()))
    torch.testing.assert_close([p.grad for p in net.parameters()], list(expected))


def test_faithful_with_lengths_and_given_variances(pair):
    x, y = pair
    loss = UDTWLoss(SigmaNet(2, context=5), weighting="likelihood", objective="faithful", normalize="length")
    padded = torch.cat([x, torch.full((4, 3, 2), torch.nan)], 1)
    torch.testing.assert_close(loss(padded, y, lengths_pred=torch.full((4,), 9)), loss(x, y))
    given = torch.full((4, 9), 2.0, requires_grad=True)
    loss(x, y, given).backward()
    assert given.grad.isfinite().all()
    assert all(p.grad is None for p in loss.sigma.parameters())


@pytest.mark.parametrize("kind", [SigmaNet, PairSigmaNet])
def test_faithful_in_slices_is_the_same_and_keeps_the_coupling_alone(monkeypatch, kind):
    x, y = torch.randn(16, 40, 2, requires_grad=True), torch.randn(16, 50, 2)
    loss = UDTWLoss(kind(2), objective="faithful", weighting="likelihood")
    whole = loss(x, y)
    grads = torch.autograd.grad(whole, [x, *loss.parameters()])
    monkeypatch.setattr("udtw.nn.loss.SLICE_CELLS", 2 * 40 * 50)
    kept: dict[int, int] = {}

    def keep(tensor):
        if tensor.numel() >= 2 * 40 * 50:  # tables of cells
            kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        sliced = loss(x, y)
    torch.testing.assert_close(sliced, whole)
    torch.testing.assert_close(torch.autograd.grad(sliced, [x, *loss.parameters()]), grads)
    if kind is SigmaNet:  # the other network has tables of its own
        assert sum(kept.values()) == 16 * 40 * 50 * 4


def test_faithful_with_variances_of_features(pair, monkeypatch):
    """Equal variances of all features: D/Σ is as with one variance per step, and log Σ counts once per feature."""
    x, y = pair
    coupling = udtw.align(x, y, weighting="likelihood").coupling
    monkeypatch.setattr("udtw.nn.loss.align", lambda *_, **__: udtw.align(x, y, weighting="likelihood"))
    loss = UDTWLoss(SigmaNet(2, per_feature=True), weighting="likelihood", objective="faithful")
    var_x, var_y = torch.full((4, 9), 2.0), torch.full((4, 11), 4.0)
    distance = torch.cdist(x, y).square()
    expected = (coupling * (distance + distance / 3 + 2 * math.log(3))).sum((1, 2)).mean()
    torch.testing.assert_close(loss(x, y, *(one[..., None].expand(-1, -1, 2) for one in (var_x, var_y))), expected)
    loss(x, y).backward()
    assert all(p.grad.isfinite().all() and p.grad.any() for p in loss.sigma.parameters())


def test_a_trained_temperature_and_an_objective_compile(pair):
    for loss in (
        UDTWLoss(SigmaNet(2), gamma=parameter(2.0), weighting="likelihood"),
        UDTWLoss(SigmaNet(2), gamma=2.0, weighting="likelihood", objective="faithful", normalize="length"),
    ):
        compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(compiled(*pair), loss(*pair))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"objective": "nll"}, OptionError, "one of .*'free_energy', 'faithful'.* got 'nll'"),
        ({"objective": "faithful", "weighting": "precision"}, OptionError, "requires weighting='likelihood'"),
        ({"objective": "faithful", "debias": True}, OptionError, "debias=True"),
        ({"objective": "faithful", "gamma": parameter(1.0)}, OptionError, "no gradient in gamma"),
        ({"gamma": 0.0}, GammaError, "must be a positive finite number .*got 0.0.* use udtw.dtw"),
        ({"gamma": parameter(-1.0)}, GammaError, "must be positive, .*got -1.0"),
        ({"beta": parameter([1.0, 0.0])}, OptionError, "beta must be positive"),
    ],
)
def test_options_that_do_not_fit_are_named(options, error, message):
    with pytest.raises(error, match=message):
        UDTWLoss(**{"weighting": "likelihood", **options})
