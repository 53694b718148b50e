"""Every comparator agrees with the library's functions, pair by pair, and reads no padding."""

from dataclasses import replace

import pytest
import torch

import udtw
from tests.fewshot.helpers import random_tokens
from udtw._engine.likelihood import squared_distances
from udtw.errors import OptionError
from udtw.fewshot import Tokens
from udtw.fewshot.comparators import AlignmentComparator, MatchingComparator, PrototypeComparator, TAPComparator
from udtw.fewshot.model import METRICS, make_comparator

QUERIES, SUPPORTS = random_tokens(5, variance=True), random_tokens(3, seed=1, variance=True, longest=9)


def pair(q: int, s: int) -> dict:
    n, m = int(QUERIES.lengths[q]), int(SUPPORTS.lengths[s])
    x, y = QUERIES.features[q, :n], SUPPORTS.features[s, :m]
    return {"x": x, "y": y, "var_x": QUERIES.variance[q, :n], "var_y": SUPPORTS.variance[s, :m]}


@pytest.mark.parametrize("normalize", [None, "length", "path"])
def test_udtw_is_that_of_align(normalize):
    found = AlignmentComparator("udtw", 0.3, normalize)(QUERIES, SUPPORTS)
    for q in range(5):
        for s in range(3):
            alone = udtw.align(**pair(q, s), gamma=0.3, normalize=normalize, weighting="precision")
            torch.testing.assert_close(found.distance[q, s], alone.distance)
            torch.testing.assert_close(found.regularizer[q, s], alone.regularizer)


@pytest.mark.parametrize(
    ("metric", "function"),
    [("soft_dtw", udtw.soft_dtw), ("soft_dtw_divergence", udtw.soft_dtw_divergence)],
)
def test_soft_dtw_is_that_of_the_library_and_ignores_variances(metric, function):
    found = AlignmentComparator(metric, 0.3, None)(QUERIES, SUPPORTS).distance
    for q in range(5):
        for s in range(3):
            given = pair(q, s)
            torch.testing.assert_close(found[q, s], function(given["x"], given["y"], gamma=0.3))


def random_grids() -> tuple[Tokens, Tokens]:
    """Return two and three samples of 3 × 3 tokens."""
    x, y = (random_tokens(count, seed=count, variance=True, longest=9) for count in (2, 3))
    x, y = (Tokens(one.features.clamp(max=3), torch.full((len(one),), 9), one.variance.clamp(0.1, 2)) for one in (x, y))
    return x, y


@pytest.mark.parametrize(("name", "place"), [("set", {}), ("grid", {"shape": (3, 3), "reach": 1.5})])
def test_sets_and_grids_are_those_of_align(name, place):
    x, y = random_grids()
    comparator = make_comparator(name, 0.3, weighting="likelihood", beta=0.2, learned=True)
    found = comparator.double()(x, y).distance
    options = {"gamma": 0.3, "beta": 0.2, "order": name, "normalize": "length", "debias": True, **place}
    alone = udtw.align(x.features[1], y.features[2], x.variance[1], y.variance[2], **options)
    torch.testing.assert_close(found[1, 2], alone.loss)
    found.sum().backward()
    names = ["log_beta", "log_gamma", *(["log_reach"] if name == "grid" else [])]
    assert sorted(n for n, p in comparator.named_parameters() if p.grad.isfinite()) == names


@pytest.mark.parametrize("name", ["set", "grid"])
def test_evidence_of_sets_and_grids_is_the_mean_of_best_matches_by_precision(name):
    x, y = random_grids()
    comparator = make_comparator(name, 0.3, weighting="likelihood", learned=True, evidence=True).double()
    found = comparator(x, y).distance
    cost = -2 * x.features[1] @ y.features[2].T
    if name == "grid":
        rows, columns = torch.arange(9).div(3, rounding_mode="floor"), torch.arange(9) % 3
        far = (rows[:, None] - rows).square() + (columns[:, None] - columns).square()
        cost = cost + far / 1.5**2  # half a side
    ways = []
    for variance, axis in ((x.variance[1], 1), (y.variance[2], 0)):
        best = -0.3 * torch.logsumexp(-cost / 0.3, axis)
        ways.append((best / variance).sum() / (1 / variance).sum())
    torch.testing.assert_close(found[1, 2], (ways[0] + ways[1]) / 2)
    found.sum().backward()
    assert {n for n, p in comparator.named_parameters() if p.grad is not None} == (
        {"log_gamma", "log_reach"} if name == "grid" else {"log_gamma"}
    )
    louder = replace(x, variance=4 * x.variance)
    torch.testing.assert_close(comparator(louder, y).distance, found)


