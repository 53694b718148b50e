"""CIFAR-FS, miniImageNet and tieredImageNet in the forms in which people have them."""

import numpy as np
import pytest

pytest.importorskip("PIL")

from tests.images.datasets.files import pictures, write, write_tar, write_zip
from udtw.errors import DataError
from udtw.images.datasets import load_images
from udtw.images.datasets.class_splits import shipped_split

CIFAR, MINI, TIERED = (shipped_split(name) for name in ("cifar-fs", "miniimagenet", "tieredimagenet"))


def members(classes, per_class=2):
    return pictures(*(f"{label}/{label}_{number}.png" for label in classes for number in range(per_class)))


def sizes(images):
    return {split: len(classes) for split, classes in images.splits.items()}


@pytest.mark.parametrize("kind", ["zip", "folders", "data", "flat"])
def test_cifar_fs(tmp_path, kind):
    for split, classes in CIFAR.items():
        if kind == "zip":
            write_zip(tmp_path / f"{split}.zip", members(classes))
        else:
            write(tmp_path / {"folders": split, "data": "data", "flat": ""}[kind], members(classes))
    images = load_images("cifar-fs", tmp_path)
    assert len(images) == 200
    assert sizes(images) == {"train": 64, "val": 16, "test": 20}
    assert {images.classes[label] for label in images.splits["test"]} == set(CIFAR["test"])
    assert ("test/" if kind in ("zip", "folders") else "") + "baby/baby_1.png" in images.names
    assert images.notes == ("cifar-fs: 200 of the 60000 images of the published set are here.",)
    assert all(images.classes[label] in name for label, name in zip(images.labels, images.names, strict=True))


def test_missing_classes_are_named(tmp_path):
    write_zip(tmp_path / "train.zip", members(CIFAR["train"]))
    write_zip(tmp_path / "test.zip", members(CIFAR["test"][1:]))
    with pytest.raises(DataError, match=r"100 classes of images were expected .*, found 83; missing: baby, beaver"):
        load_images("cifar-fs", tmp_path)


def test_nothing_there(tmp_path):
    with pytest.raises(DataError, match=r"cifar-fs: nothing was found in .*; expected train\.zip, val\.zip and test"):
        load_images("cifar-fs", tmp_path)


def mini_images(per_class=2):
    return [f"{label}{number:08d}.jpg" for part in MINI.values() for label in part for number in range(per_class)]


@pytest.mark.parametrize("packed", [False, True])
def test_miniimagenet_with_its_lists(tmp_path, packed):
    names = mini_images()
    if packed:
        write_zip(tmp_path / "images.zip", pictures(*(f"images/{name}" for name in names[1:])))
    else:
        write(tmp_path / "images", pictures(*names[1:]))
    for split, classes in MINI.items():
        lines = [f"{name},{name[:9]}\n" for name in names if name[:9] in classes]
        (tmp_path / f"{split}.csv").write_text("filename,label\n" + "".join(lines))
    images = load_images("miniimagenet", tmp_path)
    assert len(images) == 199
    assert sizes(images) == {"train": 64, "val": 16, "test": 20}
    assert f"1 of the 200 listed images are not in {images.reader.where}: {names[0]}" in images.notes[0]
    (tmp_path / "val.csv").write_text("a,b\n")
    with pytest.raises(DataError, match=r"val\.csv must have the columns filename and label"):
        load_images("miniimagenet", tmp_path)


@pytest.mark.parametrize("kind", ["images", "split folders", "class folders"])
def test_miniimagenet_without_lists(tmp_path, kind):
    if kind == "images":
        write(tmp_path / "images", pictures(*mini_images()))
    for split, classes in MINI.items():
        if kind != "images":
            write(tmp_path / (split if kind == "split folders" else ""), members(classes))
    images = load_images("miniimagenet", tmp_path)
    assert len(images) == 200
    assert sizes(images) == {"train": 64, "val": 16, "test": 20}


def test_tieredimagenet_in_split_archives(tmp_path):
    for split, classes in TIERED.items():
        write_tar(tmp_path / f"{split}.tar", members(classes, 1))
    images = load_images("tieredimagenet", tmp_path)
    assert sizes(images) == {"train": 351, "val": 97, "test": 160}


def test_tieredimagenet_from_imagenet_as_published(tmp_path):
    classes = [*(one for part in TIERED.values() for one in part), "n00000001"]
    write_zip(tmp_path / "train.zip", members(classes))
    write_zip(tmp_path / "val.zip", pictures(*(f"{label}/again.png" for label in classes)))
    images = load_images("tieredimagenet", tmp_path)
    assert len(images.classes) == 608
    assert np.bincount(images.labels).tolist() == [2] * 608
    assert all(name.startswith("train/") for name in images.names)
    assert "1 classes are not in the split and are left out: n00000001" in images.notes[0]


@pytest.mark.parametrize("name", ["tieredimagenet", "miniimagenet"])
def test_pickles_are_refused(tmp_path, name):
    write(tmp_path, {"train_images_png.pkl": b"\x80\x04."})
    with pytest.raises(DataError, match=r"train_images_png\.pkl is a pickled archive. .* run any code"):
        load_images(name, tmp_path)
