"""ONNX models: any result in them as tokens."""

import pickle

import numpy as np
import pytest
import torch

pytest.importorskip("PIL")
pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")
import onnx
from onnx import TensorProto, helper

from tests.images.backbones.onnx_files import DIM, class_token, kernel, write_model
from tests.images.backbones.pictures import noise
from udtw.errors import DataError, FileFormatError, OptionError, ShapeError
from udtw.images.backbones import OnnxBackbone
from udtw.images.backbones.onnx import cut


@pytest.fixture
def path(tmp_path):
    return write_model(tmp_path / "tiny.onnx")


def save(path, graph):
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return path


def pixels(count: int = 3, size: int = 32) -> torch.Tensor:
    return torch.rand(count, 3, size, size, generator=torch.Generator().manual_seed(1))


def expected_map(path, images: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.conv2d((images - 0.5) / 0.25, torch.from_numpy(kernel(path).copy()), stride=8)


def test_a_map_is_a_grid_of_tokens(path):
    backbone = OnnxBackbone(path, "map", mean=0.5, std=0.25, image_size=32)
    out = backbone(pixels(), attention=True)
    assert backbone.dim == DIM
    assert out.grid == (4, 4)
    assert torch.allclose(out.tokens[2, 1 * 4 + 3], expected_map(path, pixels())[2, :, 1, 3], atol=1e-4)
    assert out.attention is None
    assert backbone(pixels()[:, :, :16]).grid == (2, 4)


@pytest.mark.parametrize("given", [None, 1])
def test_tokens_before_the_patches_are_left_out(path, given):
    backbone = OnnxBackbone(path, "tokens", mean=0.5, std=0.25, prefix_tokens=given, image_size=32)
    out = backbone(pixels())
    assert out.grid == (4, 4)
    assert torch.allclose(out.tokens, expected_map(path, pixels()).flatten(2).transpose(1, 2), atol=1e-4)


def test_the_class_tokens_attention_to_the_patches_is_the_mean_over_heads(path):
    backbone = OnnxBackbone(path, "tokens", mean=0.5, std=0.25, attention="attention", image_size=32)
    assert backbone.has_attention
    assert backbone(pixels()).attention is None
    out = pickle.loads(pickle.dumps(backbone))(pixels(), attention=True)
    every = torch.from_numpy(class_token(path)).mT.expand(3, -1, -1)
    every = torch.cat([every, out.tokens], 1)
    expected = (every @ every.mT).softmax(2)[:, 0, 1:]
    torch.testing.assert_close(out.attention, expected, rtol=1e-3, atol=1e-5)
    assert backbone.identity["attention"] == "attention"
    assert backbone.identity != OnnxBackbone(path, "tokens", mean=0.5, std=0.25, image_size=32).identity


@pytest.mark.parametrize(
    ("output", "attention", "error", "said"),
    [
        ("tokens", "attend", OptionError, "computes no 'attend'"),
        ("tokens", "score", ShapeError, r"must be the attention \(B, heads, 17, 17\)"),
        ("map", "attention", ShapeError, "is a feature map, without a class token"),
    ],
)
def test_an_attention_that_is_none_is_named(path, output, attention, error, said):
    with pytest.raises(error, match=said):
        OnnxBackbone(path, output, attention=attention, image_size=32)(pixels(), attention=True)


def test_without_a_name_the_only_output_is_taken(path):
    assert OnnxBackbone(path).identity["layer"] == "score"
    assert OnnxBackbone(path).dim == 1


def test_what_comes_after_the_result_is_cut_off(path):
    part, name = cut(path.read_bytes(), "map", path)
    graph = onnx.load_model_from_string(part).graph
    assert name == "map"
    assert [node.op_type for node in graph.node] == ["Conv"]
    assert [tensor.name for tensor in graph.initializer] == ["kernel"]
    assert [value.name for value in graph.output] == ["map"]


def test_what_a_branch_reads_is_kept(tmp_path):
    value = helper.make_tensor_value_info
    twice = helper.make_node("Add", ["doubled", "doubled"], ["inner"])
    branch = helper.make_graph([twice], "branch", [], [value("inner", TensorProto.FLOAT, None)])
    nodes = [
        helper.make_node("Add", ["image", "image"], ["doubled"]),
        helper.make_node("If", ["yes"], ["chosen"], then_branch=branch, else_branch=branch),
    ]
    yes = helper.make_tensor("yes", TensorProto.BOOL, [], [True])
    image, chosen = value("image", TensorProto.FLOAT, ["b", 3, "h", "w"]), value("chosen", TensorProto.FLOAT, None)
    path = save(tmp_path / "branch.onnx", helper.make_graph(nodes, "g", [image], [chosen], [yes]))
    out = OnnxBackbone(path, mean=0, std=1, image_size=4)(torch.ones(1, 3, 4, 4))
    assert out.tokens.unique().tolist() == [4.0]


@pytest.mark.parametrize("batch", [1, 2, 5])
def test_a_model_for_one_batch_size_is_run_batch_by_batch(tmp_path, path, batch):
    fixed = write_model(tmp_path / "fixed.onnx", batch=batch, size=32)
    backbone, free = OnnxBackbone(fixed, "tokens"), OnnxBackbone(path, "tokens")
    assert backbone.prepare(noise()).shape == (3, 32, 32)
    assert torch.allclose(backbone(pixels(3)).tokens, free(pixels(3)).tokens, atol=1e-5)
    with pytest.raises(OptionError, match="32 × 32 pixels only; got 64 × 64"):
        OnnxBackbone(fixed, "tokens", image_size=64)
    with pytest.raises(ShapeError, match="cannot compute images"):
        backbone(pixels(1, 64))


def test_a_copy_sent_to_another_process_is_the_same(path):
    backbone = OnnxBackbone(path, "tokens", image_size=32, threads=1)
    sent = pickle.dumps(backbone)
    copy = pickle.loads(sent)
    assert copy.identity == backbone.identity
    assert torch.equal(copy(pixels()).tokens, backbone(pixels()).tokens)
    path.write_bytes(path.read_bytes() + b"\x3a\x00")
    with pytest.raises(DataError, match="changed while"):
        pickle.loads(sent)


def test_the_identity_says_file_result_and_preprocessing(path):
    identity = OnnxBackbone(path, "tokens", image_size=32, crop_fraction=0.5).identity
    assert (identity["model"], identity["layer"]) == ("tiny.onnx", "tokens")
    assert identity["framing"]["resize"] == [64, 64]
    assert identity != OnnxBackbone(path, "tokens", image_size=32).identity


def test_a_name_that_is_not_there_is_answered_with_some_that_are(path):
    with pytest.raises(OptionError, match=r"computes no 'token'; some of the 11 there are: .*tokens"):
        OnnxBackbone(path, "token")


def test_tokens_that_are_not_a_square_are_refused(path):
    with pytest.raises(ShapeError, match=r"17 tokens .* not a square grid after 0 others; give .* prefix_tokens"):
        OnnxBackbone(path, "tokens", prefix_tokens=0, image_size=32)
    with pytest.raises(ShapeError, match=r"taken for a square; got pixels \(24, 64\)"):
        # 1 + 3 · 8 tokens could be 5 × 5.
        OnnxBackbone(path, "tokens", image_size=32)(torch.zeros(1, 3, 24, 64))


def test_many_tokens_before_the_patches_must_be_given(tmp_path):
    few, many = (write_model(tmp_path / f"{n}.onnx", prefix=n) for n in (5, 9))
    assert OnnxBackbone(few, "tokens", image_size=64)(pixels(1, 64)).grid == (8, 8)
    with pytest.raises(ShapeError, match="after 9 others"):
        OnnxBackbone(many, "tokens", image_size=64)
    assert OnnxBackbone(many, "tokens", image_size=64, prefix_tokens=9)(pixels(1, 64)).grid == (8, 8)


def test_results_of_other_shapes_are_refused(tmp_path):
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("GlobalAveragePool", ["image"], ["mean"]), helper.make_node("Flatten", ["mean"], ["flat"])],
        "flat",
        [value("image", TensorProto.FLOAT, ["b", 3, "h", "w"])],
        [value("flat", TensorProto.FLOAT, None)],
    )
    save(tmp_path / "flat.onnx", graph)
    with pytest.raises(ShapeError, match=r"flat of .* must be tokens .* got \(1, 3\). Choose another"):
        OnnxBackbone(tmp_path / "flat.onnx")


