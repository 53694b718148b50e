"""The table of data sets: the docs and the command line show it; episodes of each data set, as in the paper."""

from pathlib import Path

import pytest

pytest.importorskip("PIL")

from tests.images.datasets.files import pictures, write
from udtw.errors import OptionError
from udtw.images.datasets import DATASETS, MODES, NAMES, DataSet, Setting, load_images, make_images, settings_of
from udtw.images.datasets.catalogue import docs_table
from udtw.images.datasets.class_splits import by_shares
from udtw.images.datasets.layouts import Layout

FIVE_WAY = (Setting(5, 1, 15), Setting(5, 5, 15))


@pytest.mark.parametrize(
    "name", ["cifar-fs", "miniimagenet", "tieredimagenet", "cub", "dogs", "cars", "aircraft", "nabirds"]
)
def test_supervised(name):
    assert settings_of(name, "supervised") == FIVE_WAY


@pytest.mark.parametrize("mode", MODES)
def test_ultra_fine_sets_have_six_images_per_class(mode):
    for name in ("cotton80", "soylocal"):
        assert settings_of(name, mode) == (Setting(5, 1, 2), Setting(5, 2, 1))


def test_unsupervised():
    assert [(one.n_way, one.n_shot) for one in settings_of("omniglot", "unsupervised")] == [
        (5, 1), (5, 5), (20, 1), (20, 5),
    ]  # fmt: skip
    assert [one.n_way * one.n_query for one in settings_of("omniglot", "unsupervised")] == [75, 75, 100, 100]
    assert [(one.n_way, one.n_shot) for one in settings_of("miniimagenet", "unsupervised")] == [
        (5, 1), (5, 5), (5, 20), (5, 50),
    ]  # fmt: skip
    assert settings_of("cifar-fs", "unsupervised") == FIVE_WAY


def test_cross_domain():
    for name in ("cub", "cars"):
        assert settings_of(name, "cross-domain") == (Setting(5, 5, 15), Setting(5, 20, 15))


def test_every_data_set_has_settings_in_every_mode():
    assert all(settings_of(name, mode) for name in NAMES for mode in MODES)
    # The generated set has enough images for its own.
    assert all(one.n_shot + one.n_query <= 20 for one in settings_of("synthetic", "supervised"))
    assert min(len(classes) for split, classes in make_images().splits.items() if split != "val") >= 5


def test_what_is_refused():
    with pytest.raises(OptionError, match="no image data set 'cifar'"):
        settings_of("cifar", "supervised")
    with pytest.raises(OptionError, match="mode must be one of supervised, unsupervised, cross-domain; got 'self'"):
        settings_of("cub", "self")
    with pytest.raises(OptionError, match="An episode needs 2 classes"):
        Setting(1, 1)


def test_a_folder_in_place_of_a_name_is_explained(tmp_path):
    with pytest.raises(OptionError, match="For your own images use: folder --data-dir"):
        settings_of(str(tmp_path), "supervised")


def test_the_docs_have_the_table():
    page = Path(__file__).parents[3] / "docs" / "images.md"
    assert docs_table() in page.read_text(encoding="utf-8")


def test_the_papers_figures_have_one_number_per_setting():
    for name, row in DATASETS.items():
        for mode, figures in row.paper.items():
            assert set(figures) == {"protonet", "soft_dtw", "udtw"}
            assert {len(values) for values in figures.values()} == {len(settings_of(name, mode))}


def test_a_data_set_is_one_row(tmp_path, monkeypatch):
    row = DataSet("moths", "a folder for each species", Layout(), lambda listing: by_shares(listing.classes))
    monkeypatch.setitem(DATASETS, "moths", row)
    write(tmp_path / "moths", pictures(*(f"{label}/{n}.png" for label in "abcdef" for n in range(3))))
    images = load_images("moths", tmp_path)
    assert (images.name, len(images), len(images.classes)) == ("moths", 18, 6)
    assert settings_of("moths", "supervised") == FIVE_WAY
