import numpy as np
import pytest
import torch

from udtw.errors import OptionError, ShapeError
from udtw.fewshot import EpisodeSampler, FewShotModel, Tokens
from udtw.fewshot.comparators import AlignmentComparator, Comparison
from udtw.fewshot.model import CrossEntropyObjective, SimilarityObjective, make_objective
from udtw.fewshot.tokens import prototypes

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
