"""Generated skeleton actions: a stick figure moves, and a noisy sensor that sometimes loses a limb records it."""

from dataclasses import dataclass, replace
from typing import Literal, overload

import numpy as np

from udtw.errors import OptionError
from udtw.skeleton.datasets.clip import Clip
from udtw.skeleton.datasets.skeleton_set import SkeletonSet
from udtw.skeleton.datasets.stick_figure import LENGTHS, LIMBS, Action, actions, positions

NAME, GRAPH = "synthetic", "kinect20"
SHORTEST, LONGEST, N_SUBJECTS = 30, 90, 8
DISTANCE = 3.0  # meters from the camera to the person


@dataclass(frozen=True)
class Sensor:
    """Errors of the simulated sensor.

    Parameters
    ----------
    noise : float
        Standard deviation of every coordinate, in meters.
    bursts : float
        Expected number of bursts per clip. In a burst the sensor loses a limb for 6 to 20 frames.
    burst_noise : float
        Standard deviation of the joints of that limb, in meters.
    missing : float
        Probability that they are missing (NaN) instead.
    """

    noise: float = 0.01
    bursts: float = 0.7
    burst_noise: float = 0.2
    missing: float = 0.2

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not 0 <= value < np.inf:
                raise OptionError(f"{name} of the sensor must be finite and not negative; got {value}.")


@overload
def make_actions(
    n_classes: int = ..., n_clips: int = ..., random_state: int = ..., *, sensor: Sensor = ..., style: float = ...,
    return_unreliable: Literal[False] = ...,
) -> SkeletonSet: ...  # fmt: skip
@overload
def make_actions(
    n_classes: int = ..., n_clips: int = ..., random_state: int = ..., *, sensor: Sensor = ..., style: float = ...,
    return_unreliable: Literal[True],
) -> tuple[SkeletonSet, list[np.ndarray]]: ...  # fmt: skip
def make_actions(
    n_classes: int = 12,
    n_clips: int = 10,
    random_state: int = 0,
    *,
    sensor: Sensor | None = None,
    style: float = 1.0,
    return_unreliable: bool = False,
) -> SkeletonSet | tuple[SkeletonSet, list[np.ndarray]]:
    """Generate a set of actions: clips of 30 to 90 frames (T, 1, 20, 3) with the joints of "kinect20".

    Clips of a class differ in speed, time warp, the size of every movement, the body (eight subjects) and the direction
    the person faces, all in proportion to ``style``; the `Sensor` adds its errors. The same ``random_state`` gives the
    same set, and a clip does not depend on how many others are made.

    Parameters
    ----------
    n_classes : int
        Beyond the sixteen named actions, new ones are drawn at random from the seed.
    n_clips : int
        Clips per class.
    random_state : int
    sensor : Sensor, optional
    style : float
        Variation within a class; 0 for none.
    return_unreliable : bool
        Also return a list of (T, 20) masks of the joints in a burst, one per clip.

    Examples
    --------
    >>> from udtw.skeleton import make_actions
    >>> actions = make_actions(n_classes=3, n_clips=2, random_state=0)
    >>> actions
    SkeletonSet('synthetic', 6 clips, 3 of 3 classes, kinect20)
    >>> actions.classes, actions[0].frames.shape[1:]
    (('wave left', 'wave right', 'squat'), (1, 20, 3))
    """
    if n_clips < 1:
        raise OptionError(f"n_clips must be at least 1; got {n_clips}.")
    if not 0 <= style < np.inf:
        raise OptionError(f"style must be finite and not negative; got {style}.")
    sensor = sensor or Sensor()
    chosen = actions(n_classes, seed=random_state)
    bodies = [_body(np.random.default_rng([random_state, 1, subject]), style) for subject in range(N_SUBJECTS)]
    clips, masks = [], []
    for number in range(n_clips):
        for label, (name, action) in enumerate(chosen.items()):
            rng = np.random.default_rng([random_state, 2, label, number])
            subject = int(rng.integers(N_SUBJECTS))
            frames, unreliable = perform(action, bodies[subject], rng, sensor=sensor, style=style)
            clips.append(Clip(frames, label, f"{name.replace(' ', '-')}-{number + 1:03d}", subject + 1))
            masks.append(unreliable)
    skeletons = SkeletonSet.from_clips(NAME, GRAPH, tuple(chosen), clips)
    return (skeletons, masks) if return_unreliable else skeletons


def perform(
    action: Action, lengths: dict[str, float], rng: np.random.Generator, *, sensor: Sensor, style: float
) -> tuple[np.ndarray, np.ndarray]:
    """Generate frames (T, 1, 20, 3), float32, as recorded by the sensor, and the mask (T, 20) of joints in a burst."""
    n_frames = int(rng.integers(SHORTEST, LONGEST, endpoint=True))
    u = _warped(n_frames, rng, style)
    pose: dict[str, np.ndarray] = {}
    for move in action:
        size = move.size * np.exp(0.15 * style * rng.standard_normal())
        shifted = replace(move, size=size, phase=move.phase + 0.03 * style * rng.standard_normal())
        pose[move.angle] = pose.get(move.angle, 0.0) + shifted.at(u)
    joints = positions(pose, n_frames, lengths)
    facing = np.clip(0.35 * style * rng.standard_normal(), -0.8, 0.8)
    c, s = np.cos(facing), np.sin(facing)
    joints = joints @ np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]]).T
    joints += [0.2 * rng.standard_normal(), -1.0, DISTANCE + 0.2 * rng.standard_normal()]
    unreliable = _observe(joints, rng, sensor)
    return joints[:, None].astype(np.float32), unreliable


def _observe(joints: np.ndarray, rng: np.random.Generator, sensor: Sensor) -> np.ndarray:
    """Add the sensor's errors to ``joints`` (T, 20, 3) in place; returns the mask (T, 20) of joints in a burst."""
    n_frames = len(joints)
    joints += sensor.noise * rng.standard_normal(joints.shape)
    unreliable = np.zeros(joints.shape[:2], dtype=bool)
    for _ in range(rng.poisson(sensor.bursts)):
        limb = LIMBS[str(rng.choice(list(LIMBS)))]
        length = int(rng.integers(6, 21))
        start = int(rng.integers(0, max(n_frames - length, 1)))
        where = (slice(start, start + length), slice(limb.start, limb.stop))
        unreliable[where] = True
        if rng.random() < sensor.missing:
            joints[where] = np.nan
        else:
            joints[where] += sensor.burst_noise * rng.standard_normal(joints[where].shape)
    return unreliable


def _warped(n_frames: int, rng: np.random.Generator, style: float) -> np.ndarray:
    """Draw times (T,) that rise from 0 to 1 at a speed that varies smoothly by a factor of up to about 2."""
    t = np.linspace(0, 1, n_frames)
    waves = sum(rng.standard_normal() / k * np.sin(np.pi * k * t + rng.uniform(0, 2 * np.pi)) for k in (1, 2, 3))
    speed = np.exp(0.4 * style * waves)
    u = np.concatenate([[0.0], np.cumsum((speed[1:] + speed[:-1]) / 2)])
    return u / u[-1]


def _body(rng: np.random.Generator, style: float) -> dict[str, float]:
    size = 1 + 0.1 * style * float(np.clip(rng.standard_normal(), -2, 2))
    return {
        bone: length * size * float(np.exp(0.04 * style * rng.standard_normal())) for bone, length in LENGTHS.items()
    }
