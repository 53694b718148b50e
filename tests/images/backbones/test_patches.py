"""Plain patches: where they come from, how they are normalised, where they are."""

import pickle

import pytest
import torch

pytest.importorskip("PIL")

from tests.images.backbones.pictures import noise
from udtw.errors import OptionError, ShapeError
from udtw.images.backbones import PatchBackbone


def test_each_token_is_one_normalised_patch_row_by_row():
    backbone = PatchBackbone(32, 8, position=0)
    pixels = backbone.prepare(noise())[None]
    out = backbone(pixels)
    assert out.grid == (4, 4)
    assert backbone.dim == out.tokens.shape[2] == 3 * 64
    patch = pixels[0, :, 8:16, 16:24].flatten()  # row 1, column 2
    centred = patch - patch.mean()
    expected = centred / (centred.square().mean() + 0.05**2).sqrt() / 192**0.5
    assert torch.allclose(out.tokens[0, 1 * 4 + 2], expected, atol=1e-6)
    assert out.attention is None


def test_constant_patches_are_zero_and_faint_ones_stay_faint():
    backbone = PatchBackbone(16, 8, position=0)
    assert backbone(torch.full((1, 3, 16, 16), 0.7)).tokens.abs().max() < 1e-5
    faint = 0.5 + 1e-3 * torch.rand(1, 3, 16, 16)
    strong = torch.rand(1, 3, 16, 16)
    assert backbone(faint).tokens.norm(dim=2).max() < 0.02
    assert 0.95 < backbone(strong).tokens.norm(dim=2).min() <= backbone(strong).tokens.norm(dim=2).max() < 1


def test_light_and_contrast_do_not_matter_far_above_the_floor():
    backbone = PatchBackbone(16, 8, floor=1e-3)
    pixels = torch.rand(1, 3, 16, 16)
    assert torch.allclose(backbone(pixels).tokens, backbone(pixels * 0.5 + 0.3).tokens, atol=1e-4)


def test_the_code_of_positions_has_the_norm_asked_for_and_differs_everywhere():
    backbone = PatchBackbone(64, 8, position=2.0)
    code = backbone(torch.zeros(1, 3, 64, 64)).tokens[0]
    assert torch.allclose(code.norm(dim=1), torch.tensor(2.0))
    gaps = torch.cdist(code, code) + torch.eye(64) * 9
    assert gaps.min() > 0.1
    near, far = torch.dist(code[0], code[1]), torch.dist(code[0], code[-1])
    assert near < far


def test_grey_keeps_one_channel_and_strides_overlap():
    backbone = PatchBackbone(40, 16, stride=4, colour=False, position=0)
    out = backbone(backbone.prepare(noise().convert("L"))[None])
    assert out.grid == (7, 7)
    assert out.tokens.shape == (1, 49, 256)


def test_images_are_made_square_around_their_centre():
    image = noise(60, 40)
    backbone = PatchBackbone(32, 8)
    centre = backbone.prepare(image.crop((10, 0, 50, 40)))
    assert (backbone.prepare(image) - centre)[:, 2:-2, 2:-2].abs().max() < 3 / 255


def test_a_copy_sent_to_another_process_is_the_same():
    backbone = PatchBackbone(32, 8, position=0.3)
    copy = pickle.loads(pickle.dumps(backbone))
    assert copy.identity == backbone.identity
    pixels = torch.rand(2, 3, 32, 32)
    assert torch.equal(copy(pixels).tokens, backbone(pixels).tokens)
    assert PatchBackbone(32, 8, position=0.4).identity != backbone.identity


@pytest.mark.parametrize(
    "options",
    [
        {"image_size": 30, "patch": 8},
        {"image_size": 4, "patch": 8},
        {"patch": 0},
        {"stride": 0},
        {"position": -1.0},
        {"floor": 0.0},
        {"frequencies": 0},
    ],
)
def test_options_that_cannot_be_are_refused(options):
    with pytest.raises(OptionError):
        PatchBackbone(**options)


def test_less_than_one_patch_is_refused():
    with pytest.raises(ShapeError, match="less than one patch"):
        PatchBackbone(32, 8)(torch.zeros(1, 3, 4, 32))
