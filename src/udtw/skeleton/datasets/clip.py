"""One recorded action: the joints of one or two people over time."""

from dataclasses import dataclass

import numpy as np

from udtw.errors import LengthError, ShapeError

MAX_PEOPLE = 2


@dataclass(frozen=True, eq=False)
class Clip:
    """``frames``: (T, P, J, C) float32: time, people (1 or 2), joints, coordinates (2 or 3).

    NaN where a joint or a person is missing. ``label`` counts from 0, as in the classes of the set; ``subject`` and
    ``camera`` are the data set's own numbers, −1 where unknown.
    """

    frames: np.ndarray
    label: int
    name: str
    subject: int = -1
    camera: int = -1

    def __post_init__(self) -> None:
        check_frames(self.frames, f"clip {self.name!r}")

    def __len__(self) -> int:
        return len(self.frames)


def check_frames(frames: np.ndarray, what: str) -> None:
    """(T, P, J, C) float32 with at least one frame, or an error that begins with ``what``."""
    shape = getattr(frames, "shape", None)
    if shape is None or len(shape) != 4 or frames.dtype != np.float32:
        kind = getattr(frames, "dtype", type(frames).__name__)
        raise ShapeError(f"{what}: frames must be a float32 array (T, P, J, C); got {kind} of shape {shape}.")
    if not 1 <= shape[1] <= MAX_PEOPLE or not shape[2] or shape[3] not in (2, 3):
        raise ShapeError(f"{what}: 1 or 2 people, joints, and 2 or 3 coordinates are needed; got shape {shape}.")
    if not shape[0]:
        raise LengthError(f"{what} has no frames.")
