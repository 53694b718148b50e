import torch

from tests.fewshot.helpers import random_tokens
from udtw.fewshot.baselines import MatchingComparator, PrototypeComparator, TAPComparator

X, Y = random_tokens(3), random_tokens(2, seed=1)


def test_prototypes_by_hand():
    found = PrototypeComparator()(X, Y).distance
    expected = (X.mean()[:, None] - Y.mean()[None]).square().sum(2)
    torch.testing.assert_close(found, expected)


def test_matching_is_the_cosine_distance():
    found = MatchingComparator()(X, Y).distance
    torch.testing.assert_close(found, 1 - torch.cosine_similarity(X.mean()[:, None], Y.mean()[None], dim=2))


def test_tap_by_hand_where_the_network_is_silent():
    tap = TAPComparator().double()
    for parameter in tap.parameters():
        torch.nn.init.zeros_(parameter)
    found = tap(X, Y).distance
    for q in range(3):
        for s in range(2):
            x, y = X.features[q, : X.lengths[q]], Y.features[s, : Y.lengths[s]]
            base = torch.cdist(x, y)
            one_way = [((-d).softmax(1) * d).sum() / d.shape[0] for d in (base, base.T)]
            torch.testing.assert_close(found[q, s], sum(one_way), rtol=1e-6, atol=1e-6)


def test_tap_is_symmetric_and_its_network_sees_positions():
    torch.manual_seed(0)
    tap = TAPComparator(8).double()
    torch.testing.assert_close(tap(X, Y).distance, tap(Y, X).distance.T)
    weight = tap.net[0].weight
    tap(X, Y).distance.sum().backward()
    assert weight.grad[:, 1].abs().max() > 0


def test_tap_in_tiles_is_the_same_as_at_once():
    torch.manual_seed(0)
    tap = TAPComparator(8).double()
    many, others = random_tokens(7), random_tokens(5, seed=1)
    at_once, in_tiles = [], []
    for size, found in ((100, at_once), (2, in_tiles)):
        tap.tile = size
        found += [tap(many, others).distance, tap(many, many).distance]
    torch.testing.assert_close(in_tiles, at_once)
