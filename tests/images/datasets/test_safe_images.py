"""Decoding: known formats as they are stored; damaged and oversized files are named."""

import io
import random
import struct
import zlib

import pytest

pytest.importorskip("PIL")
from PIL import Image

from tests.images.datasets.files import PNG, encoded, mutated
from udtw.errors import DataError
from udtw.images.datasets.safe_images import FORMATS, MAX_PIXELS, decode, is_image


@pytest.mark.parametrize("form", FORMATS)
def test_known_formats(form):
    image = decode(encoded(form), "a")
    assert type(image) is Image.Image
    assert image.size == (6, 4)


@pytest.mark.parametrize("mode", ["1", "L", "RGB"])
def test_the_mode_is_the_stored_one(mode):
    assert decode(encoded(mode=mode), "a").mode == mode


def test_of_an_animation_the_first_frame():
    buffer = io.BytesIO()
    first, second = Image.new("L", (5, 5), 10), Image.new("L", (5, 5), 200)
    first.save(buffer, "GIF", save_all=True, append_images=[second])
    assert decode(buffer.getvalue(), "a").convert("L").getpixel((2, 2)) == 10


def bomb(width, height):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


# The second is in the range where Pillow only warns, the third where it refuses of itself.
@pytest.mark.parametrize("size", [(8001, 8000), (10000, 10000), (60000, 60000)])
def test_bombs_are_refused_before_they_are_decoded(size):
    with pytest.raises(DataError, match=f"here.png has more than {MAX_PIXELS} pixels"):
        decode(bomb(*size), "here.png")


@pytest.mark.parametrize("form", ["PNG", "JPEG"])
def test_cut_files_are_named(form):
    whole = encoded(form, size=(64, 64))
    with pytest.raises(DataError, match=r"x/y\.jpg is damaged"):
        decode(whole[: len(whole) * 3 // 5], "x/y.jpg")


@pytest.mark.parametrize("content", [b"", b"text", b"%!PS-Adobe-3.0 EPSF-3.0", encoded("PPM"), encoded("ICO")])
def test_other_files_are_refused(content):
    with pytest.raises(DataError, match="not an image in one of PNG, JPEG"):
        decode(content, "a")


def outcomes(rounds, seed):
    rng = random.Random(seed)
    found = set()
    for _ in range(rounds):
        form = rng.choice(["PNG", "JPEG", "BMP", "GIF", "WEBP"])
        try:
            found.add(type(decode(mutated(encoded(form), rng), "a")))
        except DataError as error:
            found.add(type(error))
    return found


@pytest.mark.filterwarnings("default")
def test_mutated_images_give_pixels_or_that_error():
    assert outcomes(400, seed=0) == {Image.Image, DataError}


def test_names_of_images():
    assert is_image("a/B.JPG")
    assert not is_image("a/B.txt")
    assert decode(PNG, "a").size == (6, 4)
