"""When variances learn beside the features, compared in few-shot models: ``python -m benchmarks.sigma_training``.

Test classes are never read. Images: training on the training classes, 5-way episodes of the validation classes, several
seeds. Skeletons: every fourth of UTD-MHAD's training and validation classes is held out in turn; clean clips, and clips
with faults of the tracker that states no confidence. There σ is between 0.9 and 1.1 by default, since a SigmaNet learns
more about the few classes than about noise; "wide" is a range from 0.5 to 2, in which the way of training matters.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from udtw.experiments.image_tables import SUPERVISED, UNSUPERVISED
from udtw.experiments.skeleton_tables import COMMON, novel_accuracy
from udtw.fewshot.stages import SIGMA_TRAININGS
from udtw.images import ImageRecipe, ImageRecognizer, TokenSet, embed, load_backbone, load_images, open_tokens
from udtw.skeleton import ActionRecognizer, Recipe
from udtw.skeleton.datasets import Faults, SkeletonSet, class_split, load_skeletons

IMAGES, PER_CLASS, EPISODES, FOLDS = ("cars", "cifar-fs"), 20, 1000, 4
MODES = {"supervised": SUPERVISED, "unsupervised": UNSUPERVISED}
WIDE = {"sigma_low": 0.5, "sigma_high": 2.0}

Scores = dict[str, float]


def tokens(name: str, split: str, options: argparse.Namespace) -> TokenSet:
    """The tokens of the images of a split, extracted by the first call."""
    folder = Path(options.out) / f"{name}-{split}"
    if not folder.exists():
        images = load_images(name, options.images).of_split(split).limited(PER_CLASS)
        views = 2 if split == "train" else 0
        embed(images, load_backbone(options.backbone), folder, views=views, augmentation="photo", progress=True)
    return open_tokens(folder)


def on_images(name: str, mode: str, options: argparse.Namespace) -> Callable[[dict[str, Any]], Iterator[Scores]]:
    """Settings of a recipe to the accuracies of the seeds, in percent."""
    train, held = tokens(name, "train", options), tokens(name, "val", options)

    def judged(settings: dict[str, Any]) -> Iterator[Scores]:
        for seed in range(options.seeds):
            recipe = ImageRecipe(mode=mode, seed=seed, **MODES[mode], **settings)
            recognizer = ImageRecognizer(recipe, train.dim).fit(train)
            yield {
                f"{shot}-shot": 100 * recognizer.evaluate(held, n_shot=shot, n_episodes=EPISODES, seed=1).mean
                for shot in (1, 5)
            }

    return judged


def on_skeletons(faults: bool, options: argparse.Namespace) -> Callable[[dict[str, Any]], Iterator[Scores]]:
    """Settings of a recipe to the accuracies of the folds, in percent."""
    skeletons = load_skeletons("utd-mhad", options.skeletons)
    split = class_split(skeletons)
    known = sorted([*split.train, *split.validation])

    def judged(settings: dict[str, Any]) -> Iterator[Scores]:
        for fold in range(FOLDS):
            train, held = (
                part(skeletons, [c for c in known if (c in known[fold::FOLDS]) is out], faults, random_state)
                for out, random_state in ((False, 1), (True, 2))
            )
            recipe = Recipe(seed=fold, **COMMON, **settings)
            recognizer = ActionRecognizer(recipe, skeletons.graph, skeletons[0].frames.shape[3]).fit(train)
            yield {"1-shot": 100 * novel_accuracy(recognizer, held).mean}

    return judged


def part(skeletons: SkeletonSet, classes: list[int], faults: bool, random_state: int) -> SkeletonSet:
    """The clips of some classes, with faults or without."""
    chosen = skeletons.subset(np.flatnonzero(np.isin(skeletons.labels, classes)))
    return Faults().of(chosen, random_state, stated=False) if faults else chosen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", help="folder of cars and cifar-fs")
    parser.add_argument("--skeletons", help="folder of utd-mhad")
    parser.add_argument("--backbone", default="efficientnet-lite0?image_size=160")
    parser.add_argument("--out", default="runs/sigma_training", help="folder for the tokens of images")
    parser.add_argument("--only", nargs="*", choices=SIGMA_TRAININGS, default=list(SIGMA_TRAININGS))
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows: dict[str, tuple[Callable[[dict[str, Any]], Iterator[Scores]], dict[str, Any], list[str]]] = {}
    if options.images:
        for name in IMAGES:
            for mode in MODES:
                rows[f"{name}, {mode}"] = on_images(name, mode, options), {}, options.only
    if options.skeletons:
        for faults in (True, False):
            judged, what = on_skeletons(faults, options), "faults" if faults else "clean"
            rows[f"utd-mhad, {what}"] = judged, {}, ["joint"]
            rows[f"utd-mhad, {what}, wide"] = judged, WIDE, options.only
    for where, (judged, settings, trainings) in rows.items():
        for sigma_training in trainings:
            begin = time.perf_counter()
            found = list(judged(settings | {"sigma_training": sigma_training}))
            parts = [
                f"{key} {np.mean([one[key] for one in found]):.1f} ± {np.std([one[key] for one in found]):.1f}"
                for key in found[0]
            ]
            seconds = (time.perf_counter() - begin) / len(found)
            print(f"{where:23} {sigma_training:10} {'   '.join(parts)}   ({seconds:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
