import pytest
import torch

from udtw.errors import OptionError
from udtw.fewshot.comparators import Comparison
from udtw.fewshot.model import CrossEntropyObjective, SimilarityObjective, make_objective

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
