"""The second tab: images from the server's list, maps on the right patches, and a trained model."""

import base64

import numpy as np
import pytest

pytest.importorskip("PIL")

from tests.explorer.helpers import IMAGES, data_url
from udtw.errors import DataError, OptionError, UdtwError
from udtw.explorer.image_alignment import TokenEncoder
from udtw.explorer.image_tab import ImageTab


@pytest.fixture(scope="module")
def tab():
    return ImageTab()


def grid_of(trace):
    z = trace["z"]
    return np.frombuffer(base64.b64decode(z["bdata"]), z["dtype"]).reshape(14, 14)


def test_an_image_matches_itself_patch_by_patch(tab):
    *_, result = tab.aligned(IMAGES | {"y-item": 0, "gamma": -3})
    assert float(result.alignment.distance) < 0.01
    assert np.diag(result.coupling).min() > 0.9


def test_flat_patches_are_less_certain_than_the_shape(tab):
    """The generated shape has strong texture; its background has only weak noise."""
    from udtw.images.datasets import make_images, shape_mask

    images = make_images(6)
    [sigma, *_] = [one for one in tab.update(IMAGES)["maps"]["data"] if one["type"] == "heatmap"]
    middles = ((np.arange(14) + 0.5) / 14 * 96).astype(int)
    mask = shape_mask(images, images.classes.index("disc striped") * 6)[np.ix_(middles, middles)]
    values = grid_of(sigma)
    assert values[mask].mean() < values[~mask].mean()


@pytest.mark.parametrize("order", ["raster", "snake", "hilbert"])
def test_the_map_of_sigma_does_not_depend_on_the_reading_order(tab, order):
    maps = [tab.update(IMAGES | {"order": one})["maps"]["data"][0] for one in ("raster", order)]
    np.testing.assert_array_equal(grid_of(maps[0]), grid_of(maps[1]))


def test_shares_of_a_patch_sum_to_one(tab):
    goes = tab.update(IMAGES)["maps"]["data"][2]
    assert grid_of(goes).sum() == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("name", ["../../etc/passwd", None, "disc", 3])
def test_classes_that_are_not_on_the_list_are_refused(tab, name):
    with pytest.raises(OptionError, match="must be one of"):
        tab.update(IMAGES | {"x-set": name})


def test_files_that_are_not_images_are_refused(tab):
    with pytest.raises(UdtwError, match=r"a\.png"):
        tab.take(data_url(b"<svg onload='alert(1)'/>", "image/svg+xml"), "a.png")
    with pytest.raises(DataError, match="Choose an image"):
        tab.update(IMAGES | {"x-set": "upload"})


def test_a_trained_model_gives_tokens_and_variances(tmp_path):
    from udtw.images import ImageRecipe, ImageRecognizer, embed, load_backbone, open_tokens
    from udtw.images.datasets import make_images

    spec = "patches?image_size=48"
    embed(make_images(2).of_split("train"), load_backbone(spec), tmp_path / "tokens")
    tokens = open_tokens(tmp_path / "tokens")
    recipe = ImageRecipe(metric="udtw", n_steps=2, dim=8, n_way=2, n_query=1)
    ImageRecognizer(recipe, tokens.dim).fit(tokens, checkpoint_path=tmp_path / "model.safetensors")
    *_, result = ImageTab(tmp_path / "model.safetensors", spec).aligned(IMAGES)
    assert result.grid == (3, 3)
    assert result.var_x is not None
    with pytest.raises(OptionError, match="trained on tokens of"):
        TokenEncoder(tmp_path / "model.safetensors", "patches")
    with pytest.raises(OptionError, match="both a model"):
        TokenEncoder(tmp_path / "model.safetensors")
