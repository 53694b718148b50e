"""Tokens of many images of one data set: what is known of all of them at once, and the tokens when asked for."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from udtw.data.choosing import checked_indices, class_numbers
from udtw.data.shard_store import MANIFEST, Shards, checksum
from udtw.data.skipping import Skipped
from udtw.errors import FileFormatError, OptionError, ShapeError
from udtw.images.tokens.shards import Layout, TokenShard


class TokenSet:
    """Tokens in mapped files, so that a set may be larger than the memory; workers that get one open the files anew.

    ``labels`` (n,) int64 index ``classes``; ``names`` are n names, ``digests`` the sha256 of their files, ``splits``
    the class numbers of each split. ``grid`` (h, w) of the tokens, ``dim`` D of their features, ``n_views`` augmented
    views of each image, ``has_attention``. ``identity``: backbone, and augmentation and seed of the views, as JSON.
    ``skipped``: images that could not be read when the set was embedded. Subsets keep all classes, so labels stay the
    same numbers.
    """

    def __init__(
        self,
        name: str,
        classes: Sequence[str],
        labels: Sequence[int] | np.ndarray,
        names: Sequence[str],
        splits: Mapping[str, Sequence[int]],
        *,
        digests: Sequence[str],
        identity: dict[str, Any],
        layout: Layout,
        shards: Shards[TokenShard],
        rows: np.ndarray | None = None,
        skipped: Sequence[Skipped] = (),
    ) -> None:
        """Image i is item ``rows[i]`` of ``shards``, or item i."""
        n = len(names)
        self.name, self.classes, self.names, self.digests = name, tuple(classes), tuple(names), tuple(digests)
        self.labels = np.array(labels, dtype=np.int64)
        self.splits = {str(split): tuple(int(label) for label in labels) for split, labels in splits.items()}
        self.identity, self.layout, self.skipped = identity, layout, tuple(skipped)
        self._shards, self._rows = shards, np.arange(n) if rows is None else rows
        if self.labels.shape != (n,) or len(self.digests) != n:
            raise ShapeError(f"{name}: {n} names, but {self.labels.shape} labels and {len(self.digests)} digests.")
        if n and not (self.labels.min() >= 0 and self.labels.max() < len(self.classes)):
            found = f"{self.labels.min()} to {self.labels.max()}"
            raise OptionError(f"{name}: labels must index the {len(self.classes)} classes from 0; got {found}.")
        if any(not 0 <= label < len(self.classes) for labels in self.splits.values() for label in labels):
            raise OptionError(f"{name}: splits must hold numbers of the {len(self.classes)} classes.")
        self.labels.flags.writeable = False

    @property
    def grid(self) -> tuple[int, int]:
        return self.layout.grid

    @property
    def dim(self) -> int:
        return self.layout.dim

    @property
    def n_views(self) -> int:
        return self.layout.views

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
        for index in chosen[:1]:
            self._find(index)  # before memory is taken: that the layout is the one of the shards
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
        """The images at ``indices``, in that order; nothing is read for it."""
        chosen = self._checked(indices)
        return TokenSet(
            self.name,
            self.classes,
            self.labels[chosen],
            [self.names[i] for i in chosen],
            self.splits,
            digests=[self.digests[i] for i in chosen],
            identity=self.identity,
            layout=self.layout,
            shards=self._shards,
            rows=self._rows[chosen],
            skipped=self.skipped,
        )

    def of_split(self, split: str) -> "TokenSet":
        """The images of the classes of one split, such as "train"."""
        if split not in self.splits:
            raise OptionError(f"{self.name} has no split {split!r}; it has {', '.join(self.splits) or 'none'}.")
        return self.of_classes(self.splits[split])

    def of_classes(self, classes: Iterable[int | str]) -> "TokenSet":
        """The images of some classes, given by name or number, in the order in which they are here."""
        return self.subset(np.flatnonzero(np.isin(self.labels, class_numbers(classes, self.classes, self.name))))

    def __repr__(self) -> str:
        h, w = self.grid
        return f"TokenSet({self.name!r}, {len(self)} images, {h} × {w} tokens of {self.dim}, {self.n_views} views)"

    def _checked(self, indices: Sequence[int] | np.ndarray) -> np.ndarray:
        return checked_indices(indices, len(self), f"{self.name} has {len(self)} images")

    def _find(self, index: int) -> tuple[TokenShard, int]:
        shard, place = self._shards.find(int(self._rows[index]))
        if shard.layout != self.layout:
            raise FileFormatError(f"{shard.path} holds {shard.layout}; {MANIFEST} says {self.layout}.")
        return shard, place
