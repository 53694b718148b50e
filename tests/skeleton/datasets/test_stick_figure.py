"""The stick figure has the proportions of a person, and every angle moves the right joint in the right direction."""

import numpy as np
import pytest

from udtw.skeleton.datasets.stick_figure import ANGLES, JOINTS, LENGTHS, LIMBS, positions

ONE = np.ones(1)


def joint(pose, name):
    return positions({angle: value * ONE for angle, value in pose.items()}, 1)[0, JOINTS.index(name)]


def test_at_rest_it_stands_upright_on_the_floor():
    standing = positions({}, 2)
    assert standing.shape == (2, 20, 3)
    assert standing[..., 1].min() == pytest.approx(0, abs=1e-12)
    assert 1.5 < standing[0, JOINTS.index("head"), 1] < 1.8
    heights = [joint({}, name)[1] for name in ("head", "neck", "left shoulder", "spine", "left hip", "left knee")]
    assert heights == sorted(heights, reverse=True)
    assert joint({}, "left hand")[0] < 0 < joint({}, "right hand")[0]
    assert joint({}, "left hand")[1] < joint({}, "hip centre")[1]


def test_bones_keep_their_length_in_every_pose():
    rng = np.random.default_rng(0)
    pose = {angle: rng.uniform(-2, 2, 50) for angle in ANGLES}
    joints = positions(pose, 50)
    for first in (4, 8, 12, 16):
        bones = ("upper arm", "forearm", "hand") if first < 12 else ("thigh", "shin")
        for offset, bone in enumerate(bones):
            found = np.linalg.norm(joints[:, first + offset + 1] - joints[:, first + offset], axis=-1)
            np.testing.assert_allclose(found, LENGTHS[bone])


@pytest.mark.parametrize(
    ("pose", "name", "axis", "sign"),
    [
        ({"bend": 0.8}, "head", 2, -1),
        ({"left arm forward": 1.0}, "left hand", 2, -1),
        ({"right arm forward": 1.0}, "right hand", 2, -1),
        ({"left arm out": 1.0}, "left hand", 0, -1),
        ({"right arm out": 1.0}, "right hand", 0, 1),
        ({"right elbow": 1.0}, "right hand", 2, -1),
        ({"right leg forward": 1.0}, "right knee", 2, -1),
        ({"right knee": 1.0}, "right ankle", 2, 1),
        ({"left leg out": 0.5}, "left ankle", 0, -1),
        ({"travel": 1.0}, "head", 2, -1),
        ({"hop": 0.2}, "head", 1, 1),
        ({"left arm out": 2.5}, "left hand", 1, 1),
    ],
)
def test_an_angle_moves_a_joint_the_right_way(pose, name, axis, sign):
    moved = joint(pose, name)[axis] - joint({}, name)[axis]
    assert moved * sign > 0.1


def test_left_and_right_are_mirror_images():
    pose = {"arm out": 1.2, "arm forward": 0.4, "arm turn": 0.7, "elbow": 1.1, "leg out": 0.4, "knee": 0.5}
    joints = positions({f"{side} {angle}": v * ONE for side in ("left", "right") for angle, v in pose.items()}, 1)[0]
    for one, other in (("left arm", "right arm"), ("left leg", "right leg")):
        np.testing.assert_allclose(joints[LIMBS[one]] * [-1, 1, 1], joints[LIMBS[other]], atol=1e-12)
