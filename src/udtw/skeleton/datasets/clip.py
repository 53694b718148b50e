"""A clip: the joints of one or two people over time, and the confidence of the sensor in each of them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from udtw.errors import DataError, LengthError, NonFiniteError, OptionError, ShapeError

MAX_PEOPLE = 2
Recording = np.ndarray | tuple[np.ndarray, np.ndarray]
"""Frames (T, P, J, C), or frames and confidence (T, P, J)."""
Reader = Callable[[int], Recording]
"""Function from the index of a clip to its recording."""


@dataclass(frozen=True, eq=False)
class Clip:
    """One recorded action: the joints of one or two people over time.

    Parameters
    ----------
    frames : (T, P, J, C) float32
        Time, people (1 or 2), joints, coordinates (2 or 3); NaN where a joint or a person is missing.
    label : int
        Index into the classes of the set.
    name : str
    subject, camera : int
        Numbers as the data set counts them; −1 if unknown.
    confidence : (T, P, J) float32, optional
        How sure the sensor was of each position, from 0 (not tracked) to 1; ones by default. Missing
        positions count as not tracked, whatever their confidence.
    """

    frames: np.ndarray
    label: int
    name: str
    subject: int = -1
    camera: int = -1
    confidence: np.ndarray = None  # type: ignore[assignment]  # filled in below, so that readers always find an array

    def __post_init__(self) -> None:
        what = f"clip {self.name!r}"
        check_frames(self.frames, what)
        if self.confidence is None:
            object.__setattr__(self, "confidence", np.ones(self.frames.shape[:3], np.float32))
        else:
            object.__setattr__(self, "confidence", checked_confidence(self.confidence, self.frames.shape, what))
        if not (self.tracked > 0).any():
            raise DataError(
                f"{what}: no joint is tracked in any of its {len(self.frames)} frames (all positions are missing, or "
                "all confidences are 0). Leave it out."
            )

    def __len__(self) -> int:
        return len(self.frames)

    @property
    def tracked(self) -> np.ndarray:
        """(T, P, J): the confidence, 0 where a coordinate is missing."""
        return np.where(np.isfinite(self.frames).all(-1), self.confidence, np.float32(0))

    @classmethod
    def of(cls, recording: Recording, label: int, name: str, subject: int = -1, camera: int = -1) -> "Clip":
        """Build a clip from reader output."""
        if isinstance(recording, tuple):
            return cls(recording[0], label, name, subject, camera, recording[1])
        return cls(recording, label, name, subject, camera)


def check_frames(frames: np.ndarray, what: str) -> None:
    """Raise unless ``frames`` are (T, P, J, C) float32 with at least one frame; ``what`` begins the message."""
    shape = getattr(frames, "shape", None)
    if shape is None or len(shape) != 4 or frames.dtype != np.float32:
        kind = getattr(frames, "dtype", type(frames).__name__)
        raise ShapeError(f"{what}: frames must be a float32 array (T, P, J, C); got {kind} of shape {shape}.")
    if not 1 <= shape[1] <= MAX_PEOPLE or not shape[2] or shape[3] not in (2, 3):
        raise ShapeError(f"{what}: 1 or 2 people, joints, and 2 or 3 coordinates are needed; got shape {shape}.")
    if not shape[0]:
        raise LengthError(f"{what} has no frames.")


def checked_confidence(confidence: Any, shape: tuple[int, ...], what: str) -> np.ndarray:
    """Return confidence as (T, P, J) float32 in [0, 1] for frames of ``shape`` (T, P, J, C).

    ``what`` begins messages.
    """
    values = np.asarray(confidence)
    if values.shape != shape[:3] or values.dtype.kind not in "fiub":
        raise ShapeError(
            f"{what}: confidence must hold one number per frame, person and joint, shape {shape[:3]}; got "
            f"{values.dtype} of shape {values.shape}."
        )
    values = values.astype(np.float32)
    if np.isnan(values).any():
        raise NonFiniteError(f"{what}: {int(np.isnan(values).sum())} confidences are NaN; use 0 for 'not tracked'.")
    low, high = values.min(), values.max()
    if not (low >= 0 and high <= 1):
        raise OptionError(
            f"{what}: confidence must lie in [0, 1]; got {low:g} to {high:g}. Divide by its largest value."
        )
    return values
