import numpy as np
import pytest
import torch

from udtw.errors import OptionError, ShapeError
from udtw.fewshot import EpisodeSampler, FewShotModel, Tokens
from udtw.fewshot.comparators import AlignmentComparator, Comparison
from udtw.fewshot.model import CrossEntropyObjective, SimilarityObjective, make_comparator, make_objective
from udtw.fewshot.tokens import prototypes
from udtw.nn import PairSigmaNet

COMPARISON = Comparison(torch.tensor([[0.1, 0.9, 0.4], [0.8, 0.3, 1.2]]), torch.tensor([[0.5, 0.1, 0.2], [0.0, 1, 2]]))
QUERIES, SUPPORTS = torch.tensor([0, 1]), torch.tensor([0, 1, 0])


def test_similarity_by_hand():
    target = torch.tensor([[0.0, 1, 0], [1, 0, 1]])
    expected = ((COMPARISON.distance - target) ** 2 + 0.3 * COMPARISON.regularizer).mean()
    objective = SimilarityObjective(0.3)
    torch.testing.assert_close(objective(COMPARISON, QUERIES, SUPPORTS), expected)
    assert objective.scores(COMPARISON) is COMPARISON.distance


def test_cross_entropy_by_hand():
    objective = CrossEntropyObjective(0.3, scale=2.0)
    odds = torch.exp(-2 * (COMPARISON.distance + 0.3 * COMPARISON.regularizer))
    right = torch.stack([odds[0, 0] + odds[0, 2], odds[1, 1]]) / odds.sum(1)
    torch.testing.assert_close(objective(COMPARISON, QUERIES, SUPPORTS), -right.log().mean())


def test_the_scale_of_cross_entropy_is_learned():
    objective = CrossEntropyObjective()
    objective(COMPARISON, QUERIES, SUPPORTS).backward()
    assert objective.log_scale.grad != 0


def test_an_unknown_objective_is_named():
    with pytest.raises(OptionError, match="objective must be one of"):
        make_objective("triplet", 1.0)


@pytest.mark.parametrize(
    ("encoder", "batch", "shape"),
    [
        (torch.nn.Linear(3, 4), torch.randn(2, 5, 3), (2, 5, 4)),
        (torch.nn.Sequential(torch.nn.Tanh(), torch.nn.Linear(3, 4)), torch.randn(2, 3), (2, 1, 4)),
        (torch.nn.Conv2d(3, 4, 2, stride=2), torch.randn(2, 3, 6, 4), (2, 6, 4)),
    ],
)
def test_encoders_may_return_tensors(encoder, batch, shape):
    dim = 4 if isinstance(encoder, torch.nn.Conv2d) else None
    tokens = FewShotModel(encoder, "udtw", dim=dim).encode(batch)
    assert tokens.features.shape == shape
    assert tokens.variance.shape == shape[:2]
    assert tokens.lengths.tolist() == [shape[1]] * 2


def test_an_episode_without_queries_is_a_named_error():
    model = FewShotModel(torch.nn.Linear(3, 4), "udtw")
    none = torch.zeros(0, dtype=torch.long)
    for supports, queries in ((torch.arange(2), none), (none, torch.arange(2))):
        with pytest.raises(ShapeError, match="needs supports and queries"):
            model(torch.randn(2, 5, 3), supports, queries)
    with pytest.raises(ShapeError, match="got 4 samples for 2 labels of supports and 1 of queries"):
        model(torch.randn(4, 5, 3), torch.arange(2), torch.zeros(1, dtype=torch.long))


def test_what_an_encoder_must_return_is_said():
    with pytest.raises(OptionError, match="pass dim="):
        FewShotModel(torch.nn.Conv2d(3, 4, 2), "udtw")
    with pytest.raises(ShapeError, match=r"\(B, T, d\)"):
        FewShotModel(torch.nn.Identity(), "soft_dtw").encode(torch.zeros(3))


