"""From confidence to variances: what a sensor says about its joints, and what follows for positions and blocks."""

import numpy as np

SPREAD = 1000.0
"""Variance of a position of confidence ½, in units of the squared motion of its joint in one frame."""
LEAST_CONFIDENCE = 1e-9
UNKNOWN = 1e4
"""Variance of a joint before anything is known of it, in the same units."""


def position_variance(confidence: np.ndarray) -> np.ndarray:
    """``1000 (1 − c)/c``: the variance of a position observed with confidence c, without any training.

    In units of the squared motion of the joint in one frame. 0 for c = 1, where the position is kept; 1000 for
    c = ½, an error of thirty times the motion in a frame; infinite for c = 0. It falls as c grows.

    Examples
    --------
    >>> from udtw.skeleton import position_variance
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
    >>> from udtw.skeleton import repaired
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

    The mean of all joints counts as one more observation of each, for those that are hardly ever seen.
    """
    steps = np.square(np.diff(np.nan_to_num(frames), axis=0)).mean(-1)
    sure = (np.minimum(confidence[1:], confidence[:-1]) > 0.99).astype(np.float64)
    total, count = (steps * sure).sum(0), sure.sum(0)
    usual = total.sum() / max(count.sum(), 1)
    return ((total + usual) / (count + 1)).astype(np.float32)
