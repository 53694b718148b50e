"""Offer clips, check the settings of the skeleton tab, and align two clips."""

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
"""Limits of an estimated σ², the same as those of the networks."""

VARIANCES = {
    "none": "None: σ = 1 everywhere",
    "known": "Known: σ = 2 where the sensor lost a limb",
    "rough": "Estimated: frames that jitter are uncertain",
}


@dataclass(frozen=True)
class SkeletonSettings(AlignmentSettings):
    """Hold the settings of the tab; ``frame`` is a position in clip x, in percent."""

    variance: str = "rough"
    frame: float = 50.0

    @classmethod
    def of(cls, values: ControlValues) -> "SkeletonSettings":
        """Check the values of the controls."""
        return cls(
            **cls.checked(values, LOG_GAMMA),
            variance=choice("The variance", values["variance"], VARIANCES),
            frame=number("The frame", values["frame"], 0, 100),
        )


@dataclass(frozen=True)
class ChosenClip:
    """Hold a clip, the mask (T, 20) of joints lost by the sensor, its index in the generated set, and its name."""

    clip: Clip
    lost: np.ndarray
    number: int
    label: str


@dataclass(frozen=True)
class SkeletonResult:
    """Hold features (T, 60) of both clips, σ² of their frames or None, the alignment, and the frame of x to show."""

    x: np.ndarray
    y: np.ndarray
    var_x: np.ndarray | None
    var_y: np.ndarray | None
    alignment: Alignment
    coupling: np.ndarray
    mode: np.ndarray
    frame: int


class ClipChoices:
    """Offer the generated clips of a server."""

    def __init__(self) -> None:
        self.clips, self._lost = make_actions(N_CLASSES, N_CLIPS, return_unreliable=True)

    @property
    def sets(self) -> dict[str, str]:
        """Return the names of all actions."""
        return {name: name for name in self.clips.classes}

    def items(self, name: Any) -> list[str]:
        """Return the labels of the clips of an action."""
        label = self.clips.classes.index(choice("The action", name, self.sets))
        return [f"No. {i + 1}: person {self.clips.subjects[i * N_CLASSES + label]}" for i in range(N_CLIPS)]

    def pick(self, name: Any, item: Any, upload: Any = None) -> ChosenClip:
        """Return clip number ``item`` of the action ``name``; uploads are not supported."""
        label = self.clips.classes.index(choice("The action", name, self.sets))
        at = whole("The clip", item, 0, N_CLIPS - 1) * N_CLASSES + label  # the order of `make_actions`
        return ChosenClip(self.clips[at], self._lost[at], at, self.clips.names[at])


def features(clip: Clip) -> np.ndarray:
    """Return joints (T, 3J) relative to the torso in units of the body, times 1/√(3J): D is a mean over coordinates."""
    frames = normalize(clip.frames, GRAPHS[GRAPH].centre)[:, 0].astype(np.float64)
    return frames.reshape(len(frames), -1) / np.sqrt(frames.shape[1] * frames.shape[2])


def align_clips(x: ChosenClip, y: ChosenClip, settings: SkeletonSettings) -> SkeletonResult:
    """Align two clips frame by frame."""
    sides = [features(one.clip) for one in (x, y)]
    variances: list[np.ndarray | None] = [None, None]
    if settings.variance == "known":
        variances = [np.where(one.lost.any(1), BURST_VARIANCE, 1.0) for one in (x, y)]
    elif settings.variance == "rough":
        variances = [jitter_variance(one) for one in sides]
    alignment = align(sides[0], sides[1], *variances, weighting="precision", **settings.options)
    return SkeletonResult(
        x=sides[0],
        y=sides[1],
        var_x=variances[0],
        var_y=variances[1],
        alignment=alignment,
        coupling=alignment.coupling,
        mode=alignment.paths.mode(),
        frame=round(settings.frame / 100 * (len(sides[0]) - 1)),
    )


def jitter_variance(joints: np.ndarray) -> np.ndarray:
    """Estimate σ² (T,) as the roughness relative to its median in the clip, within `BOUNDS`."""
    rough = roughness(joints)
    return np.clip(rough / max(float(np.median(rough)), 1e-12), *BOUNDS)
