"""Tokens of many images of one data set: in shards that are read on demand, or in memory."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from udtw._io.items import Skipped, check_labels, checked_indices, class_numbers, some
from udtw._io.shard_store import MANIFEST, ArraySpec, Shard, Shards, checksum
from udtw.data.labelled import numbered_labels
from udtw.errors import DataError, FileFormatError, NonFiniteError, OptionError, ShapeError

TYPES = {"float16": "F16", "float32": "F32"}
MOST = 2**20  # upper limit of every size in a layout; larger numbers are damage


@dataclass(frozen=True)
class Layout:
    """Arrays stored per image: tokens (h·w, ``dim``), the same of ``views`` views, and optionally the attention."""

    grid: tuple[int, int]
    dim: int
    views: int
    attention: bool
    dtype: str

    @classmethod
    def from_json(cls, values: Any) -> "Layout":
        """Return the layout that was written as JSON; raise `ValueError` if its numbers are impossible."""
        height, width = (int(side) for side in values["grid"])
        layout = cls(
            (height, width), int(values["dim"]), int(values["views"]), bool(values["attention"]), values["dtype"]
        )
        counts = (height, width, layout.dim, layout.views)
        if layout.dtype not in TYPES or min(counts) < 0 or max(counts) > MOST:
            raise ValueError(f"not a layout of tokens: {values}")
        return layout


class TokenShard(Shard):
    """The tokens of a few hundred images.

    Arrays: ``tokens`` (n, T, D) in float16 or float32 for T = h·w patches, row by row; with views, ``views``
    (n, K, T, D) of the same type; with attention, ``attention`` (n, T) float32.
    """

    format, items, content = "udtw.TokenSet", "images", "tokens"
    remedy = "Embed the images again into the same folder"

    def array_specs(self) -> dict[str, ArraySpec]:
        self.layout = Layout.from_json(self.contents.layout)
        n, count, dim = len(self), self.layout.grid[0] * self.layout.grid[1], self.layout.dim
        dtype = TYPES[self.layout.dtype]
        specs: dict[str, ArraySpec] = {"tokens": (dtype, (n, count, dim))}
        if self.layout.views:
            specs["views"] = dtype, (n, self.layout.views, count, dim)
        if self.layout.attention:
            specs["attention"] = "F32", (n, count)
        return specs

    def tokens(self, index: int, view: int | None) -> np.ndarray:
        """Read the tokens (T, D) of image ``index`` of this shard, or of its view ``view``."""
        return self.arrays["tokens"][index] if view is None else self.arrays["views"][index, view]

    def attention(self, index: int) -> np.ndarray:
        """Read the attention (T,) of image ``index`` of this shard."""
        return self.arrays["attention"][index]


class ArrayShards:
    """One shard in memory: ``tokens`` (n, T, D) in float32, row by row of a ``grid``."""

    def __init__(self, tokens: Any, grid: tuple[int, int] | None) -> None:
        array = np.asarray(tokens.detach().cpu() if hasattr(tokens, "detach") else tokens, dtype=np.float32)
        if array.ndim != 3 or 0 in array.shape:
            raise ShapeError(f"tokens must have the shape (n, T, D), none of them zero; got {array.shape}.")
        if not np.isfinite(array).all():
            raise NonFiniteError("tokens hold NaN or infinity.")
        side = round(array.shape[1] ** 0.5)
        grid = grid or ((side, side) if side * side == array.shape[1] else (1, array.shape[1]))
        if grid[0] * grid[1] != array.shape[1]:
            raise ShapeError(f"A grid of {grid[0]} × {grid[1]} does not hold the {array.shape[1]} tokens per image.")
        self.array = array
        self.layout = Layout((int(grid[0]), int(grid[1])), array.shape[2], 0, False, "float32")

    def find(self, index: int) -> "tuple[ArrayShards, int]":
        """Return the shard that holds image ``index``, and its place in it."""
        return self, index

    def tokens(self, index: int, view: int | None) -> np.ndarray:
        """Return the tokens (T, D) of image ``index``."""
        return self.array[index]


@dataclass(frozen=True)
class TokenSetInfo:
    """Fields that a `TokenSet` and its subsets share; see `TokenSet`."""

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
    >>> from udtw.images import PatchBackbone, embed, make_images, open_tokens
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
        """Take item ``rows[i]`` of ``shards``, by default item i, as image i."""
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
        check_labels(self.labels, len(self.classes), name)
        if any(not 0 <= label < len(self.classes) for labels in self.splits.values() for label in labels):
            raise OptionError(f"{name}: splits must hold numbers of the {len(self.classes)} classes.")
        self.labels.flags.writeable = False

    @classmethod
    def from_arrays(
        cls, tokens: Any, labels: Sequence[Any] | np.ndarray, *, grid: tuple[int, int] | None = None,
        names: Sequence[str] | None = None, name: str = "arrays",
    ) -> "TokenSet":  # fmt: skip
        """Build a set from tokens (n, T, D) of your own network, an array or a tensor, and a label per image.

        Labels are integers or strings. ``grid`` (h, w) is for pictures; by default a square, or one row.

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
        """Read the tokens (B, h·w, D) of the images at ``indices``, or of their view ``view``, as float32."""
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
        """Read the share of the class token's attention that each patch gets, (B, h·w) float32."""
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
        """Return the images at ``indices``, in that order; no file is read."""
        chosen = self._checked(indices)
        names, digests = [self.names[i] for i in chosen], [self.digests[i] for i in chosen]
        part = TokenSet(self.info, self.labels[chosen], names, digests, self._shards, self._rows[chosen])
        part._other = None if self._other is None else self._other.subset(chosen)
        return part

    def with_view(self, other: "TokenSet") -> "TokenSet":
        """Add one view: the images of the same names in ``other``, such as those with clutter."""
        place = {name: i for i, name in enumerate(other.names)}
        absent = [name for name in self.names if name not in place]
        if absent or other.identity["backbone"] != self.identity["backbone"] or other.grid != self.grid:
            what = f"lacks {some(absent)}" if absent else "has tokens of another backbone"
            raise DataError(f"{other.name} cannot be a view of {self.name}: it {what}.")
        both = self.subset(np.arange(len(self)))
        if both._other is not None:
            raise DataError(f"{self.name} already has the images of another set as a view.")
        both._other = other.subset([place[name] for name in self.names])
        return both

    def of_split(self, split: str) -> "TokenSet":
        """Return the images of the classes of one split, such as "train"."""
        if split not in self.splits:
            raise OptionError(f"{self.name} has no split {split!r}; it has {', '.join(self.splits) or 'none'}.")
        return self.of_classes(self.splits[split])

    def of_classes(self, classes: Iterable[int | str]) -> "TokenSet":
        """Return the images of some classes, given by name or number, in their present order."""
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
