"""Turn clips into batches of blocks: normalize the frames, cut them into blocks of M frames, augment, pad."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence

from udtw.errors import DataError, LengthError, OptionError, ShapeError
from udtw.skeleton.confidence import misread_confidence, motion, plausible_confidence, repaired, unswapped
from udtw.skeleton.graphs import Graph
from udtw.skeleton.graphs import graph as named_graph

SCALES = ("axis", "body", None)
CONFIDENCE = ("ignore", "sensor", "estimate")
CACHED_BYTES = 2**30
"""Normalized clips are cached up to this size, so that small sets are read and normalized once."""


def normalize(frames: np.ndarray, centre: int, scale: str | None = "body") -> np.ndarray:
    """Center frames (T, P, J, C) at the torso and scale them; missing joints (NaN or infinite) become 0, the torso.

    Parameters
    ----------
    frames : (T, P, J, C)
    centre : int
        The torso joint. Its position in the first person is subtracted from everyone in each frame, so that the
        positions of two people relative to each other are kept. Where it is missing, its last known position is used,
        or its first known position at the start of a clip.
    scale : "axis", "body" or None
        "axis" divides each axis by its largest absolute value in the clip. "body" divides all axes by the same number,
        the root mean square of all coordinates: proportions are kept, and a single outlier has little effect. None
        keeps the unit.

    Examples
    --------
    >>> import numpy as np
    >>> from udtw.skeleton import normalize
    >>> frames = np.array([[[[1.0, 1, 0], [3, 1, 0]]]])  # one frame, one person, two joints
    >>> normalize(frames, centre=0, scale="axis").tolist()
    [[[[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]]]]
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
    """Replace missing positions (T, C) by the last known, or else the next known; by 0 if none is known."""
    known = ~np.isnan(path).any(1)
    if not known.any():
        return np.zeros_like(path)
    last = np.maximum.accumulate(np.where(known, np.arange(len(path)), -1))
    return path[np.where(last < 0, np.argmax(known), last)]


def turned(frames: np.ndarray, graph: Graph) -> np.ndarray:
    """Turn frames (T, P, J, 3) about the vertical (second) axis: left and right of the first person lie along the
    first.

    Cameras see the same action from several sides. A clip is turned as a whole, by the median direction from right to
    left shoulder and hip; what people do relative to each other, and how they turn, stays. Frames in two dimensions,
    and layouts without shoulders and hips "_l" and "_r", are returned as they are.
    """
    pairs = [(f"{part}_l", f"{part}_r") for part in ("shoulder", "hip")]
    sides = [[graph.joints.index(name) for name in pair] for pair in pairs if set(pair) <= set(graph.joints)]
    if frames.shape[3] != 3 or not sides:
        return frames
    across = sum(frames[:, 0, left] - frames[:, 0, right] for left, right in sides)[:, [0, 2]]
    length = np.linalg.norm(across, axis=1, keepdims=True)
    known = length[:, 0] > 0
    if not known.any():
        return frames
    x, z = np.median(across[known] / length[known], axis=0)
    cos, sin = np.array([x, z], np.float32) / max(np.hypot(x, z), np.finfo(np.float32).tiny)
    return frames @ np.array([[cos, 0, -sin], [0, 1, 0], [sin, 0, cos]], np.float32)


def block_starts(n_frames: int, size: int, stride: int) -> np.ndarray:
    """Return the first frames (τ,) of the blocks.

    The last block ends with the clip, so it may overlap more than the others.
    """
    if size < 1 or stride < 1:
        raise OptionError(f"Blocks need a size and a stride of at least one frame; got {size} and {stride}.")
    if n_frames < 1:
        raise LengthError("A clip without frames cannot be cut into blocks.")
    starts = np.arange(0, max(1, n_frames - size + 1), stride)
    end = max(0, n_frames - size)
    return starts if starts[-1] == end else np.append(starts, end)


