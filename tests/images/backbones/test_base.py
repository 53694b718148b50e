"""Pooling a grid of tokens, and its attention."""

import pytest
import torch

from udtw.errors import OptionError, ShapeError
from udtw.images.backbones import Pooled, TokenGrid


class Numbered:
    """Token t of a 4 × 6 grid is (row, column); its attention is t."""

    dim, has_attention = 2, True
    identity = {"backbone": "numbered"}  # noqa: RUF012

    def prepare(self, image):
        return image

    def __call__(self, pixels, *, attention=False):
        places = torch.cartesian_prod(torch.arange(4.0), torch.arange(6.0)).expand(len(pixels), -1, -1)
        return TokenGrid(places, (4, 6), torch.arange(24.0).expand(len(pixels), -1) if attention else None)


PIXELS = torch.zeros(2, 3, 4, 6)


def test_tokens_are_averaged_and_attention_is_added_up():
    out = Pooled(Numbered(), (2, 3))(PIXELS, attention=True)
    assert out.grid == (2, 3)
    assert out.tokens[1].tolist() == [[r, c] for r in (0.5, 2.5) for c in (0.5, 2.5, 4.5)]
    assert out.attention[1].tolist() == [0 + 1 + 6 + 7, 2 + 3 + 8 + 9, 4 + 5 + 10 + 11, 62, 70, 78]


def test_the_sum_of_attention_stays_where_windows_overlap():
    out = Pooled(Numbered(), (3, 4))(PIXELS, attention=True)
    assert torch.allclose(out.attention.sum(1), torch.tensor(float(sum(range(24)))))


def test_a_whole_number_is_a_square_and_attention_comes_only_when_asked_for():
    pooled = Pooled(Numbered(), 1)
    out = pooled(PIXELS)
    assert out.tokens.tolist() == [[[1.5, 2.5]]] * 2
    assert out.attention is None
    assert pooled.identity == {"backbone": "numbered", "pool": [1, 1]}
    assert (pooled.dim, pooled.has_attention) == (2, True)


def test_grids_that_cannot_be_are_refused():
    with pytest.raises(ShapeError, match="4 × 6 tokens cannot be pooled to 5 × 5"):
        Pooled(Numbered(), 5)(PIXELS)
    with pytest.raises(OptionError, match="at least one row"):
        Pooled(Numbered(), (2, 0))
