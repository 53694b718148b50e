"""Any ONNX model through onnxruntime: its output, or any intermediate result, as tokens."""

import hashlib
import math
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

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

DEFAULT_SIZE = 224
MOST_PREFIX_TOKENS = 8
DTYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16}


class OnnxBackbone(Framed):
    """Tokens from an output or intermediate result of an ONNX model.

    Parameters
    ----------
    path : path
        The model. A model for batches of a fixed size is run batch by batch.
    output : str, optional
        Name of the result, by default the only output; nodes after it are not computed. A result (B, C, h, w) is a
        feature map; a result (B, T, D) holds the tokens of a square grid, after ``prefix_tokens`` others.
    image_size : int, optional
        By default the model's own if it is fixed, else 224.
    mean, std : float or three floats
        The model takes (pixels − mean) / std.
    prefix_tokens : int, optional
        By default T minus the largest square, if that is at most 8.
    attention : str, optional
        Name of the result (B, heads, T, T) that holds the attention of a block, the class token first.
    crop_fraction, fit, resample
        See `square_framing` and `Framing`.
    threads : int, optional
        Threads of onnxruntime, by default as many as torch has.

    Examples
    --------
    >>> import tempfile
    >>> import onnx
    >>> import torch
    >>> from onnx import TensorProto, helper
    >>> from udtw.images.backbones import OnnxBackbone
    >>> image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 3, 32, 32])
    >>> features = helper.make_tensor_value_info("features", TensorProto.FLOAT, None)
    >>> pool = helper.make_node("AveragePool", ["image"], ["features"], kernel_shape=[8, 8], strides=[8, 8])
    >>> graph = helper.make_graph([pool], "means", [image], [features])
    >>> model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     onnx.save(model, f"{folder}/means.onnx")
    ...     backbone = OnnxBackbone(f"{folder}/means.onnx")
    >>> backbone(torch.zeros(2, 3, 32, 32)).tokens.shape
    torch.Size([2, 16, 3])
    """

    def __init__(  # noqa: PLR0913 (keyword options that users type)
        self,
        path: str | os.PathLike,
        output: str | None = None,
        *,
        image_size: int | None = None,
        mean: float | Sequence[float] = IMAGENET_MEAN,
        std: float | Sequence[float] = IMAGENET_STD,
        prefix_tokens: int | None = None,
        attention: str | None = None,
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
        content = _read_file(self.path)
        self.checksum = hashlib.sha256(content).hexdigest()
        self._wanted, self._attention = output, attention
        self.has_attention = attention is not None
        self._start(content)
        fixed = [side for side in self._sizes[1:] if side is not None]
        size = image_size if image_size is not None else fixed[0] if fixed else DEFAULT_SIZE
        if any(side != size for side in fixed):
            raise OptionError(f"{self.path} takes images of {fixed[0]} × {fixed[-1]} pixels only; got {size} × {size}.")
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
        } | ({"attention": self._attention} if self.has_attention else {})

    @torch.no_grad()
    def __call__(self, pixels: Tensor, *, attention: bool = False) -> TokenGrid:
        check_pixels(pixels)
        inputs = normalize(pixels.cpu().float(), self.mean, self.std).numpy().astype(self._dtype, copy=False)
        wanted = [self.output, *([self._attention] if attention and self._attention else [])]
        batch = self._sizes[0] or len(inputs)
        parts = [self._run(wanted, inputs[start : start + batch], batch) for start in range(0, len(inputs), batch)]
        result, *maps = (
            torch.from_numpy(np.concatenate(one).astype(np.float32, copy=False)).to(pixels.device)
            for one in zip(*parts, strict=True)
        )
        if result.ndim not in (3, 4):
            raise ShapeError(
                f"{self.output} of {self.path} must be tokens (B, T, D) or a feature map (B, C, h, w); got "
                f"{tuple(result.shape)}. Choose another output."
            )
        if result.ndim == 4 and maps:
            raise ShapeError(
                f"{self.output} of {self.path} is a feature map, without a class token that attends to it."
            )
        if result.ndim == 4:
            return TokenGrid.of_map(result)
        if pixels.shape[2] != pixels.shape[3]:
            raise ShapeError(f"Tokens of an ONNX model are taken for a square; got pixels {tuple(pixels.shape[2:])}.")
        count = result.shape[1]
        side, prefix = self._square(count)
        if maps and (prefix < 1 or maps[0].ndim != 4 or maps[0].shape[2:] != (count, count)):
            raise ShapeError(
                f"{self._attention} of {self.path} must be the attention (B, heads, {count}, {count}) of tokens with "
                f"a class token before the patches; got {tuple(maps[0].shape)} and {prefix} tokens before them."
            )
        seen = maps[0][:, :, 0, prefix:].mean(1) if maps else None
        return TokenGrid(result[:, prefix:].contiguous(), (side, side), seen)

    def _run(self, wanted: list[str], inputs: np.ndarray, batch: int) -> list[np.ndarray]:
        missing = batch - len(inputs)
        if missing:
            inputs = np.concatenate([inputs, np.repeat(inputs[-1:], missing, axis=0)])
        try:
            results = self._session.run(wanted, {self._input: inputs})
        except Exception as error:
            # onnxruntime's errors have no other common class.
            raise ShapeError(f"{self.path} cannot compute images {inputs.shape[2:]}: {error}") from error
        for name, result in zip(wanted, results, strict=True):
            if result.ndim < 1 or len(result) != batch or result.dtype.kind != "f":
                raise ShapeError(
                    f"{name} of {self.path} must have numbers for each of {batch} images; got {result.dtype} "
                    f"{result.shape}. Choose another output."
                )
        return [result[: batch - missing] for result in results]

    def _square(self, count: int) -> tuple[int, int]:
        """Return the side of the grid and the number of tokens before it."""
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
        also = [] if self._attention is None else [self._attention]
        part, self.output = cut(content, self._wanted, self.path, also)
        runtime = needed("onnxruntime", "ONNX models")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = self.threads or torch.get_num_threads()
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        try:
            self._session = runtime.InferenceSession(part, options, providers=["CPUExecutionProvider"])
        except Exception as error:
            # onnxruntime's errors have no other common class.
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
        content = _read_file(self.path)
        if hashlib.sha256(content).hexdigest() != self.checksum:
            raise DataError(f"{self.path} was changed while it was in use; start again.")
        self._start(content)


