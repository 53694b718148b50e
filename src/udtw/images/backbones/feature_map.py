"""The feature map of any convolutional torch module as a grid of tokens."""

import copy
import hashlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from udtw.errors import OptionError, ShapeError
from udtw.images.backbones.base import TokenGrid
from udtw.images.backbones.names import choices
from udtw.images.backbones.onnx_export import onnx_session
from udtw.images.backbones.pixels import (
    IMAGENET_MEAN,
    IMAGENET_STD,
    check_mean_and_std,
    check_pixels,
    normalise,
    square_framing,
)

RUNTIMES = ("torch", "onnx")

if TYPE_CHECKING:
    from PIL.Image import Image


class FeatureMapBackbone:
    """Tokens (B, h·w, C) from what the submodule ``layer`` of ``module`` gives for a batch, (B, C, h, w).

    ``layer`` is a name of ``module.named_modules()``, None the module itself. What comes after it is not computed. The
    module gets (pixels − ``mean``) / ``std``; it is copied, and the copy put into evaluation mode. ``name`` says in the
    identity what network this is; the values of its weights are added as a checksum. ``crop_fraction`` and ``fit``: see
    `square_framing` and `Framing`. ``runtime``: "torch", or "onnx" for onnxruntime, several times faster on a CPU; the
    tokens are the same up to rounding.
    """

    has_attention = False

    def __init__(
        self,
        module: nn.Module,
        *,
        image_size: int,
        name: str,
        layer: str | None = None,
        mean: float | Sequence[float] = IMAGENET_MEAN,
        std: float | Sequence[float] = IMAGENET_STD,
        crop_fraction: float = 1.0,
        fit: str = "cover",
        resample: str = "bicubic",
        device: str | torch.device | None = None,
        runtime: str = "torch",
    ) -> None:
        if runtime not in RUNTIMES or (runtime == "onnx" and torch.device(device or "cpu").type != "cpu"):
            raise OptionError(f"runtime must be one of {RUNTIMES}, onnx on a CPU only; got {runtime!r} on {device!r}.")
        names = [known for known, _ in module.named_modules() if known]
        if layer is not None and layer not in names:
            raise OptionError(f"{name} has no layer {layer!r}; {choices(layer, names)}.")
        self.framing = square_framing(image_size, crop_fraction=crop_fraction, fit=fit, resample=resample)
        self.mean, self.std = check_mean_and_std(mean, std)
        self.name, self.layer = name, layer
        self.module = copy.deepcopy(module).eval().requires_grad_(False).to(device or "cpu")
        self.device = torch.device(device or "cpu")
        self.runtime = runtime
        self._session: Callable[[Tensor], Tensor] | None = None
        self._weights = weights_checksum(self.module)
        self.dim = self(torch.zeros(1, 3, image_size, image_size)).tokens.shape[2]

    @property
    def identity(self) -> dict[str, Any]:
        return {
            "backbone": "feature map",
            "model": self.name,
            "weights": self._weights,
            "layer": self.layer,
            "framing": self.framing.identity,
            "mean": list(self.mean),
            "std": list(self.std),
        }

    def prepare(self, image: "Image") -> Tensor:
        return self.framing(image)

    @torch.no_grad()
    def __call__(self, pixels: Tensor, *, attention: bool = False) -> TokenGrid:
        check_pixels(pixels)
        maps = self._feature_map(normalise(pixels.to(self.device, torch.float32), self.mean, self.std))
        if not isinstance(maps, Tensor) or maps.ndim != 4 or len(maps) != len(pixels):
            got = tuple(maps.shape) if isinstance(maps, Tensor) else type(maps).__name__
            raise ShapeError(
                f"{self.layer or 'The output'} of {self.name} is not a feature map (B, C, h, w) of {len(pixels)} "
                f"images but {got}; choose another layer."
            )
        return TokenGrid.of_map(maps.to(pixels.device, torch.float32))

    def _feature_map(self, normalised: Tensor) -> Any:
        if self.runtime == "torch":
            return self._up_to_layer(normalised)
        if self._session is None:
            # An exception cannot be traced; what is computed in vain, the trace leaves out.
            traced = partial(self._up_to_layer, stop=False)
            self._session = onnx_session(traced, self.module, normalised[:1])
        return self._session(normalised)

    def _up_to_layer(self, normalised: Tensor, stop: bool = True) -> Any:
        """What the layer gives when it is called first; the layers after it are not computed if ``stop``."""
        kept = []

        def keep(module: nn.Module, inputs: Any, output: Any) -> None:
            kept.append(output)
            if stop:
                raise _Reached

        hook = self.module.get_submodule(self.layer or "").register_forward_hook(keep)
        try:
            with suppress(_Reached):
                self.module(normalised)
        finally:
            hook.remove()
        if not kept:
            raise OptionError(f"{self.name} does not use its layer {self.layer!r}; choose another.")
        return kept[0]

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_session": None}  # a session cannot be pickled; the next call makes another


class _Reached(Exception):
    """Ends a forward pass: what follows is not needed."""


def weights_checksum(module: nn.Module) -> str:
    """SHA-256 of all names, types, shapes and values of the weights and buffers."""
    checksum = hashlib.sha256()
    for key, value in sorted(module.state_dict().items()):
        plain = value.detach().cpu().contiguous()
        checksum.update(f"{key} {plain.dtype} {tuple(plain.shape)} ".encode())
        checksum.update(plain.flatten().view(torch.uint8).numpy().tobytes())
    return checksum.hexdigest()
