"""Turn confidence into variances of the joints; repair lost joints and exchanged limbs."""

import itertools
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from udtw.skeleton.graphs import Graph

TINY = np.finfo(np.float64).tiny
SPREAD = 1000.0
"""Variance of a position of confidence ½, in units of the squared motion of its joint in one frame."""
LEAST_CONFIDENCE = 1e-9
UNKNOWN = 1e4
"""Variance of a joint before any observation, in the same units."""
MOST_MOTION = 0.01
"""A joint's mean squared motion in one frame, along one axis and in units of the normalized body, is at most this: more
comes from undetected faults, and would make all variances of the joint enormous."""
STILL_FRAMES = 3
"""Frames in the same place to the last digit after which a joint counts as lost, if the person moves."""
ROUGH_FRAMES = 5
ROUGH = 0.1
"""Variance of jitter, in units of the squared body, above which it is not the motion of a person."""


def plausible_confidence(frames: np.ndarray) -> np.ndarray:
    """Estimate a confidence (T, P, J) from the motion in frames (T, P, J, C), for sensors that state none.

    A joint that stays in the same place to the last digit for `STILL_FRAMES` frames or more, while half of the joints
    move, is lost: 0. One that jitters has ``1/(1 + 10 v)`` where its variance v, the median of
    ``⅙ (x_{t−1} − 2x_t + x_{t+1})²`` over `ROUGH_FRAMES` frames in units of the squared body, is above `ROUGH`. All
    others have 1, so that clips without such faults do not change.
    """
    sure = np.ones(frames.shape[:3], np.float32)
    if len(frames) < STILL_FRAMES:
        return sure
    known = np.isfinite(frames).all(-1)
    frames = np.where(known[..., None], frames, np.nan)
    bends = np.nan_to_num(np.square(np.diff(frames, n=2, axis=0)).mean(-1) / 6)
    beside = 1 + ROUGH_FRAMES // 2  # one more at each end, where there is no second difference
    windows = sliding_window_view(np.pad(bends, ((beside, beside), (0, 0), (0, 0)), mode="edge"), ROUGH_FRAMES, axis=0)
    rough = np.median(windows, -1) / _squared_body(frames, known)[:, None]
    sure[rough > ROUGH] = (1 / (1 + 10 * rough[rough > ROUGH])).astype(np.float32)
    same = (np.diff(frames, axis=0) == 0).all(-1)
    same &= same.mean(-1, keepdims=True) <= 0.5
    stuck = np.all(sliding_window_view(same, STILL_FRAMES - 1, axis=0), axis=-1)
    for offset in range(STILL_FRAMES):
        sure[offset : offset + stuck.shape[0]][stuck] = 0
    return sure


CHECKED_CLIPS, CHECKED_POSITIONS = 100, 100
"""The confidence of so many clips is checked, if it doubts so many positions."""
DOUBTED = 0.5
ALWAYS = 0.8
"""Share of its frames in which a joint may be doubted."""
AS_LIKELY = 0.55
"""Probability that a doubted position is less plausible than a trusted one, below which confidence predicts nothing."""
FAR_ROUGHER = 100.0
"""Ratio of mean squared second differences above which a joint that is always doubted is doubted with reason."""


def misread_confidence(clips: Sequence) -> str | None:
    """Return why the confidence of clips cannot be what it is called; None if it can.

    Doubted positions must be less plausible than trusted ones. A position is implausible by ``|log(b/m)|``, with b the
    squared second difference of its joint and m the median of b in the clip where the joint is trusted: it jitters, or
    it stands still. If a doubted position (weighted by 1 − c) is hardly more often the less plausible one than a
    trusted position of the same joint (weighted by c), confidence predicts no error. Nor can it be meant if a joint is
    doubted nearly always, although it moves as smoothly as the others.
    """
    chosen = np.unique(np.linspace(0, len(clips) - 1, min(len(clips), CHECKED_CLIPS)).round().astype(int))
    checked = [_doubts(clips[index]) for index in chosen.tolist()]
    doubt, bend, deviation = (np.concatenate(part) for part in zip(*checked, strict=True))  # (positions, joints) each
    known, doubted = ~np.isnan(doubt), doubt >= DOUBTED
    if doubted.sum() < CHECKED_POSITIONS and np.nansum(doubt) < CHECKED_POSITIONS:
        return None
    always = (doubted.sum(0) > ALWAYS * known.sum(0)) & (known.sum(0) >= CHECKED_POSITIONS)
    trusted = bend[:, ~always][known[:, ~always]]
    for joint in np.flatnonzero(always):
        ratio = np.median(bend[known[:, joint], joint]) / max(np.median(trusted), TINY) if len(trusted) else 1.0
        if 1 / FAR_ROUGHER < ratio < FAR_ROUGHER:
            return f"joint {joint} is doubted nearly always, but moves as smoothly as the others"
    above = pairs = 0.0
    for doubts, values in ((doubt[ok, j], deviation[ok, j]) for j, ok in enumerate(known.T) if not always[j]):
        _, rank = np.unique(values, return_inverse=True)
        trust = np.bincount(rank, 1 - doubts)
        above += float((np.bincount(rank, doubts) * (trust.cumsum() - 0.5 * trust)).sum())
        pairs += float(doubts.sum() * (1 - doubts).sum())
    return "doubted positions are as plausible as trusted ones" if above < AS_LIKELY * pairs else None


