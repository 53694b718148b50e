"""Episodes of each data set of images, as in the paper, and one published figure for each."""

import pytest

pytest.importorskip("PIL")

from experiments.image_settings import MODES, Setting, settings_of
from experiments.published import IMAGES
from udtw.errors import OptionError
from udtw.images.datasets import NAMES, make_images

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


def test_the_papers_figures_have_one_number_per_setting():
    for name, modes in IMAGES.items():
        for mode, figures in modes.items():
            assert set(figures) == {"protonet", "soft_dtw", "udtw"}
            assert {len(values) for values in figures.values()} == {len(settings_of(name, mode))}