def test_padding_of_a_set_is_no_partner():
    x, y = random_grids()
    short = Tokens(x.features, torch.tensor([9, 5]), x.variance)
    comparator = make_comparator("set", weighting="likelihood", evidence=True).double()
    alone = Tokens(x.features[1:, :5], torch.tensor([5]), x.variance[1:, :5])
    torch.testing.assert_close(comparator(short, y).distance[1], comparator(alone, y).distance[0])


def test_a_grid_must_be_square():
    tokens = Tokens(torch.randn(2, 8, 4), torch.full((2,), 8), torch.ones(2, 8))
    with pytest.raises(OptionError, match="must be square; got 8 tokens"):
        make_comparator("grid")(tokens, tokens)


@pytest.mark.parametrize("metric", METRICS)
def test_pairs_are_the_diagonal_of_all_pairs(metric):
    torch.manual_seed(0)
    comparator = make_comparator(metric).double()
    same = Tokens(SUPPORTS.features[:, :4], torch.tensor([4, 3, 2]), SUPPORTS.variance[:, :4])
    supports = Tokens(same.features.flip(0), torch.full((3,), 4), same.variance)
    every, paired = comparator(same, supports), comparator.paired(same, supports)
    torch.testing.assert_close(paired.distance, every.distance.diagonal())
    torch.testing.assert_close(paired.regularizer, every.regularizer.diagonal())


@pytest.mark.parametrize("metric", METRICS)
def test_padding_is_never_read(metric):
    torch.manual_seed(0)
    comparator = make_comparator(metric).double()
    clean = Tokens(
        torch.where(QUERIES.inside[..., None], QUERIES.features, 0.0), QUERIES.lengths,
        torch.where(QUERIES.inside, QUERIES.variance, 1.0),
    )  # fmt: skip
    torch.testing.assert_close(comparator(clean, SUPPORTS).distance, comparator(QUERIES, SUPPORTS).distance)


@pytest.mark.parametrize("metric", METRICS)
def test_a_distance_does_not_depend_on_how_far_a_sequence_is_padded(metric):
    torch.manual_seed(0)
    comparator = make_comparator(metric).double()
    alone = [comparator(QUERIES[i : i + 1].trimmed(), SUPPORTS).distance for i in range(len(QUERIES))]
    torch.testing.assert_close(torch.cat(alone), comparator(QUERIES, SUPPORTS).distance)


@pytest.mark.parametrize("metric", METRICS)
def test_a_sequence_is_nearest_to_itself(metric):
    torch.manual_seed(0)
    comparator = make_comparator(metric, gamma=0.01).double()
    # TAP's untrained network adds noise of its own to the alignment.
    distance = comparator(QUERIES, QUERIES).distance
    assert (distance.argmin(1) == torch.arange(5)).float().mean() >= (0.6 if metric == "tap" else 1)


@pytest.mark.parametrize("metric", METRICS)
def test_gradients_reach_the_features(metric):
    torch.manual_seed(0)
    comparator = make_comparator(metric).double()
    inside = QUERIES.inside
    features = torch.where(inside[..., None], QUERIES.features, 0.0).requires_grad_()
    comparator(Tokens(features, QUERIES.lengths, QUERIES.variance), SUPPORTS).distance.sum().backward()
    assert torch.isfinite(features.grad).all()
    assert features.grad[inside].abs().sum(1).min() > 0
    assert features.grad[~inside].abs().max() == 0


@pytest.mark.parametrize("metric", METRICS)
def test_chunks_change_nothing(metric, monkeypatch):
    torch.manual_seed(0)
    comparator = make_comparator(metric).double()
    sizes = []
    comparator.register_forward_pre_hook(lambda module, given: sizes.append(len(given[0])))
    whole = comparator(QUERIES, SUPPORTS).distance
    monkeypatch.setattr(type(comparator), "chunk_cells", 7 * 9 * 3 * 2)
    torch.testing.assert_close(comparator.in_chunks(QUERIES, SUPPORTS).distance, whole.detach())
    assert sizes == [5, 2, 2, 1]


def test_squared_distances_are_never_negative():
    x = torch.full((4, 3), 1e4) + 1e-3 * torch.randn(4, 3)
    assert (squared_distances(x[None], x[None]) >= 0).all()


