"""How a batch is cut into tiles, and which tiles are one launch."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch

LANES = 32
"""One warp: a shift between its lanes needs no shared memory and no barrier."""
ROWS_PER_LANE = (1, 2, 4, 8)
"""Compiled variants. More rows per lane take more registers and fewer launches; with several tiles at most four."""
TILE_WIDTH = 128
ONE_TILE_WIDTH = 1024
"""Pairs of more columns are cut: the shares of one tile are kept in memory until the gradient is asked for."""


@dataclass(frozen=True)
class Tiles:
    """Tiles of a batch of pairs (N, M): ``strips`` of LANES·R rows, each cut into ``columns`` of ``width``."""

    count: int
    rows: int
    columns_of_pair: int
    rows_per_lane: int
    lanes: int
    width: int

    @property
    def height(self) -> int:
        """Rows of a tile."""
        return self.rows_per_lane * self.lanes

    @property
    def strips(self) -> int:
        return -(-self.rows // self.height)

    @property
    def columns(self) -> int:
        return -(-self.columns_of_pair // self.width)

    @property
    def several(self) -> bool:
        return self.strips * self.columns > 1

    def launches(self) -> Iterator[tuple[int, int, int]]:
        """(diagonal, its first strip, its number of tiles): what is one launch, in the order of the forward sweep."""
        for diagonal in range(self.strips + self.columns - 1):
            first = max(0, diagonal - self.columns + 1)
            yield diagonal, first, min(self.strips - 1, diagonal) - first + 1

    @property
    def most_tiles(self) -> int:
        """Tiles of the longest diagonal."""
        return min(self.strips, self.columns)

    def table_size(self, kept: int) -> int:
        """Numbers that the tiles of a diagonal keep for the backward sweep, ``kept`` per cell."""
        steps = self.width + self.lanes - 1
        return self.count * self.most_tiles * steps * self.rows_per_lane * kept * self.lanes

    @property
    def row_states(self) -> int:
        """Places for the states between strips."""
        return self.count * (self.strips + 1) * (self.columns_of_pair + 1) if self.several else 0

    @property
    def column_states(self) -> int:
        """Places for the states between columns of tiles."""
        return self.count * (self.columns + 1) * self.strips * self.height if self.several else 0

    def constants(self, dtype: torch.dtype) -> dict:
        """Return the constants that every kernel is compiled for."""
        return {
            "R": self.rows_per_lane,
            "LANES": self.lanes,
            "T": self.width,
            "TILED": self.several,
            "F64": dtype == torch.float64,
            "num_warps": max(1, self.lanes // 32),
        }


def tiles_for(count: int, rows: int, columns: int, most: int = 4) -> Tiles:
    """One tile if the pairs fit, else tiles of 128 columns; ``most`` rows per lane fit the registers."""
    if columns <= ONE_TILE_WIDTH:
        for rows_per_lane in ROWS_PER_LANE:
            if rows <= rows_per_lane * LANES and rows_per_lane <= most:
                # Widths are rounded up so that few variants are compiled.
                return Tiles(count, rows, columns, rows_per_lane, LANES, -(-columns // 32) * 32)
    return Tiles(count, rows, columns, min(most, 4), LANES, TILE_WIDTH)
