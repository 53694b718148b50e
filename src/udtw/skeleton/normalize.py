"""Make clips of different people, places and cameras comparable."""

import numpy as np

from udtw.errors import OptionError, ShapeError

SCALES = ("axis", "body", None)


def normalize(frames: np.ndarray, centre: int, scale: str | None = "body") -> np.ndarray:
    """Torso-centred, scaled frames (T, P, J, C); missing joints (NaN or infinite) become 0, the torso.

    In each frame the torso joint ``centre`` of the first person is subtracted from everyone, so that the place of two
    people relative to each other is kept; where it is missing, the last known one is used, or the first to come.

    ``scale="axis"`` divides each axis by its largest absolute value in the clip; ``"body"`` divides all axes by the
    same number, the root mean square of all coordinates, so that proportions are kept and a single outlier counts
    little; None leaves the unit.
    """
    if frames.ndim != 4:
        raise ShapeError(f"A clip must have shape (frames, people, joints, coordinates); got {frames.shape}.")
    if scale not in SCALES:
        raise OptionError(f"scale must be one of {SCALES}; got {scale!r}.")
    frames = np.where(np.isfinite(frames), frames, np.nan).astype(np.float32)
    frames = frames - _known(frames[:, 0, centre])[:, None, None]
    missing = np.isnan(frames)
    frames = np.where(missing, np.float32(0), frames)
    if scale == "axis":
        size = np.abs(frames).max((0, 1, 2))
        return frames / np.where(size > 0, size, np.float32(1))
    if scale == "body":
        seen = int((~missing).sum())
        size = np.float32((np.square(frames, dtype=np.float64).sum() / max(seen, 1)) ** 0.5)
        return frames / size if size > 0 else frames
    return frames


def _known(path: np.ndarray) -> np.ndarray:
    """(T, C) positions; a missing one is the last known, or the first to come; all are 0 if none is known."""
    known = ~np.isnan(path).any(1)
    if not known.any():
        return np.zeros_like(path)
    last = np.maximum.accumulate(np.where(known, np.arange(len(path)), -1))
    return path[np.where(last < 0, np.argmax(known), last)]
