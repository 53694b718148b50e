"""One shard (see `udtw.data.checked_shards`): the tokens of a few hundred images in a safetensors file.

Its arrays are ``tokens`` (n, T, D) in float16 or float32, where T = h·w patches go row by row, ``views`` (n, K, T, D)
of the same type, if there are any, and ``attention`` (n, T) float32, if it was asked for.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from udtw.data.checked_shards import CheckedShard, write_checked
from udtw.data.skipping import Skipped
from udtw.errors import FileFormatError

TYPES = {"float16": "F16", "float32": "F32"}
MOST = 2**20  # of anything; larger numbers are damage


@dataclass(frozen=True)
class Layout:
    """What is kept of each image: tokens (h·w, ``dim``), ``views`` times as many, and perhaps the attention."""

    grid: tuple[int, int]
    dim: int
    views: int
    attention: bool
    dtype: str

    @classmethod
    def from_json(cls, values: Any) -> "Layout":
        height, width = (int(side) for side in values["grid"])
        layout = cls(
            (height, width), int(values["dim"]), int(values["views"]), bool(values["attention"]), values["dtype"]
        )
        counts = (height, width, layout.dim, layout.views)
        if layout.dtype not in TYPES or min(counts) < 0 or max(counts) > MOST:
            raise ValueError(f"not a layout of tokens: {values}")
        return layout


@dataclass(frozen=True)
class Contents:
    """Which images are in a shard. ``plan`` tells from which files and how it was made."""

    plan: str
    layout: Layout
    names: list[str]
    skipped: list[Skipped]


def write_shard(
    folder: Path,
    number: int,
    plan: str,
    layout: Layout,
    arrays: dict[str, np.ndarray],
    names: Sequence[str],
    skipped: Sequence[Skipped],
) -> Path:
    """Write a shard, there in full or not at all; its path comes back."""
    contents = Contents(plan, layout, list(names), list(skipped))
    return write_checked(folder, number, arrays, {"images": asdict(contents)})


class TokenShard(CheckedShard):
    """A shard that is mapped into memory: only the tokens of the image that is asked for are read."""

    items, kind, mend = "images", "a shard of tokens", "Embed the images again into the same folder"

    def _map(self, file: Any) -> None:
        self.layout = Layout.from_json(self.header("images")["layout"])
        count = self.layout.grid[0] * self.layout.grid[1]
        self._tokens = file.get_slice("tokens")
        self._count = self._tokens.get_shape()[0]
        shapes: dict[str, tuple[int, ...]] = {"tokens": (self._count, count, self.layout.dim)}
        if self.layout.views:
            shapes["views"] = (self._count, self.layout.views, count, self.layout.dim)
            self._views = file.get_slice("views")
        if self.layout.attention:
            shapes["attention"] = (self._count, count)
            self._attention = file.get_slice("attention")
        for name, shape in shapes.items():
            array, dtype = file.get_slice(name), "F32" if name == "attention" else TYPES[self.layout.dtype]
            if tuple(array.get_shape()) != shape or array.get_dtype() != dtype:
                raise ValueError(f"{name} are {array.get_dtype()} of {array.get_shape()}, not {dtype} of {list(shape)}")

    def __len__(self) -> int:
        return self._count

    def tokens(self, index: int, view: int | None) -> np.ndarray:
        """(T, D) of image ``index`` of this shard."""
        return self._tokens[index] if view is None else self._views[index, view]

    def attention(self, index: int) -> np.ndarray:
        """(T,)"""
        return self._attention[index]

    def contents(self) -> Contents:
        """Which images are in it, as written in the header."""
        try:
            found = self.header("images")
            skipped = [Skipped(**one) for one in found["skipped"]]
            contents = Contents(str(found["plan"]), self.layout, list(found["names"]), skipped)
        except (KeyError, TypeError, ValueError) as error:
            raise FileFormatError(f"{self.path} does not say which images it holds ({error!r}).") from error
        if len(contents.names) != len(self):
            raise FileFormatError(f"{self.path} holds {len(self)} images, but names of {len(contents.names)}.")
        return contents
