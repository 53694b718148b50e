"""Clips as batches of blocks for the encoder."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from udtw.errors import DataError
from udtw.skeleton.blocks import cut_blocks
from udtw.skeleton.graphs import Graph
from udtw.skeleton.normalize import normalize

CACHED_BYTES = 2**30
"""Normalised clips are kept up to this size, so that small sets are read and normalised once."""


class SkeletonSource:
    """The `udtw.fewshot.tasks.Source` of skeleton clips.

    Parameters
    ----------
    clips : sequence
        Items with ``frames`` (T, P, J, C), as `udtw.skeleton.datasets.SkeletonSet`.
    labels : (n,) integers
    graph : Graph
    block_size, stride : int
        Frames M of a block, and between the starts of two.
    scale : "axis", "body" or None
        See `normalize`.
    rotation, stretch, noise : float
        Augmentation in training: largest turn about the vertical (second) axis in degrees, largest relative change of
        size, standard deviation of noise in units of the normalised body.
    """

    def __init__(
        self, clips: Sequence, labels: np.ndarray, graph: Graph, *, block_size: int = 8, stride: int = 4,
        scale: str | None = "body", rotation: float = 0.0, stretch: float = 0.0, noise: float = 0.0,
    ) -> None:  # fmt: skip
        if len(clips) != len(labels):
            raise DataError(f"Every clip needs a label; got {len(clips)} clips and {len(labels)} labels.")
        self.clips, self.labels, self.graph = clips, np.asarray(labels), graph
        self.block_size, self.stride, self.scale = block_size, stride, scale
        self.rotation, self.stretch, self.noise = rotation, stretch, noise
        self._kept: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self._kept_bytes = 0

    def batch(self, indices: np.ndarray, generator: np.random.Generator | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """``(blocks, lengths, people)`` as `SkeletonEncoder` takes them."""
        cut, people = [], []
        for index in indices:
            frames, present = self._normalized(int(index))
            if generator is not None:
                frames = self._augmented(frames, generator)
            blocks = cut_blocks(frames, self.block_size, self.stride)  # (τ, M, P, J, C)
            cut.append(blocks.transpose(0, 2, 3, 1, 4).reshape(len(blocks), *frames.shape[1:3], -1))
            people.append(present)
        lengths = np.array([len(blocks) for blocks in cut])
        n_people = max(len(present) for present in people)
        padded = np.zeros((len(cut), lengths.max(), n_people, *cut[0].shape[2:]), np.float32)
        there = np.zeros((len(cut), n_people), bool)
        for row, (blocks, present) in enumerate(zip(cut, people, strict=True)):
            padded[row, : len(blocks), : len(present)] = blocks
            there[row, : len(present)] = present
        return torch.from_numpy(padded), torch.from_numpy(lengths), torch.from_numpy(there)

    def _normalized(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        """Frames (T, P, J, C) and which people are there (P,); at least the first."""
        if index in self._kept:
            return self._kept[index]
        raw = self.clips[index].frames
        present = np.isfinite(raw).any((0, 2, 3))
        present[0] = True
        found = normalize(raw, self.graph.centre, self.scale), present
        if self._kept_bytes + found[0].nbytes <= CACHED_BYTES:
            self._kept[index] = found
            self._kept_bytes += found[0].nbytes
        return found

    def _augmented(self, frames: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        if self.rotation and frames.shape[3] == 3:
            angle = np.deg2rad(self.rotation) * generator.uniform(-1, 1)
            cos, sin = np.cos(angle), np.sin(angle)
            turn = np.array([[cos, 0, sin], [0, 1, 0], [-sin, 0, cos]], np.float32)
            frames = frames @ turn.T
        if self.stretch:
            change = self.stretch * (2 * generator.random(frames.shape[3], np.float32) - 1)
            frames = frames * (1 + change)
        if self.noise:
            frames = frames + self.noise * generator.standard_normal(frames.shape, np.float32)
        return frames
