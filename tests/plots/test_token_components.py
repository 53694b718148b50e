"""`plot_components`: like tokens have like colours, in all images of a column, and the same picture every time."""

import numpy as np
import pytest
import torch

pytest.importorskip("matplotlib")

from udtw.errors import LengthError, NonFiniteError, ShapeError
from udtw.plots import plot_components
from udtw.plots.token_components import component_colors, principal_components

from .figures import panels, render

GRID = (5, 6)
IMAGES = [np.zeros((50, 60, 3)), np.ones((50, 60, 3))]
GENERATOR = np.random.default_rng(0)
LATENT = GENERATOR.standard_normal((2, 30, 3)) * [10, 3, 1]
TURN = np.linalg.qr(GENERATOR.standard_normal((8, 8)))[0]
TOKENS = LATENT @ TURN[:3] + 5


def map_of(axes):
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
    figure = plot_components(IMAGES, TOKENS, torch.tensor(LATENT), GRID, titles=["dog", "cat"])
    assert render(figure) > 3_000
    axes = panels(figure)
    colors = component_colors(principal_components(TOKENS))
    for i in (0, 1):
        shown = axes[f"before{i}"].get_images()[0]
        np.testing.assert_allclose(shown.get_array(), colors[i].reshape(*GRID, 3))
        assert shown.get_extent() == [0, 60, 50, 0]
        assert axes[f"image{i}"].get_ylabel() == ["dog", "cat"][i]
        # A turned copy has the same components: the colours must not be turned into their opposites.
        np.testing.assert_allclose(map_of(axes[f"after{i}"]), shown.get_array(), atol=1e-6)


def test_the_same_input_gives_the_same_picture():
    def drawn(tokens):
        return map_of(panels(plot_components(IMAGES, tokens, -tokens, GRID))["after1"])

    np.testing.assert_array_equal(drawn(TOKENS), drawn(TOKENS.copy()))
    np.testing.assert_allclose(drawn(3 * TOKENS - 7), drawn(TOKENS), atol=1e-9)


def test_tokens_of_few_features_or_of_no_variance():
    axes = panels(plot_components(IMAGES, TOKENS[..., :1], np.ones((2, 30, 4)), GRID))
    before = map_of(axes["before0"])
    assert np.ptp(before[..., 0]) > 0.5
    assert np.all(before[..., 1:] == 0.5)
    assert np.all(map_of(axes["after0"]) == 0.5)


@pytest.mark.parametrize(
    ("error", "said", "options"),
    [
        (LengthError, "at least one", {"images": []}),
        (ShapeError, r"before must have shape \(2, 30, D\)", {"before": TOKENS[:1]}),
        (ShapeError, r"after must have shape .*got \(2, 30\)", {"after": TOKENS[..., 0]}),
        (NonFiniteError, "after", {"after": np.full((2, 30, 4), np.nan)}),
    ],
)
def test_wrong_input_is_named(error, said, options):
    with pytest.raises(error, match=said):
        plot_components(**({"images": IMAGES, "before": TOKENS, "after": LATENT, "grid": GRID} | options))