def _doubts(clip: Any) -> tuple[np.ndarray, ...]:
    """Return 1 − c (NaN where unknown), b and ``|log(b/m)|`` of a clip, (frames and people, joints) each."""
    bend = np.square(np.diff(clip.frames.astype(np.float64), n=2, axis=0)).mean(-1)
    doubt = np.where(np.isnan(bend), np.nan, 1 - clip.confidence[1 : 1 + len(bend)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # medians of joints that are never there, or never trusted
        trusted = np.nanmedian(np.where(doubt < DOUBTED, bend, np.nan), axis=0)
        usual = np.where(np.isnan(trusted), np.nanmedian(bend, axis=0), trusted)
    deviation = np.abs(np.log(bend + TINY) - np.log(usual + TINY))
    return tuple(one.reshape(-1, bend.shape[2]) for one in (doubt, bend, deviation))


def _squared_body(frames: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Return the variance of a person's joints about their mean in the median frame, (P,); infinite if never seen."""
    size = np.full(frames.shape[1], np.inf)
    for person in range(frames.shape[1]):
        seen = known[:, person].sum(1) > 1
        if seen.any():
            size[person] = np.median(np.nanvar(frames[seen, person], axis=1).mean(-1))
    return np.maximum(size, np.finfo(np.float32).tiny)


def position_variance(confidence: np.ndarray) -> np.ndarray:
    """Return ``1000 (1 − c)/c``, the variance of a position observed with confidence c, without any training.

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
    """Repair positions (T, P, J, C) by a random walk through what was observed; also return variances (T, P, J).

    Every joint makes a step of variance 1 in each frame and is observed with `position_variance`; its expected
    position and variance given all frames follow from a Kalman smoother. So a joint that is not tracked is interpolated
    between the frames around the gap, with a variance that grows toward its middle; one of confidence 1 stays where
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
    """Return the mean squared motion of each joint per frame and axis, (P, J), from frames where it is certain.

    The mean of all joints counts as one more observation of each, for those that are hardly ever seen. It is no more
    than `MOST_MOTION`.
    """
    steps = np.square(np.diff(np.nan_to_num(frames), axis=0)).mean(-1)
    sure = (np.minimum(confidence[1:], confidence[:-1]) > 0.99).astype(np.float64)
    total, count = (steps * sure).sum(0), sure.sum(0)
    usual = total.sum() / max(count.sum(), 1)
    return np.minimum((total + usual) / (count + 1), MOST_MOTION).astype(np.float32)


TRUSTED = 0.5
"""Joints of less confidence take no part in finding exchanges."""
ROOTS = ("shoulder_l", "hip_l")
FLIP = -0.5
"""Mean cosine between the directions from right to left in two frames, below which a limb has changed sides."""
APART = 0.5
"""Left and right must be this far apart, relative to the median frame: in a picture of somebody who turns they meet."""


def limb_pairs(graph: Graph) -> list[tuple[list[int], list[int]]]:
    """Return left and right joints of each limb, the nearest to the center first.

    A limb is a connected group of joints whose names end in "_l" and that have partners in "_r"; shoulders and hips
    begin limbs.

    Examples
    --------
    >>> from udtw.skeleton import graph
    >>> from udtw.skeleton.confidence import limb_pairs
    >>> layout = graph("kinect20")
    >>> [[layout.joints[j] for j in left] for left, _ in limb_pairs(layout)]
    [['hip_l', 'knee_l', 'ankle_l', 'foot_l'], ['shoulder_l', 'elbow_l', 'wrist_l', 'hand_l']]
    """
    partners = {
        j: graph.joints.index(f"{name[:-2]}_r")
        for j, name in enumerate(graph.joints)
        if name.endswith("_l") and f"{name[:-2]}_r" in graph.joints
    }
    limbs: list[list[int]] = []
    for joint, parent in [(graph.centre, graph.centre), *graph.outwards()]:
        if joint in partners:
            own = next((limb for limb in limbs if parent in limb), None)
            if own is None or graph.joints[joint] in ROOTS:
                limbs.append([joint])
            else:
                own.append(joint)
    return [(limb, [partners[j] for j in limb]) for limb in limbs]


def swapped_limbs(frames: np.ndarray, confidence: np.ndarray, graph: Graph) -> np.ndarray:
    """Return where limb l of `limb_pairs` has changed sides, (T, P, L) booleans, in frames (T, P, J, C).

    With ``e`` the vectors from the right to the left joints of a limb, the motion of both limbs from one frame to the
    next is larger by ``4⟨e_t, e_{t+1}⟩`` if they changed sides. People turn slowly, so this product is negative only
    where the tracker has exchanged them. Which parts of a clip are the wrong ones follows from the other limbs, whose
    left is on the same side; if that leaves a choice, fewer frames are wrong.
    """
    pairs = limb_pairs(graph)
    swapped = np.zeros((*frames.shape[:2], len(pairs)), bool)
    across = np.zeros((*swapped.shape, frames.shape[3]))
    for number, (left, right) in enumerate(pairs):
        apart = frames[:, :, left].astype(np.float64) - frames[:, :, right]
        sure = np.minimum(confidence[:, :, left], confidence[:, :, right]) >= TRUSTED
        apart[~(sure & np.isfinite(apart).all(-1))] = 0
        size = np.linalg.norm(apart, axis=-1)
        products, sizes = (apart[1:] * apart[:-1]).sum(-1), np.sqrt(size[1:] * size[:-1])
        votes = (products / np.maximum(sizes, TINY)).sum(-1) / np.maximum(sizes.sum(-1), TINY)
        usual = np.ma.median(np.ma.masked_equal(size, 0), axis=0).filled(0)
        far = sizes.sum(-1) >= APART * (usual * (sizes > 0)).sum(-1)
        swapped[1:, :, number] = np.cumsum((votes < FLIP) & far, axis=0) % 2 == 1
        across[:, :, number] = apart[:, :, 0] / np.maximum(size[:, :, :1], TINY)
    for person in range(frames.shape[1]):
        swapped[:, person] = _most_plausible(swapped[:, person], across[:, person])
    return swapped


def _most_plausible(swapped: np.ndarray, across: np.ndarray) -> np.ndarray:
    """Return the labeling of ``swapped`` (T, L), up to a change of all frames of a limb, in which limbs agree."""

    def score(labels: np.ndarray) -> tuple[float, float]:
        signed = np.where(labels[..., None], -across, across)
        agreement = np.square(signed.sum(1)).sum(-1).mean()  # larger by 2⟨u, v⟩ for each two limbs
        return round(float(agreement), 1), -float(labels.mean())

    choices = itertools.product((False, True), repeat=swapped.shape[1])
    return max((swapped ^ np.array(choice, bool) for choice in choices), key=score) if swapped.any() else swapped


def unswapped(frames: np.ndarray, confidence: np.ndarray, graph: Graph) -> tuple[np.ndarray, np.ndarray]:
    """Exchange `swapped_limbs` back in frames (T, P, J, C) and confidence (T, P, J).

    If the sensor doubted a joint of such a limb and it could be trusted otherwise, its confidence becomes 1: the
    exchange explains the doubt.
    """
    swapped = swapped_limbs(frames, confidence, graph)
    if not swapped.any():
        return frames, confidence
    frames, confidence = frames.copy(), confidence.copy()
    for number, (left, right) in enumerate(limb_pairs(graph)):
        for person in range(frames.shape[1]):
            when = np.flatnonzero(swapped[:, person, number])[:, None]
            frames[when, person, left + right] = frames[when, person, right + left]
            sure = confidence[when, person, right + left]
            confidence[when, person, left + right] = np.where(sure >= TRUSTED, 1, sure)
    return frames, confidence
