"""Class lists: published ones as facts, files of the user's, and rules that are the same everywhere."""

import json

import pytest

pytest.importorskip("PIL")

from udtw.errors import DataError, OptionError
from udtw.images.datasets.class_splits import (
    by_alphabet,
    by_digest,
    by_shares,
    expanded,
    natural,
    odd_novel,
    read_split_file,
    shipped_split,
)


def sizes(split):
    return tuple(len(split.get(part, ())) for part in ("train", "val", "test"))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("cifar-fs", (64, 16, 20)),
        ("miniimagenet", (64, 16, 20)),
        ("tieredimagenet", (351, 97, 160)),
        ("cub", (140, 30, 30)),
    ],
)
def test_published_lists(name, expected):
    split = shipped_split(name)
    assert sizes(split) == expected
    assert len({one for part in split.values() for one in part}) == sum(expected)


def test_some_facts():
    assert "baby" in shipped_split("cifar-fs")["test"]
    assert "n01532829" in shipped_split("miniimagenet")["train"]
    assert "n03314780" in shipped_split("tieredimagenet")["test"]
    assert "008.Rhinoceros_Auklet" in shipped_split("cub")["test"]


@pytest.mark.parametrize("counts", [(70, 20, 30), (130, 17, 49), (50, 25, 25), (350, 66, 139)])
def test_our_rule_is_the_same_for_ever(counts):
    classes = [f"class {number}" for number in range(sum(counts))]
    split = by_digest(classes, *counts[:2])
    assert sizes(split) == counts
    assert by_digest(classes[::-1], *counts[:2]) == split


def test_our_rule_by_example():
    # printf %s NAME | sha256sum: ca9781…, 3e23e8…, 2e7d2c…, 18ac3e…
    assert by_digest(["a", "b", "c", "d"], 2, 1) == {"train": ("c", "d"), "val": ("b",), "test": ("a",)}
    renamed = by_digest(["A.", "_B", "c", "d"], 2, 1)
    assert renamed == {"train": ("c", "d"), "val": ("_B",), "test": ("A.",)}
    with pytest.raises(OptionError, match="4 classes cannot be divided into 3, 1"):
        by_digest(["a", "b", "c", "d"], 3, 1)


@pytest.mark.parametrize(("n", "expected"), [(2, (1, 0, 1)), (3, (2, 0, 1)), (6, (3, 1, 2)), (24, (12, 4, 8))])
def test_shares(n, expected):
    assert sizes(by_shares([f"{number}" for number in range(n)])) == expected


def test_ultra_fine_classes_by_their_index():
    split = odd_novel([str(number) for number in range(1, 13)])
    assert split == {"train": ("1", "3", "5", "7", "9", "11"), "test": ("2", "4", "6", "8", "10", "12")}


def test_alphabets_stay_whole():
    classes = [f"{alphabet}/character{number:02d}" for alphabet in "hgfedcba" for number in (1, 2)]
    split = by_alphabet(classes)
    assert {part: sorted({one[0] for one in names}) for part, names in split.items()} == {
        "train": ["a", "b", "c", "e", "g"],
        "val": ["f"],
        "test": ["d", "h"],
    }


def test_a_group_stands_for_its_classes():
    classes = ["Greek/1", "Greek/2", "Latin/1", "plain"]
    assert expanded({"train": ("Greek",), "test": ("Latin/1", "plain", "none")}, classes) == {
        "train": ("Greek/1", "Greek/2"),
        "test": ("Latin/1", "plain", "none"),
    }


def test_files_of_the_users(tmp_path):
    path = tmp_path / "s.json"
    path.write_text(json.dumps({"test": ["ü"], "train": ["a", "b"], "val": []}), encoding="utf-8")
    assert read_split_file(path) == {"train": ("a", "b"), "test": ("ü",)}
    path = tmp_path / "s.csv"
    path.write_text('class,split\n"a, b",train\nc,test\n')
    assert read_split_file(path) == {"train": ("a, b",), "test": ("c",)}


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("s.json", "{", "is not JSON"),
        ("s.json", "[" * 100_000, "is not JSON"),
        ("s.json", "[1]", "must be like"),
        ("s.json", '{"train": [1]}', "must be like"),
        ("s.json", '{"training": ["a"]}', r"has the parts \['training'\]"),
        ("s.json", '{"train": ["a"], "test": ["a"]}', "names a class twice: a"),
        ("s.json", '{"train": []}', "names no class"),
        ("s.csv", "a,b\n1,2\n", "must have the columns class and split"),
        ("s.csv", "class,split\na\n", "has the parts"),
        ("s.csv", "class,split\n" + "a" * 200_000 + ",train\n", "not a CSV file"),
    ],
)
def test_files_that_are_no_lists(tmp_path, file, text, said):
    (tmp_path / file).write_text(text)
    with pytest.raises(DataError, match=f"{file}.*{said}"):
        read_split_file(tmp_path / file)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(DataError, match="cannot be read"):
        read_split_file(tmp_path / "none.json")
    (tmp_path / "s.json").write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(DataError, match="not text in UTF-8"):
        read_split_file(tmp_path / "s.json")


def test_numbers_in_names_are_sorted_as_numbers_however_long_they_are():
    names = ["10", "9", "a9b", "a10b", "009", "9" * 5000, "²"]
    assert sorted(names, key=natural)[:3] == ["9", "009", "10"]
    assert sorted(names, key=natural)[3] == "9" * 5000
    assert sorted(["a10b", "a9b"], key=natural) == ["a9b", "a10b"]
