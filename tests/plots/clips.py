"""Clips to draw, and the parts of a figure that show them."""

import re

import numpy as np
from matplotlib.collections import LineCollection

POSE = re.compile(r"pose (\d+) person (\d+)")


def walk(n_frames=40, people=1, joints=20, coordinates=3, seed=0):
    """(T, P, J, C): joints at random places that drift to the right, one body apart."""
    rng = np.random.default_rng(seed)
    frames = rng.uniform(-1, 1, (1, people, joints, coordinates)).repeat(n_frames, 0)
    frames[..., 0] += np.linspace(0, 30, n_frames)[:, None, None] + 3 * np.arange(people)[:, None]
    return frames.astype(np.float32)


def drawn(axes):
    """{(frame, person): the `LineCollection` of its bones}."""
    found = {}
    for one in axes.collections:
        if isinstance(one, LineCollection) and (match := POSE.fullmatch(one.get_gid() or "")):
            found[int(match[1]), int(match[2])] = one
    return found


def bones_on_screen(axes, one):
    """(n, 2, 2) ends of the bones in pixels."""
    offset = one.get_offset_transform().transform(one.get_offsets())[0]
    return np.array([one.get_transform().transform(bone) + offset for bone in one.get_segments()])
