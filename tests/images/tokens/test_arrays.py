"""Tokens of one's own network, and another set as a view."""

import numpy as np
import pytest
import torch

pytest.importorskip("PIL")

from udtw.errors import DataError, NonFiniteError, ShapeError
from udtw.images import ImageRecipe, ImageRecognizer, TokenSet
from udtw.images.recognizer import TokenSource

VALUES = np.random.default_rng(0).normal(size=(12, 4, 3)).astype(np.float32)
LABELS = ["owl", "cat", "dog"] * 4


def test_tensors_and_arrays_with_string_labels():
    for given in (VALUES, torch.tensor(VALUES, requires_grad=True)):
        tokens = TokenSet.from_arrays(given, LABELS)
        assert (tokens.classes, tokens.grid, tokens.dim) == (("cat", "dog", "owl"), (2, 2), 3)
        np.testing.assert_array_equal(tokens.tokens([5, 1]), VALUES[[5, 1]])
        assert [tokens.classes[label] for label in tokens.labels[:3]] == LABELS[:3]
        cats = tokens.of_classes(["cat"])
        np.testing.assert_array_equal(cats.tokens([0]), VALUES[1:2])
    assert TokenSet.from_arrays(VALUES[:, :3], LABELS).grid == (1, 3)


def test_a_model_is_trained_evaluated_and_saved_on_arrays(tmp_path):
    tokens = TokenSet.from_arrays(VALUES, LABELS)
    recipe = ImageRecipe(n_steps=3, n_way=3, n_query=2, dim=3)
    recognizer = ImageRecognizer(recipe, 3).fit(tokens, checkpoint_path=tmp_path / "m.safetensors")
    chosen = {"n_way": 3, "n_query": 2, "n_episodes": 4}
    loaded = ImageRecognizer.load(tmp_path / "m.safetensors")
    assert loaded.evaluate(tokens, **chosen) == recognizer.evaluate(tokens, **chosen)
    answers = recognizer.classify(tokens, np.arange(3), np.arange(3), np.array(LABELS[:3]))
    assert answers.tolist() == LABELS[:3]


def test_wrong_arrays_are_named():
    with pytest.raises(ShapeError, match=r"\(n, T, D\)"):
        TokenSet.from_arrays(VALUES[0], LABELS)
    with pytest.raises(ShapeError, match="One label per image"):
        TokenSet.from_arrays(VALUES, LABELS[:5])
    with pytest.raises(ShapeError, match="grid of 3 × 3"):
        TokenSet.from_arrays(VALUES, LABELS, grid=(3, 3))
    with pytest.raises(NonFiniteError):
        TokenSet.from_arrays(np.full((2, 4, 3), np.nan), ["a", "b"])


def test_another_set_is_one_view_more_also_of_subsets():
    names = [f"{i}.png" for i in range(12)]
    clean = TokenSet.from_arrays(VALUES, LABELS, names=names)
    backwards = TokenSet.from_arrays(-VALUES[::-1], LABELS[::-1], names=names[::-1])
    both = clean.with_view(backwards)
    assert (clean.n_views, both.n_views) == (0, 1)
    np.testing.assert_array_equal(both.tokens([3, 8], view=0), -VALUES[[3, 8]])
    np.testing.assert_array_equal(both.subset([8]).tokens([0], view=0), -VALUES[8:9])
    drawn = TokenSource(both).batch(np.zeros(200, dtype=int), np.random.default_rng(0))
    assert 0.4 < float((drawn[:, 0, 0] == float(VALUES[0, 0, 0])).float().mean()) < 0.6
    with pytest.raises(DataError, match="lacks"):
        clean.with_view(backwards.subset([0, 1]))
