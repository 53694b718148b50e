"""Cut a clip into blocks of M frames, S frames apart."""

import numpy as np

from udtw.errors import LengthError, OptionError


def block_starts(n_frames: int, size: int, stride: int) -> np.ndarray:
    """(τ,) first frames of the blocks; the last block ends with the clip, so it may overlap more than the others."""
    if size < 1 or stride < 1:
        raise OptionError(f"Blocks need a size and a stride of at least one frame; got {size} and {stride}.")
    if n_frames < 1:
        raise LengthError("A clip without frames cannot be cut into blocks.")
    starts = np.arange(0, max(1, n_frames - size + 1), stride)
    end = max(0, n_frames - size)
    return starts if starts[-1] == end else np.append(starts, end)


def cut_blocks(frames: np.ndarray, size: int, stride: int) -> np.ndarray:
    """(τ, M, …) from frames (T, …). A clip shorter than a block is continued with its last frame."""
    starts = block_starts(len(frames), size, stride)
    return frames[np.minimum(starts[:, None] + np.arange(size), len(frames) - 1)]


def block_spans(n_frames: int, size: int, stride: int) -> np.ndarray:
    """(τ, 2) first frame and frame after the last of every block, within the clip."""
    starts = block_starts(n_frames, size, stride)
    return np.stack([starts, np.minimum(starts + size, n_frames)], 1)
