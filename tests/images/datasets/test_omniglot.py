"""Omniglot: characters of whole alphabets, and the official one-shot runs."""

import pytest

pytest.importorskip("PIL")

from tests.images.datasets.files import PNG, encoded, pictures, write, write_zip
from udtw.errors import DataError
from udtw.images.datasets import load_images, omniglot_runs, runs_as_images
from udtw.images.datasets.class_splits import shipped_split
from udtw.images.datasets.omniglot import split_omniglot

# Characters of each alphabet of the two small sets.
SMALL1 = {"Balinese": 24, "Early_Aramaic": 22, "Greek": 24, "Korean": 40, "Latin": 26}
SMALL2 = {"Greek": 24, "Japanese_(katakana)": 47, "Latin": 26, "Sanskrit": 42, "Tagalog": 17}


def drawings(prefix, alphabets, per_class=2):
    return pictures(
        *(
            f"{prefix}{alphabet}/character{number:02d}/{number:04d}_{drawer:02d}.png"
            for alphabet, count in alphabets.items()
            for number in range(1, count + 1)
            for drawer in range(1, per_class + 1)
        )
    )


@pytest.mark.parametrize("packed", [True, False])
def test_the_small_sets(tmp_path, packed):
    for stem, alphabets in (("images_background_small1", SMALL1), ("images_background_small2", SMALL2)):
        if packed:
            write_zip(tmp_path / f"{stem}.zip", drawings(f"{stem}/", alphabets))
        else:
            write(tmp_path / stem, drawings("", alphabets))
    images = load_images("omniglot", tmp_path)
    # Greek and Latin are in both, and count once.
    assert len(images.classes) == 242
    assert len(images) == 2 * 242
    assert {split: len(classes) for split, classes in images.splits.items()} == {"train": 152, "val": 26, "test": 64}
    novel = {images.classes[label].split("/")[0] for label in images.splits["test"]}
    assert novel == {"Japanese_(katakana)", "Tagalog"}
    assert images.names[0] == "images_background_small1/Balinese/character01/0001_01.png"
    assert images.notes == ("omniglot: 242 of the 1623 characters are here.",)


def test_the_published_split_of_the_whole_set():
    counts = {"train": 1028, "val": 172, "test": 423}
    listed = shipped_split("omniglot")
    # As many characters as there are, spread over the alphabets in any way but for Gurmukhi's.
    classes = [one for part in listed.values() for one in part if "/" in one]
    for split, names in listed.items():
        alphabets = [one for one in names if "/" not in one]
        rest = counts[split] - (len(names) - len(alphabets))
        classes += [f"{alphabets[at % len(alphabets)]}/character{at // len(alphabets) + 1:02d}" for at in range(rest)]
    split = split_omniglot(tuple(classes))
    assert {part: len(members) for part, members in split.items()} == counts
    assert len({alphabet.split("/")[0] for names in listed.values() for alphabet in names}) == 50
    assert "Gurmukhi/character41" in split["train"]
    assert "Gurmukhi/character42" in split["test"]


def test_the_whole_set_hides_the_small_ones(tmp_path):
    write_zip(tmp_path / "images_background.zip", drawings("images_background/", {"Greek": 3, "Latin": 2}))
    write_zip(tmp_path / "images_background_small1.zip", drawings("images_background_small1/", SMALL1))
    images = load_images("omniglot", tmp_path)
    assert len(images.classes) == 5
    assert {name.split("/")[0] for name in images.names} == {"images_background"}


def test_own_lists_may_name_alphabets(tmp_path):
    write_zip(tmp_path / "images_background.zip", drawings("images_background/", {"Greek": 3, "Latin": 2}))
    (tmp_path / "s.csv").write_text("class,split\nGreek,test\nLatin/character02,train\n")
    images = load_images("omniglot", tmp_path, split_file=tmp_path / "s.csv")
    assert images.splits == {"train": (3,), "test": (0, 1, 2)}
    assert images.classes[3] == "Latin/character02"


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
