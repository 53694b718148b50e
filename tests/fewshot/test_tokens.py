import pytest
import torch

from tests.fewshot.helpers import random_tokens
from udtw.errors import ShapeError
from udtw.fewshot import Tokens
from udtw.fewshot.tokens import concatenate, prototypes


def test_the_mean_ignores_padding():
    tokens = random_tokens(5)
    expected = [one[:n].mean(0) for one, n in zip(tokens.features, tokens.lengths, strict=True)]
    torch.testing.assert_close(tokens.mean(), torch.stack(expected))


def test_resampling_keeps_the_ends_and_ignores_padding():
    tokens = random_tokens(5)
    out = tokens.resampled(4)
    assert out.shape == (5, 4, 4)
    for row, one, n in zip(out, tokens.features, tokens.lengths, strict=True):
        torch.testing.assert_close(row[[0, -1]], one[[0, int(n) - 1]])


def test_resampling_to_the_present_length_changes_nothing():
    features = torch.randn(3, 5, 2)
    assert Tokens(features, torch.full((3,), 5)).resampled(5) is features


def test_concatenation_pads_to_the_longest():
    a, b = random_tokens(2, variance=True, longest=4), random_tokens(3, seed=1, variance=True, longest=9)
    both = concatenate([a, b])
    assert both.features.shape == (5, 9, 4)
    torch.testing.assert_close(both.mean(), torch.cat([a.mean(), b.mean()]))
    torch.testing.assert_close(both.variance[2:], b.variance)


def test_a_prototype_of_one_support_is_the_support():
    tokens = random_tokens(3, variance=True)
    same = Tokens(tokens.features[:, :2], torch.full((3,), 2), tokens.variance[:, :2])
    found = prototypes(same, torch.arange(3))
    torch.testing.assert_close(found.features, same.features)
    torch.testing.assert_close(found.variance, same.variance)


def test_a_prototype_is_the_mean_of_its_class():
    features = torch.randn(4, 6, 2)
    found = prototypes(Tokens(features, torch.full((4,), 6)), torch.tensor([0, 1, 1, 0]))
    torch.testing.assert_close(found.features[1], features[1:3].mean(0))


def test_a_rescaled_prototype_has_the_length_of_its_tokens():
    torch.manual_seed(0)
    features = torch.nn.functional.normalize(torch.randn(4, 3, 5), dim=-1)
    tokens = Tokens(features, torch.full((4,), 3), torch.rand(4, 3) + 0.5)
    labels = torch.tensor([0, 0, 1, 1])
    plain, rescaled = (prototypes(tokens, labels, weighted=True, rescaled=one) for one in (False, True))
    torch.testing.assert_close(rescaled.features.norm(dim=-1), torch.ones(2, 3))
    torch.testing.assert_close(rescaled.features, torch.nn.functional.normalize(plain.features, dim=-1))
    torch.testing.assert_close(rescaled.variance, plain.variance)


def test_variances_of_features_are_padded_and_averaged():
    tokens = [Tokens(torch.randn(2, n, 3), torch.full((2,), n), torch.rand(2, n, 3)) for n in (4, 6)]
    both = concatenate(tokens)
    assert both.variance.shape == (4, 6, 3)
    torch.testing.assert_close(both.variance[:2, :4], tokens[0].variance)
    assert (both.variance[:2, 4:] == 1).all()
    found = prototypes(tokens[0], torch.tensor([0, 0]))
    torch.testing.assert_close(found.variance[0], tokens[0].variance.mean(0))


def test_features_count_in_a_prototype_by_their_weights():
    features, weight = torch.randn(2, 4, 3), torch.rand(2, 4, 3) + 0.1
    tokens = Tokens(features, torch.full((2,), 4), weight=weight)
    found = prototypes(tokens, torch.tensor([0, 0]))
    torch.testing.assert_close(found.features[0], (weight * features).sum(0) / weight.sum(0))
    torch.testing.assert_close(found.weight[0], weight.mean(0))
    torch.testing.assert_close(tokens[1:].weight, weight[1:])
    longer = Tokens(torch.randn(1, 6, 3), torch.tensor([6]), weight=torch.rand(1, 6, 3))
    assert (concatenate([tokens, longer]).weight[:2, 4:] == 1).all()


@pytest.mark.parametrize(
    "arguments",
    [
        (torch.zeros(2, 3), torch.ones(2)),
        (torch.zeros(2, 3, 4), torch.ones(3)),
        (torch.zeros(2, 3, 4), torch.ones(2), torch.ones(2, 4)),
        (torch.zeros(2, 3, 4), torch.ones(2), None, None, torch.ones(2, 3)),
    ],
)
def test_wrong_shapes_are_named(arguments):
    with pytest.raises(ShapeError, match="got"):
        Tokens(*arguments)


def test_the_std_of_pictures_grows_as_features_lose_their_weight():
    features, lengths = torch.randn(1, 2, 4), torch.tensor([2])
    variance, weight = torch.tensor([[4.0, 9.0]]), torch.ones(1, 2, 4)
    weight[0, 1] = 0.25
    assert Tokens(features, lengths).std is None
    assert Tokens(features, lengths, variance).std.tolist() == [[2.0, 3.0]]
    assert Tokens(features, lengths, variance, weight=weight).std.tolist() == [[2.0, 6.0]]
    assert Tokens(features, lengths, variance[..., None].expand(-1, -1, 4)).std.tolist() == [[2.0, 3.0]]
