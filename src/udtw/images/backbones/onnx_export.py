"""A torch network as an onnxruntime session: on a CPU, CNNs run several times faster there."""

import io
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from udtw.images.backbones.packages import needed


def onnx_session(forward: Callable[[Tensor], Tensor], module: nn.Module, example: Tensor) -> Callable[[Tensor], Tensor]:
    """``forward(pixels)``, which uses ``module``, as a function run by onnxruntime, for batches of any size.

    The number of threads is that of torch at this moment.
    """
    runtime = needed("onnxruntime", "Networks run by onnxruntime")
    needed("onnx", "Networks run by onnxruntime")
    buffer: Any = io.BytesIO()  # which this exporter takes, though its signature does not say so
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
