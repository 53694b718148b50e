"""Hugging Face checkpoints, saved to a folder and loaded back as a user would do it."""

import json
import pickle

import pytest
import torch

pytest.importorskip("PIL")
pytest.importorskip("transformers")
import huggingface_hub
from safetensors.torch import load_file, save_file
from transformers import BertConfig, BertModel, IJepaConfig, IJepaModel, ViTConfig, ViTForImageClassification

from tests.images.backbones.checkpoints import IMAGENET, KINDS, PROCESSORS, SMALL, checkpoint, make_model, save
from tests.images.backbones.pictures import noise
from udtw.errors import DataError, FileFormatError, OptionError, ShapeError
from udtw.images.backbones import HuggingFaceBackbone

DINOV3 = {**PROCESSORS["dinov3"], "size": {"height": 224, "width": 224}}
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def pixels(count: int = 2, size: int = 32) -> torch.Tensor:
    return torch.rand(count, 3, size, size, generator=torch.Generator().manual_seed(1))


def normal(images: torch.Tensor) -> torch.Tensor:
    mean, std = (torch.tensor(IMAGENET[key]).view(3, 1, 1) for key in ("image_mean", "image_std"))
    return (images - mean) / std


@pytest.fixture
def vit(tmp_path):
    return checkpoint("vit", tmp_path / "vit")


def test_dinov3_of_the_true_architecture(tmp_path):
    true = {
        "hidden_size": 384, "num_hidden_layers": 12, "num_attention_heads": 6, "intermediate_size": 1536,
        "patch_size": 16, "image_size": 224, "num_register_tokens": 4,
    }  # fmt: skip
    model = make_model("dinov3", **true)
    backbone = HuggingFaceBackbone.load(save(model, tmp_path / "dinov3-vits16", DINOV3))
    prepared = backbone.prepare(noise(300, 200))
    assert prepared.shape == (3, 224, 224)
    out = backbone(prepared[None])
    assert backbone.dim == 384
    assert out.grid == (14, 14)
    assert out.tokens.shape == (1, 196, 384)
    with torch.no_grad():
        raw = model(normal(prepared[None])).last_hidden_state
    assert raw.shape == (1, 1 + 4 + 196, 384)
    assert torch.equal(out.tokens, raw[:, 5:])
    assert backbone.identity["framing"]["resize"] == [224, 224]
    assert backbone.identity["framing"]["resample"] == "bilinear"
    assert (backbone.identity["mean"], backbone.identity["std"]) == ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    assert backbone.identity["scale"] == 1


def test_dinov3_weights_under_the_names_of_the_hub(tmp_path):
    folder = checkpoint("dinov3", tmp_path)
    names = load_file(folder / "model.safetensors").keys()
    # The published file has these; a newer transformers may call them otherwise within, not on the disk.
    assert {"embeddings.register_tokens", "layer.0.attention.q_proj.weight", "norm.weight"} <= set(names)


