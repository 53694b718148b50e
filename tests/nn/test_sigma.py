"""SigmaNet and PairSigmaNet: variances of steps and of matches."""

import pytest
import torch

from udtw.errors import OptionError, ShapeError
from udtw.nn import PairSigmaNet, SigmaNet

KINDS = {
    "per step": {},
    "one layer": {"hidden": 0},
    "context": {"context": 9},
    "whole series": {"length": 12},
}


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
def test_variances_are_squares_of_sigma_between_its_bounds(options):
    variance = SigmaNet(3, sigma_range=(0.5, 2.0), **options)(100 * torch.randn(5, 12, 3))
    assert variance.shape == (5, 12)
    assert (variance >= 0.5**2).all()
    assert (variance <= 2.0**2).all()
    assert variance.std() > 0


def test_the_default_network_is_the_papers_formula():
    net = SigmaNet(4)
    first, _, last = net.net
    x = torch.randn(2, 6, 4)
    features = torch.relu(x @ first.weight.T + first.bias) @ last.weight.T + last.bias
    torch.testing.assert_close(net(x), (1.5 * torch.sigmoid(features.mean(-1)) + 0.5) ** 2)
    assert first.weight.shape == (8, 4)
    assert not first.bias.any()


@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("steps", [1, 7, 12, 40])
def test_any_length_works_and_one_series_is_a_batch_of_one(options, steps):
    net = SigmaNet(2, **options)
    x = torch.randn(3, steps, 2)
    torch.testing.assert_close(net(x[1]), net(x)[1])


@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
def test_padding_is_not_read(options):
    net = SigmaNet(2, **options)
    x = torch.randn(2, 12, 2)
    padded = x.clone()
    padded[0, 7:] = torch.nan
    variance = net(padded, torch.tensor([7, 12]))
    torch.testing.assert_close(variance[0, :7], net(x[0, :7]))
    torch.testing.assert_close(variance[1], net(x[1]))
    assert (variance[0, 7:] == 1).all()


def test_sigma_init_is_sigma_before_training():
    torch.testing.assert_close(SigmaNet(1, sigma_init=1.0)(torch.zeros(2, 5, 1)), torch.ones(2, 5))


def test_context_sees_neighbours_and_a_per_step_network_does_not():
    x = torch.randn(1, 20, 1)
    changed = x.clone()
    changed[0, 10] += 3
    alone, around = SigmaNet(1), SigmaNet(1, context=5)
    with torch.no_grad():  # all of a layer's units active: which steps differ is then no matter of luck
        for net in (alone, around):
            for layer in (net.net[0], net.net[-1]):
                layer.weight.fill_(0.1)
            net.net[0].bias.fill_(2.0)

    def touched(net):
        return (net(x) != net(changed)).nonzero()[:, 1].tolist()

    assert touched(alone) == [10]
    assert touched(around) == [8, 9, 10, 11, 12]


@pytest.mark.parametrize("symmetric", [True, False])
def test_a_pair_network_gives_one_variance_per_match(symmetric):
    net = PairSigmaNet(3, symmetric=symmetric)
    x, y = torch.randn(2, 5, 3), torch.randn(2, 7, 3)
    variance = net(x, y)
    assert variance.shape == (2, 5, 7)
    torch.testing.assert_close(net(x[1, 2:3], y[1, 4:5])[0, 0], variance[1, 2, 4])
    assert torch.allclose(net(y, x), variance.mT) is symmetric


@pytest.mark.parametrize(
    "make",
    [
        lambda: SigmaNet(1, context=4),
        lambda: SigmaNet(1, context=0),
        lambda: SigmaNet(1, length=5, context=3),
        lambda: SigmaNet(1, sigma_range=(0.0, 1.0)),
        lambda: SigmaNet(1, sigma_range=2.0),
        lambda: SigmaNet(1, sigma_init=3.0),
        lambda: PairSigmaNet(1, sigma_range=(2.0, 1.0)),
    ],
)
def test_impossible_options_are_named_errors(make):
    with pytest.raises(OptionError):
        make()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SigmaNet(1, start=1.0), "unexpected keyword argument 'start'"),
        (lambda: PairSigmaNet(1, width=3), "unexpected keyword argument 'width'"),
    ],
)
def test_unknown_keywords_are_refused_by_name(make, message):
    with pytest.raises(TypeError, match=message):
        make()


@pytest.mark.parametrize("make", [SigmaNet, PairSigmaNet])
def test_the_range_of_version_0_2_warns_and_is_the_same(make):
    with pytest.warns(FutureWarning, match="replaced by 'sigma_range'"):
        old = make(1, sigma_span=2.0, sigma_min=0.25)
    assert old.range == make(1, sigma_range=(0.25, 2.25)).range


def test_a_wrong_number_of_features_is_a_named_error():
    with pytest.raises(ShapeError, match=r"\(B, T, 2\)"):
        SigmaNet(2)(torch.zeros(3, 4))
    with pytest.raises(ShapeError, match="y as"):
        PairSigmaNet(2)(torch.zeros(3, 2), torch.zeros(3, 1))


@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
def test_state_dict_and_dtype_round_trip(options):
    net, other = SigmaNet(2, **options), SigmaNet(2, **options)
    other.load_state_dict(net.state_dict())
    x = torch.randn(2, 12, 2)
    assert torch.equal(net(x), other(x))
    assert net.to(torch.float64)(x.double()).dtype == torch.float64


@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
def test_a_variance_for_each_feature(options):
    net = SigmaNet(3, per_feature=True, sigma_init=1.0, **options)
    x = torch.randn(2, 12, 3, requires_grad=True)
    variance = net(x)
    assert variance.shape == (2, 12, 3)
    assert ((variance > 0.25) & (variance < 4)).all()
    assert variance.std(-1).max() > 0
    variance.sum().backward()
    assert x.grad.any()
    assert torch.equal(net(torch.zeros(12, 3)), torch.ones(12, 3))
    short = net(torch.cat([x[:1, :8], torch.full((1, 4, 3), torch.nan)], 1), torch.tensor([8]))
    torch.testing.assert_close(short[:, :8], net(x[:1, :8]))
    assert (short[:, 8:] == 1).all()
    other = SigmaNet(3, per_feature=True, **options)
    other.load_state_dict(net.state_dict())
    assert torch.equal(other(x), net(x))


def test_features_of_a_step_have_their_own_layer_outputs():
    """The mean over features before the sigmoid is what distinguishes one variance per step."""
    features, step = SigmaNet(4, per_feature=True), SigmaNet(4)
    step.load_state_dict(features.state_dict())
    x = torch.randn(2, 6, 4)
    raw = torch.logit((features(x).sqrt() - 0.5) / 1.5)
    torch.testing.assert_close(step(x), (1.5 * torch.sigmoid(raw.mean(-1)) + 0.5) ** 2)
