"""Joint layouts: the joints of a skeleton and the bones that connect them."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from udtw.errors import OptionError

OWN = re.compile(r"(\d{1,4}) joints: ((?:\d{1,4}-\d{1,4}(?: |(?=,)))*), centre (\d{1,4})")
MOST_JOINTS = 2000
"""A damaged name must not ask for a large adjacency."""


@dataclass(frozen=True)
class Graph:
    """A joint layout: names of the ``joints``, ``edges`` as pairs of joint numbers, and the torso joint ``centre``.

    Examples
    --------
    >>> from udtw.skeleton.graphs import Graph
    >>> arm = Graph(("shoulder", "elbow", "hand"), ((0, 1), (1, 2)), centre=0)
    >>> arm.adjacency().round(2).tolist()
    [[0.5, 0.41, 0.0], [0.41, 0.33, 0.41], [0.0, 0.41, 0.5]]
    """

    joints: tuple[str, ...]
    edges: tuple[tuple[int, int], ...]
    centre: int

    def __post_init__(self) -> None:
        bad = [e for e in self.edges if len(set(e)) != 2 or not all(0 <= j < len(self.joints) for j in e)]
        if bad or not 0 <= self.centre < len(self.joints):
            raise OptionError(
                f"Edges and centre must be joint numbers from 0 to {len(self.joints) - 1}, and an edge joins two "
                f"joints; got edges {bad[:3]}, centre {self.centre}."
            )

    def adjacency(self) -> np.ndarray:
        """Return the normalized adjacency ``D̃^(−1/2) (A + I) D̃^(−1/2)``, (J, J), with eigenvalues in (−1, 1]."""
        matrix = np.eye(len(self.joints))
        for a, b in self.edges:
            matrix[a, b] = matrix[b, a] = 1
        root = matrix.sum(1) ** -0.5
        return root[:, None] * matrix * root[None, :]

    def outwards(self) -> list[tuple[int, int]]:
        """Return (joint, its neighbor toward the center) for every other connected joint, the nearest first."""
        parents: dict[int, int] = {self.centre: self.centre}
        ways = [*self.edges, *((b, a) for a, b in self.edges)]
        reached = [self.centre]
        for parent in reached:
            for joint in (b for a, b in ways if a == parent and b not in parents):
                parents[joint] = parent
                reached.append(joint)
        return [(joint, parent) for joint, parent in parents.items() if joint != self.centre]

    @property
    def text(self) -> str:
        """A name that `graph` turns into this layout again (without the names of the joints).

        >>> from udtw.skeleton import from_edges, graph
        >>> from_edges([(0, 1), (1, 2)], n_joints=3, centre=1).text
        '3 joints: 0-1 1-2, centre 1'
        """
        return f"{len(self.joints)} joints: {' '.join(f'{a}-{b}' for a, b in self.edges)}, centre {self.centre}"


def from_edges(edges: Iterable[tuple[int, int]], n_joints: int, centre: int = 0) -> Graph:
    """Build a graph of ``n_joints`` joints without names.

    Examples
    --------
    >>> from udtw.skeleton import from_edges
    >>> from_edges([(0, 1), (1, 2)], n_joints=3).joints
    ('joint 0', 'joint 1', 'joint 2')
    """
    edges = list(edges)
    pairs = np.asarray(edges) if edges else np.zeros((0, 2), np.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise OptionError(f"edges must be pairs of joint numbers, such as [(0, 1), (1, 2)]; got {edges!s:.60}.")
    return Graph(tuple(f"joint {j}" for j in range(n_joints)), tuple((a, b) for a, b in pairs.tolist()), centre)


def _chains(joints: str, centre: str, *chains: str) -> Graph:
    """Build a graph from the names of its joints and of chains of connected joints, separated by blanks."""
    names = tuple(joints.split())
    numbers = {name: number for number, name in enumerate(names)}
    edges = [(numbers[a], numbers[b]) for c in chains for a, b in zip(c.split(), c.split()[1:], strict=False)]
    return Graph(names, tuple(edges), numbers[centre])


_KINECT = (
    "head neck spine hip",
    "neck shoulder_l elbow_l wrist_l hand_l",
    "neck shoulder_r elbow_r wrist_r hand_r",
    "hip hip_l knee_l ankle_l foot_l",
    "hip hip_r knee_r ankle_r foot_r",
)
"""Chains of the 20 joints of a Kinect v1, which data sets list in different orders."""

GRAPHS = {
    "ntu25": _chains(
        "spine_base spine_mid neck head shoulder_l elbow_l wrist_l hand_l shoulder_r elbow_r wrist_r hand_r "
        "hip_l knee_l ankle_l foot_l hip_r knee_r ankle_r foot_r spine_top tip_l thumb_l tip_r thumb_r",
        "spine_mid",
        "spine_base spine_mid spine_top neck head",
        "spine_top shoulder_l elbow_l wrist_l hand_l thumb_l tip_l",
        "spine_top shoulder_r elbow_r wrist_r hand_r thumb_r tip_r",
        "spine_base hip_l knee_l ankle_l foot_l",
        "spine_base hip_r knee_r ankle_r foot_r",
    ),
    "openpose18": _chains(
        "nose neck shoulder_r elbow_r wrist_r shoulder_l elbow_l wrist_l hip_r knee_r ankle_r hip_l knee_l ankle_l "
        "eye_r eye_l ear_r ear_l",
        "neck",
        "neck nose eye_r ear_r",
        "nose eye_l ear_l",
        "neck shoulder_r elbow_r wrist_r",
        "neck shoulder_l elbow_l wrist_l",
        "neck hip_r knee_r ankle_r",
        "neck hip_l knee_l ankle_l",
    ),
    "kinect20": _chains(
        "head neck spine hip shoulder_l elbow_l wrist_l hand_l shoulder_r elbow_r wrist_r hand_r "
        "hip_l knee_l ankle_l foot_l hip_r knee_r ankle_r foot_r",
        "spine",
        *_KINECT,
    ),
    "kinect-sdk20": _chains(
        "hip spine neck head shoulder_l elbow_l wrist_l hand_l shoulder_r elbow_r wrist_r hand_r "
        "hip_l knee_l ankle_l foot_l hip_r knee_r ankle_r foot_r",
        "spine",
        *_KINECT,
    ),
    "msr20": _chains(
        "shoulder_r shoulder_l neck spine hip_r hip_l hip elbow_r elbow_l wrist_r wrist_l hand_r hand_l "
        "knee_r knee_l ankle_r ankle_l foot_r foot_l head",
        "spine",
        *_KINECT,
    ),
    "coco17": _chains(
        "nose eye_l eye_r ear_l ear_r shoulder_l shoulder_r elbow_l elbow_r wrist_l wrist_r hip_l hip_r knee_l knee_r "
        "ankle_l ankle_r",
        "nose",
        "nose eye_l ear_l shoulder_l elbow_l wrist_l",
        "nose eye_r ear_r shoulder_r elbow_r wrist_r",
        "shoulder_l shoulder_r",
        "shoulder_l hip_l knee_l ankle_l",
        "shoulder_r hip_r knee_r ankle_r",
        "hip_l hip_r",
    ),
    "mediapipe33": _chains(
        "nose eye_inner_l eye_l eye_outer_l eye_inner_r eye_r eye_outer_r ear_l ear_r mouth_l mouth_r "
        "shoulder_l shoulder_r elbow_l elbow_r wrist_l wrist_r pinky_l pinky_r index_l index_r thumb_l thumb_r "
        "hip_l hip_r knee_l knee_r ankle_l ankle_r heel_l heel_r toe_l toe_r",
        "nose",
        "nose eye_inner_l eye_l eye_outer_l ear_l",
        "nose eye_inner_r eye_r eye_outer_r ear_r",
        "nose mouth_l mouth_r nose",
        "shoulder_l nose shoulder_r shoulder_l",
        "shoulder_l elbow_l wrist_l pinky_l index_l wrist_l thumb_l",
        "shoulder_r elbow_r wrist_r pinky_r index_r wrist_r thumb_r",
        "shoulder_l hip_l knee_l ankle_l heel_l toe_l ankle_l",
        "shoulder_r hip_r knee_r ankle_r heel_r toe_r ankle_r",
        "hip_l hip_r",
    ),
    "halpe26": _chains(
        "nose eye_l eye_r ear_l ear_r shoulder_l shoulder_r elbow_l elbow_r wrist_l wrist_r hip_l hip_r knee_l knee_r "
        "ankle_l ankle_r head neck hip toe_l toe_r small_toe_l small_toe_r heel_l heel_r",
        "hip",
        "head nose eye_l ear_l",
        "nose eye_r ear_r",
        "head neck hip",
        "neck shoulder_l elbow_l wrist_l",
        "neck shoulder_r elbow_r wrist_r",
        "hip hip_l knee_l ankle_l heel_l toe_l",
        "hip hip_r knee_r ankle_r heel_r toe_r",
        "heel_l small_toe_l",
        "heel_r small_toe_r",
    ),
    "smpl24": _chains(
        "hip hip_l hip_r spine_base knee_l knee_r spine ankle_l ankle_r spine_top foot_l foot_r neck collar_l collar_r "
        "head shoulder_l shoulder_r elbow_l elbow_r wrist_l wrist_r hand_l hand_r",
        "hip",
        "hip spine_base spine spine_top neck head",
        "spine_top collar_l shoulder_l elbow_l wrist_l hand_l",
        "spine_top collar_r shoulder_r elbow_r wrist_r hand_r",
        "hip hip_l knee_l ankle_l foot_l",
        "hip hip_r knee_r ankle_r foot_r",
    ),
    "upperbody8": _chains(
        "tip_l tip_r elbow_l elbow_r wrist_l wrist_r thumb_l thumb_r",
        "elbow_l",
        "tip_l wrist_l elbow_l elbow_r wrist_r tip_r",
        "thumb_l wrist_l",
        "thumb_r wrist_r",
    ),
}
"""Joint layouts by name: Kinect v2 (NTU RGB+D), OpenPose (Kinetics-skeleton), Kinect v1 in three orders (UTD-MHAD,
Northwestern-UCLA, MSR Action3D), the pose estimators' (COCO, MediaPipe, Halpe, SMPL), arms (NATOPS).

