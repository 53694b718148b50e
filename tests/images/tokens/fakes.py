"""Images in memory and a backbone of a few lines, both such that worker processes can be sent them."""

import io

import numpy as np
import torch
from PIL import Image

from udtw.errors import DataError
from udtw.images.backbones.base import TokenGrid
from udtw.images.views import PRESETS, Views


def png(seed, size=(20, 16)):
    pixels = np.random.default_rng(seed).integers(0, 256, (*size, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


class Images:
    """n images of three classes, one of them for tests."""

    def __init__(self, n=10, name="toy", contents=None):
        self.name, self.classes = name, ("a", "b", "c")
        self.contents = contents or [png(i) for i in range(n)]
        self.labels = np.arange(len(self.contents)) % 3
        self.names = tuple(f"{i % 3}/{i}.png" for i in range(len(self.contents)))
        self.splits = {"train": (2, 1), "test": (0,)}

    def __len__(self):
        return len(self.contents)

    def changed(self, contents):
        """Other files under the same names; None is a file that is gone."""
        return Images(name=self.name, contents=[contents.get(i, one) for i, one in enumerate(self.contents)])

    def read(self, index):
        if self.contents[index] is None:
            raise DataError(f"{self.names[index]} is not there.")
        return self.contents[index]

    def image(self, index):
        try:
            with Image.open(io.BytesIO(self.read(index))) as image:
                return image.convert("RGB")
        except OSError as error:
            raise DataError(f"{self.names[index]} is damaged.") from error


class Stop(BaseException):
    pass


class Backbone:
    """Means of patches of 4 × 4 pixels by a matrix: tokens (B, 4·5, D). After ``stop`` images it is killed."""

    has_attention = True

    def __init__(self, dim=6, *, model="fake", layer=-1, scale=1.0, stop=None, spoil=None):
        self.dim, self.model, self.layer, self.scale, self.stop, self.spoil = dim, model, layer, scale, stop, spoil
        self.weights = torch.randn(3, dim, generator=torch.Generator().manual_seed(layer + 10)) * scale
        self.seen = []

    @property
    def identity(self):
        return {"backbone": self.model, "layer": self.layer, "scale": self.scale}

    def prepare(self, image):
        return torch.from_numpy(np.array(image.resize((20, 16)))).permute(2, 0, 1) / 255

    def __call__(self, pixels, *, attention=False):
        assert pixels.dtype == torch.float32
        assert pixels.min() >= 0
        assert pixels.max() <= 1
        self.seen += list(pixels)
        if self.stop is not None and len(self.seen) > self.stop:
            raise Stop
        means = torch.nn.functional.avg_pool2d(pixels, 4).flatten(2).transpose(1, 2)
        tokens = means @ self.weights
        if self.spoil is not None:
            tokens[-1, 3, 2] = self.spoil
        return TokenGrid(tokens, (4, 5), means.sum(2) if attention else None)


IMAGES = Images(10)
OPTIONS = {"views": 1, "augmentation": "drawing", "images_per_shard": 3, "batch_size": 2}


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def shards(folder):
    return sorted(folder.glob("shard-*"))


def expected(images, indices, view=None, seed=0):
    backbone = Backbone()
    pixels = [backbone.prepare(images.image(i)) for i in indices]
    if view is not None:
        views = Views(PRESETS["photo"], seed)
        pixels = [views(one, images.names[i], view) for i, one in zip(indices, pixels, strict=True)]
    return backbone(torch.stack(pixels), attention=True)
