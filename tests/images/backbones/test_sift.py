"""Dense SIFT: unit histograms of edge directions, which small shifts of a stroke hardly change."""

import pytest
import torch

pytest.importorskip("kornia")

from udtw.errors import OptionError
from udtw.images.backbones import PatchBackbone, SiftBackbone


def stroke(shift: int) -> torch.Tensor:
    """(1, 3, 64, 64): a dark bar on white, moved to the right by some pixels."""
    pixels = torch.ones(1, 3, 64, 64)
    pixels[..., 10:54, 28 + shift : 32 + shift] = 0
    return pixels


def test_tokens_are_unit_histograms_on_a_grid():
    backbone = SiftBackbone(64, cells=3, cell=8, stride=6)
    found = backbone(torch.rand(2, 3, 64, 64))
    assert found.grid == (9, 9)
    assert found.tokens.shape == (2, 81, backbone.dim)
    assert backbone.dim == 3 * 3 * 8
    assert (found.tokens >= 0).all()
    torch.testing.assert_close(found.tokens.norm(dim=2), torch.ones(2, 81), atol=1e-3, rtol=0)


def test_a_stroke_moved_by_a_pixel_changes_little_where_patches_change_much():
    changes = []
    for backbone in (SiftBackbone(64), PatchBackbone(64, 16, stride=8, colour=False, position=0.0)):
        x, y = (backbone(stroke(shift)).tokens for shift in (0, 1))
        seen = x.square().sum(2) > 0
        changes.append(float(((x - y).square().sum(2)[seen] / x.square().sum(2)[seen]).mean()))
    assert changes[0] < 0.5 * changes[1]


def test_the_direction_of_edges_is_told_apart():
    upright = SiftBackbone(64)(stroke(0)).tokens
    level = SiftBackbone(64)(stroke(0).mT.contiguous()).tokens
    middle = 4 * 9 + 4
    assert (upright[0, middle] - level[0, middle]).square().sum() > 0.5


def test_sizes_that_do_not_fit_are_named():
    with pytest.raises(OptionError, match="cells=9"):
        SiftBackbone(64, cells=9, cell=8)
