"""Small ONNX models: a patch embedding as a map and as tokens after a class token, and a head."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

DIM, PATCH = 6, 8


def write_model(
    path: Path, *, batch: int | str = "batch", size: int | str = "size", channels: int = 3, prefix: int = 1
) -> Path:
    """(B, 3, H, W) → "map" (B, 6, h, w) → "tokens" (B, prefix + h·w, 6) → "score" (B, prefix + h·w, 1).

    "attention" (B, 1, T, T) is the softmax of the products of all tokens.
    """
    rng = np.random.default_rng(0)
    weights = {
        "kernel": rng.standard_normal((DIM, channels, PATCH, PATCH)).astype(np.float32),
        "class_token": rng.standard_normal((1, DIM, prefix)).astype(np.float32),
        "flat": np.array([0, DIM, -1], dtype=np.int64),
        "head": rng.standard_normal((DIM, 1)).astype(np.float32),
        "starts": np.array([0], dtype=np.int64),
        "ends": np.array([1], dtype=np.int64),
        "last": np.array([2], dtype=np.int64),
        "zero": np.array(0, dtype=np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["image", "kernel"], ["map"], strides=[PATCH, PATCH]),
        helper.make_node("Reshape", ["map", "flat"], ["patches"]),
        helper.make_node("Slice", ["patches", "starts", "ends", "last"], ["first"]),
        helper.make_node("Mul", ["first", "zero"], ["zeros"]),
        helper.make_node("Add", ["zeros", "class_token"], ["class"]),
        helper.make_node("Concat", ["class", "patches"], ["columns"], axis=2),
        helper.make_node("Transpose", ["columns"], ["tokens"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["tokens", "head"], ["score"]),
        helper.make_node("MatMul", ["tokens", "columns"], ["products"]),
        helper.make_node("Softmax", ["products"], ["one_head"], axis=2),
        helper.make_node("Unsqueeze", ["one_head", "ends"], ["attention"]),
    ]
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [batch, channels, size, size])],
        [helper.make_tensor_value_info("score", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return path


def kernel(path: Path) -> np.ndarray:
    return _weight(path, "kernel")


def class_token(path: Path) -> np.ndarray:
    return _weight(path, "class_token")


def _weight(path: Path, name: str) -> np.ndarray:
    return next(numpy_helper.to_array(one).copy() for one in onnx.load(path).graph.initializer if one.name == name)
