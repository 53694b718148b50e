"""Tokens that are already in memory, in place of shards on the disk."""

from typing import Any

import numpy as np

from udtw.errors import NonFiniteError, ShapeError
from udtw.images.tokens.shards import Layout


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
        """The shard that holds image ``index``, and its place in it."""
        return self, index

    def tokens(self, index: int, view: int | None) -> np.ndarray:
        """(T, D) of image ``index``."""
        return self.array[index]
