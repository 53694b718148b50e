"""Limbs that changed sides are found from the motion alone and exchanged back; other clips stay as they are."""

import numpy as np
import pytest

from udtw.skeleton import graph
from udtw.skeleton.confidence import limb_pairs, swapped_limbs, unswapped
from udtw.skeleton.datasets import Faults, make_actions
from udtw.skeleton.datasets.synthetic import Sensor
from udtw.skeleton.graphs import GRAPHS

CLEAN = make_actions(n_classes=6, n_clips=3, sensor=Sensor(noise=0.01, bursts=0.0))
LAYOUT = graph(CLEAN.graph)
LEGS, ARMS = ([left + right, right + left] for left, right in limb_pairs(LAYOUT))


def exchanged(clip, limb, when):
    frames = clip.frames.copy()
    frames[when, 0, limb[0]] = frames[when, 0, limb[1]]
    return frames


@pytest.mark.parametrize("name", GRAPHS)
def test_limbs_of_every_layout_are_apart_and_complete(name):
    layout = graph(name)
    pairs = limb_pairs(layout)
    left = sorted(j for limb, _ in pairs for j in limb)
    assert left == [j for j, joint in enumerate(layout.joints) if joint.endswith("_l")]
    for limb, other in pairs:
        assert [layout.joints[j][:-2] for j in limb] == [layout.joints[j][:-2] for j in other]
        assert not {"shoulder_l", "hip_l"} <= {layout.joints[j] for j in limb}


def test_clips_without_faults_are_returned_as_they_are():
    for clip in CLEAN:
        frames, confidence = unswapped(clip.frames, clip.confidence, LAYOUT)
        assert frames is clip.frames
        assert confidence is clip.confidence


@pytest.mark.parametrize("when", [slice(5, 12), slice(0, 9), slice(20, None), slice(3, -3)])
@pytest.mark.parametrize("limb", [LEGS, ARMS])
def test_a_limb_is_exchanged_back_wherever_it_changed_sides(limb, when):
    for clip in CLEAN[:6]:
        faulty = exchanged(clip, limb, when)
        before = faulty.copy()
        frames, _ = unswapped(faulty, clip.confidence, LAYOUT)
        np.testing.assert_array_equal(frames, clip.frames)
        np.testing.assert_array_equal(faulty, before)


def test_the_doubt_of_the_sensor_is_explained_and_lost_joints_stay_lost():
    clip = CLEAN[0]
    confidence = clip.confidence.copy()
    confidence[5:12, 0, ARMS[0]] = 0.5
    hand = LAYOUT.joints.index("hand_l")
    confidence[5:12, 0, LAYOUT.joints.index("hand_r")] = 0.1  # the confidence is that of the position stated there
    _, found = unswapped(exchanged(clip, ARMS, slice(5, 12)), confidence, LAYOUT)
    assert (found[5:12, 0, hand] == np.float32(0.1)).all()
    found[5:12, 0, hand] = 1
    np.testing.assert_array_equal(found, 1)


def test_joints_that_cannot_be_trusted_have_no_vote():
    clip = CLEAN[1]
    frames, confidence = clip.frames.copy(), clip.confidence.copy()
    arm = ARMS[0][: len(ARMS[0]) // 2]
    frames[:, 0, arm[1:]] += (
        np.random.default_rng(0).standard_normal(frames[:, 0, arm[1:]].shape).astype(np.float32) * 3
    )
    assert swapped_limbs(frames, confidence, LAYOUT).any()
    confidence[:, 0, arm[1:]] = 0.2
    assert not swapped_limbs(frames, confidence, LAYOUT).any()


def test_somebody_who_turns_in_a_picture_has_not_changed_sides():
    clip = CLEAN[2]
    angle = np.linspace(0, np.pi, len(clip.frames))[:, None, None]
    seen = np.cos(angle) * clip.frames[..., 0] + np.sin(angle) * clip.frames[..., 2]
    flat = np.stack([seen, clip.frames[..., 1]], -1)
    assert not swapped_limbs(flat, clip.confidence, LAYOUT).any()


def test_most_frames_of_random_faults_are_restored():
    faults = Faults(dropouts=0.5, jitters=0.5, swaps=2.0)
    wrong = left = 0
    for clean, faulty in zip(CLEAN, faults.of(CLEAN, 1), strict=True):
        swapped = np.isclose(faulty.confidence, 0.5)
        frames, _ = unswapped(faulty.frames, faulty.confidence, LAYOUT)
        wrong += int((faulty.frames != clean.frames).any(-1)[swapped].sum())
        left += int((frames != clean.frames).any(-1)[swapped].sum())
    assert wrong > 1000
    assert left < 0.3 * wrong


@pytest.mark.parametrize("shape", [(1, 1, 20, 3), (2, 2, 20, 2)])
def test_missing_joints_and_short_clips(shape):
    frames = np.full(shape, np.nan, np.float32)
    assert not swapped_limbs(frames, np.ones(shape[:3], np.float32), LAYOUT).any()
