"""Clutter: what is changed, what is not, and that it depends on the seed and the name only."""

import numpy as np
import pytest

pytest.importorskip("PIL")

from experiments.clutter_images import Clutter, foreground
from udtw.errors import OptionError
from udtw.images import PatchBackbone, embed, open_tokens
from udtw.images.datasets import make_images, shape_mask

IMAGES, FOREIGN = make_images(3), make_images(2, seed=5)


def pixels(images, i):
    return np.array(images.image(i).convert("RGB")).astype(int)


def test_an_image_is_the_same_in_every_subset_and_differs_by_seed():
    one, other = (Clutter(size=48).of(IMAGES, FOREIGN, seed) for seed in (0, 1))
    assert one.read(4) == Clutter(size=48).of(IMAGES.subset([7, 4]), FOREIGN, 0).read(1)
    assert one.read(4) != other.read(4)
    assert one.made_from(4) != other.made_from(4)
    assert one.image(0).size == (48, 48)


def test_only_what_the_mask_excludes_is_foreign():
    size = 96  # that of the images, so that pasted-over ones keep their other pixels
    made = Clutter(size=size).of(IMAGES, FOREIGN, 3)
    kinds = []
    for i in range(len(made)):
        mask = shape_mask(made, i)
        assert mask.shape == (size, size)
        corners = mask[[0, 0, -1, -1], [0, -1, 0, -1]].sum()
        covered = 1 - mask.mean()
        same = (pixels(made, i) == pixels(IMAGES, i)).all(2)
        kinds.append(bool(same[mask].all()))
        assert 0.2 < covered < 0.8
        if kinds[-1]:
            assert corners >= 3  # a patch hides at most one corner
            assert same[~mask].mean() < 0.5
    assert 0.2 < np.mean(kinds) < 0.8  # the others are shrunk onto a background


def test_a_share_of_the_images_keeps_its_content():
    made = Clutter(share=0.5, size=96).of(IMAGES, FOREIGN, 0)
    whole = [shape_mask(made, i).all() for i in range(len(made))]
    assert 0.3 < np.mean(whole) < 0.7
    i = whole.index(True)
    np.testing.assert_array_equal(pixels(made, i), pixels(IMAGES, i))


def test_tokens_know_their_foreground(tmp_path):
    made = Clutter(size=48).of(IMAGES, FOREIGN, 0)
    embed(made, PatchBackbone(48, patch=16), tmp_path)
    tokens = open_tokens(tmp_path, made)
    masks = foreground(tokens, made)
    assert masks.shape == (len(IMAGES), 9)
    assert masks.min() < 0.1
    assert masks.max() > 0.9
    np.testing.assert_allclose(masks.mean(1), [shape_mask(made, i).mean() for i in range(len(made))], atol=0.02)


@pytest.mark.parametrize("options", [{"share": 2}, {"patch": (0.5, 1.0)}, {"shrink": (0.6, 0.3)}, {"size": 3}])
def test_impossible_settings_are_named(options):
    with pytest.raises(OptionError, match=next(iter(options))):
        Clutter(**options)
