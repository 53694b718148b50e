"""Data sets by name: found where users put them; any folder of images; lists of the user's own."""

import json

import pytest

pytest.importorskip("PIL")

from tests.images.datasets.files import pictures, write, write_zip
from udtw.errors import DataError, OptionError
from udtw.images.datasets import NAMES, load_images

LEAVES = pictures(*(f"{label}/{n}.png" for label in range(80) for n in range(6)))


@pytest.mark.parametrize("below", [".", "cotton80", "images/cotton80", "COTTON"])
def test_the_folder_or_one_above_it(tmp_path, below, monkeypatch):
    write(tmp_path / below, LEAVES)
    assert len(load_images("cotton80", tmp_path)) == 480
    monkeypatch.setenv("UDTW_DATA", str(tmp_path))
    assert len(load_images("cotton80")) == 480


@pytest.mark.parametrize("below", ["cotton80.zip", "images/cotton80.zip", "Cotton80.zip"])
def test_an_archive_with_its_name_or_given_itself(tmp_path, below):
    (tmp_path / "images").mkdir()
    path = write_zip(tmp_path / below, LEAVES)
    assert load_images("cotton80", tmp_path).names == load_images("cotton80", path).names == tuple(sorted(LEAVES))


def test_names_of_data_sets():
    assert set(NAMES) == {
        "cifar-fs", "miniimagenet", "tieredimagenet", "cub", "dogs", "cars", "aircraft", "nabirds", "cotton80",
        "soylocal", "omniglot", "folder", "synthetic",
    }  # fmt: skip


def test_wrong_names_and_places(tmp_path, monkeypatch):
    monkeypatch.delenv("UDTW_DATA", raising=False)
    with pytest.raises(OptionError, match="no image data set 'cifar'; choose one of cifar-fs, miniimagenet"):
        load_images("cifar", tmp_path)
    with pytest.raises(DataError, match="UDTW_DATA"):
        load_images("cub")
    with pytest.raises(DataError, match="none does not exist"):
        load_images("cub", tmp_path / "none")
    (tmp_path / "x.txt").write_text("")
    with pytest.raises(DataError, match=r"x\.txt is not a folder, a \.zip"):
        load_images("cub", tmp_path / "x.txt")


@pytest.mark.parametrize("name", [name for name in NAMES if name != "synthetic"])
def test_an_empty_folder_says_what_was_expected(tmp_path, name):
    with pytest.raises(DataError, match=f"{name}: nothing was found in .*; expected "):
        load_images(name, tmp_path)


def test_a_list_of_the_users_own(tmp_path):
    write(tmp_path / "data", {name: content for name, content in LEAVES.items() if len(name.split("/")[0]) == 1})
    split = tmp_path / "s.json"
    split.write_text(json.dumps({"train": ["7", "1"], "test": ["3"]}))
    images = load_images("cotton80", tmp_path / "data", split_file=split)
    # Also of a set that lacks classes; classes that the list does not name are left out.
    assert images.classes == ("1", "3", "7")
    assert images.splits == {"train": (0, 2), "test": (1,)}
    assert len(images) == 18
    assert images.notes == (
        "cotton80: 7 classes are not in the split and are left out: 0, 2, 4, 5, 6, … (7 in all).",
    )  # fmt: skip
    split.write_text(json.dumps({"train": ["1"], "test": ["77"]}))
    with pytest.raises(DataError, match=r"2 classes of images were expected under .*, found 1; missing: 77"):
        load_images("cotton80", tmp_path / "data", split_file=split)
    with pytest.raises(OptionError, match="there is no split_file for it"):
        load_images("synthetic", split_file=split)


def test_any_folder_of_classes(tmp_path):
    write(tmp_path, {**pictures(*(f"k{label}/deep/{n}.PNG" for label in range(12) for n in range(3))), "k1/a.txt": b""})
    images = load_images("folder", tmp_path)
    assert len(images) == 36
    assert images.classes[:3] == ("k0", "k1", "k2")
    assert images.names[0] == "k0/deep/0.PNG"
    assert {split: len(classes) for split, classes in images.splits.items()} == {"train": 6, "val": 2, "test": 4}


def test_any_folder_with_split_folders(tmp_path):
    write(tmp_path, pictures("train/a/1.png", "train/b/1.png", "test/c/1.png"))
    images = load_images("folder", tmp_path)
    assert images.classes == ("a", "b", "c")
    assert images.splits == {"train": (0, 1), "test": (2,)}


def test_split_folders_that_share_classes_divide_images_not_classes(tmp_path):
    write(tmp_path, pictures(*(f"{part}/{label}/1.png" for part in ("train", "test") for label in "abcdef")))
    images = load_images("folder", tmp_path)
    assert len(images) == 12
    assert [len(classes) for classes in images.splits.values()] == [3, 1, 2]


def test_one_class_cannot_be_told_apart(tmp_path):
    write(tmp_path, pictures("a/1.png"))
    with pytest.raises(DataError, match="at least 2 classes"):
        load_images("folder", tmp_path)
