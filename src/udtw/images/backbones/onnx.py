"""Any ONNX model through onnxruntime: its output, or any result on the way to it, as tokens."""

import hashlib
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from udtw.errors import DataError, FileFormatError, OptionError, ShapeError
from udtw.images.backbones.base import TokenGrid
from udtw.images.backbones.onnx_graph import cut, read_file
from udtw.images.backbones.packages import needed
from udtw.images.backbones.pixels import (
    IMAGENET_MEAN,
    IMAGENET_STD,
    check_mean_and_std,
    check_pixels,
    normalise,
    square_framing,
)

if TYPE_CHECKING:
    from PIL.Image import Image

DEFAULT_SIZE = 224
MOST_PREFIX_TOKENS = 8
DTYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16}


class OnnxBackbone:
    """Tokens from the result ``output`` of the model in ``path`` (None: its only output). Later nodes are not computed.

    A result (B, C, h, w) is a feature map. A result (B, T, D) are tokens of a square grid after ``prefix_tokens``
    others; by default as many as are more than the largest square, if that is at most 8. The model takes
    (pixels − ``mean``) / ``std`` of squares of ``image_size`` (by default its own if it is fixed, else 224); a model
    for batches of one size is run batch by batch. ``threads``: of onnxruntime, by default as many as torch has.
    ``crop_fraction`` and ``fit``: see `square_framing` and `Framing`.
    """

    has_attention = False

    def __init__(
        self,
        path: str | os.PathLike,
        output: str | None = None,
        *,
        image_size: int | None = None,
        mean: float | Sequence[float] = IMAGENET_MEAN,
        std: float | Sequence[float] = IMAGENET_STD,
        prefix_tokens: int | None = None,
        crop_fraction: float = 1.0,
        fit: str = "cover",
        resample: str = "bicubic",
        threads: int | None = None,
    ) -> None:
        if threads is not None and threads < 1:
            raise OptionError(f"threads must be at least 1; got {threads}.")
        if prefix_tokens is not None and prefix_tokens < 0:
            raise OptionError(f"prefix_tokens must be at least 0; got {prefix_tokens}.")
        self.path = Path(path).expanduser().resolve()
        self.mean, self.std = check_mean_and_std(mean, std)
        self.prefix_tokens, self.threads = prefix_tokens, threads
        content = read_file(self.path)
        self.checksum = hashlib.sha256(content).hexdigest()
        self._wanted = output
        self._start(content)
        fixed = [side for side in self._sizes[1:] if side is not None]
        size = image_size if image_size is not None else fixed[0] if fixed else DEFAULT_SIZE
        if any(side != size for side in fixed):
            raise OptionError(
                f"{self.path} takes images of {fixed[0]} × {fixed[-1]} pixels alone, and not {size} × {size}."
            )
        self.framing = square_framing(size, crop_fraction=crop_fraction, fit=fit, resample=resample)
        self.dim: int = self(torch.zeros(1, 3, size, size)).tokens.shape[2]

    @property
    def identity(self) -> dict[str, Any]:
        return {
            "backbone": "onnx",
            "model": self.path.name,
            "weights": self.checksum,
            "layer": self.output,
            "prefix_tokens": self.prefix_tokens,
            "framing": self.framing.identity,
            "mean": list(self.mean),
            "std": list(self.std),
        }

    def prepare(self, image: "Image") -> Tensor:
        return self.framing(image)

    @torch.no_grad()
    def __call__(self, pixels: Tensor, *, attention: bool = False) -> TokenGrid:
        check_pixels(pixels)
        inputs = normalise(pixels.cpu().float(), self.mean, self.std).numpy().astype(self._dtype, copy=False)
        batch = self._sizes[0] or len(inputs)
        results = [self._run(inputs[start : start + batch], batch) for start in range(0, len(inputs), batch)]
        result = torch.from_numpy(np.concatenate(results).astype(np.float32, copy=False)).to(pixels.device)
        if result.ndim == 4:
            return TokenGrid.of_map(result)
        if pixels.shape[2] != pixels.shape[3]:
            raise ShapeError(f"Tokens of an ONNX model are taken for a square; got pixels {tuple(pixels.shape[2:])}.")
        side, prefix = self._square(result.shape[1])
        return TokenGrid(result[:, prefix:].contiguous(), (side, side))

    def _run(self, inputs: np.ndarray, batch: int) -> np.ndarray:
        missing = batch - len(inputs)
        if missing:
            inputs = np.concatenate([inputs, np.repeat(inputs[-1:], missing, axis=0)])
        try:
            (result,) = self._session.run([self.output], {self._input: inputs})
        except Exception as error:
            # onnxruntime's errors have no common class but this one.
            raise ShapeError(f"{self.path} cannot compute images {inputs.shape[2:]}: {error}") from error
        if result.ndim not in (3, 4) or len(result) != batch or result.dtype.kind != "f":
            raise ShapeError(
                f"{self.output} of {self.path} must be tokens (B, T, D) or a feature map (B, C, h, w) of {batch} "
                f"images; got {result.dtype} {result.shape}. Choose another output."
            )
        return result[: batch - missing]

    def _square(self, count: int) -> tuple[int, int]:
        """Side of the grid and number of tokens before it."""
        prefix = self.prefix_tokens
        if prefix is None:
            prefix = count - math.isqrt(count) ** 2
        side = math.isqrt(max(count - prefix, 0))
        if side < 1 or side * side != count - prefix or (self.prefix_tokens is None and prefix > MOST_PREFIX_TOKENS):
            raise ShapeError(
                f"{count} tokens of {self.output} are not a square grid after {prefix} others; "
                "give the number of tokens before the patches as prefix_tokens."
            )
        return side, prefix

    def _start(self, content: bytes) -> None:
        part, self.output = cut(content, self._wanted, self.path)
        runtime = needed("onnxruntime", "ONNX models")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = self.threads or torch.get_num_threads()
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        try:
            self._session = runtime.InferenceSession(part, options, providers=["CPUExecutionProvider"])
        except Exception as error:
            # As above.
            raise FileFormatError(f"onnxruntime cannot run {self.path} up to {self.output}: {error}") from error
        inputs = self._session.get_inputs()
        shape = inputs[0].shape if len(inputs) == 1 else []
        if len(shape) != 4 or inputs[0].type not in DTYPES or (isinstance(shape[1], int) and shape[1] != 3):
            raise FileFormatError(
                f"{self.path} must take one batch of images (B, 3, H, W) of floats; "
                f"got {', '.join(f'{one.name} {one.type} {one.shape}' for one in inputs) or 'no inputs'}."
            )
        self._input, self._dtype = inputs[0].name, DTYPES[inputs[0].type]
        self._sizes = [side if isinstance(side, int) else None for side in (shape[0], *shape[2:])]

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key != "_session"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        content = read_file(self.path)
        if hashlib.sha256(content).hexdigest() != self.checksum:
            raise DataError(f"{self.path} was changed while it was in use; start again.")
        self._start(content)
