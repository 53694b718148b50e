"""Shards of tokens: what is stored of each image. The files are those of `udtw._io.shard_store`."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from udtw._io.shard_store import ArraySpec, Shard

TYPES = {"float16": "F16", "float32": "F32"}
MOST = 2**20  # upper limit of every size in a layout; larger numbers are damage


@dataclass(frozen=True)
class Layout:
    """What is stored of each image: tokens (h·w, ``dim``), the same of ``views`` views, and perhaps the attention."""

    grid: tuple[int, int]
    dim: int
    views: int
    attention: bool
    dtype: str

    @classmethod
    def from_json(cls, values: Any) -> "Layout":
        """The layout that was written as JSON; a `ValueError` if its numbers are impossible."""
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
        """(T, D) of image ``index`` of this shard, or of its view ``view``."""
        return self.arrays["tokens"][index] if view is None else self.arrays["views"][index, view]

    def attention(self, index: int) -> np.ndarray:
        """(T,) of image ``index`` of this shard."""
        return self.arrays["attention"][index]
