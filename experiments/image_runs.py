"""Units and work of the image experiments: a unit is one trained recognizer, judged on novel classes in all settings.

A unit's ``params`` are settings of `udtw.images.ImageRecipe` (others have their defaults) and ``backbone``, the spec of
the network that makes the tokens, ``per_class``, a limit of images, ``n_episodes``, ``source``, the data set for
training if it is another, and ``changes``, a name for what differs from the usual recipe. Tokens are extracted once, by
`prepare`.
"""

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from experiments import published
from experiments.image_settings import Setting, settings_of
from experiments.units import Unit
from udtw._engine.metrics import METRICS
from udtw.errors import DataError, OptionError
from udtw.images import ImageRecipe, ImageRecognizer, TokenSet, embed, load_backbone, load_images, open_tokens
from udtw.images.datasets import ImageSet
from udtw.images.reverse_attention import measure_reverse_attention

EPISODES = 1000
NOVEL_SEED = 12345
"""Test episodes are the same for all methods and seeds."""
CONTROLS: dict[str, tuple[str, dict[str, Any]]] = {
    "untrained": ("cosine of mean tokens, untrained", {"metric": "matchnet", "n_steps": 0}),
    "matchnet": ("cosine of mean tokens", {"metric": "matchnet"}),
    "weighted_mean": ("cosine of σ-weighted mean tokens", {"metric": "weighted_mean"}),
    "in_place": ("in place with σ", {"metric": "in_place"}),
    "best_match": ("best matches without σ", {"metric": "best_match"}),
    "raster": ("uDTW, row by row", {"metric": "udtw", "order": "raster"}),
}
"""What each part of uDTW brings: name in units to name in tables and settings."""
METHODS = {
    "protonet": "Euclidean (pooled)",
    **{name: METRICS[name].label for name in published.TRAINED},
    "euclidean": "Euclidean (in place)",
    **{name: label for name, (label, _) in CONTROLS.items()},
}
"""Name in units to name in tables. Pooled, as in the paper: prototypes of mean tokens; in place: token by token."""
VIEWS = 2
"""Augmented views of each training image: training draws from these and the image itself."""
ABOUT = ("backbone", "per_class", "n_episodes", "source", "changes")
"""Parameters of a unit that are not settings of the recipe."""
QUICK: dict[str, Any] = {"n_steps": 4, "dim": 16, "batch_size": 8}
"""Settings of a run that only shows that everything works."""
QUICK_EPISODES, QUICK_PER_CLASS = 20, 20

Settings = dict[str, Any]


def make_units(
    experiment: str,
    dataset: str,
    seeds: Sequence[int],
    of_mode: dict[str, Settings],
    *,
    backbones: Iterable[str],
    per_class: int | None = None,
    quick: bool = False,
) -> list[Unit]:
    """Return a unit for each backbone, mode, method and seed; ``of_mode`` has the settings of each mode."""
    about = {"per_class": per_class, "n_episodes": EPISODES}
    if quick:
        about = {"per_class": per_class or QUICK_PER_CLASS, "n_episodes": QUICK_EPISODES}
    return [
        Unit(
            experiment, dataset, method, seed,
            settings | (QUICK if quick else {}) | about
            | {"mode": mode, "backbone": backbone},
        )
        for backbone in backbones for mode, settings in of_mode.items() for method in METHODS for seed in seeds
    ]  # fmt: skip


def changed(units: Iterable[Unit], changes: str, settings: Settings) -> list[Unit]:
    """Return the same units with other settings, under the name ``changes``."""
    return [Unit(u.experiment, u.dataset, u.method, u.seed, u.options | settings | {"changes": changes}) for u in units]


def recipe_of(unit: Unit) -> ImageRecipe:
    """Return the recipe that a unit trains by."""
    settings = {name: value for name, value in unit.options.items() if name not in (*ABOUT, "train")}
    _, own = CONTROLS.get(unit.method, ("", {"metric": unit.method}))
    return ImageRecipe.from_dict(settings | own | {"seed": unit.seed})


def prepare(units: Iterable[Unit], data_dir: str | None, folder: str | Path, n_jobs: int = 1) -> None:
    """Extract the tokens that the units need; existing ones are kept."""
    wanted: dict[tuple[str, str, str, int | None], int] = {}
    for unit in units:
        for name, part in ((unit.options.get("source", unit.dataset), "train"), (unit.dataset, "novel")):
            key = (name, part, unit.options["backbone"], unit.options["per_class"])
            wanted[key] = max(wanted.get(key, 0), 0 if part == "train" else _needed(unit))
    for (name, part, backbone, per_class), needed in sorted(wanted.items(), key=str):
        limit = None if per_class is None else max(per_class, needed)
        network = load_backbone(backbone)
        embed(
            _part(load_images(name, data_dir), part, limit), network,
            tokens_folder(folder, name, part, backbone, per_class), views=VIEWS if part == "train" else 0,
            attention=network.has_attention and part == "novel",
            augmentation="drawing" if name == "omniglot" else "photo", n_jobs=n_jobs, progress=True,
        )  # fmt: skip


