"""The files of a Hugging Face checkpoint, from a folder or from the hub, and how the checkpoint prepares images.

preprocessor_config.json is read here and not by transformers: its processor of DINOv3 needs torchvision, and an image
has to be a tensor in [0, 1] between framing and normalizing.
"""

import hashlib
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from udtw._io import strict_json
from udtw.errors import DataError, FileFormatError
from udtw.images.backbones.base import needed
from udtw.images.backbones.pixels import RESAMPLE, Framing, check_mean_and_std, square_framing

CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
PROCESSOR_FILE = "preprocessor_config.json"
# Processors for which a size of one number means the shorter side; for the others both sides.
BY_SHORTER_SIDE = ("Bit", "CLIP", "ConvNext", "LevitImage", "PoolFormer")
# Where a file does not say how to resample: processors whose default is bicubic; that of the others is bilinear.
BICUBIC = ("Bit", "CLIP", "DeiT")
DOWNLOADED = [CONFIG, PROCESSOR_FILE, WEIGHTS, INDEX, "model-*-of-*.safetensors"]
HUB_ID = 2  # OWNER/NAME
LONGEST_NAME = 200  # bytes; file systems refuse longer ones, each in its own way


@dataclass(frozen=True)
class Checkpoint:
    """``name`` is the hub id or the folder's name, ``revision`` the commit if the hub gave it.

    ``checksum`` is the SHA-256 of the configuration and the weights.
    """

    folder: Path
    name: str
    revision: str | None
    checksum: str


def find_checkpoint(where: str | os.PathLike, revision: str | None = None) -> Checkpoint:
    """Find the files of ``where``, a folder or an id of the hub; only safetensors weights are accepted."""
    folder = Path(where).expanduser()
    if folder.is_dir():
        if revision is not None:
            raise DataError(f"revision is for models of the hub; {folder} is a folder. Got {revision!r}.")
        folder = folder.resolve()
        return Checkpoint(folder, folder.name, None, _checksum(folder))
    name = os.fspath(where)
    parts = name.split("/")
    if len(parts) != HUB_ID or not all(parts) or name.startswith((".", "~")) or folder.exists():
        raise DataError(f"There is no folder {name}, and it is not an id OWNER/NAME of the Hugging Face hub.")
    folder = _from_hub(name, revision)
    return Checkpoint(folder, name, folder.name, _checksum(folder))


def _from_hub(name: str, revision: str | None) -> Path:
    hub = needed("huggingface_hub", "Models of the Hugging Face hub")
    offline = hub.is_offline_mode() or os.environ.get("TRANSFORMERS_OFFLINE", "").upper() in ("1", "TRUE", "YES", "ON")
    try:
        folder = hub.snapshot_download(name, revision=revision, allow_patterns=DOWNLOADED, local_files_only=offline)
    except (OSError, ValueError, hub.errors.EntryNotFoundError, hub.errors.HTTPError) as error:
        reason = str(error).strip().partition("\n")[0]
        at = f" --revision {revision}" if revision else ""
        raise DataError(
            f"The model {name} is not on this machine and cannot be downloaded{' (offline mode)' if offline else ''}: "
            f"{reason} Where there is a network, download it with: hf download {name}{at} (a gated model such as "
            "DINOv3 needs its license accepted on its page at Hugging Face and `hf auth login` first). "
            f"Or copy its {CONFIG}, {PROCESSOR_FILE} and {WEIGHTS} into a folder, and give that as hf:FOLDER."
        ) from error
    return Path(folder)


def _checksum(folder: Path) -> str:
    checksum = hashlib.sha256()
    for path in [_required(folder, CONFIG), *_weights(folder)]:
        checksum.update(f"{path.name} {path.stat().st_size} ".encode())
        with path.open("rb") as file:
            checksum.update(hashlib.file_digest(file, "sha256").digest())
    return checksum.hexdigest()


def _weights(folder: Path) -> list[Path]:
    if (folder / WEIGHTS).is_file():
        return [folder / WEIGHTS]
    if not (folder / INDEX).is_file():
        pickled = sorted(path.name for path in folder.glob("*.bin"))
        hint = f" ({pickled[0]} is pickled, which can run any code, and is not read)" if pickled else ""
        raise DataError(f"{folder} holds no {WEIGHTS}{hint}. Download it, or save the model with save_pretrained.")
    try:
        index = strict_json.loads((folder / INDEX).read_text(encoding="utf-8"))
        names = set(index["weight_map"].values())
        if not all(isinstance(name, str) and name.endswith(".safetensors") and "/" not in name for name in names):
            raise ValueError("it names files other than safetensors in the same folder")
        if max((len(name.encode("utf-8", "replace")) for name in names), default=0) > LONGEST_NAME:
            raise ValueError(f"it names files by more than {LONGEST_NAME} letters")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise FileFormatError(f"{folder / INDEX} is damaged: {error}.") from error
    return [_required(folder, name) for name in sorted(names)]


def _required(folder: Path, name: str) -> Path:
    if not (folder / name).is_file():
        raise DataError(f"{folder} holds no {name}. Download it, or save the model with save_pretrained.")
    return folder / name


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
    """Read how images are prepared from the description of the checkpoint in ``folder``.

    ``image_size`` replaces the size of the final square; what is cut off around it keeps its proportion. A file that
    sets the shorter side and no crop gets a central square, since a batch needs images of one size.
    """
    if image_size is not None:
        square_framing(image_size)  # raises if it is not a size
    path = folder / PROCESSOR_FILE
    try:
        values = strict_json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(
            f"{folder} holds no {PROCESSOR_FILE}, which says how the model wants its images. It belongs to the "
            "model: download it too, or write it with save_pretrained of the model's image processor."
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
    """Return rows and columns, and how to fit images into them."""
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
