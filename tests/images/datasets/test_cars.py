"""Stanford Cars: the devkit's MATLAB files, or class folders."""

import io

import numpy as np
import pytest

pytest.importorskip("PIL")
pytest.importorskip("scipy")
from scipy.io import savemat

from tests.images.datasets.files import pictures, write
from udtw.errors import DataError
from udtw.images.datasets import load_images

TITLES = [f"Maker C/V {number} 2012" for number in range(196)]


def mat(**values):
    buffer = io.BytesIO()
    savemat(buffer, values, do_compression=True)
    return buffer.getvalue()


def annotations(numbers, labelled=True):
    """As the devkit has them: a box, a class from 1, a file name."""
    fields = ["bbox_x1", *(["class"] if labelled else []), "fname"]
    rows = np.zeros((1, len(numbers)), dtype=[(field, object) for field in fields])
    for at, number in enumerate(numbers):
        rows["bbox_x1"][0, at] = np.uint16(39)
        if labelled:
            rows["class"][0, at] = np.uint8(number)
        rows["fname"][0, at] = f"{at + 1:05d}.jpg"
    return mat(annotations=rows)


@pytest.fixture
def cars(tmp_path):
    names = [f"{number + 1:05d}.jpg" for number in range(196)]
    write(tmp_path / "cars_train", pictures(*names))
    write(tmp_path / "cars_test", pictures(*names))
    meta = mat(class_names=np.array(TITLES, dtype=object))
    files = {"cars_meta.mat": meta, "cars_train_annos.mat": annotations(range(1, 197))}
    write(tmp_path / "devkit", {**files, "cars_test_annos.mat": annotations(range(1, 197), labelled=False)})
    write(tmp_path, {"cars_test_annos_withlabels.mat": annotations(range(196, 0, -1))})
    return tmp_path


def sizes(images):
    return {split: len(classes) for split, classes in images.splits.items()}


def test_the_devkit(cars):
    images = load_images("cars", cars)
    assert sizes(images) == {"train": 130, "val": 17, "test": 49}
    assert len(images) == 392
    assert images.classes[0] == "Maker C-V 0 2012"
    by_name = dict(zip(images.names, images.labels.tolist(), strict=True))
    assert (by_name["cars_train/00001.jpg"], by_name["cars_test/00001.jpg"]) == (0, 195)


def test_without_labels_of_the_test_images(cars):
    (cars / "cars_test_annos_withlabels.mat").unlink()
    images = load_images("cars", cars)
    assert len(images) == 196
    assert "the images in cars_test have no labels here" in images.notes[0]


def test_class_folders_are_divided_alike(cars, tmp_path_factory):
    other = tmp_path_factory.mktemp("cars")
    for split in ("train", "test"):
        folders = [title.replace("/", "-") for title in TITLES]
        write(other / "car_data" / split, pictures(*(f"{title}/{split}.jpg" for title in folders)))
    images = load_images("cars", other)
    assert len(images) == 392
    kit = load_images("cars", cars)
    for split in kit.splits:
        assert {images.classes[one] for one in images.splits[split]} == {kit.classes[one] for one in kit.splits[split]}


def test_damaged_annotations_are_named(cars):
    path = cars / "devkit" / "cars_train_annos.mat"
    whole = path.read_bytes()
    for content, said in [
        (whole[:200], r"cars_train_annos\.mat is damaged"),
        (mat(annotations=1.0), "annotations is not a list in it"),
        (annotations([197]), "no class from 1 to 196"),
        (annotations([1], labelled=False), "no class from 1 to 196"),
        (annotations(range(1, 196)), None),
    ]:
        path.write_bytes(content)
        if said:
            with pytest.raises(DataError, match=said):
                load_images("cars", cars)
    (cars / "cars_test_annos_withlabels.mat").unlink()
    with pytest.raises(DataError, match=r"196 classes of images .* found 195; missing: Maker C-V 195 2012"):
        load_images("cars", cars)