@pytest.mark.parametrize("kind", KINDS)
def test_patch_tokens_and_attention_of_every_kind(kind, tmp_path):
    backbone = HuggingFaceBackbone.load(checkpoint(kind, tmp_path))
    prefix = KINDS[kind][2]
    out = backbone(pixels(), attention=True)
    assert out.grid == (4, 4)
    assert out.tokens.shape == (2, 16, backbone.dim)
    assert not out.tokens.requires_grad
    model = make_model(kind)
    model.set_attn_implementation("eager")
    processed = normal(pixels()) if kind != "vit" else pixels() * 2 - 1
    with torch.no_grad():
        raw = model(processed, output_attentions=True, output_hidden_states=True)
    assert torch.allclose(out.tokens, raw.last_hidden_state[:, prefix:], atol=1e-4)
    expected = raw.attentions[-1][:, :, 0].mean(1)
    assert torch.allclose(out.attention, expected[:, prefix:], atol=1e-5)
    # What the patches do not get, the class token and its like have.
    assert torch.allclose(out.attention.sum(1) + expected[:, :prefix].sum(1), torch.ones(2), atol=1e-5)
    without = backbone(pixels())
    assert without.attention is None
    assert torch.allclose(without.tokens, out.tokens, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_other_layers_are_hidden_states_without_the_final_norm(kind, tmp_path):
    folder = checkpoint(kind, tmp_path)
    last = HuggingFaceBackbone.load(folder)
    norm = last.model.norm if kind == "dinov3" else last.model.layernorm
    tokens = {layer: HuggingFaceBackbone.load(folder, layer=layer)(pixels()).tokens for layer in (0, 2, 3, -2)}
    assert torch.allclose(norm(tokens[3]), last(pixels()).tokens, atol=1e-4)
    assert torch.equal(tokens[-2], tokens[2])
    assert not torch.allclose(tokens[0], tokens[2], atol=0.1)


@pytest.mark.parametrize("kind", KINDS)
def test_other_image_sizes(kind, tmp_path):
    backbone = HuggingFaceBackbone.load(checkpoint(kind, tmp_path), image_size=48)
    prepared = backbone.prepare(noise())
    assert prepared.shape == (3, 48, 48)
    assert backbone(prepared[None]).grid == (6, 6)
    assert backbone(prepared[None, :, :32]).grid == (4, 6)


def test_a_copy_sent_to_another_process_is_the_same(vit):
    backbone = HuggingFaceBackbone.load(vit, layer=2, image_size=48)
    sent = pickle.dumps(backbone)
    assert len(sent) < 2000, "files are read again, not sent"
    copy = pickle.loads(sent)
    assert copy.identity == backbone.identity
    assert torch.equal(copy(pixels()).tokens, backbone(pixels()).tokens)
    checkpoint("vit", vit, num_hidden_layers=2)
    with pytest.raises(DataError, match="changed while"):
        pickle.loads(sent)


def test_the_identity_changes_with_weights_configuration_layer_and_preprocessing(vit):
    one = HuggingFaceBackbone.load(vit).identity
    assert json.loads(json.dumps(one)) == one
    assert one["model"] == "vit"
    assert one["revision"] is None
    others = [HuggingFaceBackbone.load(vit, layer=1).identity, HuggingFaceBackbone.load(vit, image_size=48).identity]
    config = json.loads((vit / "config.json").read_text())
    (vit / "config.json").write_text(json.dumps(config | {"layer_norm_eps": 1e-3}))
    others.append(HuggingFaceBackbone.load(vit).identity)
    weights = load_file(vit / "model.safetensors")
    save_file({key: value + 1e-4 for key, value in weights.items()}, vit / "model.safetensors", {"format": "pt"})
    others.append(HuggingFaceBackbone.load(vit).identity)
    (vit / "preprocessor_config.json").write_text(json.dumps(PROCESSORS["vit"] | {"image_mean": [0.4, 0.4, 0.4]}))
    others.append(HuggingFaceBackbone.load(vit).identity)
    assert len({json.dumps(identity) for identity in [one, *others]}) == 6


def test_the_weights_of_a_classifier_serve_and_sharded_ones_too(tmp_path):
    model = ViTForImageClassification(ViTConfig(**SMALL)).eval()
    folder = save(model, tmp_path / "classifier", PROCESSORS["vit"])
    tokens = HuggingFaceBackbone.load(folder)(pixels()).tokens
    model.save_pretrained(tmp_path / "parts", max_shard_size="10KB")
    (tmp_path / "parts" / "preprocessor_config.json").write_text(json.dumps(PROCESSORS["vit"]))
    assert len(list((tmp_path / "parts").glob("*.safetensors"))) > 1
    assert torch.equal(HuggingFaceBackbone.load(tmp_path / "parts")(pixels()).tokens, tokens)


def in_cache(folder, monkeypatch):
    """``folder`` as commit COMMIT of someone/vit in the cache of the hub, without a network."""
    home = folder.parent / "hub" / "models--someone--vit"
    (home / "snapshots").mkdir(parents=True)
    (home / "refs").mkdir()
    (home / "refs" / "main").write_text(COMMIT)
    folder.rename(home / "snapshots" / COMMIT)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(home.parent))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)


def test_an_id_of_the_hub_is_found_in_its_cache(vit, monkeypatch):
    expected = HuggingFaceBackbone.load(vit)(pixels()).tokens
    in_cache(vit, monkeypatch)
    backbone = HuggingFaceBackbone.load("someone/vit")
    assert torch.equal(backbone(pixels()).tokens, expected)
    assert backbone.identity["model"] == "someone/vit"
    assert backbone.identity["revision"] == COMMIT
    assert pickle.loads(pickle.dumps(backbone)).identity == backbone.identity
    with pytest.raises(DataError, match="hf download someone/vit --revision other"):
        HuggingFaceBackbone.load("someone/vit", revision="other")


def test_a_model_that_is_nowhere_is_named_with_the_way_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setenv("TRANSFORMERS_OFFLINE", "1")
    name = "facebook/dinov3-vits16-pretrain-lvd1689m"
    with pytest.raises(DataError, match=rf"offline mode.*hf download {name}.*license.*hf:FOLDER"):
        HuggingFaceBackbone.load(name)
    for path in (str(tmp_path / "absent"), "./absent", "absent", "a/b/c"):
        with pytest.raises(DataError, match="There is no folder"):
            HuggingFaceBackbone.load(path)


