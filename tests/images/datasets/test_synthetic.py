"""Generated images: the same for the same seed, shapes that move, and clutter that can be told from them."""

import pickle

import numpy as np
import pytest

pytest.importorskip("PIL")

from udtw.errors import DataError, OptionError
from udtw.images.datasets import load_images, make_images, shape_mask


@pytest.fixture(scope="module")
def images():
    return load_images("synthetic", None)


def test_classes_and_splits(images):
    assert len(images) == 480
    assert len(images.classes) == 24
    assert {split: len(classes) for split, classes in images.splits.items()} == {"train": 12, "val": 4, "test": 8}
    assert images.image(0).size == (96, 96)
    assert images.image(0).mode == "RGB"
    novel = [images.classes[label].split() for label in images.splits["test"]]
    trained = [images.classes[label].split() for label in images.splits["train"]]
    # Every novel shape and texture was seen in training, but never together.
    assert {shape for shape, _ in novel} <= {shape for shape, _ in trained}
    assert {texture for _, texture in novel} <= {texture for _, texture in trained}
    assert not set(map(tuple, novel)) & set(map(tuple, trained))


def test_the_same_seed_gives_the_same_images(images):
    again = make_images(n_images=3)
    assert again.read(4) == images.read(21)
    assert again.names[4] == images.names[21]
    assert make_images(seed=1).read(0) != images.read(0)
    assert pickle.loads(pickle.dumps(images)).read(7) == images.read(7)


def test_shapes_move_and_stand_out(images):
    of_class = images.subset(np.flatnonzero(images.labels == 1))
    masks = [shape_mask(of_class, i) for i in range(len(of_class))]
    middles = np.array([np.argwhere(mask).mean(0) for mask in masks])
    assert (middles.std(0) > 4).all()
    areas = [mask.sum() for mask in masks]
    assert max(areas) > 1.5 * min(areas)
    for i, mask in enumerate(masks[:5]):
        pixels = np.asarray(of_class.image(i), float)
        strength = pixels.max(-1) - pixels.min(-1)
        assert mask.shape == (96, 96)
        assert strength[mask].mean() > 3 * strength[~mask].mean()


def test_every_shape_is_inside_its_image(images):
    for label in range(24):
        mask = shape_mask(images, 20 * label)
        assert 0.01 < mask.mean() < 0.4
        assert mask[1:-1, 1:-1].sum() == mask.sum()


def test_what_is_refused(images, tmp_path):
    with pytest.raises(OptionError, match="n_images"):
        make_images(0)
    with pytest.raises(OptionError, match="at least 16 pixels"):
        make_images(size=8)
    with pytest.raises(DataError, match="called like disc-striped"):
        images.reader.read("disc-plain/001.png")
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    for name in ("a/1.png", "b/1.png"):
        (tmp_path / name).write_bytes(images.read(0))
    with pytest.raises(OptionError, match="Only generated images have masks; folder"):
        shape_mask(load_images("folder", tmp_path), 0)
