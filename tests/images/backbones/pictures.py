"""Images to try backbones on."""

import numpy as np
from PIL import Image


def noise(width: int = 60, height: int = 40, seed: int = 0) -> Image.Image:
    """Colour noise, smooth enough that resizing keeps some of it."""
    values = np.random.default_rng(seed).integers(0, 256, (height // 4 + 1, width // 4 + 1, 3), dtype=np.uint8)
    return Image.fromarray(values).resize((width, height), Image.Resampling.BICUBIC)
