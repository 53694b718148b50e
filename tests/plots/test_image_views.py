"""Figures of a model: images as the backbone saw them, and the model's σ and couplings at the right patches."""

import dataclasses

import numpy as np
import pytest
import torch

pytest.importorskip("matplotlib")
pytest.importorskip("PIL")
pytest.importorskip("scipy")
pytest.importorskip("safetensors")

import udtw
from udtw._engine.likelihood import squared_distances
from udtw.errors import DataError, OptionError
from udtw.images.backbones import PatchBackbone, TokenGrid
from udtw.images.datasets import make_images
from udtw.images.projection import token_order
from udtw.images.recognizer import ImageRecipe, ImageRecognizer
from udtw.images.reverse_attention import contrast, measure_reverse_attention, rank_correlations, summary
from udtw.images.tokens import embed, open_tokens
from udtw.plots.image_views import picture, show_components, show_match, show_uncertainty

from .figures import panels

RECIPE = ImageRecipe(order="hilbert", dim=12, gamma=0.3, weighting="precision")
IMAGES = make_images(2, size=40)
GRID, COUNT = (4, 4), 16


class Looking(PatchBackbone):
    """Its attention is the brightness of a patch."""

    has_attention = True

    def __call__(self, pixels, *, attention=False):
        found = super().__call__(pixels)
        bright = torch.nn.functional.avg_pool2d(pixels.mean(1), 8).flatten(1)
        return TokenGrid(found.tokens, found.grid, bright if attention else None)


@pytest.fixture(scope="module")
def tokens(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokens")
    embed(IMAGES, Looking(32, 8), folder, attention=True, dtype="float32")
    return open_tokens(folder)


@pytest.fixture(scope="module")
def model(tokens):
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield recognizer(tokens)
    torch.set_num_threads(before)


def recognizer(tokens, **changes):
    made = ImageRecognizer(dataclasses.replace(RECIPE, **changes), tokens.dim)
    made.model.encoder.standardize(tokens.tokens(range(len(tokens))))
    with torch.no_grad():  # an untrained SigmaNet gives every token nearly the same σ
        for weights in made.model.sigma.parameters() if made.model.sigma else ():
            weights.mul_(20)
    return made


def test_pictures_are_what_the_backbone_saw(tokens):
    part = tokens.subset([5, 2])
    seen = Looking(32, 8).prepare(IMAGES.image(5))
    np.testing.assert_allclose(picture(part, IMAGES, 0) / 255, seen.permute(1, 2, 0), atol=1e-6)
    with pytest.raises(DataError, match=f"no image '{tokens.names[5]}'"):
        picture(part, IMAGES.subset([2]), 0)
    with pytest.raises(DataError, match="changed"):
        picture(part, make_images(2, seed=1, size=40), 0)


def test_uncertainty_and_attention_lie_on_their_patches(model, tokens):
    axes = panels(show_uncertainty(model, tokens, IMAGES, [3, 40]))
    for row, index in enumerate((3, 40)):
        # Row by row: σ of a token depends on the token only.
        variance = model.encode(tokens.tokens([index])).variance.numpy()
        sigma = axes[f"sigma{row}"].get_images()[1].get_array()
        np.testing.assert_allclose(sigma, np.sqrt(variance).reshape(GRID), rtol=1e-5)
        attention = axes[f"attention{row}"].get_images()[1].get_array()
        np.testing.assert_allclose(attention, tokens.attention([index]).numpy().reshape(GRID))
        np.testing.assert_allclose(
            axes[f"image{row}"].get_images()[0].get_array(), picture(tokens, IMAGES, index) / 255
        )
        assert axes[f"image{row}"].get_ylabel() == tokens.classes[tokens.labels[index]]


def test_couplings_are_those_of_the_model(model, tokens):
    i, j, k = 0, 1, 6
    axes = panels(show_match(model, tokens, IMAGES, i, j, k, n_matches=4))
    encoded = model.encode(tokens.tokens([i, j, k])[:, token_order("hilbert", GRID)])
    for row, other in enumerate((1, 2)):
        x, y = encoded[:1], encoded[other : other + 1]
        found = udtw.align(
            None, None, x.variance, y.variance, cost=squared_distances(x.features, y.features), gamma=0.3,
            weighting="precision",
        )  # fmt: skip
        shown = axes[f"coupling{row}"].get_images()[0].get_array()
        np.testing.assert_allclose(shown, found.coupling[0], atol=1e-5)
        assert f"{float(found.distance) / COUNT:.3g}" in axes[f"match{row}"].get_title()
        (lines,) = (one for one in axes[f"match{row}"].collections if one.get_gid() == "matches")
        (rings,) = (one for one in axes[f"coupling{row}"].collections if one.get_gid() == "matches")
        (column, at), *_ = rings.get_offsets().astype(int)
        wanted = ((x.variance[0, at] + y.variance[0, column]) / 2).sqrt()
        assert lines.get_array()[0] == pytest.approx(float(wanted), rel=1e-5)
        place = token_order("hilbert", GRID)[at]
        np.testing.assert_allclose(lines.get_segments()[0][0], [(place % 4 + 0.5) / 4, (place // 4 + 0.5) / 4])
    assert axes["match0"].get_title().startswith("same class")
    assert axes["match1"].get_title().startswith("other class")


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"order": "set"}, "energy of evidence"),
        ({"order": "grid", "evidence": False}, "divergence"),
        ({"order": "raster", "normalize": "precision"}, "mean $d^2$"),
    ],
)
def test_titles_name_what_is_compared(tokens, changes, what):
    made = recognizer(tokens, weighting="likelihood", **changes)
    axes = panels(show_match(made, tokens, IMAGES, 0, 1, 6, n_matches=4))
    assert f"{what} = " in axes["match0"].get_title()
    shown = axes["coupling0"].get_images()[0].get_array()
    assert shown.sum() >= COUNT - 1e-3