def _needed(unit: Unit) -> int:
    """Return the images per novel class that all settings need; ``per_class`` never goes below."""
    return max(setting.n_shot + setting.n_query for setting in settings_of(unit.dataset, _protocol(unit)))


def _protocol(unit: Unit) -> str:
    return "cross-domain" if "source" in unit.options else unit.options["mode"]


def _part(images: ImageSet, part: str, per_class: int | None) -> ImageSet:
    """Return the images of the training classes, or of the test classes."""
    chosen = images.of_split("train" if part == "train" else "test")
    return chosen if per_class is None else chosen.limited(per_class)


def tokens_folder(folder: str | Path, name: str, part: str, backbone: str, per_class: int | None) -> Path:
    """Return the folder of the tokens of a part; its name is a checksum, since a backbone's spec may be a path."""
    digest = hashlib.sha256(json.dumps([backbone, per_class]).encode()).hexdigest()[:12]
    return Path(folder) / "tokens" / f"{name}-{part}-{digest}"


@lru_cache(maxsize=4)
def _tokens(folder: Path) -> TokenSet:
    return open_tokens(folder)


def tokens_of(unit: Unit, part: str, folder: str | Path) -> TokenSet:
    """Return the tokens that `prepare` has extracted for a unit."""
    name = unit.options.get("source", unit.dataset) if part == "train" else unit.dataset
    return _tokens(tokens_folder(folder, name, part, unit.options["backbone"], unit.options["per_class"]))


def enough(novel: TokenSet, setting: Setting) -> TokenSet | None:
    """Return the images of classes that have enough for an episode, or None if there are too few such classes."""
    labels, counts = np.unique(novel.labels, return_counts=True)
    kept = labels[counts >= setting.n_shot + setting.n_query]
    return novel.of_classes(kept.tolist()) if len(kept) >= setting.n_way else None


def episodes_of(unit: Unit, folder: str) -> list[tuple[Setting, TokenSet]]:
    """Return the settings of the data set's protocol for which it has enough images, and the images to draw from."""
    novel = tokens_of(unit, "novel", folder)
    every = [(setting, enough(novel, setting)) for setting in settings_of(unit.dataset, _protocol(unit))]
    found = [(setting, tokens) for setting, tokens in every if tokens is not None]
    if not found:
        raise DataError(f"{unit.dataset}: too few novel classes have enough images for an episode.")
    return found


def trained(unit: Unit, folder: str) -> tuple[ImageRecognizer, dict[str, Any]]:
    """Return the trained recognizer of a unit, with the seconds and the final loss of its training."""
    train = tokens_of(unit, "train", folder)
    recognizer = ImageRecognizer(recipe_of(unit), train.dim)
    begin = time.perf_counter()
    recognizer.fit(train, checkpoint_path=_checkpoint(unit, folder))
    return recognizer, {
        "seconds": time.perf_counter() - begin,
        "loss": float(np.mean(recognizer.losses[-50:])) if recognizer.losses else None,
    }


def _checkpoint(unit: Unit, folder: str) -> Path:
    return Path(folder) / "checkpoints" / f"{unit.key}.safetensors"


def accuracies(recognizer: ImageRecognizer, unit: Unit, folder: str) -> dict[str, Any]:
    """Return the accuracy on novel classes by setting ("WAY-SHOT"); for uDTW also correlations of its uncertainty."""
    found: dict[str, Any] = {}
    for setting, novel in episodes_of(unit, folder):
        accuracy = recognizer.evaluate(
            novel, n_way=setting.n_way, n_shot=setting.n_shot, n_query=setting.n_query, seed=NOVEL_SEED,
            n_episodes=unit.options["n_episodes"],
        )  # fmt: skip
        found[f"{setting.n_way}-{setting.n_shot}"] = {
            "mean": accuracy.mean, "half_width": accuracy.half_width, "n": accuracy.n_episodes,
        }  # fmt: skip
    if unit.method == "udtw":
        maps = measure_reverse_attention(recognizer, tokens_of(unit, "novel", folder))
        found["correlations"] = {name: [one.mean, one.half_width] for name, one in maps.items()}
    return found


Judge = Callable[[ImageRecognizer, Unit, str], dict[str, Any]]


def work(
    unit: Unit, data_dir: str | None = None, folder: str | None = None, judge: Judge = accuracies
) -> dict[str, Any]:
    """Return the accuracies on novel classes after training on the others."""
    if folder is None:
        raise OptionError("Tokens are in the folder of results, which was not given.")
    episodes_of(unit, folder)  # fail before training if no setting can be judged
    recognizer, result = trained(unit, folder)
    result |= judge(recognizer, unit, folder)
    _checkpoint(unit, folder).unlink(missing_ok=True)
    return result