def test_context_is_how_a_token_differs_from_its_image():
    model = FewShotModel(torch.nn.Identity(), "udtw", dim=2, sigma_context=True, sigma_hidden=0)
    constant = model.encode(torch.ones(1, 3, 2)).variance
    among = model.encode(torch.tensor([[[1.0, 1], [5, -3], [-2, 4]]])).variance
    assert constant[0, 0] != among[0, 0]  # the same token in another image


def test_prototypes_count_tokens_by_their_precision():
    supports = Tokens(torch.tensor([[[0.0]], [[4.0]]]), torch.tensor([1, 1]), torch.tensor([[1.0], [3.0]]))
    found = prototypes(supports, torch.tensor([0, 0]), weighted=True)
    assert found.features.item() == pytest.approx(1.0)  # (0/1 + 4/3) / (1 + 1/3)
    assert found.variance.item() == pytest.approx(0.75)
    plain = prototypes(supports, torch.tensor([0, 0]))
    assert (plain.features.item(), plain.variance.item()) == (2, 2)


def test_one_support_is_its_own_prototype():
    torch.manual_seed(0)
    supports = Tokens(torch.randn(2, 4, 3), torch.tensor([4, 4]), torch.rand(2, 4) + 0.5)
    found = prototypes(supports, torch.tensor([1, 0]), weighted=True)
    torch.testing.assert_close(found.features[[1, 0]], supports.features)
    torch.testing.assert_close(found.variance[[1, 0]], supports.variance)


def test_the_mean_by_precision_does_not_favour_the_uncertain():
    torch.manual_seed(0)
    x, y = torch.randn(2, 3, 5, 4).unbind()
    ones = torch.ones(3, 5)
    comparator = AlignmentComparator("udtw", 0.5, "precision", weighting="likelihood", beta=0.7)
    lengths = torch.full((3,), 5)
    sure, unsure = (comparator.paired(Tokens(x, lengths, v), Tokens(y, lengths, v)).distance for v in (ones, ones * 9))
    plain = AlignmentComparator("soft_dtw", 0.5, None)
    assert (unsure > 0.5 * sure).all()
    assert (plain.paired(Tokens(x, lengths), Tokens(y, lengths)).distance > sure).all()  # a mean, not a sum
    variance = torch.where(torch.arange(5) < 2, 100.0, 1.0).expand(3, 5).clone().requires_grad_()
    found = comparator.paired(Tokens(x, lengths, variance), Tokens(y, lengths, variance)).distance
    found.sum().backward()
    assert torch.isfinite(variance.grad).all()
    assert (variance.grad != 0).any()


def test_episodes_of_string_labels():
    labels = np.array(["cat"] * 4 + ["dog"] * 4 + ["owl"] * 4)
    episode = EpisodeSampler(labels, n_way=2, n_shot=1, n_query=2).episode(3)
    assert (labels[episode.query] == episode.classes[:, None]).all()


class OwnSigma(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.level = torch.nn.Parameter(torch.tensor(2.0))

    def forward(self, features, lengths):
        inside = torch.arange(features.shape[1]) < lengths[:, None]
        return torch.where(inside, self.level * (1 + features.square().sum(-1)), 1.0)


class OwnPairSigma(torch.nn.Module):
    of_pairs = True

    def __init__(self):
        super().__init__()
        self.level = torch.nn.Parameter(torch.tensor(2.0))

    def forward(self, x, y):
        return 0.5 * self.level * (2 + x.square().sum(-1)[:, :, None] + y.square().sum(-1)[:, None, :])


@pytest.mark.parametrize(("order", "weighting"), [("udtw", "precision"), ("set", "likelihood")])
def test_variances_of_ones_own_module_by_token_and_by_pair_agree_and_learn(order, weighting):
    batch, labels = torch.randn(5, 6, 3), torch.tensor([0, 1])
    found = []
    for sigma in (OwnSigma(), OwnPairSigma()):
        torch.manual_seed(0)
        model = FewShotModel(torch.nn.Linear(3, 4), order, "cross_entropy", sigma=sigma, weighting=weighting)
        loss = model(batch, labels, torch.tensor([0, 1, 1]))
        loss.backward()
        assert sigma.level.grad.abs() > 0
        assert any(parameter is sigma.level for parameter in model.parameters())
        found.append((loss.detach(), sigma.level.grad))
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-5)


