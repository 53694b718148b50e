"""Cached tokens as batches for the projection."""

import numpy as np
import torch
from torch import Tensor

from udtw.errors import DataError
from udtw.images.order import token_order
from udtw.images.tokens import TokenSet


class TokenSource:
    """The `udtw.fewshot.tasks.Source`, and with views the `ViewSource`, of images whose tokens are cached.

    ``batch(indices, generator)`` draws the image itself or one of its views for each index; without a generator it is
    the image itself. ``order``: see `token_order`.
    """

    def __init__(self, tokens: TokenSet, order: str = "raster") -> None:
        self.tokens, self.labels = tokens, tokens.labels
        self._order = torch.from_numpy(token_order(order, tokens.grid))

    def __len__(self) -> int:
        return len(self.labels)

    def batch(self, indices: np.ndarray, generator: np.random.Generator | None = None) -> Tensor:
        """(B, T, D) tokens in reading order."""
        if generator is None or not self.tokens.n_views:
            return self.tokens.tokens(indices)[:, self._order]
        return self._versions(indices, generator.integers(-1, self.tokens.n_views, len(indices)))

    def two_views(self, indices: np.ndarray, generator: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Two different ones of each image's versions: the image itself and its views."""
        if not self.tokens.n_views:
            raise DataError(
                f"The tokens of {self.tokens.name} have no augmented views. Extract them with views: "
                "udtw images embed --views 4."
            )
        versions = np.arange(-1, self.tokens.n_views)
        drawn = np.stack([generator.permutation(versions)[:2] for _ in indices])
        return self._versions(indices, drawn[:, 0]), self._versions(indices, drawn[:, 1])

    def _versions(self, indices: np.ndarray, versions: np.ndarray) -> Tensor:
        """Version v of image i, row by row; −1 is the image itself."""
        height, width = self.tokens.grid
        found = torch.empty(len(indices), height * width, self.tokens.dim)
        for version in np.unique(versions):
            rows = np.flatnonzero(versions == version)
            found[rows] = self.tokens.tokens(np.asarray(indices)[rows], view=None if version < 0 else int(version))
        return found[:, self._order]
