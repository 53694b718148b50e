"""Actions of a stick figure: joint angles over time, and the positions of the 20 joints of a Kinect that follow.

Meters; y points up, z away from the camera, and the person faces the camera (toward −z) with the left side at −x,
as in UTD-MHAD. With all angles at zero the person stands upright with hanging arms. An action is a sum of simple
movements of single angles.
"""

from dataclasses import dataclass

import numpy as np

from udtw.errors import OptionError

JOINTS = (
    "head", "neck", "spine", "hip centre",
    "left shoulder", "left elbow", "left wrist", "left hand",
    "right shoulder", "right elbow", "right wrist", "right hand",
    "left hip", "left knee", "left ankle", "left foot",
    "right hip", "right knee", "right ankle", "right foot",
)  # fmt: skip

# The parameters of a pose: angles in radians, except "travel" (toward the camera) and "hop", in meters.
_SIDED = ("arm forward", "arm out", "arm turn", "elbow", "leg forward", "leg out", "knee")
ANGLES = ("bend", "tilt", "twist", "travel", "hop", *(f"{side} {one}" for side in ("left", "right") for one in _SIDED))

LIMBS = {"left arm": range(4, 8), "right arm": range(8, 12), "left leg": range(12, 16), "right leg": range(16, 20)}

# Lengths in meters of a person of about 1.7 m.
LENGTHS = {
    "lower spine": 0.12, "upper spine": 0.36, "head": 0.2, "shoulder": 0.18, "upper arm": 0.28, "forearm": 0.25,
    "hand": 0.08, "hip": 0.09, "thigh": 0.42, "shin": 0.4, "foot": 0.12,
}  # fmt: skip


def positions(pose: dict[str, np.ndarray], n_frames: int, lengths: dict[str, float] = LENGTHS) -> np.ndarray:
    """Compute the joints (T, 20, 3) of a ``pose``: (T,) values for some of `ANGLES`; the others are zero.

    The lower foot touches the floor, y = 0, unless "hop" lifts it.
    """
    angle = {name: np.zeros(n_frames) + pose.get(name, 0.0) for name in ANGLES}
    joints = np.zeros((n_frames, len(JOINTS), 3))
    # Bending forward moves the upper body toward −z, the direction in which the person looks.
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
    """Return rotations (T, 3, 3).

    A positive angle moves a hanging limb forward, to −z, if about x, and to +x if about z.
    """
    c, s = np.cos(angle), np.sin(angle)
    turn = np.zeros((len(angle), 3, 3))
    i, j = {"x": (1, 2), "y": (0, 2), "z": (0, 1)}[axis]
    k = 3 - i - j
    turn[:, k, k] = 1
    turn[:, i, i] = turn[:, j, j] = c
    turn[:, i, j], turn[:, j, i] = -s, s
    return turn


REACH = "reach"  # moves there, stays, and returns
SWING = "swing"  # swings around the resting angle
PULSE = "pulse"  # moves there and back, several times
DRIFT = "drift"  # moves there and stays


@dataclass(frozen=True)
class Move:
    """The movement of one of `ANGLES` over the action: ``size`` in radians (meters for travel and hop).

    ``cycles`` is the number of repetitions of SWING and PULSE; ``phase`` shifts them by a fraction of a cycle.
    """

    angle: str
    kind: str
    size: float
    cycles: float = 1.0
    phase: float = 0.0

    def at(self, u: np.ndarray) -> np.ndarray:
        """Return the angle (T,) at the times ``u`` in [0, 1] of the action."""
        # All but DRIFT start and end in the resting pose, as recorded actions do.
        window = _smooth(u / 0.25) * _smooth((1 - u) / 0.25)
        turn = 2 * np.pi * (self.cycles * u + self.phase)
        if self.kind == REACH:
            return self.size * window
        if self.kind == SWING:
            return self.size * window * np.sin(turn)
        if self.kind == PULSE:
            return self.size * window * (1 - np.cos(turn)) / 2
        return self.size * _smooth(u)


Action = tuple[Move, ...]

_WALK = tuple(
    Move(f"{side} {angle}", SWING, size, 3, phase)
    for side, phase in (("left", 0.0), ("right", 0.5))
    for angle, size in (("leg forward", 0.5), ("arm forward", -0.45))
)
_KNEES = tuple(Move(f"{side} knee", PULSE, 0.7, 3, phase) for side, phase in (("left", 0.25), ("right", 0.75)))


def _both(angle: str, kind: str, size: float, cycles: float = 1.0) -> Action:
    return tuple(Move(f"{side} {angle}", kind, size, cycles) for side in ("left", "right"))


