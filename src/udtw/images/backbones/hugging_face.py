"""Vision transformers through the package transformers: DINOv3, DINOv2, DeiT, ViT and similar ones."""

import contextlib
import inspect
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from udtw.errors import DataError, FileFormatError, OptionError, ShapeError
from udtw.images.backbones.base import TokenGrid, needed
from udtw.images.backbones.checkpoint import CONFIG, Checkpoint, Processing, find_checkpoint, read_processing
from udtw.images.backbones.pixels import check_pixels, normalize

if TYPE_CHECKING:
    from PIL.Image import Image

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
        register tokens are left out, as many as the checkpoint's configuration says. ``image_size``: by default that
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
        found = states.shape[1] - self.prefix
        if found != grid[0] * grid[1]:
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
        raise FileFormatError(f"{folder / CONFIG} is not of a model that transformers knows: {error}") from error
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