def cut_blocks(frames: Tensor, size: int, stride: int) -> Tensor:
    """Cut frames (T, …) into blocks (τ, M, …), see `block_starts`; pad a clip shorter than one with its last frame."""
    count = len(block_starts(len(frames), size, stride))
    if len(frames) < size:
        frames = torch.cat([frames, frames[-1:].expand(size - len(frames), *frames.shape[1:])])
    blocks = frames.unfold(0, size, stride).movedim(-1, 1)
    return blocks if len(blocks) == count else torch.cat([blocks, frames[None, -size:]])


def block_spans(n_frames: int, size: int, stride: int) -> np.ndarray:
    """Return the first frame of every block and the frame after its last, within the clip, (τ, 2)."""
    starts = block_starts(n_frames, size, stride)
    return np.stack([starts, np.minimum(starts + size, n_frames)], 1)


@dataclass(frozen=True)
class Augmentation:
    """Random changes of a clip in training.

    ``rotation``: largest rotation about the vertical (second) axis, in degrees. ``stretch``: largest relative change of
    the size along each axis. ``noise``: standard deviation of added noise, in units of the normalized body.
    """

    rotation: float = 0.0
    stretch: float = 0.0
    noise: float = 0.0

    def __call__(self, frames: Tensor, generator: torch.Generator) -> Tensor:
        """Change frames (T, P, J, C) at random; random numbers are drawn on their device, that of the ``generator``."""
        drawn: dict[str, Any] = {"generator": generator, "device": frames.device}
        if self.rotation and frames.shape[3] == 3:
            angle = math.radians(self.rotation) * (2 * torch.rand((), **drawn) - 1)
            x, y, z = frames.unbind(3)
            frames = torch.stack([angle.cos() * x + angle.sin() * z, y, angle.cos() * z - angle.sin() * x], 3)
        if self.stretch:
            frames = frames * (1 + self.stretch * (2 * torch.rand(frames.shape[3], **drawn) - 1))
        if self.noise:
            frames = frames + self.noise * torch.randn(frames.shape, **drawn)
        return frames


