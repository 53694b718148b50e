"""Deletion curves: tokens are removed by their uncertainty, and the area has the right sign."""

import numpy as np
import pytest
import torch

pytest.importorskip("kornia")
pytest.importorskip("matplotlib")

from experiments.deletion import DeletionCurves, deletion_curves, plot_deletion, without
from udtw.errors import LengthError, OptionError
from udtw.fewshot import Tokens
from udtw.images import ImageRecipe, ImageRecognizer, TokenSet
from udtw.images.reverse_attention import rank_correlations, summary


def test_the_most_certain_or_uncertain_tokens_go_first_and_order_stays():
    tokens = Tokens(torch.arange(4.0).reshape(1, 4, 1), torch.tensor([4]), torch.tensor([[3.0, 1.0, 4.0, 2.0]]))
    assert without(tokens, 2, uncertain=True).features.flatten().tolist() == [1, 3]
    assert without(tokens, 2, uncertain=False).features.flatten().tolist() == [0, 2]
    assert without(tokens, 1, uncertain=True).variance.tolist() == [[3, 1, 2]]
    assert len(without(tokens, 9, uncertain=True).features[0]) == 1


@pytest.fixture
def half_noise():
    """Token sets whose first two tokens tell the class and whose last two are noise with another mean."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(6), 12)
    tokens = rng.normal(size=(72, 4, 8))
    tokens[:, :2] = 0.3 * tokens[:, :2] + 2 * rng.normal(size=(6, 1, 8))[labels]
    tokens[:, 2:, 0] += 6
    return TokenSet.from_arrays(tokens, labels)


def test_what_is_certain_is_what_classes_are_told_by(half_noise):
    recipe = ImageRecipe(n_steps=60, dim=8, n_query=3, learning_rate=0.02, sigma_gain=3.0)
    recognizer = ImageRecognizer(recipe, 8).fit(half_noise)
    found = deletion_curves(recognizer, half_noise, shares=(0, 0.5), n_query=5, n_episodes=40)
    assert found.uncertain_first[1] > found.certain_first[1] + 0.2
    assert found.area > 3 * found.half_width > 0
    assert found.area == pytest.approx((found.uncertain_first[1] - found.certain_first[1]) / 2)
    masks = np.tile([1.0, 1, 0, 0], (72, 1))
    variance = recognizer.encode(recognizer.source(half_noise).batch(np.arange(72))).variance
    assert summary(rank_correlations(variance, masks)).mean < -0.5


def test_what_cannot_be_measured_is_named(half_noise):
    with pytest.raises(OptionError, match="no uncertainty"):
        deletion_curves(ImageRecognizer(ImageRecipe(metric="soft_dtw", dim=8), 8), half_noise)
    with pytest.raises(OptionError, match="shares"):
        deletion_curves(ImageRecognizer(ImageRecipe(dim=8), 8), half_noise, shares=(0.5, 1.0))


def test_curves_are_drawn_with_their_area():
    curves = DeletionCurves((0.0, 0.4, 0.8), (0.8, 0.5, 0.3), (0.8, 0.75, 0.6), 0.18, 0.01)
    figure = plot_deletion({"cars": curves, "birds": curves})
    assert [axes.get_title() for axes in figure.axes] == [f"{n}: area 18.0 ± 1.0 points" for n in ("cars", "birds")]
    line = figure.axes[0].get_lines()[0]
    assert line.get_label() == "most uncertain first"
    np.testing.assert_allclose(line.get_ydata(), [80, 75, 60])
    with pytest.raises(LengthError):
        plot_deletion({})