@pytest.mark.parametrize(
    ("content", "said"), [(b"", "no nodes"), (b"not a model", "not an ONNX model"), (None, "cannot be read")]
)
def test_files_that_are_no_models_are_named(tmp_path, content, said):
    path = tmp_path / "bad.onnx"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises((FileFormatError, DataError), match=rf"bad.onnx.*{said}"):
        OnnxBackbone(path)


def test_truncated_models_give_named_errors(path):
    content = path.read_bytes()
    for end in range(0, len(content), 97):
        path.write_bytes(content[:end])
        with pytest.raises((FileFormatError, OptionError, ShapeError)):
            OnnxBackbone(path, "tokens")


def test_weights_in_other_files_are_refused(path):
    model = onnx.load(path)
    model.graph.initializer[0].data_location = TensorProto.EXTERNAL
    path.write_bytes(model.SerializeToString())
    with pytest.raises(FileFormatError, match="keeps weights in other files"):
        OnnxBackbone(path)


def test_other_inputs_than_colour_images_are_refused(tmp_path):
    with pytest.raises(FileFormatError, match=r"\(B, 3, H, W\) of floats; got image tensor\(float\)"):
        OnnxBackbone(write_model(tmp_path / "grey.onnx", channels=1))


def test_several_outputs_need_a_choice(path):
    model = onnx.load(path)
    model.graph.output.append(helper.make_tensor_value_info("map", TensorProto.FLOAT, None))
    path.write_bytes(model.SerializeToString())
    with pytest.raises(OptionError, match="2 outputs; choose one of score, map"):
        OnnxBackbone(path)


@pytest.mark.parametrize("options", [{"threads": 0}, {"prefix_tokens": -1}, {"std": 0}])
def test_options_that_cannot_be_are_refused(path, options):
    with pytest.raises(OptionError):
        OnnxBackbone(path, **options)


def test_numbers_of_half_precision_are_widened(tmp_path):
    graph = helper.make_graph(
        [helper.make_node("Identity", ["image"], ["same"])],
        "half",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT16, ["b", 3, "h", "w"])],
        [helper.make_tensor_value_info("same", TensorProto.FLOAT16, None)],
    )
    save(tmp_path / "half.onnx", graph)
    out = OnnxBackbone(tmp_path / "half.onnx", mean=0, std=1, image_size=4)(pixels(1, 4))
    assert out.tokens.dtype == torch.float32
    assert np.allclose(out.tokens, pixels(1, 4).flatten(2).transpose(1, 2), atol=1e-3)
