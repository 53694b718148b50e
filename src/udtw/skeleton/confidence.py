"""From confidence to variances: what a sensor says about its joints, and what follows for positions and blocks."""

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

SPREAD = 1000.0
"""Variance of a position of confidence ½, in units of the squared motion of its joint in one frame."""
LEAST_CONFIDENCE = 1e-9
UNKNOWN = 1e4
"""Variance of a joint before anything is known of it, in the same units."""
MOST_MOTION = 0.01
"""A joint's mean squared motion in one frame, along one axis and in units of the normalised body, is at most this: more
comes from faults that nothing tells of, and would make all variances of the joint enormous."""
STILL_FRAMES = 3
"""Frames in the same place to the last digit after which a joint counts as lost, if the person moves."""
ROUGH_FRAMES = 5
ROUGH = 0.1
"""Variance of jitter, in units of the squared body, above which it is no motion of a person."""


def plausible_confidence(frames: np.ndarray) -> np.ndarray:
    """(T, P, J): a confidence read off the motion in frames (T, P, J, C), for sensors that state none.

    A joint that stays in the same place to the last digit for `STILL_FRAMES` frames or more, while half of the joints
    move, is lost: 0. One that jitters has ``1/(1 + 10 v)`` where its variance v, the median of
    ``⅙ (x_{t−1} − 2x_t + x_{t+1})²`` over `ROUGH_FRAMES` frames in units of the squared body, is above `ROUGH`. All
    others have 1: clips without such faults are not changed.

    Examples
    --------
    >>> import numpy as np
    >>> from udtw.skeleton.confidence import plausible_confidence
    >>> frames = np.random.default_rng(0).standard_normal((1, 1, 20, 3)) + np.linspace(0, 1, 30)[:, None, None, None]
    >>> frames[10:20, 0, 7] = frames[10, 0, 7]  # got stuck
    >>> plausible_confidence(frames)[[5, 10, 15, 20], 0, 7].tolist()
    [1.0, 0.0, 0.0, 1.0]
    """
    found = np.ones(frames.shape[:3], np.float32)
    if len(frames) < STILL_FRAMES:
        return found
    known = np.isfinite(frames).all(-1)
    frames = np.where(known[..., None], frames, np.nan)
    bends = np.nan_to_num(np.square(np.diff(frames, n=2, axis=0)).mean(-1) / 6)
    beside = 1 + ROUGH_FRAMES // 2  # one more at each end, where there is no second difference
    windows = sliding_window_view(np.pad(bends, ((beside, beside), (0, 0), (0, 0)), mode="edge"), ROUGH_FRAMES, axis=0)
    rough = np.median(windows, -1) / _squared_body(frames, known)[:, None]
    found[rough > ROUGH] = (1 / (1 + 10 * rough[rough > ROUGH])).astype(np.float32)
    same = (np.diff(frames, axis=0) == 0).all(-1)
    same &= same.mean(-1, keepdims=True) <= 0.5
    stuck = np.all(sliding_window_view(same, STILL_FRAMES - 1, axis=0), axis=-1)
    for offset in range(STILL_FRAMES):
        found[offset : offset + stuck.shape[0]][stuck] = 0
    return found


def _squared_body(frames: np.ndarray, known: np.ndarray) -> np.ndarray:
    """(P,): the variance of the joints of a person about their mean, in the median frame; infinite if never seen."""
    size = np.full(frames.shape[1], np.inf)
    for person in range(frames.shape[1]):
        seen = known[:, person].sum(1) > 1
        if seen.any():
            size[person] = np.median(np.nanvar(frames[seen, person], axis=1).mean(-1))
    return np.maximum(size, np.finfo(np.float32).tiny)


def position_variance(confidence: np.ndarray) -> np.ndarray:
    """``1000 (1 − c)/c``: the variance of a position observed with confidence c, without any training.

    In units of the squared motion of the joint in one frame. 0 for c = 1, where the position is kept; 1000 for
    c = ½, an error of thirty times the motion in a frame; infinite for c = 0. It falls as c grows.

    Examples
    --------
    >>> from udtw.skeleton.confidence import position_variance
    >>> position_variance([1.0, 0.5, 0.1]).tolist()
    [0.0, 1000.0, 9000.0]
    """
    sure = np.asarray(confidence, dtype=np.float64)
    return SPREAD * (1 - sure) / np.maximum(sure, LEAST_CONFIDENCE)


def repaired(frames: np.ndarray, confidence: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions (T, P, J, C) as a random walk through what was observed, and their variances (T, P, J).

    Every joint makes a step of variance 1 in each frame and is observed with `position_variance`; its expected
    position and variance given all frames follow from a Kalman smoother. So a joint that is not tracked is interpolated
    between the frames around the gap, with a variance that grows towards its middle; one of confidence 1 stays where
    it is, with variance 0. A joint that is never tracked becomes NaN.

    Examples
    --------
    >>> import numpy as np
    >>> from udtw.skeleton.confidence import repaired
    >>> frames = np.array([0.0, 9.0, 9.0, 3.0]).reshape(4, 1, 1, 1)  # wrong in the middle
    >>> positions, variance = repaired(frames, np.array([1.0, 0.0, 0.0, 1.0]).reshape(4, 1, 1))
    >>> positions.ravel().round(3).tolist(), [round(float(v), 3) for v in variance.ravel()]
    ([0.0, 1.0, 2.0, 3.0], [0.0, 0.667, 0.667, 0.0])
    """
    confidence = np.where(np.isfinite(frames).all(-1), confidence, 0.0)
    if (confidence == 1).all():
        return frames, np.zeros(confidence.shape, np.float32)
    observed = np.where(confidence[..., None] > 0, frames, 0.0).astype(np.float64)
    noise = position_variance(confidence)
    n_frames = len(frames)
    mean, variance = np.empty_like(observed), np.empty_like(noise)
    ahead = np.full(noise.shape[1:], UNKNOWN)  # variance before the frame is seen
    at = observed[0]
    for t in range(n_frames):
        gain = ahead / (ahead + noise[t])
        mean[t] = at = at + gain[..., None] * (observed[t] - at)
        variance[t] = (1 - gain) * ahead
        ahead = variance[t] + 1
    for t in range(n_frames - 2, -1, -1):
        back = variance[t] / (variance[t] + 1)
        mean[t] += back[..., None] * (mean[t + 1] - mean[t])
        variance[t] += back**2 * (variance[t + 1] - variance[t] - 1)
    never = (confidence == 0).all(0)
    mean[:, never] = np.nan
    return mean.astype(frames.dtype), variance.astype(np.float32)


def motion(frames: np.ndarray, confidence: np.ndarray) -> np.ndarray:
    """(P, J): the mean squared motion of each joint in one frame and along one axis, from frames where it is sure.

    The mean of all joints counts as one more observation of each, for those that are hardly ever seen. It is no more
    than `MOST_MOTION`.
    """
    steps = np.square(np.diff(np.nan_to_num(frames), axis=0)).mean(-1)
    sure = (np.minimum(confidence[1:], confidence[:-1]) > 0.99).astype(np.float64)
    total, count = (steps * sure).sum(0), sure.sum(0)
    usual = total.sum() / max(count.sum(), 1)
    return np.minimum((total + usual) / (count + 1), MOST_MOTION).astype(np.float32)
