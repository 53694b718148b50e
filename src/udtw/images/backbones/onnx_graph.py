"""An ONNX model cut at one of its intermediate results."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from udtw.errors import DataError, FileFormatError, OptionError
from udtw.images.backbones.names import choices
from udtw.images.backbones.packages import needed


def read_file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"The ONNX model {path} cannot be read: {error.strerror or error}.") from error


def cut(content: bytes, output: str | None, path: Path) -> tuple[bytes, str]:
    """The part of a model that computes ``output`` (None: its only output), and that name. ``path`` is for messages."""
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
    if output not in names:
        raise OptionError(f"{path} computes no {output!r}; {choices(output, names)}.")
    _keep_what_makes(graph, output)
    if output not in {value.name for value in graph.output}:
        graph.output.append(onnx.ValueInfoProto(name=output))
    for other in [value for value in graph.output if value.name != output]:
        graph.output.remove(other)
    return model.SerializeToString(), output


def _keep_what_makes(graph: Any, output: str) -> None:
    needs, kept = {output}, []
    # Nodes stand in an order in which they can be computed.
    for node in reversed(graph.node):
        if needs.intersection(node.output):
            kept.append(node)
            needs.update(_inputs(node))
    kept.reverse()
    weights = [tensor for tensor in graph.initializer if tensor.name in needs]
    weights_in_parts = [tensor for tensor in graph.sparse_initializer if tensor.values.name in needs]
    for field, values in (("node", kept), ("initializer", weights), ("sparse_initializer", weights_in_parts)):
        copies = [type(value).FromString(value.SerializeToString()) for value in values]
        graph.ClearField(field)
        getattr(graph, field).extend(copies)


def _inputs(node: Any) -> Iterable[str]:
    """Names that a node reads, those within its branches and loops too."""
    yield from node.input
    for attribute in node.attribute:
        for inner in [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]:
            yield from (value.name for value in inner.output)
            for inside in inner.node:
                yield from _inputs(inside)


def _joined(values: Iterable[Any]) -> str:
    return ", ".join(value.name for value in values)
