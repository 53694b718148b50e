"""The table of data sets: the docs and the command line show it."""

from pathlib import Path

import pytest

pytest.importorskip("PIL")

from tests.images.datasets.files import pictures, write
from udtw.errors import OptionError
from udtw.images.datasets import DATASETS, DataSet, data_set, load_images
from udtw.images.datasets.class_splits import by_shares
from udtw.images.datasets.layouts import Layout


def test_a_folder_in_place_of_a_name_is_explained(tmp_path):
    with pytest.raises(OptionError, match="For your own images use: folder --data-dir"):
        data_set(str(tmp_path))


def test_the_docs_have_the_table():
    page = Path(__file__).parents[3] / "docs" / "images.md"
    head = ["| name | data set | split into training and novel classes |", "|---|---|---|"]
    rows = [f"| `{name}` | {row.title} | {row.split_is} |" for name, row in DATASETS.items()]
    assert "\n".join([*head, *rows]) in page.read_text(encoding="utf-8")


def test_a_data_set_is_one_row(tmp_path, monkeypatch):
    row = DataSet("moths", "a folder for each species", Layout(), lambda listing: by_shares(listing.classes))
    monkeypatch.setitem(DATASETS, "moths", row)
    write(tmp_path / "moths", pictures(*(f"{label}/{n}.png" for label in "abcdef" for n in range(3))))
    images = load_images("moths", tmp_path)
    assert (images.name, len(images), len(images.classes)) == ("moths", 18, 6)
