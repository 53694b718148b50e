"""Settings of few-shot models, compared on validation classes: ``python -m benchmarks.fewshot_settings``.

    python -m benchmarks.fewshot_settings --data-dir DIR --on cars cifar-fs --vary sigma_training=joint,faithful
    python -m benchmarks.fewshot_settings --data-dir DIR --on utd-mhad --faults --vary relax=0,2 --setting sigma_gain=8

Test classes are never read. Images: training with labels (or without: ``--mode unsupervised``) on the training classes,
5-way episodes of the validation classes, several seeds. Skeletons: every fourth of the training and validation classes
is held out in turn, as many folds as seeds; with ``--faults`` all clips have faults of a tracker that states no
confidence.
"""

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from experiments.image_tables import SUPERVISED, UNSUPERVISED
from experiments.skeleton_tables import COMMON, SKELETON_TABLES, novel_accuracy
from udtw.cli.training import parse_setting
from udtw.images import ImageRecipe, ImageRecognizer, TokenSet, embed, load_backbone, load_images, open_tokens
from udtw.skeleton import ActionRecognizer, Recipe
from udtw.skeleton.datasets import Faults, SkeletonSet, load_skeletons
from udtw.skeleton.datasets.loading import DATASETS
from udtw.skeleton.datasets.protocols import class_split

PER_CLASS, EPISODES, FOLDS = 20, 1000, 4
OF_IMAGES = {"supervised": SUPERVISED, "unsupervised": UNSUPERVISED}

Settings = dict[str, Any]
Scores = dict[str, float]


def tokens(name: str, split: str, options: argparse.Namespace) -> TokenSet:
    """Return the tokens of the images of a split, reusing those of an earlier run."""
    folder = Path(options.out) / f"{name}-{split}"
    images = load_images(name, options.data_dir).of_split(split).limited(PER_CLASS)
    views = 2 if split == "train" else 0
    embed(images, load_backbone(options.backbone), folder, views=views, augmentation="photo", progress=True)
    return open_tokens(folder)


def on_images(name: str, settings: Settings, options: argparse.Namespace) -> Iterator[Scores]:
    """Return the accuracies of the seeds, in percent."""
    train, held = tokens(name, "train", options), tokens(name, "val", options)
    for seed in range(options.seeds):
        recipe = ImageRecipe(mode=options.mode, seed=seed, **OF_IMAGES[options.mode] | settings)
        recognizer = ImageRecognizer(recipe, train.dim).fit(train)
        yield {
            f"{shot}-shot": 100 * recognizer.evaluate(held, n_shot=shot, n_episodes=EPISODES, seed=1).mean
            for shot in (1, 5)
        }


def on_skeletons(name: str, settings: Settings, options: argparse.Namespace) -> Iterator[Scores]:
    """Return the accuracies of the folds, in percent."""
    skeletons = load_skeletons(name, options.data_dir)
    split = class_split(skeletons)
    known = sorted([*split.train, *split.validation])
    of_mode = next((table.of_mode for table in SKELETON_TABLES if table.name == name), {}).get(options.mode, {})
    ways = ("alignment", "codes") if options.mode == "unsupervised" else ("alignment",)
    for fold in range(min(options.seeds, FOLDS)):
        train, held = (
            part(skeletons, [c for c in known if (c in known[fold::FOLDS]) is out], options.faults, random_state)
            for out, random_state in ((False, 1), (True, 2))
        )
        recipe = Recipe(mode=options.mode, seed=fold, **COMMON | of_mode | settings)
        recognizer = ActionRecognizer(recipe, skeletons.graph, skeletons[0].frames.shape[3]).fit(train)
        yield {f"1-shot by {way}": 100 * novel_accuracy(recognizer, held, way=way).mean for way in ways}


def part(skeletons: SkeletonSet, classes: list[int], faults: bool, random_state: int) -> SkeletonSet:
    """Return the clips of some classes, with or without faults."""
    chosen = skeletons.subset(np.flatnonzero(np.isin(skeletons.labels, classes)))
    return Faults().of(chosen, random_state, stated=False) if faults else chosen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", required=True, help="folder that holds the data sets")
    parser.add_argument("--on", nargs="+", required=True, metavar="NAME", help="data sets of images or skeletons")
    parser.add_argument("--vary", required=True, metavar="NAME=VALUE,VALUE", help="the setting to compare")
    parser.add_argument("--setting", action="append", default=[], metavar="NAME=VALUE", help="of all rows")
    parser.add_argument("--mode", choices=OF_IMAGES, default="supervised")
    parser.add_argument("--faults", action="store_true", help="of skeletons")
    parser.add_argument("--backbone", default="efficientnet-lite0?image_size=160")
    parser.add_argument("--out", default="out/fewshot_settings", help="folder for the tokens of images")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    common = dict(parse_setting(text) for text in options.setting)
    varied, _, values = options.vary.partition("=")
    for name in options.on:
        judged = on_skeletons if name in DATASETS else on_images
        for value in values.split(","):
            begin = time.perf_counter()
            found = list(judged(name, common | dict([parse_setting(f"{varied}={value}")]), options))
            parts = [
                f"{key} {np.mean([one[key] for one in found]):.1f} ± {np.std([one[key] for one in found]):.1f}"
                for key in found[0]
            ]
            seconds = (time.perf_counter() - begin) / len(found)
            print(f"{name:9} {varied}={value:10} {'   '.join(parts)}   ({seconds:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
