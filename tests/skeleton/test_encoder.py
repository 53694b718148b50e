import itertools

import numpy as np
import pytest
import torch

from udtw.errors import OptionError, ShapeError
from udtw.skeleton import GRAPHS, SkeletonEncoder, SkeletonSource, from_edges, graph
from udtw.skeleton.blocks import Augmentation
from udtw.skeleton.encoder import RenderedEncoder, render, s2gc_matrix


class Clip:
    def __init__(self, frames: np.ndarray) -> None:
        self.frames = frames


def source(joints: int = 20, people: int = 1, coordinates: int = 3, **options) -> SkeletonSource:
    generator = np.random.default_rng(0)
    lengths = [30, 17, 5, 44]
    clips = [Clip(generator.standard_normal((n, people, joints, coordinates)).astype(np.float32)) for n in lengths]
    layout = from_edges(itertools.pairwise(range(joints)), joints)
    return SkeletonSource(clips, np.array([0, 0, 1, 1]), layout, **options)


def encoder(data: SkeletonSource, coordinates: int = 3, **options) -> SkeletonEncoder:
    torch.manual_seed(0)
    return SkeletonEncoder(data.graph, data.block_size, coordinates, dim=16, width=32, **options).eval()


EVERY = np.arange(4)


def test_s2gc_by_hand():
    step = torch.full((2, 2), 0.5)  # its powers are itself
    torch.testing.assert_close(s2gc_matrix(from_edges([(0, 1)], 2), 6, 0.7), 0.7 * torch.eye(2) + 0.3 * step)


@pytest.mark.parametrize("name", sorted(GRAPHS))
def test_every_layout_can_be_encoded(name):
    layout = graph(name)
    blocks = torch.randn(2, 3, 1, len(layout.joints), 24)
    tokens = SkeletonEncoder(layout)((blocks, torch.tensor([3, 2]), torch.ones(2, 1, dtype=torch.bool)))
    assert tokens.features.shape == (2, 3, 64)


@pytest.mark.parametrize("people", [1, 2])
@pytest.mark.parametrize("coordinates", [2, 3])
def test_a_clip_has_the_same_tokens_alone_and_in_a_batch(people, coordinates):
    data = source(people=people, coordinates=coordinates)
    network = encoder(data, coordinates)
    together = network(data.batch(EVERY))
    assert together.lengths.tolist() == [7, 4, 1, 10]
    for i in range(4):
        alone = network(data.batch(np.array([i])))
        n = int(alone.lengths[0])
        torch.testing.assert_close(alone.features[0, :n], together.features[i, :n], rtol=1e-4, atol=1e-5)


def test_an_absent_second_person_changes_nothing():
    one, two = source(), source()
    for clip in two.clips:
        clip.frames = np.concatenate([clip.frames, np.full_like(clip.frames, np.nan)], 1)
    network = encoder(one)
    torch.testing.assert_close(network(two.batch(EVERY)).features, network(one.batch(EVERY)).features)


def test_unit_tokens_have_unit_length():
    data = source()
    tokens = encoder(data)(data.batch(EVERY))
    torch.testing.assert_close(tokens.features.square().sum(2)[tokens.inside], torch.ones(22), rtol=1e-3, atol=1e-3)


def test_standardised_tokens_have_mean_zero_and_unit_deviation():
    data = source()
    network = encoder(data, unit_tokens=False)
    network.standardize(data.batch(EVERY))
    tokens = network(data.batch(EVERY))
    values = tokens.features[tokens.inside]
    torch.testing.assert_close(values.mean(0), torch.zeros(16), rtol=0, atol=1e-4)
    torch.testing.assert_close(values.std(0), torch.ones(16), rtol=1e-3, atol=1e-3)


def test_without_a_transformer_a_token_depends_on_its_block_only():
    data = source()
    blocks, lengths, people = data.batch(EVERY)
    changed = blocks.clone()
    changed[:, 0] += 1
    with_transformer, without = encoder(data), encoder(data, depth=0)
    before, after = without((blocks, lengths, people)).features, without((changed, lengths, people)).features
    torch.testing.assert_close(before[:, 1:], after[:, 1:])
    before = with_transformer((blocks, lengths, people)).features
    assert (before - with_transformer((changed, lengths, people)).features)[0, 1:].abs().max() > 1e-4


def test_augmentation_is_seeded_and_absent_in_evaluation():
    data = source(augmentation=Augmentation(rotation=30.0, stretch=0.1, noise=0.02))
    plain = data.batch(EVERY)[0]
    assert torch.equal(plain, source().batch(EVERY)[0])
    first, again = (data.batch(EVERY, np.random.default_rng(3))[0] for _ in range(2))
    assert torch.equal(first, again)
    assert not torch.equal(first, plain)


def test_rotation_keeps_heights_and_distances():
    data = source(augmentation=Augmentation(rotation=90.0))
    plain, turned = (data.batch(EVERY, g)[0].unflatten(4, (8, 3)) for g in (None, np.random.default_rng(0)))
    torch.testing.assert_close(plain[..., 1], turned[..., 1])
    torch.testing.assert_close(plain.square().sum(-1), turned.square().sum(-1), rtol=1e-4, atol=1e-4)


def test_pictures_of_blocks_show_joints_and_frames():
    block = torch.zeros(1, 4, 6)
    block[0, 0, 0] = 1.0  # joint 0, frame 0, first coordinate
    block[0, 3, 5] = -1.0  # joint 3, frame 2, second coordinate
    image = render(block, 2, 32)
    assert image.shape == (1, 3, 32, 32)
    assert image[0, 0, 0, 0] == 1
    assert image[0, 1, -1, -1] == 0
    assert (image[0, 2] == 0).all()


def test_the_picture_encoder_takes_the_same_batches():
    data = source(people=2)
    torch.manual_seed(0)
    network = RenderedEncoder(dim=8, width=4, image_size=32).eval()
    together = network(data.batch(EVERY))
    alone = network(data.batch(np.array([1])))
    torch.testing.assert_close(alone.features[0], together.features[1, :4], rtol=1e-4, atol=1e-5)


def test_wrong_shapes_and_options_are_named():
    data = source()
    blocks, lengths, people = data.batch(EVERY)
    with pytest.raises(ShapeError, match="expects blocks"):
        encoder(data)((blocks[..., :5], lengths, people))
    with pytest.raises(ShapeError, match="Blocks must have shape"):
        render(torch.zeros(2, 4, 7), 3)
    with pytest.raises(OptionError, match="multiple of heads"):
        SkeletonEncoder(graph("ntu25"), width=30)
    with pytest.raises(OptionError, match="S²GC"):
        s2gc_matrix(graph("ntu25"), 0, 0.5)