A layout needs a connected graph: where a published one leaves the face apart, it is joined at the nose.

>>> from udtw.skeleton import GRAPHS
>>> list(GRAPHS)
['ntu25', 'openpose18', 'kinect20', 'kinect-sdk20', 'msr20', 'coco17', 'mediapipe33', 'halpe26', 'smpl24', 'upperbody8']
>>> len(GRAPHS["ntu25"].joints)
25
"""


def graph(name: str | Graph) -> Graph:
    """Return the joint layout ``name``: one of `GRAPHS`, the ``text`` of a layout of your own, or already a `Graph`.

    Examples
    --------
    >>> from udtw.skeleton import graph
    >>> layout = graph("kinect20")
    >>> layout.joints[layout.centre], len(layout.edges)
    ('spine', 19)
    """
    if isinstance(name, Graph):
        return name
    own = OWN.fullmatch(name) if isinstance(name, str) else None
    if own and int(own[1]) <= MOST_JOINTS:
        edges = [(int(a), int(b)) for a, b in (edge.split("-") for edge in own[2].split())]
        return from_edges(edges, int(own[1]), int(own[3]))
    if not isinstance(name, str) or name not in GRAPHS:
        raise OptionError(f"graph must be one of {sorted(GRAPHS)}, or be made with from_edges; got {name!r:.200}.")
    return GRAPHS[name]


def graph_name(layout: str | Graph) -> str:
    """Return the name by which `graph` finds a layout again: of `GRAPHS`, or its ``text``.

    >>> from udtw.skeleton.graphs import from_edges, graph, graph_name
    >>> graph_name(graph("coco17")), graph_name(from_edges([(0, 1)], 2))
    ('coco17', '2 joints: 0-1, centre 0')
    """
    if isinstance(layout, str):
        return layout
    chosen = graph(layout)
    return next((name for name, known in GRAPHS.items() if known == chosen), chosen.text)
