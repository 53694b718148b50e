"""`plot_uncertainty` and `plot_components`: tokens at their places in the image, and colours that mean the same."""

import numpy as np
import pytest
import torch

pytest.importorskip("matplotlib")

from matplotlib.figure import Figure

from udtw.errors import LengthError, NonFiniteError, OptionError, ShapeError, VarianceError
from udtw.plots import plot_components, plot_uncertainty
from udtw.plots.image_maps import component_colors, principal_components

from .figures import panels, render

GRID = (2, 3)
SIGMA = np.array([[0.6, 0.7, 0.8, 0.9, 1.0, 1.1], [1.2, 1.3, 1.4, 1.5, 1.6, 1.7]])
ATTENTION = 0.3 - 0.1 * SIGMA

TOKEN_GRID = (5, 6)
TOKEN_IMAGES = [np.zeros((50, 60, 3)), np.ones((50, 60, 3))]
GENERATOR = np.random.default_rng(0)
LATENT = GENERATOR.standard_normal((2, 30, 3)) * [10, 3, 1]
ROTATION = np.linalg.qr(GENERATOR.standard_normal((8, 8)))[0]
TOKENS = LATENT @ ROTATION[:3] + 5


def picture(height=40, width=60, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


IMAGES = [picture(), picture(seed=1)]


def map_of(axes):
    _, over = axes.get_images()
    return over


def redness(image, values):
    colors = image.cmap(image.norm(values))
    return colors[..., 0] - colors[..., 2]


def test_the_more_uncertain_the_redder_over_all_images():
    figure = plot_uncertainty(IMAGES, SIGMA, GRID)
    axes = panels(figure)
    assert {"image0", "sigma0", "image1", "sigma1"} <= set(axes)
    assert not any(name.startswith("attention") for name in axes)
    maps = [map_of(axes[f"sigma{i}"]) for i in (0, 1)]
    for one, sigma in zip(maps, SIGMA, strict=True):
        np.testing.assert_array_equal(one.get_array(), sigma.reshape(GRID))
    reds = np.concatenate([redness(one, one.get_array()).ravel() for one in maps])
    assert np.all(np.diff(reds) > 0)
    assert reds[0] < -0.35
    assert reds[-1] > 0.3  # 1.7 of at most 2


def test_maps_cover_their_images_in_proportion():
    images = [picture(40, 60), picture(60, 30)]
    figure = plot_uncertainty(images, SIGMA, GRID, ATTENTION)
    assert render(figure) > 5_000
    axes = panels(figure)
    for i, image in enumerate(images):
        height, width = image.shape[:2]
        np.testing.assert_allclose(axes[f"image{i}"].get_images()[0].get_array(), image / 255)
        for column in ("image", "sigma", "attention"):
            one = axes[f"{column}{i}"]
            assert one.get_images()[-1].get_extent() == [0, width, height, 0]
            assert one.bbox.height / one.bbox.width == pytest.approx(height / width, rel=1e-3)
        rows = {round(axes[f"{column}{i}"].get_position().y0, 4) for column in ("image", "sigma", "attention")}
        assert len(rows) == 1


def test_attention_has_a_scale_of_its_own():
    axes = panels(plot_uncertainty(IMAGES, SIGMA, GRID, ATTENTION, titles=["dog", "cat"]))
    attention, sigma = map_of(axes["attention1"]), map_of(axes["sigma1"])
    np.testing.assert_allclose(attention.get_array(), ATTENTION[1].reshape(GRID))
    assert attention.norm.vmin == ATTENTION.min()
    assert attention.norm.vmax == pytest.approx(np.quantile(ATTENTION, 0.995))
    assert (sigma.norm.vmin, sigma.norm.vmax) == (0.5, 2)
    assert axes["sigma_bar"].get_xlabel() == "σ"
    assert axes["attention_bar"].get_xlabel() == "attention"
    assert [axes[f"image{i}"].get_ylabel() for i in (0, 1)] == ["dog", "cat"]


def test_a_range_makes_figures_comparable_and_tiny_differences_stay_pale():
    one = map_of(panels(plot_uncertainty(IMAGES, SIGMA, GRID, std_range=(0.5, 20)))["sigma1"])
    assert redness(one, one.get_array()).max() < 0
    flat = map_of(panels(plot_uncertainty(IMAGES[:1], np.linspace(1, 1.0001, 6)[None], GRID))["sigma0"])
    assert np.ptp(redness(flat, flat.get_array())) < 0.05
    render(plot_uncertainty(IMAGES[:1], np.ones((1, 6)), GRID, np.full((1, 6), 0.2)))


def test_the_scale_does_not_follow_the_images():
    pale = map_of(panels(plot_uncertainty(IMAGES[:1], np.linspace(0.98, 1.05, 6)[None], GRID))["sigma0"])
    assert np.ptp(redness(pale, pale.get_array())) < 0.15
    wide = map_of(panels(plot_uncertainty(IMAGES[:1], np.linspace(0.2, 5, 6)[None], GRID))["sigma0"])
    assert (wide.norm.vmin, wide.norm.vmax) == pytest.approx((0.2, 5))


def test_the_scale_is_logarithmic_about_one_and_shows_its_numbers():
    drawn = map_of((axes := panels(plot_uncertainty(IMAGES[:1], np.linspace(0.5, 3, 6)[None], GRID)))["sigma0"])
    assert drawn.norm(1.0) == pytest.approx(0.5)
    assert drawn.norm(2.0) - drawn.norm(1.0) == pytest.approx(drawn.norm(1.0) - drawn.norm(0.5))
    assert [text.get_text() for text in axes["sigma_bar"].get_xticklabels()] == ["0.5", "0.7", "1", "1.4", "2", "3"]


def test_takes_tensors_grey_and_pil_images_and_a_given_figure():
    pil = pytest.importorskip("PIL.Image")
    sigma = torch.tensor(SIGMA, requires_grad=True).reshape(2, *GRID)
    figure = Figure(layout="constrained")
    images = [pil.fromarray(picture()), picture()[..., 0] / 255.0]
    assert plot_uncertainty(images, sigma, GRID, figure=figure, interpolation="nearest") is figure
    axes = panels(figure)
    np.testing.assert_allclose(axes["image0"].get_images()[0].get_array(), picture() / 255)
    assert axes["image1"].get_images()[0].get_array().shape == (40, 60, 3)
    assert map_of(axes["sigma0"]).get_interpolation() == "nearest"


@pytest.mark.parametrize(
    ("error", "message", "options"),
    [
        (LengthError, "at least one", {"images": []}),
        (LengthError, "titles must be one per image, 2; got 1", {"titles": ["dog"]}),
        (ShapeError, r"\(H, W, 3\).*\(4, 4, 2\)", {"images": [np.zeros((4, 4, 2))] * 2}),
        (NonFiniteError, "image", {"images": [np.full((4, 4), np.nan)] * 2}),
        (ShapeError, r"sigma must have shape \(2, 6\) or \(2, 2, 3\)", {"sigma": np.ones((2, 5))}),
        (ShapeError, "attention must have shape", {"attention": np.ones((1, 6))}),
        (NonFiniteError, "sigma", {"sigma": np.full((2, 6), np.inf)}),
        (VarianceError, "positive", {"sigma": np.zeros((2, 6))}),
        (OptionError, "interpolation", {"interpolation": "wavy"}),
        (OptionError, "std_range", {"std_range": (2, 1)}),
    ],
)
def test_wrong_input_of_uncertainty_is_named(error, message, options):
    with pytest.raises(error, match=message):
        plot_uncertainty(**({"images": IMAGES, "sigma": SIGMA, "grid": GRID} | options))


def components_of(axes):
    return np.asarray(axes.get_images()[0].get_array())


def test_components_are_those_of_all_images_together():
    found = principal_components(TOKENS).reshape(-1, 3)
    flat = TOKENS.reshape(-1, 8)
    _, _, directions = np.linalg.svd(flat - flat.mean(0), full_matrices=False)
    wanted = (flat - flat.mean(0)) @ directions[:3].T
    np.testing.assert_allclose(np.abs(found), np.abs(wanted), atol=1e-9)
    assert np.all(np.diff(found.std(0)) < 0)


def test_colours_follow_the_components_and_outliers_do_not_stretch_them():
    components = np.zeros((1, 100, 3))
    components[0, :, 0] = np.linspace(-1, 1, 100)
    components[0, -1, 0] = 1000
    colors = component_colors(components)[0]
    assert np.all(np.diff(colors[:, 0]) >= 0)
    assert (colors[0, 0], colors[-1, 0]) == (0, 1)
    assert colors[50, 0] == pytest.approx(0.5, abs=0.05)
    assert np.all(colors[:, 1:] == 0.5)


def test_maps_show_the_tokens_in_their_places():
    figure = plot_components(TOKEN_IMAGES, TOKENS, torch.tensor(LATENT), TOKEN_GRID, titles=["dog", "cat"])
    assert render(figure) > 3_000
    axes = panels(figure)
    colors = component_colors(principal_components(TOKENS))
    for i in (0, 1):
        shown = axes[f"before{i}"].get_images()[0]
        np.testing.assert_allclose(shown.get_array(), colors[i].reshape(*TOKEN_GRID, 3))
        assert shown.get_extent() == [0, 60, 50, 0]
        assert axes[f"image{i}"].get_ylabel() == ["dog", "cat"][i]
        # A rotated copy has the same components, so their signs must agree too.
        np.testing.assert_allclose(components_of(axes[f"after{i}"]), shown.get_array(), atol=1e-6)


def test_the_same_input_gives_the_same_picture():
    def drawn(tokens):
        return components_of(panels(plot_components(TOKEN_IMAGES, tokens, -tokens, TOKEN_GRID))["after1"])

    np.testing.assert_array_equal(drawn(TOKENS), drawn(TOKENS.copy()))
    np.testing.assert_allclose(drawn(3 * TOKENS - 7), drawn(TOKENS), atol=1e-9)


def test_tokens_of_few_features_or_of_no_variance():
    axes = panels(plot_components(TOKEN_IMAGES, TOKENS[..., :1], np.ones((2, 30, 4)), TOKEN_GRID))
    before = components_of(axes["before0"])
    assert np.ptp(before[..., 0]) > 0.5
    assert np.all(before[..., 1:] == 0.5)
    assert np.all(components_of(axes["after0"]) == 0.5)


@pytest.mark.parametrize(
    ("error", "message", "options"),
    [
        (LengthError, "at least one", {"images": []}),
        (ShapeError, r"before must have shape \(2, 30, D\)", {"before": TOKENS[:1]}),
        (ShapeError, r"after must have shape .*got \(2, 30\)", {"after": TOKENS[..., 0]}),
        (NonFiniteError, "after", {"after": np.full((2, 30, 4), np.nan)}),
    ],
)
def test_wrong_input_of_components_is_named(error, message, options):
    with pytest.raises(error, match=message):
        plot_components(**({"images": TOKEN_IMAGES, "before": TOKENS, "after": LATENT, "grid": TOKEN_GRID} | options))