def _wave(side: str) -> Action:
    return (
        Move(f"{side} arm out", REACH, 1.4),
        Move(f"{side} arm turn", REACH, 1.4),
        Move(f"{side} elbow", REACH, 1.3),
        Move(f"{side} elbow", SWING, 0.6, 4),
    )


ACTIONS: dict[str, Action] = {
    "wave left": _wave("left"),
    "wave right": _wave("right"),
    "squat": (*_both("leg forward", PULSE, 1.5), *_both("knee", PULSE, 2.1), Move("bend", PULSE, 0.5)),
    "kick": (Move("right leg forward", PULSE, 1.2), Move("right knee", SWING, 0.5), *_both("arm out", REACH, 0.4)),
    "clap": (*_both("arm forward", REACH, 1.1), *_both("arm out", REACH, -0.35), *_both("arm out", PULSE, 0.8, 4)),
    "raise both arms": _both("arm out", PULSE, 2.8),
    "bow": (Move("bend", REACH, 1.2),),
    "walk": (*_WALK, *_KNEES, Move("travel", DRIFT, 1.0)),
    "punch": (
        Move("right arm forward", REACH, 0.9),
        Move("right arm forward", PULSE, 0.6, 3),
        Move("right elbow", REACH, 1.9),
        Move("right elbow", PULSE, -1.8, 3),
        Move("twist", PULSE, 0.4, 3),
    ),
    "jumping jack": (*_both("arm out", PULSE, 2.6, 3), *_both("leg out", PULSE, 0.5, 3), Move("hop", PULSE, 0.15, 6)),
    "twist": (Move("twist", SWING, 0.9, 2), *_both("arm out", REACH, 1.3)),
    "sit down": (*_both("leg forward", DRIFT, 1.4), *_both("knee", DRIFT, 1.4), Move("bend", PULSE, 0.6)),
    "lift": (
        Move("bend", PULSE, 1.1),
        *_both("leg forward", PULSE, 0.9),
        *_both("knee", PULSE, 1.2),
        *_both("arm forward", PULSE, 1.2),
    ),
    "side bend": (Move("tilt", SWING, 0.5, 2), Move("left arm out", REACH, 2.6)),
    "march": (*(Move(f"{s} leg forward", PULSE, 1.4, 4, p) for s, p in (("left", 0.0), ("right", 0.5))),
              *(Move(f"{s} knee", PULSE, 1.5, 4, p) for s, p in (("left", 0.0), ("right", 0.5)))),
    "throw": (Move("right arm forward", REACH, 2.4), Move("right arm forward", SWING, 0.9, 1.5),
              Move("right elbow", PULSE, 1.4, 2), Move("bend", PULSE, 0.3)),
}  # fmt: skip

# The angles that an action drawn at random may move, and how far.
_RANGES = {
    "bend": 0.9, "tilt": 0.4, "twist": 0.8,
    "left arm forward": 2.2, "left arm out": 2.2, "left elbow": 1.8,
    "right arm forward": 2.2, "right arm out": 2.2, "right elbow": 1.8,
    "left leg forward": 1.1, "left leg out": 0.6, "right leg forward": 1.1, "right leg out": 0.6,
}  # fmt: skip


def actions(n_classes: int, seed: int = 0) -> dict[str, Action]:
    """Return ``n_classes`` actions by name: first `ACTIONS`, then random ones, which depend on ``seed`` only."""
    if n_classes < 1:
        raise OptionError(f"n_classes must be at least 1; got {n_classes}.")
    chosen = dict(list(ACTIONS.items())[:n_classes])
    for number in range(len(chosen), n_classes):
        chosen[f"invented {number + 1}"] = _invent(np.random.default_rng([seed, number]))
    return chosen


def _invent(rng: np.random.Generator) -> Action:
    """Invent an action of three or four angles, each with its own movement, at least one of them large."""
    angles = rng.choice(list(_RANGES), size=int(rng.integers(3, 5)), replace=False)
    sizes = rng.uniform(0.4, 1.0, len(angles))
    sizes[0] = 1.0
    return tuple(
        Move(
            str(angle),
            str(rng.choice([REACH, PULSE, SWING, PULSE])),
            float(size * _RANGES[str(angle)]),
            float(rng.integers(1, 5)),
            float(rng.choice([0.0, 0.5])),
        )
        for angle, size in zip(angles, sizes, strict=True)
    )


def _smooth(u: np.ndarray) -> np.ndarray:
    """Return a ramp from 0 to 1 whose speed has no jumps."""
    u = np.clip(u, 0, 1)
    return u * u * (3 - 2 * u)
