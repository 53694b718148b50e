"""Any image becomes (3, H, W) in [0, 1], framed as asked."""

import numpy as np
import pytest
import torch

pytest.importorskip("PIL")
from PIL import Image

from tests.images.backbones.pictures import noise
from udtw.errors import DataError, OptionError, ShapeError
from udtw.images.backbones.pixels import (
    RESAMPLE,
    Framing,
    check_mean_and_std,
    check_pixels,
    normalize,
    square_framing,
    to_rgb,
)

SAME = Framing((2, 2), (2, 2), resample="nearest")


@pytest.mark.parametrize("fit", ["cover", "stretch"])
@pytest.mark.parametrize(("width", "height"), [(60, 40), (33, 71), (24, 24)])
@pytest.mark.parametrize("resample", ["bilinear", "bicubic"])
def test_what_is_cut_equals_resizing_the_whole_and_cropping_its_centre(fit, width, height, resample):
    image = noise(width, height)
    shorter = min(width, height)
    size = (24 * width // shorter, 24 * height // shorter) if fit == "cover" else (24, 24)
    whole = np.asarray(image.resize(size, RESAMPLE[resample]))
    top, left = (size[1] - 16) // 2, (size[0] - 16) // 2
    expected = torch.from_numpy(whole[top : top + 16, left : left + 16].copy()).permute(2, 0, 1) / 255
    pixels = Framing((24, 24), (16, 16), fit, resample)(image)
    assert pixels.dtype == torch.float32
    assert (pixels - expected).abs().max() <= 1.01 / 255  # rounding to whole numbers


def test_contained_images_are_whole_and_padded_with_black():
    pixels = square_framing(16, fit="contain")(Image.new("RGB", (32, 16), "white"))
    assert pixels[:, 4:12].min() == 1
    assert pixels[:, :4].max() == 0
    assert pixels[:, 12:].max() == 0


def test_a_very_long_strip_costs_no_more_than_its_centre():
    assert square_framing(64)(Image.new("L", (20_000, 1), 255)).shape == (3, 64, 64)


def test_a_crop_fraction_enlarges_the_resized_image():
    assert square_framing(224, crop_fraction=0.875).resize == (256, 256)


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        (Image.new("L", (2, 2), 51), (0.2, 0.2, 0.2)),
        (Image.new("1", (2, 2), 1), (1, 1, 1)),
        (Image.new("RGBA", (2, 2), (255, 0, 0, 255)), (1, 0, 0)),
        (Image.new("RGBA", (2, 2), (0, 0, 0, 0)), (1, 1, 1)),
        (Image.new("LA", (2, 2), (0, 204)), (0.2, 0.2, 0.2)),
        (Image.new("CMYK", (2, 2), (0, 0, 0, 255)), (0, 0, 0)),
        (Image.new("RGB", (2, 2), (255, 51, 0)).convert("P", palette=Image.Palette.ADAPTIVE), (1, 0.2, 0)),
        (Image.fromarray(np.full((2, 2), 13107, dtype=np.uint16)), (0.2, 0.2, 0.2)),
        (Image.fromarray(np.full((2, 2), 65535, dtype=np.int32)), (1, 1, 1)),
    ],
    ids=["L", "1", "RGBA", "transparent", "LA", "CMYK", "P", "I;16", "I"],
)
def test_every_mode_becomes_colour(image, expected):
    assert SAME(image)[:, 0, 0].tolist() == pytest.approx(expected, abs=1e-6)


def test_a_transparent_colour_of_a_palette_shows_white():
    image = Image.new("P", (2, 2), 0)
    image.putpalette([0, 0, 0])
    image.info["transparency"] = 0
    assert SAME(image).min() == 1


@pytest.mark.parametrize(
    ("image", "said"),
    [
        (Image.new("F", (2, 2), 0.5), "mode F"),
        (Image.fromarray(np.full((2, 2), 65536, dtype=np.int32)), "16-bit"),
        (Image.new("La", (2, 2)), "mode La"),
        (Image.new("RGB", (0, 2)), "0 × 2"),
    ],
)
def test_images_without_a_meaning_in_colour_are_refused(image, said):
    with pytest.raises(DataError, match=said):
        to_rgb(image)


@pytest.mark.parametrize(
    "options",
    [
        {"resize": (8, 8), "crop": (9, 8)},
        {"resize": (8, 8), "crop": (0, 8)},
        {"resize": (8, 8), "crop": (8, 8), "fit": "squeeze"},
        {"resize": (8, 8), "crop": (8, 8), "resample": "magic"},
    ],
)
def test_framings_that_cannot_be_are_refused(options):
    with pytest.raises(OptionError):
        Framing(**options)


@pytest.mark.parametrize("options", [{"image_size": 0}, {"image_size": 2.5}, {"image_size": 8, "crop_fraction": 1.5}])
def test_squares_that_cannot_be_are_refused(options):
    with pytest.raises(OptionError):
        square_framing(**options)


@pytest.mark.parametrize(("mean", "std"), [((0.5, 0.5), 1), (0.5, 0), (float("nan"), 1), ("half", 1)])
def test_mean_and_std_are_one_or_three_numbers(mean, std):
    with pytest.raises(OptionError, match=r"mean|std"):
        check_mean_and_std(mean, std)


def test_normalising_is_by_channel():
    pixels = torch.full((1, 3, 1, 1), 0.5)
    assert normalize(pixels, (0.5, 0.25, 0), (1, 0.25, 2), 2.0).flatten().tolist() == [0.5, 3.0, 0.5]


@pytest.mark.parametrize(
    "pixels", [torch.zeros(3, 8, 8), torch.zeros(1, 1, 8, 8), torch.zeros(1, 3, 8, 8, dtype=torch.uint8)]
)
def test_other_tensors_are_no_pixels(pixels):
    with pytest.raises(ShapeError, match=r"\(B, 3, H, W\)"):
        check_pixels(pixels)
