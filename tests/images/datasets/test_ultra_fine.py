"""Cotton80 and SoyLocal: all images of all cultivars, odd ones novel."""

import pytest

pytest.importorskip("PIL")

from tests.images.datasets.files import pictures, write
from udtw.errors import DataError
from udtw.images.datasets import load_images

SIZES = {"cotton80": 80, "soylocal": 200}


def lists(n_classes):
    rows = [(f"{label:03d}_{number}.png", label, number) for label in range(1, n_classes + 1) for number in range(6)]
    members = pictures(*(f"images/{name}" for name, _, _ in rows))
    for part in (0, 1):
        lines = "".join(f"{name} {label}\n" for name, label, number in rows if number % 2 == part)
        members[f"anno/{('train', 'test')[part]}.txt"] = lines.encode()
    return members


@pytest.mark.parametrize("name", SIZES)
def test_lists(tmp_path, name):
    n = SIZES[name]
    images = load_images(name, write(tmp_path, lists(n)))
    assert len(images) == 6 * n
    assert images.notes == ()
    assert list(images.splits) == ["train", "test"]
    # Sorted by number, so that class 10 follows class 9; the first class has the index 0 and is a base class.
    assert [images.classes[label] for label in images.splits["train"]] == [str(one) for one in range(1, n, 2)]
    assert [images.classes[label] for label in images.splits["test"]] == [str(one) for one in range(2, n + 1, 2)]
    assert images.classes[images.labels[images.names.index("010_3.png")]] == "10"


@pytest.mark.parametrize("parts", [("",), ("train", "val", "test")])
def test_class_folders(tmp_path, parts):
    for part in parts:
        write(
            tmp_path / part,
            pictures(*(f"{label}/{part}{n}.png" for label in range(80) for n in range(6 // len(parts)))),
        )
    images = load_images("cotton80", tmp_path)
    assert len(images) == 480
    assert [len(classes) for classes in images.splits.values()] == [40, 40]
    assert images.splits["test"][:3] == (1, 3, 5)


def test_what_is_missing(tmp_path):
    members = lists(79)
    with pytest.raises(DataError, match=r"cotton80: 80 classes of images were expected under .*, found 79\."):
        load_images("cotton80", write(tmp_path, members))
    (tmp_path / "anno/test.txt").write_text("alone\n")
    with pytest.raises(DataError, match=r"test\.txt: expected lines NAME LABEL, got 'alone'"):
        load_images("cotton80", tmp_path)
    (tmp_path / "anno/test.txt").unlink()
    with pytest.raises(DataError, match=r"has anno/train\.txt but no anno/test\.txt"):
        load_images("cotton80", tmp_path)
