"""Backbones by name."""

import json
import pickle

import pytest
import torch

pytest.importorskip("PIL")

from tests.images.backbones.pictures import noise
from udtw.errors import DataError, OptionError
from udtw.images.backbones import BACKBONES, load_backbone, registry


@pytest.mark.parametrize(
    ("spec", "grid", "dim"), [("patches", (14, 14), 780), ("patches-grey", (7, 7), 268), ("sift", (9, 9), 72)]
)
def test_backbones_without_weights(spec, grid, dim):
    backbone = load_backbone(spec)
    out = backbone(backbone.prepare(noise())[None])
    assert (out.grid, backbone.dim, out.tokens.shape[2]) == (grid, dim, dim)
    assert json.loads(json.dumps(backbone.identity)) == backbone.identity
    assert load_backbone(spec).identity == pickle.loads(pickle.dumps(backbone)).identity == backbone.identity


def test_options_reach_the_backbone():
    backbone = load_backbone("patches", image_size=64, pool=(2, 1))
    assert backbone(backbone.prepare(noise())[None]).grid == (2, 1)
    assert backbone.identity["pool"] == [2, 1]
    assert backbone.prepare(noise()).shape == (3, 64, 64)


def test_onnx_models_by_file_and_result(tmp_path):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    from tests.images.backbones.onnx_files import write_model

    path = write_model(tmp_path / "tiny.onnx")
    by_hash = load_backbone(f"onnx:{path}#tokens", image_size=32, threads=1, pool=2)
    by_layer = load_backbone(f"onnx:{path}", layer="tokens", image_size=32, pool=2, device="cpu")
    assert by_hash.identity == by_layer.identity == pickle.loads(pickle.dumps(by_hash)).identity
    assert by_hash(torch.zeros(1, 3, 32, 32)).grid == (2, 2)
    with pytest.raises(OptionError, match="given twice"):
        load_backbone(f"onnx:{path}#tokens", layer="map")
    assert load_backbone(f"onnx:{path}#tokens?image_size=32&attention=attention").has_attention
    with pytest.raises(OptionError, match="run on the CPU; got device='cuda'"):
        load_backbone(f"onnx:{path}", device="cuda")


def test_hugging_face_models_by_folder_and_the_name_dinov3(tmp_path, monkeypatch):
    pytest.importorskip("transformers")
    from tests.images.backbones.checkpoints import checkpoint

    folder = checkpoint("dinov3", tmp_path / "dinov3")
    backbone = load_backbone(f"hf:{folder}", layer="2", image_size=48)
    assert backbone(torch.zeros(1, 3, 48, 48)).grid == (6, 6)
    assert backbone.identity["layer"] == 2
    monkeypatch.setattr(registry, "DINOV3", str(folder))
    assert load_backbone("dinov3", layer=2, image_size=48).identity == backbone.identity
    with pytest.raises(OptionError, match="is a number; got 'last'"):
        load_backbone(f"hf:{folder}", layer="last")


@pytest.mark.parametrize("spec", ["", "patch", "hf", "hf:", "onnx:", "efficientnet"])
def test_unknown_names_are_answered_with_the_known_ones(spec):
    with pytest.raises(OptionError) as caught:
        load_backbone(spec)
    assert all(name in str(caught.value) for name in BACKBONES)


def test_what_a_backbone_does_not_have_is_refused():
    with pytest.raises(OptionError, match="has no layers"):
        load_backbone("patches", layer=3)
    with pytest.raises(OptionError, match="Only the attention of an ONNX model has a name"):
        load_backbone("patches?attention=last")
    with pytest.raises(DataError, match="There is no folder"):
        load_backbone("hf:./absent")


def test_settings_in_the_spec_are_those_of_the_arguments():
    said = load_backbone("patches?image_size=64&pool=2")
    assert said.identity == load_backbone("patches", image_size=64, pool=2).identity
    assert load_backbone("patches?pool=2", image_size=64, pool=4).identity == said.identity
    with pytest.raises(OptionError, match="no layers"):
        load_backbone("patches?layer=3")


@pytest.mark.parametrize("spec", ["patches?", "patches?size=3", "patches?pool=two", "patches?pool", "patches?pool=2&"])
def test_settings_that_are_none_are_named(spec):
    with pytest.raises(OptionError, match="NAME=VALUE"):
        load_backbone(spec)


def test_a_file_may_have_a_question_mark_in_its_name(tmp_path):
    file = tmp_path / "what?.onnx"
    file.write_bytes(b"")
    assert registry.parse_spec(f"onnx:{file}") == (f"onnx:{file}", {})