def test_an_unknown_metric_is_named():
    with pytest.raises(OptionError, match="metric must be one of"):
        make_comparator("cosine")
    with pytest.raises(OptionError, match="different lengths"):
        AlignmentComparator("euclidean")


@pytest.mark.parametrize("relax", [0, 1])
def test_the_likelihood_is_the_divergence_of_the_free_energy(relax):
    options = {"gamma": 0.3, "normalize": "length", "weighting": "likelihood", "beta": 0.4, "warp_penalty": 0.2}
    comparator = AlignmentComparator("udtw", **options, relax=relax)
    found = comparator(QUERIES, SUPPORTS)
    assert (found.regularizer == 0).all()
    for q in range(5):
        for s in range(3):
            alone = udtw.align(**pair(q, s), **options, debias=True, relax=(relax,) * 4 if relax else None)
            torch.testing.assert_close(found.distance[q, s], alone.loss)


def test_evidence_is_the_free_energy_of_products_over_variances():
    options = {"gamma": 0.3, "normalize": "length", "weighting": "likelihood", "beta": 0.4, "warp_penalty": 0.2}
    comparator = AlignmentComparator("udtw", **options, evidence=True)
    found = comparator(QUERIES, SUPPORTS)
    for q in range(5):
        for s in range(3):
            one = pair(q, s)
            cost = -2 * one.pop("x") @ one.pop("y").mT
            torch.testing.assert_close(found.distance[q, s], udtw.align(None, None, cost=cost, **one, **options).loss)
    torch.testing.assert_close(comparator.paired(QUERIES[:3], SUPPORTS).distance, found.distance.diagonal())


def test_an_uncertain_token_is_no_evidence():
    torch.manual_seed(0)
    features = torch.nn.functional.normalize(torch.randn(2, 6, 8, dtype=torch.float64), dim=-1)
    lengths = torch.tensor([6, 6])

    def distances(variance, **options):
        tokens = Tokens(features, lengths, torch.full((2, 6), variance, dtype=torch.float64))
        made = AlignmentComparator("udtw", 0.01, weighting="likelihood", beta=0.0, **options)
        return made(tokens, tokens).distance

    sure, unsure = (distances(variance, evidence=True) for variance in (1.0, 100.0))
    assert sure[0, 0] < -1.9
    assert unsure.abs().max() < 0.1
    assert (distances(100.0)[0, 1] < 0.1 * distances(1.0)[0, 1]).all(), "the divergence brings unsure ones close"


def test_learned_parameters_have_gradients_and_start_at_the_given_values():
    given = {"weighting": "likelihood", "beta": 0.4, "warp_penalty": 0.2}
    fixed = AlignmentComparator("udtw", 0.3, **given).double()
    learned = AlignmentComparator("udtw", 0.3, **given, learned=True).double()
    distance = learned(QUERIES, SUPPORTS).distance
    torch.testing.assert_close(distance, fixed(QUERIES, SUPPORTS).distance, rtol=1e-5, atol=1e-5)
    distance.sum().backward()
    assert {name for name, _ in learned.named_parameters()} == {"log_gamma", "log_beta", "warp_penalty"}
    assert all(weight.grad != 0 for weight in learned.parameters())
    assert not list(fixed.parameters())
    assert not list(AlignmentComparator("udtw", weighting="precision", learned=True).parameters())


def by_feature(tokens: Tokens, seed: int) -> Tokens:
    values = torch.rand(tokens.features.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) + 0.5
    return Tokens(tokens.features, tokens.lengths, torch.where(tokens.inside[..., None], values, 1e3))


@pytest.mark.parametrize("weighting", ["likelihood", "precision"])
def test_variances_of_features_reach_the_alignment(weighting):
    queries, supports = by_feature(QUERIES, 0), by_feature(SUPPORTS, 1)
    comparator = AlignmentComparator("udtw", 0.3, weighting=weighting, beta=0.4)
    found = comparator(queries, supports)
    for q in range(5):
        for s in range(3):
            n, m = int(queries.lengths[q]), int(supports.lengths[s])
            variances = {"var_x": queries.variance[q, :n], "var_y": supports.variance[s, :m]}
            options = {"gamma": 0.3, "normalize": "length", "weighting": weighting}
            if weighting == "likelihood":  # β per token, as with one variance
                options |= {"beta": 0.1, "debias": True}
            alone = udtw.align(queries.features[q, :n], supports.features[s, :m], **variances, **options)
            expected = alone.loss if weighting == "likelihood" else alone.distance
            torch.testing.assert_close(found.distance[q, s], expected)
            if weighting == "precision":
                torch.testing.assert_close(found.regularizer[q, s], alone.regularizer / 4)
    paired = comparator.paired(queries[:3], supports)
    torch.testing.assert_close(paired.distance, found.distance[:3].diagonal())


