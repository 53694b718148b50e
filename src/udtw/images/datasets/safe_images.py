"""Decoding of images: known formats, a bounded number of pixels, and one kind of error for damaged files."""

import io
from types import ModuleType
from typing import TYPE_CHECKING

from udtw.errors import DataError

if TYPE_CHECKING:
    from PIL.Image import Image

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff")
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF")
# About the largest photographs of cameras; a file of a few kilobytes can claim a thousand times more.
MAX_PIXELS = 64_000_000
MAX_FILE = 64 * 2**20


def is_image(name: str) -> bool:
    return name.lower().endswith(SUFFIXES)


def decode(content: bytes, where: str, max_pixels: int = MAX_PIXELS) -> "Image":
    """Decode the image in ``content``, its mode as stored.

    Of several frames the first. ``where`` names it in errors.
    """
    pillow = import_pillow()
    try:
        with pillow.open(io.BytesIO(content), formats=FORMATS) as image:
            width, height = image.size
            if width * height > max_pixels:
                raise pillow.DecompressionBombError(f"it has {width} × {height}")
            image.load()
            return image.copy()
    except (pillow.DecompressionBombError, pillow.DecompressionBombWarning) as error:
        raise DataError(f"{where} has more than {max_pixels} pixels and is not decoded: {error}.") from error
    except pillow.UnidentifiedImageError as error:
        raise DataError(f"{where} is damaged, or not an image in one of {', '.join(FORMATS)}.") from error
    # On damaged bytes Pillow's decoders raise nearly any exception, from SyntaxError to ZeroDivisionError.
    except Exception as error:
        raise DataError(f"{where} is damaged: {error or type(error).__name__}. Get the file again.") from error


def import_pillow() -> ModuleType:
    """Return the module `PIL.Image`; raise an `ImportError` that says how to install it if it is missing."""
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError(
            "udtw.images reads images with Pillow; install it with: pip install 'udtw[images]'"
        ) from error
    return Image
