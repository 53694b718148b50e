"""Omniglot: characters of whole alphabets."""

import pytest

pytest.importorskip("PIL")

from tests.images.datasets.files import pictures, write, write_zip
from udtw.images.datasets import load_images
from udtw.images.datasets.class_splits import shipped_split, split_omniglot

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