def test_equal_variances_of_features_are_those_of_tokens():
    whole = [
        Tokens(tokens.features, tokens.lengths, tokens.variance[..., None].expand(-1, -1, 4).clone())
        for tokens in (QUERIES, SUPPORTS)
    ]
    for options in ({}, {"weighting": "likelihood", "beta": 0.4, "learned": True}):
        comparator = AlignmentComparator("udtw", 0.3, **options).double()
        one, every = comparator(QUERIES, SUPPORTS), comparator(*whole)
        torch.testing.assert_close(every.distance, one.distance)
        torch.testing.assert_close(every.regularizer, one.regularizer)


def with_weights(tokens: Tokens, seed: int) -> Tokens:
    values = torch.rand(tokens.features.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return replace(tokens, weight=torch.where(tokens.inside[..., None], values + 0.01, 1e3))


@pytest.mark.parametrize("weighting", ["likelihood", "precision"])
def test_weights_of_features_make_a_cost_the_mean_over_those_that_can_be_trusted(weighting):
    queries, supports = with_weights(QUERIES, 0), with_weights(SUPPORTS, 1)
    options = {"gamma": 0.3, "normalize": "length", "weighting": weighting, "beta": 0.4}
    comparator = AlignmentComparator("udtw", **options)
    found = comparator(queries, supports)
    for q in range(5):
        for s in range(3):
            n, m = int(queries.lengths[q]), int(supports.lengths[s])
            pairs = {"xy": (queries, q, n, supports, s, m)}
            pairs |= {"xx": (queries, q, n, queries, q, n), "yy": (supports, s, m, supports, s, m)}
            energy = {name: _by_hand(*pair, **options) for name, pair in pairs.items()}
            if weighting == "likelihood":
                expected = energy["xy"].loss - 0.5 * (energy["xx"].loss + energy["yy"].loss)
            else:
                expected = energy["xy"].distance
            torch.testing.assert_close(found.distance[q, s], expected)
    paired = comparator.paired(queries[:3], supports)
    torch.testing.assert_close(paired.distance, found.distance[:3].diagonal())


def _by_hand(a: Tokens, i: int, n: int, b: Tokens, j: int, m: int, **options):
    """Of tokens n of sequence i and tokens m of sequence j."""
    weight = a.weight[i, :n, None] * b.weight[j, None, :m]
    squares = (a.features[i, :n, None] - b.features[j, None, :m]).square()
    cost = squares.shape[-1] * (weight * squares).sum(-1) / weight.sum(-1)
    return udtw.align(None, None, a.variance[i, :n], b.variance[j, :m], cost=cost, **options)


def test_equal_weights_change_nothing_and_missing_ones_are_equal():
    equal = [replace(one, weight=torch.full_like(one.features, 0.3)) for one in (QUERIES, SUPPORTS)]
    comparator = AlignmentComparator("udtw", 0.3, weighting="likelihood", beta=0.4)
    expected = comparator(QUERIES, SUPPORTS).distance
    for queries, supports in (equal, (QUERIES, equal[1]), (equal[0], SUPPORTS)):
        torch.testing.assert_close(comparator(queries, supports).distance, expected)


@pytest.mark.parametrize("metric", ["soft_dtw", "tap", "protonet", "euclidean"])
def test_other_comparators_ignore_weights(metric):
    torch.manual_seed(0)
    comparator = make_comparator(metric).double()
    found = comparator(with_weights(QUERIES, 0), with_weights(SUPPORTS, 1)).distance
    torch.testing.assert_close(found, comparator(QUERIES, SUPPORTS).distance)


def test_the_free_energy_has_no_terms_of_one_sequence():
    comparator = AlignmentComparator("udtw", 0.3, weighting="likelihood", beta=0.4)
    x, y = QUERIES[:3], SUPPORTS
    own = 0.5 * (comparator.free_energy(x, x) + comparator.free_energy(y, y))
    torch.testing.assert_close(comparator.free_energy(x, y) - own, comparator.paired(x, y).distance)
    assert AlignmentComparator("udtw", weighting="precision").free_energy(x, y) is None
    assert make_comparator("protonet").free_energy(x, y) is None


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
