"""Two clips of a stick figure and settings in, everything that the third tab shows out."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from udtw.align import Alignment, align
from udtw.explorer.checks import alignment_settings, choice, number, whole
from udtw.explorer.series_work import roughness
from udtw.skeleton import normalize
from udtw.skeleton.datasets import Clip, make_actions
from udtw.skeleton.graphs import GRAPHS

N_CLASSES, N_CLIPS = 12, 6
LOG_GAMMA = (-3.0, 1.0)
BURST_VARIANCE = 4.0
BOUNDS = (0.25, 4.0)
"""Of an estimated σ², as the networks have it."""

VARIANCES = {
    "none": "None: σ = 1 everywhere",
    "known": "Known: σ = 2 where the sensor lost a limb",
    "rough": "Estimated: frames that jitter are uncertain",
}


@dataclass(frozen=True)
class SkeletonSettings:
    """``band``: a fraction of the shorter clip, or None. ``frame``: share of the left clip, in %."""

    gamma: float = 0.1
    beta: float = 1.0
    band: float | None = None
    variance: str = "rough"
    frame: float = 50.0

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> "SkeletonSettings":
        return cls(
            **alignment_settings(said, LOG_GAMMA),
            variance=choice("The variance", said["variance"], VARIANCES),
            frame=number("The frame", said["frame"], 0, 100),
        )


@dataclass(frozen=True)
class Performed:
    """A clip, the mask (T, 20) of joints that the sensor lost, its number in the generated set, and its name."""

    clip: Clip
    lost: np.ndarray
    number: int
    label: str


@dataclass(frozen=True)
class SkeletonResult:
    """Features (T, 60) of both clips, σ² of their frames or None, the alignment, and the frame that is looked at."""

    x: np.ndarray
    y: np.ndarray
    var_x: np.ndarray | None
    var_y: np.ndarray | None
    alignment: Alignment
    coupling: np.ndarray
    mode: np.ndarray
    entropy: float
    frame: int


class Stage:
    """The clips of a server, all generated."""

    def __init__(self) -> None:
        self.clips, self._lost = make_actions(N_CLASSES, N_CLIPS, return_unreliable=True)

    @property
    def sets(self) -> dict[str, str]:
        return {name: name for name in self.clips.classes}

    def items(self, name: Any) -> list[str]:
        label = self.clips.classes.index(choice("The action", name, self.sets))
        return [f"No. {i + 1}: person {self.clips.subjects[i * N_CLASSES + label]}" for i in range(N_CLIPS)]

    def perform(self, name: Any, item: Any) -> Performed:
        label = self.clips.classes.index(choice("The action", name, self.sets))
        at = whole("The clip", item, 0, N_CLIPS - 1) * N_CLASSES + label  # as `make_actions` puts them in order
        return Performed(self.clips[at], self._lost[at], at, self.clips.names[at])


def features(clip: Clip) -> np.ndarray:
    """(T, 3J) joints about the torso in units of the body, divided by √(3J): D is a mean over coordinates."""
    frames = normalize(clip.frames, GRAPHS["kinect20"].centre)[:, 0].astype(np.float64)
    return frames.reshape(len(frames), -1) / np.sqrt(frames.shape[1] * frames.shape[2])


def compare(x: Performed, y: Performed, settings: SkeletonSettings) -> SkeletonResult:
    """Align two clips frame by frame."""
    s = settings
    sides = [features(one.clip) for one in (x, y)]
    variances: list[np.ndarray | None] = [None, None]
    if s.variance == "known":
        variances = [np.where(one.lost.any(1), BURST_VARIANCE, 1.0) for one in (x, y)]
    elif s.variance == "rough":
        variances = [jitter_variance(one) for one in sides]
    found = align(sides[0], sides[1], *variances, gamma=s.gamma, beta=s.beta, band=s.band)
    return SkeletonResult(
        x=sides[0],
        y=sides[1],
        var_x=variances[0],
        var_y=variances[1],
        alignment=found,
        coupling=found.coupling,
        mode=found.paths.mode()[0],
        entropy=max(float(found.paths.entropy), 0.0),
        frame=round(s.frame / 100 * (len(sides[0]) - 1)),
    )


def jitter_variance(joints: np.ndarray) -> np.ndarray:
    """σ² (T,): roughness relative to what is usual in the clip, its median, within `BOUNDS`."""
    rough = roughness(joints)
    return np.clip(rough / max(float(np.median(rough)), 1e-12), *BOUNDS)