def test_a_network_for_pairs_by_name_and_what_it_cannot_do():
    model = FewShotModel(torch.nn.Linear(3, 4), "udtw", sigma="pairs")
    model(torch.randn(4, 6, 3), torch.tensor([0, 1]), torch.tensor([0, 1])).backward()
    assert isinstance(model.comparator.joint, PairSigmaNet)
    assert model.comparator.joint.out.weight.grad.abs().sum() > 0
    with pytest.raises(OptionError, match="Variances of pairs are not known token by token"):
        FewShotModel(torch.nn.Linear(3, 4), "udtw", sigma="pairs", per_feature=True)
    with pytest.raises(OptionError, match="sigma must be 'steps', 'pairs' or a module"):
        FewShotModel(torch.nn.Linear(3, 4), "udtw", sigma="both")


def test_predict_names_the_class_of_the_nearest_support():
    model = FewShotModel(torch.nn.Identity(), "euclidean", "cross_entropy")
    support = torch.tensor([[[0.0]], [[1.0]], [[5.0]]])
    labels, query = ["owl", "cat", "cat"], torch.tensor([[[0.1]], [[4.0]]])
    assert model.predict(support, labels, query).tolist() == ["owl", "cat"]
    shares = torch.softmax(-10 * (query.flatten()[:, None] - support.flatten()[None]).square(), 1)
    expected = torch.stack([shares[:, 1] + shares[:, 2], shares[:, 0]], 1)  # cat, owl
    np.testing.assert_allclose(model.predict_proba(support, labels, query), expected, rtol=1e-5)
    with pytest.raises(ShapeError, match="labels must have the shape"):
        model.predict(support, [["owl"], ["cat"], ["cat"]], query)


@pytest.mark.parametrize("metric", ["udtw", "soft_dtw", "euclidean"])
def test_an_episode_needs_supports_and_queries(metric):
    encoder = torch.nn.Linear(3, 4)
    model, some, none = FewShotModel(encoder, metric), torch.rand(2, 5, 3), torch.rand(0, 5, 3)
    with pytest.raises(ShapeError, match="got 2 supports and 0 queries"):
        model.predict(some, [0, 1], none)
    with pytest.raises(ShapeError, match="got 0 supports and 2 queries"):
        model.predict(none, [], some)
    with pytest.raises(ShapeError, match="got 2 supports and 0 queries"):
        model(some, torch.arange(2), torch.zeros(0, dtype=torch.long))


def test_controls_are_parts_of_udtw():
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(3, 4, 2, generator=generator)
    variance = torch.rand(3, 4, generator=generator) + 0.5
    tokens = Tokens(features, torch.full((3,), 4), variance)
    mean = (features / variance[..., None]).sum(1) / (1 / variance).sum(1, keepdim=True)
    unit = torch.nn.functional.normalize(mean, dim=1)
    torch.testing.assert_close(make_comparator("weighted_mean")(tokens, tokens).distance, 1 - unit @ unit.T)
    energy = {"weighting": "likelihood", "beta": 0.1, "evidence": True}
    place = make_comparator("in_place", 0.1, None, **energy)(tokens, tokens).distance
    sigma = (variance[:, None] + variance[None]) / 2
    expected = (-2 * (features[:, None] * features[None]).sum(-1) / sigma + 0.1 * sigma.log()).sum(-1)
    torch.testing.assert_close(place, expected)
    plain = Tokens(features, tokens.lengths)
    best, ordered = (make_comparator(name, 0.1, None, **energy) for name in ("best_match", "set"))
    torch.testing.assert_close(best(plain, plain).distance, ordered(plain, plain).distance)
    assert FewShotModel(torch.nn.Linear(3, 4), "best_match").sigma is None
    assert FewShotModel(torch.nn.Linear(3, 4), "in_place").sigma is not None
