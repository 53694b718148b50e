"""Vision transformers through the package transformers: DINOv3, DINOv2, DeiT, ViT and similar ones.

preprocessor_config.json is read here and not by transformers: its processor of DINOv3 needs torchvision, and an image
has to be a tensor in [0, 1] between framing and normalizing.
"""

import contextlib
import hashlib
import inspect
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from udtw._io import strict_json
from udtw.errors import DataError, FileFormatError, OptionError, ShapeError
from udtw.images.backbones.base import TokenGrid, needed
from udtw.images.backbones.pixels import RESAMPLE, Framing, check_mean_and_std, check_pixels, normalize, square_framing

if TYPE_CHECKING:
    from PIL.Image import Image

CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
PROCESSOR_FILE = "preprocessor_config.json"
# Processors for which a single number is the size of the shorter side; for the others it is that of both.
BY_SHORTER_SIDE = ("Bit", "CLIP", "ConvNext", "LevitImage", "PoolFormer")
# Processors that resample by bicubic interpolation where the file names none; for the others it is bilinear.
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
            f"{folder} holds no {PROCESSOR_FILE}, which describes how images are prepared. It belongs to the "
            "model: download it too, or write it with save_pretrained of the model's image processor."
        ) from None
    except (OSError, ValueError) as error:
        raise FileFormatError(f"{path} is damaged or not JSON: {error}.") from error
    if not isinstance(values, dict):
        raise FileFormatError(f"{path} must hold a JSON object; got {type(values).__name__}.")
    try:
        framing = _framing(values, image_size)
        factor = values.get("rescale_factor", 1 / 255) if values.get("do_rescale", True) else 1.0
        if isinstance(factor, bool) or not isinstance(factor, int | float) or not 0 < 255 * factor < math.inf:
            raise ValueError(f"rescale_factor must be positive and finite; got {factor!r}.")
        normal = values.get("do_normalize", True)
        mean, std = check_mean_and_std(*((values["image_mean"], values["image_std"]) if normal else (0.0, 1.0)))
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise FileFormatError(f"{path} does not describe how images are prepared: {reason}") from error
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


# Number of tokens before the patches that are not registers: the class token, and that of distillation.
LEADING = {"deit": 2}
# Weights that tokens do not depend on; checkpoints of classifiers lack them.
UNUSED = ("pooler.", "embeddings.mask_token")


class HuggingFaceBackbone:
    """Patch tokens of a vision transformer; made by `load`.

    Examples
    --------
    >>> from udtw.images.backbones import HuggingFaceBackbone
    >>> backbone = HuggingFaceBackbone.load("facebook/dinov2-small", image_size=224)  # doctest: +SKIP
    >>> backbone(backbone.prepare(image)[None], attention=True).grid                  # doctest: +SKIP
    (16, 16)
    """

    has_attention = True

    def __init__(
        self,
        model: nn.Module,
        checkpoint: Checkpoint,
        processing: Processing,
        *,
        layer: int = -1,
        device: str | torch.device | None = None,
    ) -> None:
        config: Any = model.config
        self.config = config
        self.model, self.checkpoint, self.processing, self.layer = model, checkpoint, processing, layer
        self.device = torch.device(device or "cpu")
        self.model.to(self.device)
        self.dim: int = config.hidden_size
        self.patch = _pair(config.patch_size)
        self.prefix: int = LEADING.get(config.model_type, 1) + (getattr(config, "num_register_tokens", 0) or 0)
        depth: int = config.num_hidden_layers
        if not -depth - 1 <= layer <= depth:
            raise OptionError(f"layer must lie between {-depth - 1} and {depth} for {depth} blocks; got {layer}.")
        if any(side % patch for side, patch in zip(processing.framing.crop, self.patch, strict=True)):
            raise OptionError(
                f"image_size must be a multiple of the patch, {self.patch[0]} pixels; got {processing.framing.crop[0]}."
            )

    @classmethod
    def load(
        cls,
        where: str | os.PathLike,
        *,
        revision: str | None = None,
        layer: int = -1,
        image_size: int | None = None,
        device: str | torch.device | None = None,
    ) -> "HuggingFaceBackbone":
        """Load the backbone from ``where``, a folder or an id of the hub (which is downloaded if it is not in the
        cache).

        ``layer`` -1: the last layer's tokens after the final norm (``last_hidden_state``). Any other takes
        ``hidden_states[layer]``, to which the final norm is not applied: 0 are the embeddings, k is block k of
        1 … depth; negative ones count from the end: -2 is the last but one block. Class, distillation and
        register tokens are left out, by the numbers in the checkpoint's configuration. ``image_size``: by default that
        of the checkpoint's processor.

        Weights must be safetensors, and code in the checkpoint is not run.
        """
        checkpoint = find_checkpoint(where, revision)
        processing = read_processing(checkpoint.folder, image_size)
        return cls(_read_model(checkpoint.folder), checkpoint, processing, layer=layer, device=device)

    @property
    def identity(self) -> dict[str, Any]:
        return {
            "backbone": "hugging face",
            "model": self.checkpoint.name,
            "revision": self.checkpoint.revision,
            "weights": self.checkpoint.checksum,
            "layer": self.layer,
            **self.processing.identity,
        }

    def prepare(self, image: "Image") -> Tensor:
        return self.processing.framing(image)

    @torch.no_grad()
    def __call__(self, pixels: Tensor, *, attention: bool = False) -> TokenGrid:
        check_pixels(pixels)
        height, width = pixels.shape[2:]
        grid = height // self.patch[0], width // self.patch[1]
        inputs = normalize(
            pixels.to(self.device, torch.float32), self.processing.mean, self.processing.std, self.processing.scale
        )
        with self._eager() if attention else contextlib.nullcontext():
            outputs: Any = self.model(
                inputs, output_hidden_states=self.layer != -1, output_attentions=attention, **self._interpolation()
            )
        states = outputs.last_hidden_state if self.layer == -1 else outputs.hidden_states[self.layer]
        n_patches = states.shape[1] - self.prefix
        if n_patches != grid[0] * grid[1]:
            raise ShapeError(
                f"{self.checkpoint.name} gives {states.shape[1]} tokens for {height} × {width} pixels, not "
                f"{grid[0]} × {grid[1]} patches and {self.prefix} others. "
                f"Models of the type {self.config.model_type} are not supported."
            )
        maps = None
        if attention:
            maps = outputs.attentions[-1][:, :, 0, self.prefix :].mean(1).to(pixels.device, torch.float32)
        tokens = states[:, self.prefix :].to(pixels.device, torch.float32).contiguous()
        return TokenGrid(tokens, grid, maps)

    def _interpolation(self) -> dict[str, bool]:
        # Without this option ViT and DeiT refuse image sizes other than that of their training; others do not have it.
        name = "interpolate_pos_encoding"
        return {name: True} if name in inspect.signature(self.model.forward).parameters else {}

    @contextlib.contextmanager
    def _eager(self) -> Iterator[None]:
        """Use the plain implementation of attention: the default one is faster but does not return the weights."""
        model: Any = self.model
        usual = model.config._attn_implementation
        model.set_attn_implementation("eager")
        try:
            yield
        finally:
            model.set_attn_implementation(usual)

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process reads the files itself.
        return _again, (type(self), self.checkpoint, self.processing, self.layer, str(self.device))


