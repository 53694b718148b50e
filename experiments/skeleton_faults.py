"""Faults of the tracker in few-shot recognition of actions: limbs that are lost, jitter or change sides.

A unit is one trained recognizer. ``train`` says on what: "clean" clips, faults of which the confidence tells
("stated"), or of which nothing tells ("unstated"). A result holds the accuracy on novel classes for each part of the
test: a recognizer that was trained on clean clips is tested on clean ones and on both kinds of faults, the others on
the kind they know.
"""

import time
from typing import Any

import numpy as np

from experiments.experiment import Experiment, Results, chosen_datasets, over_seeds
from experiments.skeleton_tables import COMMON, EPISODES, QUICK, episodes_of, load_once, novel_accuracy, recipe_by
from experiments.units import Unit
from udtw.demo.document import Document
from udtw.errors import OptionError
from udtw.skeleton import ActionRecognizer, Recipe
from udtw.skeleton.datasets import Faults, SkeletonSet, protocol
from udtw.skeleton.datasets.loading import DATASETS

METHODS = {
    "soft_dtw": "sDTW",
    "soft_dtw_divergence": "sDTW div.",
    "udtw": "uDTW",
    "soft_dtw-whole": "sDTW, features of the whole body",
    "soft_dtw_divergence-whole": "sDTW div., features of the whole body",
    "udtw-whole": "uDTW, features of the whole body",
    "protonet": "ProtoNet",
    "udtw-paper": "uDTW, paper's weighting",
    "soft_dtw_divergence-repaired": "sDTW div. after uDTW's repair",
    "tap": "TAP",
}
"""Name in units to name in tables; the slowest last. Those of the whole body have the paper's encoder, without features
of single joints; "repaired" shows how much of uDTW's gain is due to the repair of joints before the encoder."""
CERTAIN = ("soft_dtw", "soft_dtw_divergence", "soft_dtw-whole", "soft_dtw_divergence-whole", "protonet", "tap")
"""Comparators without uncertainty, which have no use for a confidence."""
TESTS = {
    ("clean", "clean"): "clean",
    ("clean", "stated"): "test only, with confidence",
    ("clean", "unstated"): "test only, without",
    ("stated", "stated"): "both parts, with confidence",
    ("unstated", "unstated"): "both parts, without",
}
"""Training and test to the heading of the column."""
SLOWEST = "tap"
FAULTS = Faults()
TRAIN_SEED, TEST_SEED = 1, 2


def units(*, datasets: list[str] | None, seeds: list[int], quick: bool, data_dir: str | None = None) -> list[Unit]:
    """Return a unit for each seed, method, data set and kind of training clips, those of the slowest method last.

    So a run that is stopped early has whole seeds.
    """
    settings = COMMON | (QUICK if quick else {})
    every = [
        Unit("skeleton-faults", dataset, method, seed, settings | {"train": train})
        for seed in seeds
        for method in METHODS
        for dataset in chosen_datasets(datasets, ("utd-mhad", "nw-ucla"), [*DATASETS])
        for train in ("clean", "stated", "unstated")
        if not (method in CERTAIN and train == "stated")
    ]
    return sorted(every, key=lambda unit: unit.method == SLOWEST)