def test_components_are_of_the_tokens_in_place(model, tokens):
    axes = panels(show_components(model, tokens, IMAGES, [0, 7]))
    raster = panels(show_components(recognizer(tokens, order="raster"), tokens, IMAGES, [0, 7]))
    for column in ("before0", "after0", "before1", "after1"):
        shown = np.asarray(axes[column].get_images()[0].get_array())
        assert shown.shape == (*GRID, 3)
        np.testing.assert_allclose(shown, raster[column].get_images()[0].get_array(), atol=1e-4)


def test_the_whole_set_is_measured_in_batches(model, tokens):
    found = measure_reverse_attention(model, tokens, batch_size=7)
    variance = model.encode(tokens.tokens(range(len(tokens)))).variance
    assert found["attention"].n_images + found["attention"].n_constant == len(tokens)
    wanted = summary(rank_correlations(variance, tokens.attention(range(len(tokens)))))
    assert found["attention"].mean == pytest.approx(wanted.mean, abs=1e-3)
    encoder = model.model.encoder
    standardized = (tokens.tokens(range(len(tokens))) - encoder.mean) / encoder.scale
    assert found["contrast"].mean == pytest.approx(
        summary(rank_correlations(variance, contrast(standardized))).mean, abs=1e-3
    )
    with pytest.raises(OptionError, match="batch_size"):
        measure_reverse_attention(model, tokens, batch_size=0)


def test_models_without_uncertainty_or_alignment(tokens):
    plain = recognizer(tokens, metric="soft_dtw")
    assert "Ω" not in panels(show_match(plain, tokens, IMAGES, 0, 1, 6))["match0"].get_title()
    with pytest.raises(OptionError, match="has no uncertainty"):
        show_uncertainty(plain, tokens, IMAGES, [0])
    with pytest.raises(OptionError, match="has no uncertainty"):
        measure_reverse_attention(plain, tokens)
    with pytest.raises(OptionError, match="has no coupling"):
        show_match(recognizer(tokens, metric="protonet"), tokens, IMAGES, 0, 1, 6)


def test_classes_of_a_match_are_checked(model, tokens):
    with pytest.raises(OptionError, match="one class, and k of another; got disc striped, disc striped, disc striped"):
        show_match(model, tokens, IMAGES, 0, 1, 0)
    with pytest.raises(OptionError, match="of one class"):
        show_match(model, tokens, IMAGES, 0, 4, 6)