def _read_file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"The ONNX model {path} cannot be read: {error.strerror or error}.") from error


def cut(content: bytes, output: str | None, path: Path, also: Sequence[str] = ()) -> tuple[bytes, str]:
    """Cut out the part of a model that computes ``output`` (None: its only output) and the results ``also``.

    Also return the output's name.

    ``path`` is for messages.
    """
    onnx = needed("onnx", "ONNX models")
    decode_error = needed("google.protobuf.message", "ONNX models").DecodeError
    try:
        model = onnx.load_model_from_string(content)
    except (decode_error, ValueError, TypeError) as error:
        raise FileFormatError(f"{path} is not an ONNX model, or is damaged: {error}.") from error
    graph = model.graph
    if not graph.node:
        raise FileFormatError(f"{path} is not an ONNX model, or is damaged: it has no nodes.")
    outside = [tensor.name for tensor in graph.initializer if tensor.data_location == onnx.TensorProto.EXTERNAL]
    if outside:
        raise FileFormatError(
            f"{path} keeps weights in other files ({len(outside)} of {len(graph.initializer)}), which a checksum of it "
            "would not notice. Save it as one file: onnx.save(onnx.load(PATH), NEW)."
        )
    if output is None:
        if len(graph.output) != 1:
            raise OptionError(f"{path} has {len(graph.output)} outputs; choose one of {_joined(graph.output)}.")
        output = graph.output[0].name
    names = [name for node in graph.node for name in node.output if name]
    wanted = dict.fromkeys([output, *also])
    for one in wanted:
        if one not in names:
            raise OptionError(f"{path} computes no {one!r}; {choices(one, names)}.")
    _keep_only_inputs_of(graph, wanted)
    graph.ClearField("output")
    graph.output.extend(onnx.ValueInfoProto(name=one) for one in wanted)
    return model.SerializeToString(), output


def _keep_only_inputs_of(graph: Any, outputs: Iterable[str]) -> None:
    needs, kept = set(outputs), []
    # Nodes are stored in an order in which they can be computed.
    for node in reversed(graph.node):
        if needs.intersection(node.output):
            kept.append(node)
            needs.update(_inputs(node))
    kept.reverse()
    weights = [tensor for tensor in graph.initializer if tensor.name in needs]
    sparse_weights = [tensor for tensor in graph.sparse_initializer if tensor.values.name in needs]
    for field, values in (("node", kept), ("initializer", weights), ("sparse_initializer", sparse_weights)):
        copies = [type(value).FromString(value.SerializeToString()) for value in values]
        graph.ClearField(field)
        getattr(graph, field).extend(copies)


def _inputs(node: Any) -> Iterable[str]:
    """Return the names that a node reads, including those in its branches and loops."""
    yield from node.input
    for attribute in node.attribute:
        for inner in [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]:
            yield from (value.name for value in inner.output)
            for inside in inner.node:
                yield from _inputs(inside)


def _joined(values: Iterable[Any]) -> str:
    return ", ".join(value.name for value in values)