def work(unit: Unit, data_dir: str | None = None) -> dict[str, Any]:
    """Return accuracies on novel classes, by the kind of test clips."""
    if unit.method not in METHODS:
        raise OptionError(f"There is no method {unit.method!r}; there are {', '.join(METHODS)}.")
    skeletons = load_once(unit.dataset, data_dir)
    parts = protocol(skeletons)
    train = skeletons.subset(parts.train)
    own = {
        "confidence": "ignore" if unit.method in CERTAIN else "estimate", "seed": unit.seed,
        "n_way": min(Recipe.n_way, len(np.unique(train.labels))),
    }  # fmt: skip
    settings = {name: value for name, value in unit.options.items() if name != "train"}
    recipe = recipe_by(unit.method, settings | own)
    trained_on = unit.options["train"]
    recognizer = ActionRecognizer(recipe, skeletons.graph, skeletons[0].frames.shape[3])
    begin = time.perf_counter()
    recognizer.fit(_with_faults(train, trained_on, TRAIN_SEED))
    result: dict[str, Any] = {"seconds": time.perf_counter() - begin, "loss": float(np.mean(recognizer.losses[-50:]))}
    novel = skeletons.subset(parts.novel)
    result["n_way"] = episodes_of(novel.labels, parts.queries).n_way
    for trained, tested in TESTS:
        if trained == trained_on and not (unit.method in CERTAIN and tested == "stated"):
            accuracy = novel_accuracy(recognizer, _with_faults(novel, tested, TEST_SEED), parts.queries)
            result[tested] = {"mean": accuracy.mean, "half_width": accuracy.half_width, "n": accuracy.n_episodes}
    return result


def _with_faults(skeletons: SkeletonSet, kind: str, seed: int) -> SkeletonSet:
    return skeletons if kind == "clean" else FAULTS.of(skeletons, seed, stated=kind == "stated")


def accuracies(results: Results, method: str, trained: str, tested: str) -> dict[int, float]:
    """Return the accuracy of each seed.

    Comparators without uncertainty have the same accuracy with and without confidence.
    """
    if method in CERTAIN and tested == "stated":
        tested = "unstated"
        trained = "clean" if trained == "clean" else "unstated"
    return {
        unit.seed: result[tested]["mean"]
        for unit, result in results
        if unit.method == method and unit.options["train"] == trained
    }


def report(results: Results, document: Document) -> None:
    """Report accuracies by method and kind of faults, and uDTW's lead over the best comparator without uncertainty."""
    document.text(f"Faults per clip: {FAULTS}")
    for name in sorted({unit.dataset for unit, _ in results}):
        own = [(unit, result) for unit, result in results if unit.dataset == name]
        found = {(m, *test): accuracies(own, m, *test) for m in METHODS for test in TESTS}
        widths = [part["half_width"] for _, result in own for part in result.values() if isinstance(part, dict)]
        n_way = next(result.get("n_way", 5) for _, result in own)  # results that do not say so have 5
        document.table(
            f"{name}: {n_way}-way 1-shot accuracy on novel classes, in %",
            ["comparator", *TESTS.values()],
            [
                [label, *(_over(found[m, *test]) for test in TESTS)]
                for m, label in METHODS.items()
                if any(found[m, *test] for test in TESTS)
            ],
            f"Mean ± 95 % interval over training seeds {sorted({unit.seed for unit, _ in own})} (Student's t); each is "
            f"judged by the same {EPISODES} episodes, whose own interval is about ±{100 * np.mean(widths):.1f}.",
        )
        document.table(
            f"{name}: uDTW minus the best comparator without uncertainty, in points, paired by seed",
            ["", *TESTS.values()],
            [["difference", *(_advantage({m: found[m, *test] for m in METHODS}) for test in TESTS)]],
        )


def _over(found: dict[int, float]) -> str | None:
    return over_seeds(list(found.values())) if found else None


def _advantage(found: dict[str, dict[int, float]]) -> str | None:
    """Return the accuracy of uDTW minus that of the best of `CERTAIN`, over the seeds that both have."""
    others = [found[m] for m in CERTAIN if found[m]]
    if not others or not found["udtw"]:
        return None
    best = max(others, key=lambda values: float(np.mean(list(values.values()))))
    seeds = sorted(best.keys() & found["udtw"].keys())
    return over_seeds([found["udtw"][s] - best[s] for s in seeds]) if seeds else None


EXPERIMENT = Experiment(
    "skeleton-faults", "Skeletons with faults of the tracker: few-shot recognition with and without confidence",
    units, work, report, (0, 1, 2, 3, 4),
)  # fmt: skip
