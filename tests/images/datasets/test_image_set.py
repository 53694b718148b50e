"""Sets of images: labels and names of all, pixels when asked for, subsets that keep the classes."""

import pickle
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("PIL")

from tests.images.datasets.files import encoded, write, write_zip
from udtw.errors import DataError, OptionError, ShapeError
from udtw.images.datasets import ImageSet
from udtw.images.datasets.folders import Folder, open_folder

NAMES = [f"{label}/{number}.png" for label in "abc" for number in range(6)]


@pytest.fixture
def images(tmp_path):
    write(tmp_path, {name: encoded("PNG", "L", colour=at) for at, name in enumerate(NAMES)})
    splits = {"train": [0], "val": [], "test": [1, 2]}
    return ImageSet("mine", "abc", np.repeat([0, 1, 2], 6), NAMES, splits, Folder(tmp_path), ["a note"])


def test_images_by_number(images):
    assert len(images) == 18
    assert images.classes == ("a", "b", "c")
    assert images.labels.dtype == np.int64
    assert images.image(7).getpixel((0, 0)) == 7
    assert images.image(-1).getpixel((0, 0)) == 17
    assert images.read(7) == encoded("PNG", "L", colour=7)
    assert repr(images) == "ImageSet('mine', 18 images, 3 classes: train 1, test 2)"
    with pytest.raises(IndexError, match="mine has 18 images"):
        images.image(18)


def test_subsets_keep_classes_splits_and_notes(images):
    some = images.subset([12, 3, -18])
    assert some.names == ("c/0.png", "a/3.png", "a/0.png")
    assert some.labels.tolist() == [2, 0, 0]
    assert (some.classes, some.splits, some.notes) == (images.classes, images.splits, ("a note",))
    assert some.image(1).getpixel((0, 0)) == 3
    assert len(images.subset([])) == 0
    with pytest.raises(ShapeError, match="whole numbers"):
        images.subset([0.5])
    with pytest.raises(IndexError, match="mine has 18 images"):
        images.subset([18])


def test_splits(images):
    test = images.of_split("test")
    assert sorted(set(test.labels.tolist())) == [1, 2]
    assert test.names == tuple(NAMES[6:])
    with pytest.raises(OptionError, match="mine has no split 'val'; it has train, test"):
        images.of_split("val")


def test_a_limited_number_of_images_a_class(images):
    few = images.limited(2, seed=5)
    assert np.bincount(few.labels).tolist() == [2, 2, 2]
    assert list(few.names) == sorted(few.names)
    assert few.names == images.limited(2, seed=5).names
    assert len({images.limited(2, seed=seed).names for seed in range(8)}) > 1
    # What is chosen of a class does not depend on the others, and more is chosen in addition.
    assert images.of_split("test").limited(2, seed=5).names == few.of_split("test").names
    assert set(few.names) < set(images.limited(3, seed=5).names)
    assert images.limited(100).names == images.names
    with pytest.raises(OptionError, match="at least 1"):
        images.limited(0)


def test_sets_are_sent_to_other_processes(images, tmp_path):
    path = write_zip(tmp_path / "x.zip", {name: images.read(at) for at, name in enumerate(NAMES)})
    packed = ImageSet("mine", "abc", images.labels, NAMES, images.splits, open_folder(path))
    packed.read(0)
    again = pickle.loads(pickle.dumps(packed))
    assert [again.read(at) for at in range(18)] == [images.read(at) for at in range(18)]


def test_damaged_and_missing_images_are_named(images, tmp_path):
    (tmp_path / "b/1.png").write_bytes(images.read(7)[:-30])
    with pytest.raises(DataError, match=r"b/1\.png is damaged"):
        images.image(7)
    (tmp_path / "b/1.png").unlink()
    with pytest.raises(DataError, match=r"b/1\.png cannot be read"):
        images.image(7)


@pytest.mark.parametrize(
    ("labels", "names", "splits", "said"),
    [
        ([0], ["a", "b"], {}, r"labels must have shape \(2,\)"),
        ([0, 3], ["a", "b"], {}, "labels must index the 3 classes"),
        ([0, 1], ["a", "a"], {}, "must be unique"),
        ([0, 1], ["a", "b"], {"train": [0, 1], "test": [1]}, "at most once"),
        ([0, 1], ["a", "b"], {"test": [3]}, "at most once"),
    ],
)
def test_what_does_not_fit_is_refused(labels, names, splits, said):
    with pytest.raises((ShapeError, OptionError), match=said):
        ImageSet("mine", "abc", labels, names, splits, Folder(Path()))
