"""The 20 official one-shot runs of Omniglot (Lake et al. 2015)."""

import io
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from udtw.data.folder import data_root
from udtw.errors import DataError
from udtw.images.datasets.folders import Folder, places
from udtw.images.datasets.image_set import ImageSet
from udtw.images.datasets.safe_images import decode

if TYPE_CHECKING:
    from PIL.Image import Image

RUNS, N_RUNS, N_ITEMS = "all_runs", 20, 20
LINE = re.compile(r"(?:.*/)?test/item(\d\d)\.png\s+(?:.*/)?training/class(\d\d)\.png")


@dataclass(frozen=True)
class Run:
    """One 20-way run: ``test[i]`` shows the same character as ``training[answers[i]]``, drawn by another person.

    >>> from PIL import Image
    >>> from experiments.omniglot_runs import Run
    >>> a, b = Image.new("1", (105, 105), 0), Image.new("1", (105, 105), 1)
    >>> run = Run("run01", training=(a, b), test=(b, a), answers=(1, 0))
    >>> run.training[run.answers[0]] is run.test[0]
    True
    """

    name: str
    training: tuple["Image", ...]
    test: tuple["Image", ...]
    answers: tuple[int, ...]


def omniglot_runs(data_dir: str | Path | None = None) -> list[Run]:
    """Return the 20 official one-shot runs, from all_runs.zip or the folder all_runs.

    ``data_dir``: the folder that holds it, one above that holds it as omniglot, or all_runs.zip itself.

    >>> from experiments.omniglot_runs import omniglot_runs
    >>> runs = omniglot_runs("~/data/omniglot")     # doctest: +SKIP
    >>> len(runs), len(runs[0].training)            # doctest: +SKIP
    (20, 20)
    """
    reasons = [f"{data_root(data_dir)} holds no {RUNS}.zip"]
    for folder in places(("omniglot", "Omniglot"), data_dir):
        root = folder.part("python") or folder
        root = root.part("one-shot-classification") or root
        runs = root.part(RUNS) or root
        if runs.has("run01"):
            return [_run(runs, f"run{number:02d}") for number in range(1, N_RUNS + 1)]
        reasons.append(f"{runs.where} has no run01")
    raise DataError(f"{'; '.join(reasons)}. It is a file of the Omniglot repository: the 20 one-shot runs.")


def runs_as_images(runs: list[Run]) -> ImageSet:
    """Return the drawings of all runs as one set, so that their tokens can be extracted.

    For each run its ``training`` images, then its ``test`` images, each labeled with its character "RUN/classNN".

    >>> from PIL import Image
    >>> from experiments.omniglot_runs import Run, runs_as_images
    >>> a, b = Image.new("1", (105, 105), 0), Image.new("1", (105, 105), 1)
    >>> images = runs_as_images([Run("run01", training=(a, b), test=(b, a), answers=(1, 0))])
    >>> images.labels.tolist()
    [0, 1, 1, 0]
    """
    classes = [f"{run.name}/class{number + 1:02d}" for run in runs for number in range(len(run.training))]
    files: dict[str, bytes] = {}
    labels: list[int] = []
    for run in runs:
        first = classes.index(f"{run.name}/class01")
        drawn = [*zip(run.training, range(len(run.training)), strict=True), *zip(run.test, run.answers, strict=True)]
        for number, (image, character) in enumerate(drawn):
            buffer = io.BytesIO()
            image.save(buffer, "PNG")
            files[f"{run.name}/{number:02d}.png"] = buffer.getvalue()
            labels.append(first + character)
    return ImageSet("omniglot-runs", classes, labels, list(files), {}, _InMemory(files))


class _InMemory:
    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files

    def read(self, name: str) -> bytes:
        return self.files[name]

    def place(self, name: str) -> str:
        return f"{RUNS}/{name}"


def _run(folder: Folder, name: str) -> Run:
    listed = f"{name}/class_labels.txt"
    answers: dict[int, int] = {}
    for line in folder.read_text(listed).splitlines():
        if not line.strip():
            continue
        match = LINE.fullmatch(line.strip())
        item, answer = (int(number) - 1 for number in match.groups()) if match else (-1, -1)
        if not (0 <= item < N_ITEMS and 0 <= answer < N_ITEMS and item not in answers):
            raise DataError(
                f"{folder.place(listed)}: expected one line RUN/test/itemNN.png RUN/training/classNN.png for each item "
                f"from 01 to {N_ITEMS}, got {line.strip()!r}."
            )
        answers[item] = answer
    if sorted(answers) != list(range(N_ITEMS)) or sorted(answers.values()) != list(range(N_ITEMS)):
        raise DataError(f"{folder.place(listed)} must pair {N_ITEMS} items with {N_ITEMS} classes, each once.")
    training, test = (
        tuple(_picture(folder, f"{name}/{stem}{number:02d}.png") for number in range(1, N_ITEMS + 1))
        for stem in ("training/class", "test/item")
    )
    return Run(name, training, test, tuple(answers[item] for item in range(N_ITEMS)))


def _picture(folder: Folder, name: str) -> "Image":
    return decode(folder.read(name), folder.place(name))
