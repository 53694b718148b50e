"""Rank correlation of uncertainty and attention: Spearman's, image by image, and honest about what has no ranks."""

import numpy as np
import pytest
import torch

pytest.importorskip("scipy")

from scipy.stats import spearmanr

from udtw.errors import NonFiniteError, ShapeError
from udtw.images.reverse_attention import RankCorrelation, contrast, rank_correlations, summary

GENERATOR = np.random.default_rng(0)
VARIANCE = GENERATOR.uniform(0.25, 4, (6, 30))
ATTENTION = GENERATOR.uniform(size=(6, 30)) - 0.1 * VARIANCE


def test_is_spearmans_correlation_of_each_image():
    tied = np.round(ATTENTION, 1)
    for attention in (ATTENTION, tied):
        wanted = [spearmanr(v, a).statistic for v, a in zip(VARIANCE, attention, strict=True)]
        np.testing.assert_allclose(rank_correlations(VARIANCE, attention), wanted)


def test_reverse_attention_is_negative_whatever_the_scale():
    found = summary(rank_correlations(torch.tensor(VARIANCE), np.exp(-5 * VARIANCE)))
    assert found.mean == pytest.approx(-1)
    assert summary(rank_correlations(np.sqrt(VARIANCE), VARIANCE)).mean == pytest.approx(1)


def test_mean_and_interval_are_over_images():
    each = rank_correlations(VARIANCE, ATTENTION)
    found = summary(rank_correlations(VARIANCE, ATTENTION))
    assert found.mean == pytest.approx(each.mean())
    assert found.half_width == pytest.approx(1.959964 * each.std(ddof=1) / np.sqrt(6))
    assert (found.n_images, found.n_constant) == (6, 0)
    assert str(RankCorrelation(-0.5, 0.02, 6, 1)) == "ρ = −0.500 ± 0.020 (6 images, 1 constant)"


def test_constant_maps_are_left_out_and_counted():
    variance, attention = VARIANCE.copy(), ATTENTION.copy()
    variance[1], attention[3] = 1.0, 0.1
    variance[4] = 1 + 1e-8 * GENERATOR.uniform(size=30)  # rounding errors are no ranks
    found = summary(rank_correlations(variance, attention))
    assert (found.n_images, found.n_constant) == (3, 3)
    assert found.mean == pytest.approx(summary(rank_correlations(VARIANCE[[0, 2, 5]], ATTENTION[[0, 2, 5]])).mean)
    none = summary(rank_correlations(np.ones((2, 5)), np.ones((2, 5))))
    assert (none.n_images, none.n_constant) == (0, 2)
    assert np.isnan(none.mean)


def test_one_image_has_no_interval():
    found = summary(rank_correlations(VARIANCE[:1], ATTENTION[:1]))
    assert np.isfinite(found.mean)
    assert np.isnan(found.half_width)


def test_contrast_is_the_distance_from_the_mean_token_of_the_image():
    tokens = torch.tensor([[[0.0, 0.0], [0.0, 0.0], [0.0, 0.0], [4.0, 8.0]], [[5.0, 5.0]] * 4])
    np.testing.assert_allclose(contrast(tokens), [[np.sqrt(5)] * 3 + [3 * np.sqrt(5)], [0] * 4])


@pytest.mark.parametrize(
    ("error", "said", "maps"),
    [
        (ShapeError, r"same shape .*\(6, 30\) and \(6, 29\)", (VARIANCE, ATTENTION[:, :29])),
        (ShapeError, r"variance must have shape \(B, T\)", (VARIANCE[0], ATTENTION)),
        (NonFiniteError, "attention", (VARIANCE, ATTENTION * np.nan)),
    ],
)
def test_wrong_maps_are_named(error, said, maps):
    with pytest.raises(error, match=said):
        rank_correlations(*maps)


def test_wrong_tokens_are_named():
    with pytest.raises(ShapeError, match=r"\(B, T, D\)"):
        contrast(VARIANCE)
