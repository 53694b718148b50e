"""What a Hugging Face checkpoint says in ``preprocessor_config.json`` about its images.

Read here and not by transformers: its processor of DINOv3 needs torchvision, and an image has to be a tensor in [0, 1]
between framing and normalising.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from udtw.data import strict_json
from udtw.errors import DataError, FileFormatError
from udtw.images.backbones.pixels import RESAMPLE, Framing, check_mean_and_std, square_framing

FILE = "preprocessor_config.json"
# Processors for which a size of one number means the shorter side; for the others both sides.
BY_SHORTER_SIDE = ("Bit", "CLIP", "ConvNext", "LevitImage", "PoolFormer")
# Where a file does not say how to resample: processors whose default is bicubic; that of the others is bilinear.
BICUBIC = ("Bit", "CLIP", "DeiT")


@dataclass(frozen=True)
class Processing:
    """A model gets (``scale`` · pixels − ``mean``) / ``std`` of pixels in [0, 1], framed by ``framing``."""

    framing: Framing
    mean: tuple[float, ...]
    std: tuple[float, ...]
    scale: float

    @property
    def identity(self) -> dict[str, Any]:
        return {
            "framing": self.framing.identity,
            "mean": list(self.mean),
            "std": list(self.std),
            "scale": self.scale,
        }


def read_processing(folder: Path, image_size: int | None = None) -> Processing:
    """The processing that ``folder`` describes.

    ``image_size`` replaces the size of the final square; what is cut off around it keeps its proportion. A file that
    sets the shorter side and no crop gets a central square, as a batch needs images of one size.
    """
    if image_size is not None:
        square_framing(image_size)  # refuses what is not a size
    path = folder / FILE
    try:
        values = strict_json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(
            f"{folder} holds no {FILE}, which says how the model wants its images. It belongs to the model: download "
            "it too, or write it with save_pretrained of the model's image processor."
        ) from None
    except (OSError, ValueError) as error:
        raise FileFormatError(f"{path} is damaged or not JSON: {error}.") from error
    if not isinstance(values, dict):
        raise FileFormatError(f"{path} must hold a JSON object; got {type(values).__name__}.")
    try:
        framing = _framing(values, image_size)
        factor = float(values.get("rescale_factor", 1 / 255)) if values.get("do_rescale", True) else 1.0
        if not 0 < 255 * factor < math.inf:
            raise ValueError(f"rescale_factor must be positive and finite; got {factor:g}.")
        normal = values.get("do_normalize", True)
        mean, std = check_mean_and_std(*((values["image_mean"], values["image_std"]) if normal else (0.0, 1.0)))
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        said = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise FileFormatError(f"{path} does not say how images are prepared: {said}") from error
    return Processing(framing, mean, std, round(255 * factor, 9))


def _framing(values: dict[str, Any], image_size: int | None) -> Framing:
    processor = str(values.get("image_processor_type") or values.get("feature_extractor_type") or "")
    number = values.get("resample")
    if number is None:
        number = RESAMPLE["bicubic" if processor.startswith(BICUBIC) else "bilinear"]
    names = [name for name, known in RESAMPLE.items() if known == number]
    if not names:
        raise ValueError(f"resample must be one of Pillow's filters, 0 to 5; got {number!r}.")
    if not values.get("do_resize", True):
        if image_size is None:
            raise ValueError("it does not resize them, and images of one size are needed: give image_size.")
        return square_framing(image_size, resample=names[0])
    square = values.get("default_to_square", not processor.startswith(BY_SHORTER_SIDE))
    resize, fit = _size(values["size"], square)
    crop = resize
    if values.get("crop_size") is not None and values.get("do_center_crop", True):
        crop, _ = _size(values["crop_size"], True)
    if image_size is not None:
        resize = (round(resize[0] * image_size / crop[0]), round(resize[1] * image_size / crop[1]))
        crop = (image_size, image_size)
    return Framing(resize, crop, fit, names[0])


def _size(size: Any, square: bool) -> tuple[tuple[int, int], str]:
    """Rows and columns, and how to fit images into them."""
    if isinstance(size, dict) and {"height", "width"} <= set(size):
        return (_pixels(size["height"]), _pixels(size["width"])), "stretch"
    if isinstance(size, dict) and set(size) == {"shortest_edge"}:
        size, square = size["shortest_edge"], False
    if isinstance(size, dict):
        raise ValueError(f"size must be height and width, or shortest_edge; got {size}.")
    return (_pixels(size), _pixels(size)), "stretch" if square else "cover"


def _pixels(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"a size must be a whole number of pixels; got {value!r}.")
    return value
