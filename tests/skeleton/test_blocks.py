import numpy as np
import pytest
import torch

from udtw.errors import LengthError, OptionError, ShapeError
from udtw.skeleton import from_edges, graph, normalize
from udtw.skeleton.blocks import block_spans, block_starts, cut_blocks, turned


@pytest.mark.parametrize(
    ("frames", "size", "stride", "starts"),
    [
        (20, 8, 4, [0, 4, 8, 12]),
        (21, 8, 4, [0, 4, 8, 12, 13]),
        (8, 8, 4, [0]),
        (9, 8, 4, [0, 1]),
        (3, 8, 4, [0]),
        (5, 1, 2, [0, 2, 4]),
        (10, 4, 20, [0, 6]),
    ],
)
def test_the_last_block_ends_with_the_clip(frames, size, stride, starts):
    assert block_starts(frames, size, stride).tolist() == starts


def test_blocks_hold_consecutive_frames_and_short_clips_repeat_their_last():
    frames = np.arange(10)[:, None, None, None] * np.ones((1, 1, 2, 3))
    blocks = cut_blocks(torch.from_numpy(frames), 4, 3)
    assert blocks[:, :, 0, 0, 0].tolist() == [[0, 1, 2, 3], [3, 4, 5, 6], [6, 7, 8, 9]]
    assert cut_blocks(torch.from_numpy(frames[:2]), 4, 3)[:, :, 0, 0, 0].tolist() == [[0, 1, 1, 1]]


def test_spans_stay_within_the_clip():
    assert block_spans(10, 4, 4).tolist() == [[0, 4], [4, 8], [6, 10]]
    assert block_spans(3, 4, 4).tolist() == [[0, 3]]


def test_impossible_blocks_are_refused():
    with pytest.raises(OptionError, match="at least one frame"):
        block_starts(5, 0, 1)
    with pytest.raises(LengthError, match="without frames"):
        block_starts(0, 4, 2)


def clip(people: int = 1, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((6, people, 4, 3)).astype(np.float32)


@pytest.mark.parametrize("scale", ["axis", "body", None])
def test_position_does_not_matter(scale):
    frames = clip()
    walk = np.cumsum(np.ones((6, 1, 1, 3), np.float32), 0)
    np.testing.assert_allclose(normalize(frames + walk, 2, scale), normalize(frames, 2, scale), atol=1e-5)


@pytest.mark.parametrize("scale", ["axis", "body"])
def test_size_does_not_matter(scale):
    frames = clip()
    np.testing.assert_allclose(normalize(3 * frames, 2, scale), normalize(frames, 2, scale), atol=1e-5)


def test_body_scale_keeps_proportions_and_axis_scale_fills_the_box():
    frames = clip() * np.array([1, 2, 3], np.float32)
    centred = frames - frames[:, :1, 1:2]
    ratio = normalize(frames, 1, "body") / np.where(centred == 0, 1, centred)
    assert np.ptp(ratio[centred != 0]) < 1e-5
    np.testing.assert_allclose(np.abs(normalize(frames, 1, "axis")).max((0, 1, 2)), 1)


def test_missing_joints_become_the_torso_and_do_not_spread():
    frames = clip()
    frames[1, 0, 3] = np.nan
    frames[2, 0, 0] = np.inf
    out = normalize(frames, 2, None)
    assert np.isfinite(out).all()
    assert (out[1, 0, 3] == 0).all()
    np.testing.assert_allclose(out[1, 0, 0], frames[1, 0, 0] - frames[1, 0, 2])


def test_a_missing_torso_stays_where_it_was():
    frames = clip()
    frames[0, 0, 2] = frames[3, 0, 2] = np.nan
    out = normalize(frames, 2, None)
    np.testing.assert_allclose(out[3, 0, 0], frames[3, 0, 0] - frames[2, 0, 2])
    np.testing.assert_allclose(out[0, 0, 0], frames[0, 0, 0] - frames[1, 0, 2])


def test_two_people_keep_their_distance():
    frames = clip(people=2)
    out = normalize(frames, 2, None)
    np.testing.assert_allclose(out[:, 1, 0] - out[:, 0, 0], frames[:, 1, 0] - frames[:, 0, 0], atol=1e-6)


def test_a_clip_of_missing_joints_becomes_zero():
    for scale in ("axis", "body", None):
        assert (normalize(np.full((3, 1, 4, 3), np.nan), 2, scale) == 0).all()


def test_the_input_is_not_changed():
    frames = clip()
    before = frames.copy()
    normalize(frames, 0)
    np.testing.assert_array_equal(frames, before)


def test_other_shapes_and_scales_are_refused():
    with pytest.raises(ShapeError, match="people"):
        normalize(np.zeros((3, 4, 3)), 0)
    with pytest.raises(OptionError, match="scale"):
        normalize(clip(), 0, "cube")


def seen_from(angle, frames):
    cos, sin = np.cos(angle), np.sin(angle)
    return (frames @ np.array([[cos, 0, sin], [0, 1, 0], [-sin, 0, cos]]).T).astype(np.float32)


@pytest.mark.parametrize("angle", [0.3, 1.5, 3.0, -2.0])
def test_a_turned_clip_is_the_same_from_every_side(angle):
    frames = np.random.default_rng(0).standard_normal((12, 2, 20, 3)).astype(np.float32) * 0.1
    layout = graph("kinect20")
    frames[:, 0, layout.joints.index("shoulder_l"), 0] += 1
    frames[:, 0, layout.joints.index("shoulder_r"), 0] -= 1
    found = turned(seen_from(angle, frames), layout)
    np.testing.assert_allclose(found, turned(frames, layout), atol=0.03)  # the median of each axis turns only nearly
    np.testing.assert_allclose(np.linalg.norm(found, axis=-1), np.linalg.norm(frames, axis=-1), rtol=1e-4)
    left, right = (found[:, 0, layout.joints.index(f"shoulder_{side}")].mean(0) for side in "lr")
    assert left[0] - right[0] > 1.8


def test_what_has_no_sides_is_not_turned():
    layout = graph("kinect20")
    flat, still = np.ones((3, 1, 20, 2), np.float32), np.zeros((3, 1, 20, 3), np.float32)
    assert turned(flat, layout) is flat
    assert turned(still, layout) is still
    chain = np.ones((3, 1, 2, 3), np.float32)
    assert turned(chain, from_edges([(0, 1)], 2)) is chain
