"""Backbones by name, as they are written on the command line."""

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from udtw.errors import OptionError
from udtw.images.backbones.base import Backbone, Pooled
from udtw.images.backbones.feature_map import LAST_BLOCK, efficientnet_lite0
from udtw.images.backbones.hugging_face import HuggingFaceBackbone
from udtw.images.backbones.onnx import OnnxBackbone
from udtw.images.backbones.patches import PatchBackbone, SiftBackbone

DINOV3 = "facebook/dinov3-vits16-pretrain-lvd1689m"
BACKBONES = (
    "patches",
    "patches-grey",
    "sift",
    "dinov3",
    "efficientnet-lite0",
    "hf:ID-or-FOLDER",
    "onnx:FILE[#OUTPUT]",
)
NUMBERS, NAMES = ("image_size", "pool", "threads"), ("layer", "attention")
SETTINGS = (*NUMBERS, *NAMES)
"""Settings that may follow a question mark in a spec."""


def load_backbone(
    spec: str,
    *,
    image_size: int | None = None,
    pool: int | tuple[int, int] | None = None,
    layer: int | str | None = None,
    attention: str | None = None,
    device: str | torch.device | None = None,
    threads: int | None = None,
) -> Backbone:
    """Load the backbone ``spec``, one of `BACKBONES`; the same arguments give the same identity in every process.

    Parameters
    ----------
    spec : str
        May contain settings, which take precedence over the arguments: "dinov3?pool=7&image_size=224" is
        ``load_backbone("dinov3", pool=7, image_size=224)``.
    image_size : int, optional
        Side of the images in pixels, by default the model's own.
    pool : int or (int, int), optional
        See `Pooled`.
    layer : int or str, optional
        A number for Hugging Face models (see `HuggingFaceBackbone.load`), the number or name of a block of
        efficientnet-lite0, the name of a result of an ONNX model.
    attention : str, optional
        The name of the result of an ONNX model that is its attention. Models of Hugging Face need no name.
    threads : int, optional
        Threads of onnxruntime; torch has its own setting.

    Examples
    --------
    >>> from udtw.images import load_backbone
    >>> load_backbone("patches?image_size=64").dim
    780
    """
    spec, in_spec = parse_spec(spec)
    given: dict[str, Any] = {"image_size": image_size, "layer": layer, "attention": attention, "threads": threads}
    given |= in_spec
    pool = given.pop("pool", pool)
    backbone = _load(spec, device=device, **given)
    return backbone if pool is None else Pooled(backbone, pool)


def parse_spec(spec: str) -> tuple[str, dict[str, Any]]:
    """Parse ``"dinov3?pool=7"`` as ("dinov3", {"pool": 7}).

    The name of an existing file may contain a question mark.
    """
    name, mark, query = spec.rpartition("?")
    if not mark or os.path.exists(spec.partition(":")[2]):
        return spec, {}
    settings: dict[str, Any] = {}
    for part in query.split("&"):
        key, _, value = part.partition("=")
        if key not in SETTINGS or not value or (key in NUMBERS and not value.isdigit()):
            raise OptionError(
                f"Settings of a backbone are NAME=VALUE joined by &, of {', '.join(NUMBERS)} (numbers) and "
                f"{', '.join(NAMES)} (numbers or names); got {query!r} in {spec!r}."
            )
        settings[key] = int(value) if key in NUMBERS else value
    return name, settings


WITHOUT_LAYERS: dict[str, Callable[..., Backbone]] = {
    "patches": partial(PatchBackbone, image_size=224, patch=16),
    # For thin strokes: small images blur them, and overlapping patches match strokes that moved by a few pixels.
    "patches-grey": partial(PatchBackbone, image_size=40, patch=16, stride=4, colour=False),
    "sift": SiftBackbone,
}


def _load(
    spec: str,
    image_size: int | None,
    layer: int | str | None,
    attention: str | None,
    device: str | torch.device | None,
    threads: int | None,
) -> Backbone:
    kind, _, rest = spec.partition(":")
    sized: dict[str, Any] = {} if image_size is None else {"image_size": image_size}
    if attention is not None and kind != "onnx":
        raise OptionError(f"Only the attention of an ONNX model has a name; got attention={attention!r} for {spec!r}.")
    if spec in WITHOUT_LAYERS:
        if layer is not None:
            raise OptionError(f"{spec} has no layers; got layer={layer!r}.")
        return WITHOUT_LAYERS[spec](**sized)
    if spec == "efficientnet-lite0":
        return efficientnet_lite0(layer=LAST_BLOCK if layer is None else layer, device=device, **sized)
    if spec == "dinov3" or (kind == "hf" and rest):
        where = DINOV3 if spec == "dinov3" else rest
        return HuggingFaceBackbone.load(where, layer=_number(layer), device=device, **sized)
    if kind == "onnx" and rest:
        return _onnx(rest, image_size, layer, attention, device, threads)
    raise OptionError(f"There is no backbone {spec!r}; choose one of {', '.join(BACKBONES)}.")


def _onnx(
    rest: str,
    image_size: int | None,
    layer: int | str | None,
    attention: str | None,
    device: str | torch.device | None,
    threads: int | None,
) -> OnnxBackbone:
    path, _, output = (rest, "", "") if os.path.isfile(rest) else rest.partition("#")
    if output and layer is not None:
        raise OptionError(f"An ONNX model's output was given twice: {output!r} and layer={layer!r}.")
    if device is not None and torch.device(device).type != "cpu":
        raise OptionError(f"ONNX models run on the CPU; got device={str(device)!r}.")
    wanted = output or (None if layer is None else str(layer))
    return OnnxBackbone(path, wanted, image_size=image_size, attention=attention, threads=threads)


def _number(layer: int | str | None) -> int:
    try:
        return -1 if layer is None else int(layer)
    except ValueError:
        raise OptionError(f"The layer of a Hugging Face model is a number; got {layer!r}.") from None
