"""Images with clutter: novel images on foreign backgrounds, or with a foreign picture pasted over a part of them.

A unit is one trained recognizer. ``train`` says on what: "clean" images, or each image as it is and with clutter
("mixed"), the same for all comparators. Every recognizer is tested on clean novel images and on the same images with
clutter, in supports and queries; for uDTW a result also has correlations of σ with what is clutter, and deletion
curves. Clutter comes from another data set, from other classes in training than in the test.
"""

import time
from pathlib import Path
from typing import Any

import numpy as np

from experiments import image_runs
from experiments.clutter_images import Clutter, foreground_correlation
from experiments.deletion import deletion_curves
from experiments.experiment import Experiment, Results, chosen_datasets, over_seeds
from experiments.image_report import short
from experiments.image_runs import NOVEL_SEED, tokens_folder
from experiments.units import Unit
from udtw.demo.document import Document
from udtw.errors import OptionError
from udtw.fewshot import EpisodeSampler
from udtw.fewshot.evaluation import encode_all, evaluate_scores, support_scores
from udtw.images import (
    ImageRecipe,
    ImageRecognizer,
    TokenSet,
    embed,
    load_backbone,
    load_images,
    open_tokens,
)
from udtw.images.datasets import ImageSet, make_images
from udtw.images.reverse_attention import measure_reverse_attention

NAME = "clutter"
METHODS = {
    name: image_runs.METHODS[name]
    for name in ("soft_dtw", "udtw", "euclidean", "soft_dtw_divergence", "protonet", *image_runs.CONTROLS)
}
"""Name in units to name in tables; what matters most comes first in a run."""
FOREIGN = {"cars": "cifar-fs", "cifar-fs": "cars", "synthetic": "synthetic"}
"""Data set to the one that its clutter is from."""
TRAINED = ("clean", "mixed")
TESTED = ("clean", "clutter")
CLUTTER = Clutter(shrink=(0.6, 0.8), patch=(0.4, 0.6))
SETTINGS: dict[str, Any] = {"n_steps": 300, "n_way": 10, "n_query": 3, "learning_rate": 3e-3, "matching": "support"}
QUICK: dict[str, Any] = {"n_steps": 4, "n_way": 5, "dim": 16, "n_query": 3}
EPISODES, QUICK_EPISODES, N_QUERY = 2000, 20, 10
PER_CLASS, QUICK_PER_CLASS = 20, 12
DELETED_PER_CLASS = 8
"""Images of each novel class of which deletion curves are made."""
DELETED_SHARES = (0.0, 0.2, 0.4, 0.6, 0.8)
TRAIN_SEED, TEST_SEED = 1, 2


def units(
    *, datasets: list[str] | None, seeds: list[int], quick: bool, data_dir: str | None, backbones: list[str],
    per_class: int | None,
) -> list[Unit]:  # fmt: skip
    """Return a unit for each data set, backbone, kind of training images, seed and method."""
    about = {"per_class": per_class or PER_CLASS, "n_episodes": EPISODES}
    if quick:
        about = {"per_class": per_class or QUICK_PER_CLASS, "n_episodes": QUICK_EPISODES}
    return [
        Unit(
            NAME, dataset, method, seed,
            SETTINGS | (QUICK if quick else {}) | about
            | {"train": train, "backbone": backbone},
        )
        for seed in seeds for dataset in chosen_datasets(datasets, ("cifar-fs", "cars"), ("synthetic",))
        for backbone in backbones for train in TRAINED for method in METHODS
    ]  # fmt: skip


def images_of(unit: Unit, part: str, data_dir: str | None) -> dict[str, ImageSet]:
    """Return the images of a part, "train" or "novel", by kind: "clean" and "clutter"."""
    split, seed = ("train", TRAIN_SEED) if part == "train" else ("test", TEST_SEED)
    clean = load_images(unit.dataset, data_dir).of_split(split).limited(unit.options["per_class"])
    other = FOREIGN[unit.dataset]
    foreign = make_images(seed=1) if other == "synthetic" else load_images(other, data_dir)
    return {"clean": clean, "clutter": CLUTTER.of(clean, foreign.of_split(split), seed)}


def prepare(units: list[Unit], data_dir: str | None, folder: str, n_jobs: int = 1) -> None:
    """Extract the tokens of all images with and without clutter; existing ones are kept."""
    unique = {(unit.dataset, unit.options["backbone"], unit.options["per_class"]): unit for unit in units}
    for unit in unique.values():
        for part in ("train", "novel"):
            for kind, images in images_of(unit, part, data_dir).items():
                backbone = load_backbone(unit.options["backbone"])
                embed(images, backbone, _folder(unit, f"{part}-{kind}", folder), n_jobs=n_jobs, progress=True)


def _folder(unit: Unit, part: str, folder: str | Path) -> Path:
    return tokens_folder(folder, unit.dataset, part, unit.options["backbone"], unit.options["per_class"])


