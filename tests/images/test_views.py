"""Augmented views: reproducible to the last bit, images in [0, 1], and only what was asked for is done to them."""

import json
import pickle
import random

import pytest
import torch

pytest.importorskip("kornia")

from udtw.errors import OptionError, ShapeError
from udtw.images.views import PRESETS, Augmentation, Views, as_augmentation


def picture(height=48, width=64, seed=0):
    return torch.rand(3, height, width, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("preset", PRESETS)
def test_a_view_depends_on_seed_name_and_number_alone(preset):
    views, pixels = Views(PRESETS[preset], seed=3), picture(224, 224)
    first = views(pixels, "a", 1)
    assert (first.shape, first.dtype) == (pixels.shape, pixels.dtype)
    assert 0 <= first.min() < first.max() <= 1
    torch.manual_seed(1)
    random.seed(1)
    views(picture(32, 32), "b", 0)
    threads = torch.get_num_threads()
    torch.set_num_threads(3 - min(threads, 2))
    again = pickle.loads(pickle.dumps(views))(pixels, "a", 1)
    torch.set_num_threads(threads)
    assert torch.equal(again, first)
    others = [views(pixels, "a", 0), views(pixels, "b", 1), Views(PRESETS[preset], seed=4)(pixels, "a", 1)]
    assert not any(torch.equal(other, first) for other in others)


def test_torch_and_the_image_are_left_as_they_were():
    pixels, state, threads = picture(), torch.get_rng_state(), torch.get_num_threads()
    Views(PRESETS["photo"])(pixels, "a", 0)
    assert torch.equal(pixels, picture())
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_num_threads() == threads


def test_without_settings_nothing_is_done():
    assert torch.equal(Views(Augmentation())(picture(), "a", 0), picture())


def test_a_certain_flip_mirrors():
    assert torch.equal(Views(Augmentation(flip=1.0))(picture(), "a", 0), picture().flip(2))


def test_grey_has_one_channel_three_times():
    view = Views(Augmentation(grey=1.0))(picture(), "a", 0)
    assert torch.equal(view[0], view[1])
    assert torch.equal(view[0], view[2])


@pytest.mark.parametrize("size", [1, 2, 5, 32, 300])
def test_the_blur_keeps_the_mean_and_fits_every_size(size):
    pixels = picture(size, size)
    view = Views(Augmentation(blur=1.0, blur_sigma=(2.0, 2.0)))(pixels, "a", 0)
    assert abs(view.mean() - pixels.mean()) < 0.02
    assert view.std() <= pixels.std() + 1e-6


@pytest.mark.parametrize("ink", [0.0, 1.0])
def test_a_drawing_moves_on_its_own_paper(ink):
    """A disc far from the border keeps its ink but for the scale, and the ground its colour, however it is moved."""
    rows, columns = torch.meshgrid(torch.arange(64.0), torch.arange(64.0), indexing="ij")
    disc = ((rows - 32) ** 2 + (columns - 32) ** 2 < 100).float()
    paper = torch.lerp(torch.full_like(disc, 1 - ink), torch.full_like(disc, ink), disc).expand(3, -1, -1)
    views = Views(PRESETS["drawing"])
    made = [views(paper, "disc", k) for k in range(20)]
    ink_of = [(one[0] - (1 - ink)).abs() for one in made]
    areas = torch.stack([one.sum() for one in ink_of]) / disc.sum()
    assert all(torch.allclose(one[:, [0, 0, -1, -1], [0, -1, 0, -1]], torch.tensor(1 - ink)) for one in made)
    assert 0.65 < areas.min() < 0.95
    assert 1.05 < areas.max() < 1.4
    rows_of = torch.stack([(one * rows).sum() / one.sum() for one in ink_of])
    assert rows_of.min() < 30
    assert rows_of.max() > 34


def test_settings_are_json():
    for preset in PRESETS.values():
        assert as_augmentation(json.loads(json.dumps(preset.as_json()))) == preset
    assert as_augmentation("photo") is PRESETS["photo"]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"flip": 1.5}, "flip must be a number from 0 to 1; got 1.5"),
        ({"hue": 0.6}, "hue must be a number from 0 to 0.5"),
        ({"rotation": float("nan")}, "rotation must be a number from 0 to 180"),
        ({"crop": (0.5, 1.5)}, "crop is a share of the area"),
        ({"scale": (2.0, 1.0)}, r"scale must be two positive numbers \(from, to\)"),
        ({"scale": 3}, "scale must be two positive numbers"),
        ({"solarize": 0.5}, "has no setting 'solarize'; it has aspect, blur"),
    ],
)
def test_settings_that_make_no_sense(settings, said):
    with pytest.raises(OptionError, match=said):
        as_augmentation(settings)


def test_one_image_at_a_time():
    with pytest.raises(ShapeError, match=r"must have the shape \(3, H, W\); got \(2, 3, 8, 8\)"):
        Views(PRESETS["photo"])(torch.zeros(2, 3, 8, 8), "a", 0)
