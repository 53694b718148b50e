"""Left and right: limbs that a tracker has taken for those of the other side are found and exchanged back."""

import itertools

import numpy as np

from udtw.skeleton.graphs import Graph

TINY = np.finfo(np.float64).tiny
TRUSTED = 0.5
"""Joints of less confidence take no part in finding exchanges."""
ROOTS = ("shoulder_l", "hip_l")
FLIP = -0.5
"""Mean cosine between the directions from right to left in two frames, below which a limb has changed sides."""
APART = 0.5
"""Left and right must be this far apart, relative to the median frame: in a picture of somebody who turns they meet."""


def limb_pairs(graph: Graph) -> list[tuple[list[int], list[int]]]:
    """Left and right joints of each limb, the nearest to the centre first.

    A limb is a connected group of joints whose names end in "_l" and that have partners in "_r"; shoulders and hips
    begin limbs.

    Examples
    --------
    >>> from udtw.skeleton import graph
    >>> from udtw.skeleton.sides import limb_pairs
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
    """(T, P, L): True where limb l of `limb_pairs` has changed sides, in frames (T, P, J, C).

    With ``e`` the vectors from the right to the left joints of a limb, the motion of both limbs from one frame to the
    next is larger by ``4⟨e_t, e_{t+1}⟩`` if they changed sides. People turn slowly, so this product is negative only
    where the tracker has exchanged them. Which parts of a clip are the wrong ones follows from the other limbs, whose
    left is on the same side; if that leaves a choice, fewer frames are wrong.

    Examples
    --------
    >>> import numpy as np
    >>> from udtw.skeleton import graph
    >>> from udtw.skeleton.sides import swapped_limbs
    >>> from udtw.skeleton.datasets import make_actions
    >>> from udtw.skeleton.datasets.synthetic import Sensor
    >>> clip = make_actions(n_classes=1, n_clips=1, sensor=Sensor(bursts=0.0))[0]
    >>> layout, frames = graph("kinect20"), clip.frames.copy()
    >>> legs = [layout.joints.index(f"{part}_{side}") for side in "lr" for part in ("hip", "knee", "ankle", "foot")]
    >>> frames[10:20, 0, legs] = frames[10:20, 0, legs[4:] + legs[:4]]
    >>> swapped_limbs(frames, clip.confidence, layout)[[9, 10, 19, 20], 0, 0].tolist()
    [False, True, True, False]
    """
    pairs = limb_pairs(graph)
    found = np.zeros((*frames.shape[:2], len(pairs)), bool)
    across = np.zeros((*found.shape, frames.shape[3]))
    for number, (left, right) in enumerate(pairs):
        apart = frames[:, :, left].astype(np.float64) - frames[:, :, right]
        sure = np.minimum(confidence[:, :, left], confidence[:, :, right]) >= TRUSTED
        apart[~(sure & np.isfinite(apart).all(-1))] = 0
        size = np.linalg.norm(apart, axis=-1)
        products, sizes = (apart[1:] * apart[:-1]).sum(-1), np.sqrt(size[1:] * size[:-1])
        votes = (products / np.maximum(sizes, TINY)).sum(-1) / np.maximum(sizes.sum(-1), TINY)
        usual = np.ma.median(np.ma.masked_equal(size, 0), axis=0).filled(0)
        far = sizes.sum(-1) >= APART * (usual * (sizes > 0)).sum(-1)
        found[1:, :, number] = np.cumsum((votes < FLIP) & far, axis=0) % 2 == 1
        across[:, :, number] = apart[:, :, 0] / np.maximum(size[:, :, :1], TINY)
    for person in range(frames.shape[1]):
        found[:, person] = _most_plausible(found[:, person], across[:, person])
    return found


def _most_plausible(found: np.ndarray, across: np.ndarray) -> np.ndarray:
    """Of the labellings of ``found`` (T, L) up to a change of all frames of a limb, the one in which limbs agree."""

    def score(labels: np.ndarray) -> tuple[float, float]:
        signed = np.where(labels[..., None], -across, across)
        agreement = np.square(signed.sum(1)).sum(-1).mean()  # larger by 2⟨u, v⟩ for each two limbs
        return round(float(agreement), 1), -float(labels.mean())

    choices = itertools.product((False, True), repeat=found.shape[1])
    return max((found ^ np.array(choice, bool) for choice in choices), key=score) if found.any() else found


def unswapped(frames: np.ndarray, confidence: np.ndarray, graph: Graph) -> tuple[np.ndarray, np.ndarray]:
    """Frames (T, P, J, C) and confidence (T, P, J) with `swapped_limbs` exchanged back.

    If the sensor doubted a joint of such a limb and it could be trusted otherwise, its confidence becomes 1: the
    exchange explains the doubt.

    Examples
    --------
    >>> from udtw.skeleton import graph
    >>> from udtw.skeleton.sides import unswapped
    >>> from udtw.skeleton.datasets import Faults, make_actions
    >>> from udtw.skeleton.datasets.synthetic import Sensor
    >>> actions = make_actions(n_classes=1, n_clips=1, sensor=Sensor(noise=0.0, bursts=0.0))
    >>> faulty = Faults(dropouts=0, jitters=0, swaps=3.0).of(actions, random_state=1)
    >>> frames, confidence = unswapped(faulty[0].frames, faulty[0].confidence, graph("kinect20"))
    >>> bool((faulty[0].frames == actions[0].frames).all()), bool((frames == actions[0].frames).all())
    (False, True)
    """
    found = swapped_limbs(frames, confidence, graph)
    if not found.any():
        return frames, confidence
    frames, confidence = frames.copy(), confidence.copy()
    for number, (left, right) in enumerate(limb_pairs(graph)):
        for person in range(frames.shape[1]):
            when = np.flatnonzero(found[:, person, number])[:, None]
            frames[when, person, left + right] = frames[when, person, right + left]
            sure = confidence[when, person, right + left]
            confidence[when, person, left + right] = np.where(sure >= TRUSTED, 1, sure)
    return frames, confidence
