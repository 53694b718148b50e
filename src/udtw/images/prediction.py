"""Classes and probabilities of new images, from a few labeled examples in folders and a trained model."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from udtw._io.items import Skipped, some
from udtw.errors import DataError
from udtw.fewshot.tokens import Tokens, concatenate
from udtw.images.backbones.base import Backbone
from udtw.images.datasets.folders import open_folder
from udtw.images.datasets.image_set import ImageSet
from udtw.images.datasets.layouts import by_folders
from udtw.images.datasets.safe_images import MAX_FILE, decode
from udtw.images.projection import token_order
from udtw.images.recognizer import ImageRecognizer

if TYPE_CHECKING:
    from PIL.Image import Image

BATCH = 16


@dataclass(frozen=True)
class Predictions:
    """Predictions for the images ``names``; ``probabilities`` (n, n_classes) sum to 1 for each image.

    ``skipped`` lists images, of the new ones and of the examples, that could not be read.

    >>> import numpy as np
    >>> from udtw.images import Predictions
    >>> Predictions(("a.jpg",), ("cat", "dog"), np.array([[0.2, 0.8]])).labels
    ['dog']
    """

    names: tuple[str, ...]
    classes: tuple[str, ...]
    probabilities: np.ndarray
    skipped: tuple[Skipped, ...] = ()

    @property
    def labels(self) -> list[str]:
        """The most probable class of each image."""
        return [self.classes[i] for i in self.probabilities.argmax(1)]


def load_support(folder: str | os.PathLike) -> ImageSet:
    """Load the labeled examples in ``folder``, a folder or archive with one subfolder of images per class.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from PIL import Image
    >>> from udtw.images import load_support
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("cat", "dog"):
    ...         (Path(folder) / name).mkdir()
    ...         Image.new("RGB", (32, 32)).save(Path(folder) / name / "1.png")
    ...     load_support(folder).classes
    ('cat', 'dog')
    """
    found = by_folders(open_folder(Path(folder).expanduser()))
    if len(found.classes) < 2:
        raise DataError(
            f"{folder} must hold a subfolder of images for each class, at least two; found {some(found.classes)}."
        )
    numbers = {one: number for number, one in enumerate(found.classes)}
    labels = [numbers[label] for _, label in found.images]
    return ImageSet(Path(folder).name, found.classes, labels, [name for name, _ in found.images], {}, found.files)


def predict_images(
    recognizer: ImageRecognizer,
    backbone: Backbone,
    images: Sequence[str | os.PathLike],
    support: ImageSet,
    tick: Callable[[], None] = lambda: None,
) -> Predictions:
    """Predict classes and probabilities of the files ``images`` among the classes of ``support``.

    The probabilities are the softmax over classes of ``−s·score``, with the scale s that training learned (10 where it
    learned none). An image that cannot be decoded is left out and listed; ``tick()`` is called after each image.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from udtw.images import ImageRecipe, ImageRecognizer, PatchBackbone, load_support, make_images, predict_images
    >>> shapes, backbone = make_images(2), PatchBackbone(48)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for i, name in enumerate(shapes.names):
    ...         (Path(folder) / name).parent.mkdir(exist_ok=True)
    ...         shapes.image(i).save(Path(folder) / name)
    ...     model = ImageRecognizer(ImageRecipe(dim=8), backbone.dim)  # untrained
    ...     found = predict_images(model, backbone, [Path(folder) / "star-dotted/001.png"], load_support(folder))
    >>> found.probabilities.shape
    (1, 24)
    """
    paths = [Path(one) for one in images]
    examples = [partial(support.image, i) for i in range(len(support))]
    known = _encoded(recognizer, backbone, examples, support.names, tick)
    labels = support.labels[known.kept]
    missing = [name for number, name in enumerate(support.classes) if number not in labels]
    if missing:
        first = known.skipped[0].reason if known.skipped else "there are none"
        raise DataError(f"No example of {some(missing)} could be read. The first: {first}")
    new = _encoded(recognizer, backbone, [partial(_read, path) for path in paths], [str(path) for path in paths], tick)
    if new.tokens is None or known.tokens is None:
        first = new.skipped[0].reason if new.skipped else "no image was given"
        raise DataError(f"None of the {len(paths)} images could be read. The first: {first}")
    found = np.zeros((len(new.kept), len(support.classes)))
    found[:, np.unique(labels)] = recognizer.predict_proba(known.tokens, labels, new.tokens)
    names = tuple(str(paths[i]) for i in new.kept)
    return Predictions(names, support.classes, found, (*known.skipped, *new.skipped))


@dataclass(frozen=True)
class _Encoded:
    """Tokens of the images at ``kept``; None if there are none."""

    tokens: Tokens | None
    kept: np.ndarray
    skipped: tuple[Skipped, ...]


def _encoded(
    recognizer: ImageRecognizer,
    backbone: Backbone,
    images: Sequence[Callable[[], "Image"]],
    names: Sequence[str],
    tick: Callable[[], None],
) -> _Encoded:
    kept, skipped, parts, waiting = [], [], [], []
    for i, read in enumerate(images):
        try:
            waiting.append(backbone.prepare(read()))
            kept.append(i)
        except (DataError, OSError) as error:
            skipped.append(Skipped(names[i], str(error)))
        if len(waiting) == BATCH or (waiting and i == len(images) - 1):
            parts.append(_run(recognizer, backbone, waiting))
            waiting = []
        tick()
    tokens = concatenate(parts) if parts else None
    return _Encoded(tokens, np.array(kept, dtype=np.int64), tuple(skipped))


def _run(recognizer: ImageRecognizer, backbone: Backbone, pixels: list[Tensor]) -> Tokens:
    found = backbone(torch.stack(pixels))
    order = torch.from_numpy(token_order(recognizer.recipe.order, found.grid))
    return recognizer.encode(found.tokens[:, order])


def _read(path: Path) -> "Image":
    if not path.is_file():
        raise DataError(f"{path} is not a file.")
    if path.stat().st_size > MAX_FILE:
        raise DataError(f"{path} has {path.stat().st_size} bytes, more than the {MAX_FILE} that are read of a file.")
    return decode(path.read_bytes(), str(path))
