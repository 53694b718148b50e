"""Clips to choose from, settings, and the alignment of two clips: what the third tab computes."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from udtw._engine.align import align
from udtw._engine.alignment import Alignment
from udtw.explorer.control_values import AlignmentSettings, ControlValues, choice, number, whole
from udtw.explorer.series_alignment import roughness
from udtw.skeleton import normalize
from udtw.skeleton.datasets import make_actions
from udtw.skeleton.datasets.clip import Clip
from udtw.skeleton.graphs import GRAPHS

GRAPH = "kinect20"
N_CLASSES, N_CLIPS = 12, 6
LOG_GAMMA = (-3.0, 1.0)
BURST_VARIANCE = 4.0
BOUNDS = (0.25, 4.0)
"""Limits of an estimated σ², those of the networks."""

VARIANCES = {
    "none": "None: σ = 1 everywhere",
    "known": "Known: σ = 2 where the sensor lost a limb",
    "rough": "Estimated: frames that jitter are uncertain",
}


@dataclass(frozen=True)
class SkeletonSettings(AlignmentSettings):
    """What the controls say; ``frame`` is a position in clip x, in percent."""

    variance: str = "rough"
    frame: float = 50.0

    @classmethod
    def of(cls, values: ControlValues) -> "SkeletonSettings":
        return cls(
            **cls.checked(values, LOG_GAMMA),
            variance=choice("The variance", values["variance"], VARIANCES),
            frame=number("The frame", values["frame"], 0, 100),
        )


@dataclass(frozen=True)
class ChosenClip:
    """A clip, the mask (T, 20) of joints that the sensor lost, its number in the generated set, and its name."""

    clip: Clip
    lost: np.ndarray
    number: int
    label: str


@dataclass(frozen=True)
class SkeletonResult:
    """Features (T, 60) of both clips, σ² of their frames or None, the alignment, and the frame of x that is shown."""

    x: np.ndarray
    y: np.ndarray
    var_x: np.ndarray | None
    var_y: np.ndarray | None
    alignment: Alignment
    coupling: np.ndarray
    mode: np.ndarray
    frame: int


class ClipChoices:
    """The clips of a server, all of them generated."""

    def __init__(self) -> None:
        self.clips, self._lost = make_actions(N_CLASSES, N_CLIPS, return_unreliable=True)

    @property
    def sets(self) -> dict[str, str]:
        return {name: name for name in self.clips.classes}

    def items(self, name: Any) -> list[str]:
        label = self.clips.classes.index(choice("The action", name, self.sets))
        return [f"No. {i + 1}: person {self.clips.subjects[i * N_CLASSES + label]}" for i in range(N_CLIPS)]

    def pick(self, name: Any, item: Any, upload: Any = None) -> ChosenClip:
        """Clip number ``item`` of the action ``name``; there are no uploads."""
        label = self.clips.classes.index(choice("The action", name, self.sets))
        at = whole("The clip", item, 0, N_CLIPS - 1) * N_CLASSES + label  # the order of `make_actions`
        return ChosenClip(self.clips[at], self._lost[at], at, self.clips.names[at])


def features(clip: Clip) -> np.ndarray:
    """(T, 3J) joints relative to the torso in units of the body; the factor 1/√(3J) makes D a mean over coordinates."""
    frames = normalize(clip.frames, GRAPHS[GRAPH].centre)[:, 0].astype(np.float64)
    return frames.reshape(len(frames), -1) / np.sqrt(frames.shape[1] * frames.shape[2])


def align_clips(x: ChosenClip, y: ChosenClip, settings: SkeletonSettings) -> SkeletonResult:
    """The alignment of two clips frame by frame."""
    sides = [features(one.clip) for one in (x, y)]
    variances: list[np.ndarray | None] = [None, None]
    if settings.variance == "known":
        variances = [np.where(one.lost.any(1), BURST_VARIANCE, 1.0) for one in (x, y)]
    elif settings.variance == "rough":
        variances = [jitter_variance(one) for one in sides]
    found = align(sides[0], sides[1], *variances, weighting="precision", **settings.options)
    return SkeletonResult(
        x=sides[0],
        y=sides[1],
        var_x=variances[0],
        var_y=variances[1],
        alignment=found,
        coupling=found.coupling,
        mode=found.paths.mode(),
        frame=round(settings.frame / 100 * (len(sides[0]) - 1)),
    )


def jitter_variance(joints: np.ndarray) -> np.ndarray:
    """(T,) σ²: roughness relative to its median in the clip, within `BOUNDS`."""
    rough = roughness(joints)
    return np.clip(rough / max(float(np.median(rough)), 1e-12), *BOUNDS)
