"""Faults of a skeleton tracker, put into recorded clips: limbs are lost, jitter or change sides."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from udtw.errors import OptionError
from udtw.skeleton.datasets.clip import Clip, Recording
from udtw.skeleton.datasets.skeleton_set import SkeletonSet
from udtw.skeleton.graphs import Graph, graph

DROPOUT, JITTER, SWAP = 0.0, 0.3, 0.5
"""Confidence that the tracker states during a fault."""


@dataclass(frozen=True)
class Faults:
    """Mean numbers of faults per clip; each fault affects one limb of one person for a while.

    Parameters
    ----------
    dropouts : float
        The limb is lost: each of its joints stays at a random place near the body. The stated confidence is 0.
    jitters : float
        Its joints jump about their true places. The stated confidence is 0.3.
    swaps : float
        It is exchanged with that of the other side, where the joints have names that end in "_l" and "_r". The stated
        confidence is 0.5.
    duration : (low, high)
        Length of a fault, as a share of the clip.
    size : float
        Standard deviation of wrong places, in units of the body: the root mean square distance
        of the joints from their mean.

    Examples
    --------
    >>> from udtw.skeleton.datasets import Faults, make_actions
    >>> from udtw.skeleton.datasets.synthetic import Sensor
    >>> actions = make_actions(n_classes=2, n_clips=1, sensor=Sensor(bursts=0.0))
    >>> faulty = Faults(dropouts=2.0).of(actions, random_state=0)
    >>> faulty[0].confidence.min(), faulty.names == actions.names
    (np.float32(0.0), True)
    """

    dropouts: float = 1.5
    jitters: float = 1.0
    swaps: float = 0.5
    duration: tuple[float, float] = (0.2, 0.6)
    size: float = 1.0

    def __post_init__(self) -> None:
        low, high = self.duration
        rates = (self.dropouts, self.jitters, self.swaps, self.size)
        if not all(0 <= rate < np.inf for rate in rates) or not 0 < low <= high <= 1:
            raise OptionError(f"Faults need numbers that are not negative, and 0 < low ≤ high ≤ 1; got {self}.")

    def of(self, skeletons: SkeletonSet, random_state: int = 0, *, stated: bool = True) -> SkeletonSet:
        """Put faults into the clips. The confidence marks them only if ``stated``.

        A clip gets the same faults whatever else is in the set.
        """
        read = partial(_faulty, self, skeletons, random_state, stated)
        return SkeletonSet(
            skeletons.name, skeletons.graph, skeletons.classes, skeletons.entries, read, skipped=skeletons.skipped
        )  # fmt: skip

    def apply(self, clip: Clip, layout: Graph, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Return frames and confidence of the clip with faults."""
        frames, confidence = clip.frames.copy(), clip.confidence.copy()
        limbs = list(_limbs(layout))
        known = frames[np.isfinite(frames).all(-1)]
        middle, body = known.mean(0), self.size * float(np.sqrt(known.var(0).mean()))
        kinds = [kind for kind in ("dropouts", "jitters", "swaps") for _ in range(rng.poisson(getattr(self, kind)))]
        for kind in kinds:
            length = max(1, round(len(frames) * rng.uniform(*self.duration)))
            start = int(rng.integers(0, len(frames) - length + 1))
            person = int(rng.integers(frames.shape[1]))
            limb = limbs[int(rng.integers(len(limbs)))]
            joints = limb[: int(rng.integers(1, len(limb) + 1))]  # the hand first
            when = slice(start, start + length)
            shape = (length, len(joints), frames.shape[3])
            if kind == "dropouts":
                frames[when, person, joints] = middle + body * rng.standard_normal(shape[1:])
                confidence[when, person, joints] = DROPOUT
            elif kind == "jitters":
                frames[when, person, joints] += (body * rng.standard_normal(shape)).astype(np.float32)
                confidence[when, person, joints] = np.minimum(confidence[when, person, joints], JITTER)
            elif (other := _other_side(layout, limb)) is not None:
                both = [*limb, *other]
                frames[when, person, both] = frames[when, person, [*other, *limb]]
                confidence[when, person, both] = np.minimum(confidence[when, person, [*other, *limb]], SWAP)
        return frames, confidence


def _faulty(faults: Faults, skeletons: SkeletonSet, random_state: int, stated: bool, index: int) -> Recording:
    clip = skeletons[index]
    seed = [random_state, *clip.name.encode()]
    frames, confidence = faults.apply(clip, graph(skeletons.graph), np.random.default_rng(seed))
    return frames, confidence if stated else clip.confidence


def _limbs(layout: Graph) -> Iterator[list[int]]:
    """Yield chains of joints from every end of the skeleton to the last joint before it branches."""
    neighbors: dict[int, list[int]] = {j: [] for j in range(len(layout.joints))}
    for a, b in layout.edges:
        neighbors[a].append(b)
        neighbors[b].append(a)
    for end in (j for j, others in neighbors.items() if len(others) == 1):
        chain = [end]
        while True:
            onward = [j for j in neighbors[chain[-1]] if j not in chain]
            if len(onward) != 1 or len(neighbors[onward[0]]) > 2:
                break
            chain += onward
        yield chain


def _other_side(layout: Graph, limb: list[int]) -> list[int] | None:
    """Return the joints of the other side, if all have names that end in "_l" or "_r"."""
    sides = {"_l": "_r", "_r": "_l"}
    names = [layout.joints[j] for j in limb]
    wanted = [name[:-2] + sides.get(name[-2:], "") for name in names]
    return [layout.joints.index(one) for one in wanted] if set(wanted) <= set(layout.joints) - set(names) else None
