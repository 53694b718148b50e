"""A person as a chain of bones: angles of the joints in, positions of the 20 joints of a Kinect out.

Metres; y points up, z away from the camera, and the person looks at the camera (towards −z) with the left side at −x,
as in UTD-MHAD. With all angles at zero the person stands upright with hanging arms.
"""

import numpy as np

JOINTS = (
    "head", "neck", "spine", "hip centre",
    "left shoulder", "left elbow", "left wrist", "left hand",
    "right shoulder", "right elbow", "right wrist", "right hand",
    "left hip", "left knee", "left ankle", "left foot",
    "right hip", "right knee", "right ankle", "right foot",
)  # fmt: skip

# What a pose is made of: angles in radians, except "travel" (steps towards the camera) and "hop", in metres.
_SIDED = ("arm forward", "arm out", "arm turn", "elbow", "leg forward", "leg out", "knee")
ANGLES = ("bend", "tilt", "twist", "travel", "hop", *(f"{side} {one}" for side in ("left", "right") for one in _SIDED))

LIMBS = {"left arm": range(4, 8), "right arm": range(8, 12), "left leg": range(12, 16), "right leg": range(16, 20)}

# Lengths of a person of about 1.7 m.
LENGTHS = {
    "lower spine": 0.12, "upper spine": 0.36, "head": 0.2, "shoulder": 0.18, "upper arm": 0.28, "forearm": 0.25,
    "hand": 0.08, "hip": 0.09, "thigh": 0.42, "shin": 0.4, "foot": 0.12,
}  # fmt: skip


def positions(pose: dict[str, np.ndarray], n_frames: int, lengths: dict[str, float] = LENGTHS) -> np.ndarray:
    """Joints (T, 20, 3) of a ``pose`` that gives (T,) values for some of `ANGLES`; the others are zero.

    The lower foot touches the floor, y = 0, unless "hop" lifts it.
    """
    angle = {name: np.zeros(n_frames) + pose.get(name, 0.0) for name in ANGLES}
    joints = np.zeros((n_frames, len(JOINTS), 3))
    # Bending forward moves the upper body towards −z, where the person looks.
    trunk = _about("y", angle["twist"]) @ _about("z", angle["tilt"]) @ _about("x", -angle["bend"])
    hips = _about("y", 0.3 * angle["twist"])
    up = np.array([0.0, 1.0, 0.0])
    joints[:, 2] = lengths["lower spine"] * (trunk @ up)
    joints[:, 1] = joints[:, 2] + lengths["upper spine"] * (trunk @ up)
    joints[:, 0] = joints[:, 1] + lengths["head"] * (trunk @ up)
    for side, out, arm, leg in (("left", -1.0, 4, 12), ("right", 1.0, 8, 16)):
        _arm(joints, angle, lengths, trunk, side, out, arm)
        _leg(joints, angle, lengths, hips, side, out, leg)
    floor = joints[..., 1].min(axis=1)
    joints[..., 1] += (angle["hop"] - floor)[:, None]
    joints[..., 2] -= angle["travel"][:, None]
    return joints


def _arm(joints, angle, lengths, trunk, side, out, first) -> None:
    upper = (
        trunk
        @ _about("z", out * angle[f"{side} arm out"])
        @ _about("x", angle[f"{side} arm forward"])
        @ _about("y", out * angle[f"{side} arm turn"])
    )
    fore = upper @ _about("x", angle[f"{side} elbow"])
    joints[:, first] = joints[:, 1] + trunk @ np.array([out * lengths["shoulder"], -0.06, 0.0])
    for offset, (turn, bone) in enumerate(((upper, "upper arm"), (fore, "forearm"), (fore, "hand")), start=first + 1):
        joints[:, offset] = joints[:, offset - 1] + lengths[bone] * (turn @ np.array([0.0, -1.0, 0.0]))


def _leg(joints, angle, lengths, hips, side, out, first) -> None:
    thigh = hips @ _about("z", out * angle[f"{side} leg out"]) @ _about("x", angle[f"{side} leg forward"])
    shin = thigh @ _about("x", -angle[f"{side} knee"])
    joints[:, first] = hips @ np.array([out * lengths["hip"], -0.06, 0.0])
    joints[:, first + 1] = joints[:, first] + lengths["thigh"] * (thigh @ np.array([0.0, -1.0, 0.0]))
    joints[:, first + 2] = joints[:, first + 1] + lengths["shin"] * (shin @ np.array([0.0, -1.0, 0.0]))
    joints[:, first + 3] = joints[:, first + 2] + lengths["foot"] * (shin @ np.array([0.0, -0.35, -0.94]))


def _about(axis: str, angle: np.ndarray) -> np.ndarray:
    """Rotations (T, 3, 3). About x, a positive angle takes what hangs down forward, to −z; about z, to +x."""
    c, s = np.cos(angle), np.sin(angle)
    turn = np.zeros((len(angle), 3, 3))
    i, j = {"x": (1, 2), "y": (0, 2), "z": (0, 1)}[axis]
    k = 3 - i - j
    turn[:, k, k] = 1
    turn[:, i, i] = turn[:, j, j] = c
    turn[:, i, j], turn[:, j, i] = -s, s
    return turn
