"""UDTWLoss: the objective as a module."""

import pytest
import torch

import udtw
from udtw.errors import OptionError, ShapeError
from udtw.nn import PairSigmaNet, SigmaNet, UDTWLoss


@pytest.fixture
def pair():
    generator = torch.Generator().manual_seed(0)
    return torch.randn(4, 9, 2, generator=generator), torch.randn(4, 11, 2, generator=generator)


def test_without_variances_it_is_the_mean_expected_cost(pair):
    torch.testing.assert_close(UDTWLoss(gamma=0.3)(*pair), udtw.align(*pair, gamma=0.3).distance.mean())


def test_the_network_predicts_the_variances_of_both_sequences(pair):
    x, y = pair
    loss = UDTWLoss(SigmaNet(2, context=3), gamma=0.3, beta=0.7, lam=0.2, normalize="length")
    expected = udtw.align(x, y, loss.sigma(x), loss.sigma(y), gamma=0.3, beta=0.7, lam=0.2, normalize="length").loss
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


def test_two_axes_are_a_batch_of_univariate_series(pair):
    x, y = pair[0][..., 0], pair[1][..., 0]
    torch.testing.assert_close(UDTWLoss()(x, y), UDTWLoss()(x[..., None], y[..., None]))


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


def test_bad_options_and_shapes_are_named_errors(pair):
    with pytest.raises(OptionError, match="reduction"):
        UDTWLoss(reduction="median")
    with pytest.raises(ShapeError, match="pred"):
        UDTWLoss()(torch.zeros(3), torch.zeros(3))