def _again(
    kind: type[HuggingFaceBackbone], checkpoint: Checkpoint, processing: Processing, layer: int, device: str
) -> HuggingFaceBackbone:
    if find_checkpoint(checkpoint.folder).checksum != checkpoint.checksum:
        raise DataError(f"The files in {checkpoint.folder} were changed while they were in use; start again.")
    return kind(_read_model(checkpoint.folder), checkpoint, processing, layer=layer, device=device)


def _read_model(folder: Path) -> nn.Module:
    transformers = needed("transformers", "Models of the Hugging Face hub")
    errors = needed("huggingface_hub", "Models of the Hugging Face hub").errors
    broken = needed("safetensors", "Models of the Hugging Face hub").SafetensorError
    options = {"local_files_only": True, "trust_remote_code": False}
    # What transformers raises on damaged files, by experiment.
    damages = (
        OSError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RuntimeError, ImportError,
        AssertionError, MemoryError, RecursionError, errors.StrictDataclassError, broken,
    )  # fmt: skip
    try:
        config = transformers.AutoConfig.from_pretrained(folder, **options)
    except damages as error:
        raise FileFormatError(f"{folder / CONFIG} does not describe a model of transformers: {error}") from error
    absent = [key for key in ("patch_size", "hidden_size", "num_hidden_layers") if not hasattr(config, key)]
    if absent:
        raise FileFormatError(
            f"{folder / CONFIG} describes a {config.model_type} without {' and '.join(absent)}, "
            "which is not a vision transformer."
        )
    heads = getattr(config, "num_attention_heads", 1)
    if heads < 1 or config.hidden_size % heads:
        raise FileFormatError(
            f"{folder / CONFIG} is damaged: {config.hidden_size} features cannot be shared by {heads} heads."
        )
    try:
        with _quiet(transformers):
            model, report = transformers.AutoModel.from_pretrained(
                folder, config=config, use_safetensors=True, output_loading_info=True, dtype=torch.float32, **options
            )
    except damages as error:
        raise FileFormatError(f"The weights in {folder} cannot be read as a {config.model_type}: {error}") from error
    missing = sorted(key for key in report["missing_keys"] if not key.startswith(UNUSED))
    if missing:
        raise FileFormatError(
            f"The weights in {folder} lack {len(missing)} of those that a {config.model_type} needs, such as "
            f"{missing[0]}; the file is incomplete, or does not belong to {CONFIG}."
        )
    return model.eval().requires_grad_(False)


@contextlib.contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """Turn off transformers' progress bar and load report; missing weights are raised as an error."""
    logging = transformers.utils.logging
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def _pair(value: Any) -> tuple[int, int]:
    rows, columns = value if isinstance(value, list | tuple) else (value, value)
    return int(rows), int(columns)
