"""The official one-shot runs of Omniglot."""

import pytest

pytest.importorskip("PIL")

from experiments.omniglot_runs import omniglot_runs, runs_as_images
from tests.images.datasets.files import PNG, encoded, write, write_zip
from udtw.errors import DataError


def runs():
    members = {}
    for run in (f"run{number:02d}" for number in range(1, 21)):
        pairs = [(item, (item * 7) % 20 + 1) for item in range(1, 21)]
        lines = "".join(f"{run}/test/item{a:02d}.png {run}/training/class{b:02d}.png\n" for a, b in pairs)
        members[f"{run}/class_labels.txt"] = lines.encode()
        for number in range(1, 21):
            members[f"{run}/test/item{number:02d}.png"] = encoded("PNG", "L", colour=number)
            members[f"{run}/training/class{number:02d}.png"] = encoded("PNG", "L", colour=100 + number)
    return members


@pytest.mark.parametrize("packed", [True, False])
def test_runs(tmp_path, packed):
    place = write_zip(tmp_path / "all_runs.zip", runs()) if packed else write(tmp_path / "all_runs", runs())
    for where in (tmp_path, place):
        found = omniglot_runs(where)
        assert [run.name for run in found] == [f"run{number:02d}" for number in range(1, 21)]
        run = found[4]
        assert [image.getpixel((0, 0)) for image in run.test] == list(range(1, 21))
        assert [image.getpixel((0, 0)) for image in run.training] == list(range(101, 121))
        assert run.answers[:4] == (7, 14, 1, 8)


def test_the_drawings_of_all_runs_are_one_set_with_the_answers_as_labels(tmp_path):
    write(tmp_path / "all_runs", runs())
    found = omniglot_runs(tmp_path)
    images = runs_as_images(found)
    assert (len(images), len(images.classes)) == (800, 400)
    first = 4 * 40  # of run05: its training images, then its test images
    assert images.labels[first : first + 20].tolist() == list(range(80, 100))
    assert images.labels[first + 20 : first + 40].tolist() == [80 + answer for answer in found[4].answers]
    assert images.image(first + 20).getpixel((0, 0)) == found[4].test[0].getpixel((0, 0))


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("run03/class_labels.txt", b"run03/test/item01.png", r"run03/class_labels\.txt: expected one line"),
        ("run03/class_labels.txt", b"r/test/item01.png r/training/class21.png", "expected one line"),
        ("run03/class_labels.txt", b"r/test/item01.png r/training/class20.png", "must pair 20 items with 20 classes"),
        ("run03/test/item07.png", PNG[:40], r"item07\.png is damaged"),
        ("run03/test/item07.png", None, r"item07\.png cannot be read"),
        ("run20/class_labels.txt", None, r"run20/class_labels\.txt cannot be read"),
    ],
)
def test_runs_with_a_damaged_file(tmp_path, file, content, said):
    write(tmp_path / "all_runs", runs())
    if content is None:
        (tmp_path / "all_runs" / file).unlink()
    else:
        (tmp_path / "all_runs" / file).write_bytes(content)
    with pytest.raises(DataError, match=said):
        omniglot_runs(tmp_path)


def test_no_runs(tmp_path):
    with pytest.raises(DataError, match=r"holds no all_runs\.zip"):
        omniglot_runs(tmp_path)
