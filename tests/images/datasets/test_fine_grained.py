"""CUB, Dogs, Aircraft and NABirds in the layout of their archives."""

import numpy as np
import pytest

pytest.importorskip("PIL")

from tests.images.datasets.files import PNG, pictures, write, write_tar
from udtw.errors import DataError
from udtw.images.datasets import load_images
from udtw.images.datasets.class_splits import shipped_split

BIRDS = sorted(one for part in shipped_split("cub").values() for one in part)


def sizes(images):
    return {split: len(classes) for split, classes in images.splits.items()}


def cub(listed=True):
    names = [f"{label}/{label[4:]}_{number}.jpg" for label in BIRDS for number in (1, 2)]
    members = {f"CUB_200_2011/images/{name}": PNG for name in names}
    if listed:
        lines = "".join(f"{number} {name}\n" for number, name in enumerate(names, start=1))
        members["CUB_200_2011/images.txt"] = lines.encode()
    return {"attributes.txt": b"", **members}


@pytest.mark.parametrize("kind", ["folder", "above", "tgz", "tgz itself", "unlisted"])
def test_cub(tmp_path, kind):
    place = tmp_path
    if kind.startswith("tgz"):
        place = write_tar(tmp_path / "CUB_200_2011.tgz", cub(), "w:gz")
    else:
        write(tmp_path, cub(listed=kind != "unlisted"))
    if kind == "folder":
        place = tmp_path / "CUB_200_2011"
    images = load_images("cub", place if kind != "tgz" else tmp_path)
    assert sizes(images) == {"train": 140, "val": 30, "test": 30}
    assert images.classes == tuple(BIRDS)
    assert images.names[0] == "001.Black_footed_Albatross/Black_footed_Albatross_1.jpg"
    assert images.image(399).size == (6, 4)
    assert images.notes == ("cub: 400 of the 11788 images of the published set are here.",)


def test_cub_without_two_classes(tmp_path):
    gone = ("001.", "044.")
    write(tmp_path, {name: content for name, content in cub().items() if not name[20:].startswith(gone)})
    with pytest.raises(
        DataError,
        match=r"cub: 200 classes of images were expected under .*, found 198; "
        r"missing: 001\.Black_footed_Albatross, 044\.Frigatebird\.",
    ):
        load_images("cub", tmp_path)


def test_an_image_may_be_missing(tmp_path):
    members = cub()
    del members["CUB_200_2011/images/001.Black_footed_Albatross/Black_footed_Albatross_1.jpg"]
    notes = load_images("cub", write(tmp_path, members)).notes
    assert "cub: 1 of the 400 listed images are not in" in notes[0]
    assert "399 of the 11788 images" in notes[1]


def test_dogs(tmp_path):
    breeds = [f"n{2085620 + 7 * number:08d}-breed_{number}" for number in range(120)]
    write(tmp_path / "Images", pictures(*(f"{breed}/{breed[:9]}_{n}.jpg" for breed in breeds for n in (1, 2))))
    images = load_images("dogs", tmp_path)
    assert sizes(images) == {"train": 70, "val": 20, "test": 30}
    assert np.bincount(images.labels).tolist() == [2] * 120
    for file in (tmp_path / "Images" / breeds[0]).iterdir():
        file.unlink()
    with pytest.raises(DataError, match=r"dogs: 120 classes of images were expected under .*, found 119\."):
        load_images("dogs", tmp_path)


def aircraft():
    variants = [f"7{number:02d}-{number} Type" for number in range(100)]
    members = {}
    for file, base in (("trainval", 0), ("test", 100)):
        rows = [(f"{base + number:07d}", variant) for number, variant in enumerate(variants)]
        members[f"data/images_variant_{file}.txt"] = "".join(f"{one} {variant}\n" for one, variant in rows).encode()
        members |= {f"data/images/{one}.jpg": PNG for one, _ in rows}
    return members


def test_aircraft(tmp_path):
    write(tmp_path / "fgvc-aircraft-2013b", aircraft())
    images = load_images("aircraft", tmp_path)
    assert sizes(images) == {"train": 50, "val": 25, "test": 25}
    assert images.classes[3] == "703-3 Type"
    assert images.classes[images.labels[images.names.index("0000103.jpg")]] == "703-3 Type"
    assert len(images) == 200


def test_aircraft_with_damaged_lists(tmp_path):
    members = aircraft()
    for one in ("0000005", "0000105"):
        del members[f"data/images/{one}.jpg"]
    write(tmp_path, members)
    with pytest.raises(DataError, match=r"aircraft: 100 classes .* found 99; missing: 705-5 Type"):
        load_images("aircraft", tmp_path)
    (tmp_path / "data/images_variant_test.txt").write_text("0000100 700\n0000101\n")
    with pytest.raises(DataError, match=r"images_variant_test\.txt, line 2: expected two words, got '0000101'"):
        load_images("aircraft", tmp_path)
    (tmp_path / "data/images_variant_test.txt").write_text(f"0000001 {'x'}\n")
    with pytest.raises(DataError, match=r"0000001\.jpg is listed under two classes"):
        load_images("aircraft", tmp_path)
    (tmp_path / "data/images_variant_test.txt").unlink()
    with pytest.raises(DataError, match=r"has images_variant_trainval\.txt but no images_variant_test\.txt"):
        load_images("aircraft", tmp_path)


def nabirds():
    paths, labels, classes = [], [], ["0 Birds"]
    members = {}
    for number in range(1, 556):
        classes.append(f"{number} Bird {number} (Female, juvenile)")
        key, path = f"{number:08x}-uuid", f"{number:04d}/{number:08x}.jpg"
        paths.append(f"{key} {path}")
        labels.append(f"{key} {number}")
        members[f"images/{path}"] = PNG
    lists = {"images": paths, "image_class_labels": labels, "classes": classes}
    return members | {f"{name}.txt": "\n".join(lines).encode() for name, lines in lists.items()}


def test_nabirds(tmp_path):
    write_tar(tmp_path / "nabirds.tar", {f"nabirds/{name}": content for name, content in nabirds().items()})
    images = load_images("nabirds", tmp_path)
    assert sizes(images) == {"train": 350, "val": 66, "test": 139}
    assert images.classes[16] == "0017 Bird 17 (Female, juvenile)"
    assert images.names[16] == "0017/00000011.jpg"


def test_nabirds_with_lists_that_do_not_fit(tmp_path):
    write(tmp_path, nabirds())
    (tmp_path / "classes.txt").write_text("1 Bird\n")
    with pytest.raises(DataError, match=r"there is no class 2 in classes\.txt"):
        load_images("nabirds", tmp_path)
    write(tmp_path, {"classes.txt": nabirds()["classes.txt"], "images.txt": b"a b.jpg\n"})
    with pytest.raises(DataError, match="there is no label or path for some images"):
        load_images("nabirds", tmp_path)
    (tmp_path / "classes.txt").unlink()
    with pytest.raises(DataError, match=r"has images\.txt but no classes\.txt"):
        load_images("nabirds", tmp_path)
