"""What training and evaluation need to know of a data set."""

from typing import Any, Protocol

import numpy as np
import torch


class Source(Protocol):
    """Labelled samples that are made into batches for an encoder."""

    labels: np.ndarray
    """(n,) integer class of every sample."""

    def batch(self, indices: np.ndarray, generator: np.random.Generator | None = None) -> Any:
        """The samples as the encoder takes them; augmented with the numbers of ``generator``, if one is given."""


def moved(batch: Any, device: torch.device) -> Any:
    """A batch (a tensor, or tuples of tensors) on another device."""
    if isinstance(batch, torch.Tensor):
        return batch.to(device)
    return tuple(moved(part, device) for part in batch)