class SkeletonSource:
    """Batches of blocks of skeleton clips: a `udtw.fewshot.tasks.Source`.

    Parameters
    ----------
    clips : sequence
        Items with ``frames`` (T, P, J, C), such as a `udtw.skeleton.datasets.SkeletonSet`.
    labels : (n,) integers
    graph : Graph or str
        A layout of the joints, or its name.
    block_size : int
        Frames M per block.
    stride : int
        Frames between the starts of two blocks.
    scale : "axis", "body" or None
        See `normalize`.
    facing : bool
        Turn every clip so that people face the same way, see `turned`.
    augmentation : Augmentation, optional
        Applied in training, that is if `batch` is given a generator.
    confidence : "ignore", "sensor" or "estimate"
        With "sensor", positions are `repaired` by the confidence of the clips before anything else, and batches have
        variances of the joints. "estimate" also reads the motion: confidence is capped by `plausible_confidence`,
        and limbs that have changed sides are exchanged back (`unswapped`). "ignore" takes positions as they are.
    believed : bool
        Of "estimate": False ignores the confidence of the clips, as happens, with a warning, if it predicts no error
        (`misread_confidence`).

    Examples
    --------
    >>> import numpy as np
    >>> from udtw.skeleton import SkeletonSource, graph, make_actions
    >>> actions = make_actions(n_classes=3, n_clips=1)
    >>> source = SkeletonSource(actions, actions.labels, graph(actions.graph))
    >>> blocks, lengths, people = source.batch(np.array([0, 1]))
    >>> blocks.shape[2:], len(lengths), people.tolist()
    (torch.Size([1, 20, 24]), 2, [[True], [True]])
    """

    def __init__(  # noqa: PLR0913 (keyword options of a public class)
        self,
        clips: Sequence,
        labels: np.ndarray,
        graph: Graph | str,
        *,
        block_size: int = 8,
        stride: int = 4,
        scale: str | None = "body",
        facing: bool = False,
        augmentation: Augmentation | None = None,
        confidence: str = "ignore",
        believed: bool = True,
    ) -> None:
        if len(clips) != len(labels):
            raise DataError(f"Every clip needs a label; got {len(clips)} clips and {len(labels)} labels.")
        if confidence not in CONFIDENCE:
            raise OptionError(f"confidence must be one of {CONFIDENCE}; got {confidence!r}.")
        self.clips, self.labels, self.graph = clips, np.asarray(labels), named_graph(graph)
        self.confidence, self.believed = confidence, believed
        if confidence == "estimate" and believed and (reason := misread_confidence(clips)) is not None:
            self.believed = False
            warnings.warn(
                f"The confidence of {getattr(clips, 'name', 'the clips')} is ignored: {reason}. "
                "Pass confidence='sensor' to use it nevertheless.",
                UserWarning,
                stacklevel=3,
            )
        self.block_size, self.stride, self.scale, self.facing = block_size, stride, scale, facing
        self.augmentation = augmentation or Augmentation()
        self._device = torch.device("cpu")
        self._kept: dict[int, tuple[Tensor, ...]] = {}
        self._kept_bytes = 0

    def to(self, device: torch.device) -> "SkeletonSource":
        """Keep clips on this device, up to `CACHED_BYTES`, and make batches there."""
        self._device = torch.device(device)
        self._kept, self._kept_bytes = {}, 0
        return self

    def batch(self, indices: np.ndarray, generator: np.random.Generator | None = None) -> tuple[Tensor, ...]:
        """Return ``(blocks, lengths, people)`` of the clips at ``indices``, as `SkeletonEncoder` takes them.

        Unless confidence is ignored, the fourth item is the variance of the joints in each block, (B, τ, P, J).
        """
        draws = None
        if generator is not None:
            draws = torch.Generator(self._device).manual_seed(int(generator.integers(2**63)))
        clips = [self._prepared(int(index)) for index in indices]
        n_people = max(len(present) for _, present, _, _ in clips)
        cut, variances = [], []
        for frames, present, variance, _ in clips:
            blocks = cut_blocks(frames if draws is None else self.augmentation(frames, draws), *self._sizes)
            absent = n_people - len(present)
            cut.append(pad(blocks.permute(0, 2, 3, 1, 4).flatten(3), (0, 0, 0, 0, 0, absent)))
            variances.append(pad(cut_blocks(variance, *self._sizes).mean(1), (0, 0, 0, absent)))  # (τ, P, J)
        there = torch.stack([pad(present, (0, n_people - len(present))) for _, present, _, _ in clips])
        lengths = torch.stack([count for _, _, _, count in clips])
        batch = pad_sequence(cut, batch_first=True), lengths, there
        return batch if self.confidence == "ignore" else (*batch, pad_sequence(variances, batch_first=True))

    @property
    def _sizes(self) -> tuple[int, int]:
        return self.block_size, self.stride

    def _prepared(self, index: int) -> tuple[Tensor, ...]:
        """Return the result of `_normalized` and the number of blocks as tensors on the device, where they are kept."""
        if index not in self._kept:
            frames, present, variance = self._normalized(index)
            count = torch.tensor(len(block_starts(len(frames), *self._sizes)))
            tensors = (*(torch.from_numpy(np.ascontiguousarray(one)) for one in (frames, present, variance)), count)
            prepared = tuple(one.to(self._device) for one in tensors)
            size = sum(one.nbytes for one in prepared)
            if self._kept_bytes + size > CACHED_BYTES:
                return prepared
            self._kept[index] = prepared
            self._kept_bytes += size
        return self._kept[index]

    def _normalized(self, index: int) -> tuple[np.ndarray, ...]:
        """Return frames (T, P, J, C), the mask (P,) of people who are present, and variances (T, P, J)."""
        clip = self.clips[index]
        raw = clip.frames
        present = np.isfinite(raw).any((0, 2, 3))
        present[0] = True
        variance = np.zeros(raw.shape[:3], np.float32)
        if self.confidence != "ignore":
            sure = clip.tracked if self.believed else np.isfinite(raw).all(-1).astype(np.float32)
            if self.confidence == "estimate":
                raw, sure = unswapped(raw, np.minimum(sure, plausible_confidence(raw)), self.graph)
            raw, variance = repaired(raw, sure)
        frames = normalize(raw, self.graph.centre, self.scale)
        if self.facing:
            frames = turned(frames, self.graph)
        if variance.any():
            variance = variance * motion(frames, sure)
        return frames, present, variance
