"""Batches of cached tokens: in reading order, and drawn from an image's versions when training."""

import numpy as np
import pytest
import torch

from udtw.errors import DataError
from udtw.images import PatchBackbone, embed, open_tokens
from udtw.images.datasets import make_images
from udtw.images.order import token_order
from udtw.images.source import TokenSource

SOME = np.array([3, 0, 7])


@pytest.mark.parametrize("order", ["raster", "snake", "hilbert"])
def test_tokens_come_in_reading_order(tokens, order):
    plain = tokens.tokens(SOME)
    assert torch.equal(TokenSource(tokens, order).batch(SOME), plain[:, token_order(order, tokens.grid)])


def versions(tokens, index: int) -> list[torch.Tensor]:
    return [tokens.tokens([index], view)[0] for view in (None, 0, 1)]


def test_training_draws_the_image_or_a_view_and_the_same_numbers_draw_the_same(tokens):
    source, many = TokenSource(tokens), np.zeros(60, int)
    drawn = source.batch(many, np.random.default_rng(0))
    counts = [sum(torch.equal(row, one) for row in drawn) for one in versions(tokens, 0)]
    assert sum(counts) == 60
    assert min(counts) > 8
    assert torch.equal(drawn, source.batch(many, np.random.default_rng(0)))


def test_two_views_differ_and_are_versions_of_the_same_image(tokens):
    first, second = TokenSource(tokens).two_views(SOME, np.random.default_rng(0))
    for index, one, other in zip(SOME, first, second, strict=True):
        places = [[torch.equal(t, v) for v in versions(tokens, int(index))] for t in (one, other)]
        assert sum(places[0]) == sum(places[1]) == 1
        assert places[0] != places[1]


def test_tokens_without_views_say_how_to_get_some(tmp_path):
    embed(make_images(1), PatchBackbone(32, 16), tmp_path)
    with pytest.raises(DataError, match="--views"):
        TokenSource(open_tokens(tmp_path)).two_views(SOME, np.random.default_rng(0))