def work(unit: Unit, data_dir: str | None = None, folder: str | None = None) -> dict[str, Any]:
    """Return accuracies on novel classes by kind of test images; for uDTW also measures of its uncertainty."""
    if folder is None:
        raise OptionError("Tokens are in the folder of results, which was not given.")
    train = open_tokens(_folder(unit, "train-clean", folder))
    if unit.options["train"] == "mixed":
        train = train.with_view(open_tokens(_folder(unit, "train-clutter", folder)))
    recognizer = ImageRecognizer(image_runs.recipe_of(unit), train.dim)
    begin = time.perf_counter()
    recognizer.fit(train)
    result: dict[str, Any] = {"seconds": time.perf_counter() - begin, "loss": float(np.mean(recognizer.losses[-50:]))}
    for kind in TESTED:
        novel = open_tokens(_folder(unit, f"novel-{kind}", folder))
        tokens = encode_all(recognizer.model, recognizer.source(novel))
        sampler = EpisodeSampler(novel.labels, 5, 1, N_QUERY, NOVEL_SEED)
        scores = support_scores(recognizer.model, tokens, tokens)
        accuracy = evaluate_scores(scores, sampler, unit.options["n_episodes"])
        result[kind] = {"mean": accuracy.mean, "half_width": accuracy.half_width, "n": accuracy.n_episodes}
        if unit.method == "udtw":
            maps = measure_reverse_attention(recognizer, novel)
            if kind == "clutter":
                images = images_of(unit, "novel", data_dir)["clutter"]
                maps["foreground"] = foreground_correlation(recognizer, novel, images)
            result[f"correlations-{kind}"] = {name: [one.mean, one.half_width] for name, one in maps.items()}
            result[f"deletion-{kind}"] = _deletion(recognizer, novel, unit.options["n_episodes"])
    return result


def _deletion(recognizer: ImageRecognizer, novel: TokenSet, n_episodes: int) -> dict[str, Any]:
    some = np.concatenate([np.flatnonzero(novel.labels == one)[:DELETED_PER_CLASS] for one in np.unique(novel.labels)])
    found = deletion_curves(
        recognizer, novel.subset(some), shares=DELETED_SHARES, n_query=min(N_QUERY, DELETED_PER_CLASS - 1),
        n_episodes=n_episodes, seed=NOVEL_SEED,
    )  # fmt: skip
    return {name: getattr(found, name) for name in ("shares", "certain_first", "uncertain_first", "area")}


def report(results: Results, document: Document) -> None:
    """Report accuracies, uDTW's advantage paired by seed, correlations of σ, and areas between deletion curves."""
    document.text(f"{CLUTTER}, in supports and queries; clutter of each data set is from {FOREIGN}.")
    groups = sorted({(u.dataset, u.options["backbone"], u.options["per_class"]) for u, _ in results})
    columns = {f"trained {a}, tested {b}": (a, b) for a in TRAINED for b in TESTED}
    for group in groups:
        own = [(u, r) for u, r in results if (u.dataset, u.options["backbone"], u.options["per_class"]) == group]
        title = f"{group[0]}, {short(group[1])}, {group[2]} images per class"
        found = {m: {name: accuracies(own, m, *kinds) for name, kinds in columns.items()} for m in METHODS}
        there = [m for m in METHODS if any(found[m].values())]
        widths = [r[kind]["half_width"] for _, r in own for kind in TESTED]
        document.table(
            f"{title}: 5-way 1-shot accuracy on novel classes, in %",
            ["comparator", *columns],
            [[METHODS[m], *(_over(found[m][name]) for name in columns)] for m in there],
            f"Mean ± 95 % interval over training seeds {sorted({u.seed for u, _ in own})} (Student's t); each is "
            f"judged by the same {own[0][0].options['n_episodes']} episodes, whose own interval is about "
            f"±{100 * np.mean(widths):.1f}.",
        )
        document.table(
            f"{title}: uDTW minus the other, in points, paired by seed",
            ["other", *columns],
            [
                [METHODS[m], *(_over(_difference(found["udtw"][name], found[m][name])) for name in columns)]
                for m in there
                if m != "udtw" and "udtw" in there
            ],
        )
        _report_uncertainty(title, [(u, r) for u, r in own if u.method == "udtw"], document)


def accuracies(results: Results, method: str, trained: str, tested: str) -> dict[int, float]:
    """Return the accuracy of each seed."""
    return {u.seed: r[tested]["mean"] for u, r in results if (u.method, u.options["train"]) == (method, trained)}


def _difference(ours: dict[int, float], theirs: dict[int, float]) -> dict[int, float]:
    return {seed: ours[seed] - theirs[seed] for seed in sorted(ours.keys() & theirs.keys())}


def _over(found: dict[int, float]) -> str | None:
    return over_seeds(list(found.values())) if found else None


def _report_uncertainty(title: str, results: Results, document: Document) -> None:
    """Report correlations of σ within images, and areas between the deletion curves."""
    rows = []
    for trained in TRAINED:
        own = [r for u, r in results if u.options["train"] == trained]
        for tested in TESTED if own else ():
            areas = over_seeds([r[f"deletion-{tested}"]["area"] for r in own])
            maps = [r[f"correlations-{tested}"] for r in own]
            means = {name: float(np.mean([one[name][0] for one in maps])) for name in maps[0]}
            cells = [
                f"{means[name]:+.2f}" if name in means else None for name in ("foreground", "contrast", "attention")
            ]
            rows.append([trained, tested, *cells, areas])
    if rows:
        document.table(
            f"{title}: uncertainty",
            ["trained", "tested", "ρ with foreground", "with contrast", "with attention", "deletion: area, points"],
            rows,
            "ρ: Spearman's rank correlation of σ within an image, mean over images and seeds; negative if what belongs "
            "to the image is certain. Area: accuracy when the most uncertain tokens are removed first minus that when "
            "the most certain are, mean over shares from 0 to 80 %.",
        )


EXPERIMENT = Experiment(
    NAME, "Images with clutter: few-shot classification on foreign backgrounds and behind pasted patches",
    units, work, report, (0, 1, 2, 3, 4), keeps_files=True, backbones=("efficientnet-lite0?image_size=160",),
    recipe=ImageRecipe,
    prepare=prepare,
)  # fmt: skip