@pytest.mark.parametrize("name", ["config.json", "preprocessor_config.json", "model.safetensors"])
def test_a_missing_file_is_named(vit, name):
    (vit / name).unlink()
    with pytest.raises(DataError, match=f"holds no {name}"):
        HuggingFaceBackbone.load(vit)


def test_pickled_weights_are_not_read(vit):
    (vit / "model.safetensors").rename(vit / "pytorch_model.bin")
    with pytest.raises(DataError, match=r"pytorch_model.bin is pickled"):
        HuggingFaceBackbone.load(vit)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.json", b"{bad"),
        ("config.json", b"[]"),
        ("config.json", b'{"model_type": "unheard-of"}'),
        ("config.json", b'{"model_type": "vit", "hidden_size": "wide"}'),
        ("config.json", b'{"model_type": "vit", "hidden_size": 15}'),
        ("preprocessor_config.json", b"\xff\xfe"),
        ("preprocessor_config.json", b"[]"),
        ("model.safetensors", b""),
        ("model.safetensors", b"\x00" * 100),
    ],
)
def test_a_damaged_file_is_named(vit, name, content):
    (vit / name).write_bytes(content)
    with pytest.raises(FileFormatError, match=str(vit)):
        HuggingFaceBackbone.load(vit)


def test_truncated_and_incomplete_weights_are_refused(vit):
    path = vit / "model.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(FileFormatError, match="cannot be read as a vit"):
        HuggingFaceBackbone.load(vit)
    path.write_bytes(content)
    weights = load_file(path)
    lost = next(key for key in weights if ".1." in key)
    save_file({key: value for key, value in weights.items() if key != lost}, path, {"format": "pt"})
    with pytest.raises(FileFormatError, match="lack 1 of those"):
        HuggingFaceBackbone.load(vit)


def test_an_index_that_leads_elsewhere_is_refused(vit):
    (vit / "model.safetensors").unlink()
    index = vit / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "../model.safetensors"}}))
    with pytest.raises(FileFormatError, match="names files other than safetensors"):
        HuggingFaceBackbone.load(vit)
    index.write_text(json.dumps({"weight_map": {"a": f"{'y' * 500}.safetensors"}}))
    with pytest.raises(FileFormatError, match="names files by more than 200 letters"):
        HuggingFaceBackbone.load(vit)
    index.write_text(json.dumps({"weight_map": {"a": "model-00001-of-00001.safetensors"}}))
    with pytest.raises(DataError, match="holds no model-00001"):
        HuggingFaceBackbone.load(vit)


def test_heads_that_do_not_share_the_features_are_refused(tmp_path):
    folder = checkpoint("dinov3", tmp_path)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"num_attention_heads": 6}))
    with pytest.raises(FileFormatError, match="16 features cannot be shared by 6 heads"):
        HuggingFaceBackbone.load(folder)


def test_a_configuration_without_its_registers_is_refused(tmp_path):
    folder = checkpoint("dinov3", tmp_path)
    config = json.loads((folder / "config.json").read_text())
    del config["num_register_tokens"]
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(FileFormatError, match="dinov3_vit"):
        HuggingFaceBackbone.load(folder)


def test_models_of_other_kinds_are_refused(tmp_path):
    words = BertModel(BertConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32))
    with pytest.raises(FileFormatError, match="bert without patch_size"):
        HuggingFaceBackbone.load(save(words, tmp_path / "bert", PROCESSORS["vit"]))
    no_class_token = IJepaModel(IJepaConfig(**SMALL))
    backbone = HuggingFaceBackbone.load(save(no_class_token, tmp_path / "ijepa", PROCESSORS["vit"]))
    with pytest.raises(ShapeError, match="16 tokens for 32 × 32 pixels, not 4 × 4 patches and 1 others"):
        backbone(pixels())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"layer": 4}, "layer must lie between -4 and 3"),
        ({"image_size": 30}, "multiple of the patch, 8 pixels; got 30"),
        ({"image_size": 0}, "image_size must be"),
    ],
)
def test_options_that_cannot_be_are_refused(vit, options, said):
    with pytest.raises(OptionError, match=said):
        HuggingFaceBackbone.load(vit, **options)
    with pytest.raises(DataError, match="revision is for models of the hub"):
        HuggingFaceBackbone.load(vit, revision="main")
