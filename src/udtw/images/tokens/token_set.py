"""Tokens of many images of one data set, read from their files on demand."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from udtw._io.choosing import checked_indices, class_numbers, some
from udtw._io.shard_store import MANIFEST, Shards, checksum
from udtw._io.skipping import Skipped
from udtw.data.labelled import numbered_labels
from udtw.errors import DataError, FileFormatError, OptionError, ShapeError
from udtw.images.tokens.arrays import ArrayShards
from udtw.images.tokens.shards import Layout, TokenShard


@dataclass(frozen=True)
class TokenSetInfo:
    """What is common to a `TokenSet` and its subsets; the fields are those of `TokenSet`."""

    name: str
    classes: Sequence[str]
    splits: Mapping[str, Sequence[int]]
    identity: dict[str, Any]
    layout: Layout
    skipped: Sequence[Skipped] = ()
    origin: Mapping[str, Any] = field(default_factory=dict)


class TokenSet:
    """Tokens of many images in mapped files, so that a set may be larger than the memory; made by `open_tokens`.

    Attributes
    ----------
    labels : (n,) int64
        They index ``classes``. Subsets keep all classes, so that labels stay the same numbers.
    names, digests : n str each
        Names of the images, and the sha256 of their files.
    splits : dict
        The class numbers of each split.
    grid : (h, w)
        Of the tokens.
    dim : int
        Number D of features of a token.
    n_views : int
        Augmented views of each image.
    has_attention : bool
    identity : dict
        Backbone, and augmentation and seed of the views, as JSON.
    skipped : tuple of Skipped
        Images that could not be read when the set was embedded.
    origin : dict
        How images and backbone were named when the set was embedded, for later commands; may be empty.

    Examples
    --------
    >>> import tempfile
    >>> from udtw.images import PatchBackbone, embed, open_tokens
    >>> from udtw.images.datasets import make_images
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     done = embed(make_images(2), PatchBackbone(48, patch=16), folder)
    ...     tokens = open_tokens(folder)
    ...     batch = tokens.of_split("test").tokens([0, 1])
    >>> tokens
    TokenSet('synthetic', 48 images, 3 × 3 tokens of 780, 0 views)
    >>> batch.shape
    torch.Size([2, 9, 780])
    """

    def __init__(
        self,
        info: TokenSetInfo,
        labels: Sequence[int] | np.ndarray,
        names: Sequence[str],
        digests: Sequence[str],
        shards: Shards[TokenShard] | ArrayShards,
        rows: np.ndarray | None = None,
    ) -> None:
        """Image i is item ``rows[i]`` of ``shards``, by default item i."""
        n, name = len(names), info.name
        self.info = info
        self.name, self.classes, self.names, self.digests = name, tuple(info.classes), tuple(names), tuple(digests)
        self.labels = np.array(labels, dtype=np.int64)
        self.splits = {str(split): tuple(int(label) for label in labels) for split, labels in info.splits.items()}
        self.identity, self.layout, self.skipped = info.identity, info.layout, tuple(info.skipped)
        self.origin = dict(info.origin)
        self._other: TokenSet | None = None
        self._shards, self._rows = shards, np.arange(n) if rows is None else rows
        if self.labels.shape != (n,) or len(self.digests) != n:
            raise ShapeError(f"{name}: {n} names, but {self.labels.shape} labels and {len(self.digests)} digests.")
        if n and not (self.labels.min() >= 0 and self.labels.max() < len(self.classes)):
            found = f"{self.labels.min()} to {self.labels.max()}"
            raise OptionError(f"{name}: labels must index the {len(self.classes)} classes from 0; got {found}.")
        if any(not 0 <= label < len(self.classes) for labels in self.splits.values() for label in labels):
            raise OptionError(f"{name}: splits must hold numbers of the {len(self.classes)} classes.")
        self.labels.flags.writeable = False

    @classmethod
    def from_arrays(
        cls, tokens: Any, labels: Sequence[Any] | np.ndarray, *, grid: tuple[int, int] | None = None,
        names: Sequence[str] | None = None, name: str = "arrays",
    ) -> "TokenSet":  # fmt: skip
        """Tokens (n, T, D) of your own network, an array or a tensor, with the label of each image: any integers or
        strings. ``grid`` (h, w) is for pictures; by default a square, or one row.

        >>> import torch
        >>> from udtw.images import TokenSet
        >>> TokenSet.from_arrays(torch.randn(4, 9, 8), ["cat", "dog", "cat", "owl"])
        TokenSet('arrays', 4 images, 3 × 3 tokens of 8, 0 views)
        """
        shards = ArrayShards(tokens, grid)
        known, numbers = numbered_labels(labels)
        n = len(shards.array)
        if numbers.shape != (n,):
            raise ShapeError(f"One label per image is needed, shape ({n},); got {np.shape(labels)}.")
        identity = {"backbone": {"backbone": "arrays", "dim": shards.layout.dim}, "augmentation": None, "seed": None}
        info = TokenSetInfo(name, [str(one) for one in known.tolist()], {}, identity, shards.layout)
        digests = [checksum(one.tobytes().hex()) for one in shards.array]
        return cls(info, numbers, [str(i) for i in range(n)] if names is None else names, digests, shards)

    @property
    def grid(self) -> tuple[int, int]:
        return self.layout.grid

    @property
    def dim(self) -> int:
        return self.layout.dim

    @property
    def n_views(self) -> int:
        return self.layout.views + (self._other is not None)

    @property
    def has_attention(self) -> bool:
        return self.layout.attention

    @property
    def digest(self) -> str:
        """A checksum of the images and their labels: it changes when the set does."""
        return checksum(self.name, self.names, self.digests, self.labels.tolist())

    def __len__(self) -> int:
        return len(self.names)

    def tokens(self, indices: Sequence[int] | np.ndarray, view: int | None = None) -> Tensor:
        """(B, h·w, D) float32 of the images at ``indices``: of the images themselves, or of their view ``view``."""
        if view is not None and not 0 <= view < self.n_views:
            raise OptionError(f"{self.name} has {self.n_views} views of each image, counted from 0; got view {view}.")
        chosen = self._checked(indices)
        if self._other is not None and view == self.n_views - 1:
            return self._other.tokens(chosen)
        for index in chosen[:1]:
            self._find(index)  # checks the layout before memory is allocated
        result = torch.empty(len(chosen), self.grid[0] * self.grid[1], self.dim)
        for tokens, index in zip(result, chosen, strict=True):
            shard, place = self._find(index)
            tokens.copy_(torch.from_numpy(shard.tokens(place, view)))
        return result

    def attention(self, indices: Sequence[int] | np.ndarray) -> Tensor:
        """(B, h·w) float32: the share of the class token's attention that each patch of the images gets."""
        if not self.has_attention:
            raise OptionError(f"{self.name} was embedded without attention. Embed it again with attention=True.")
        chosen = self._checked(indices)
        for index in chosen[:1]:
            self._find(index)
        result = torch.empty(len(chosen), self.grid[0] * self.grid[1])
        for attention, index in zip(result, chosen, strict=True):
            shard, place = self._find(index)
            attention.copy_(torch.from_numpy(shard.attention(place)))
        return result

    def subset(self, indices: Sequence[int] | np.ndarray) -> "TokenSet":
        """The images at ``indices``, in that order; no file is read."""
        chosen = self._checked(indices)
        names, digests = [self.names[i] for i in chosen], [self.digests[i] for i in chosen]
        found = TokenSet(self.info, self.labels[chosen], names, digests, self._shards, self._rows[chosen])
        found._other = None if self._other is None else self._other.subset(chosen)
        return found

    def with_view(self, other: "TokenSet") -> "TokenSet":
        """The same images with one view more: the images of the same names in ``other``, such as those with clutter."""
        place = {name: i for i, name in enumerate(other.names)}
        absent = [name for name in self.names if name not in place]
        if absent or other.identity["backbone"] != self.identity["backbone"] or other.grid != self.grid:
            what = f"lacks {some(absent)}" if absent else "has tokens of another backbone"
            raise DataError(f"{other.name} cannot be a view of {self.name}: it {what}.")
        found = self.subset(np.arange(len(self)))
        if found._other is not None:
            raise DataError(f"{self.name} already has the images of another set as a view.")
        found._other = other.subset([place[name] for name in self.names])
        return found

    def of_split(self, split: str) -> "TokenSet":
        """The images of the classes of one split, such as "train"."""
        if split not in self.splits:
            raise OptionError(f"{self.name} has no split {split!r}; it has {', '.join(self.splits) or 'none'}.")
        return self.of_classes(self.splits[split])

    def of_classes(self, classes: Iterable[int | str]) -> "TokenSet":
        """The images of some classes, given by name or number, in their present order."""
        return self.subset(np.flatnonzero(np.isin(self.labels, class_numbers(classes, self.classes, self.name))))

    def __repr__(self) -> str:
        h, w = self.grid
        return f"TokenSet({self.name!r}, {len(self)} images, {h} × {w} tokens of {self.dim}, {self.n_views} views)"

    def _checked(self, indices: Sequence[int] | np.ndarray) -> np.ndarray:
        return checked_indices(indices, len(self), f"{self.name} has {len(self)} images")

    def _find(self, index: int) -> tuple[Any, int]:
        shard, place = self._shards.find(int(self._rows[index]))
        if isinstance(shard, TokenShard) and shard.layout != self.layout:
            raise FileFormatError(f"{shard.path} holds {shard.layout}; {MANIFEST} says {self.layout}.")
        return shard, place
