"""What the skeleton experiments share: a unit is one trained recogniser, judged on novel classes.

A unit's ``params`` are settings of `udtw.skeleton.Recipe` (what is absent has its default), and ``n_train``, the number
of training classes, if not all are used. The result holds the accuracy by alignment and, without labels, by codes.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from udtw.errors import OptionError
from udtw.experiments.units import Unit
from udtw.fewshot import EpisodeSampler, accuracy_of
from udtw.fewshot.episodes import queries_for
from udtw.fewshot.evaluation import evaluate_scores
from udtw.fewshot.model import predict
from udtw.skeleton import ActionRecognizer, Recipe
from udtw.skeleton.datasets import SkeletonSet, load_skeletons, protocol

EPISODES = 2000
NOVEL_SEED = 12345
"""Test episodes are the same for all methods and seeds."""
METHODS = {
    "euclidean": "Euclidean",
    "soft_dtw": "sDTW",
    "soft_dtw_divergence": "sDTW div.",
    "udtw": "uDTW",
    "tap": "TAP",
    "protonet": "ProtoNet",
    "matchnet": "MatchNets",
    "protonet-pictures": "ProtoNet (pictures)",
    "matchnet-pictures": "MatchNets (pictures)",
}
"""Name in units to name in tables; "-pictures" is the convolutional net on rendered blocks, as in the paper."""
UNSUPERVISED = ("euclidean", "soft_dtw", "soft_dtw_divergence", "udtw")

QUICK = {
    "n_steps": 4,
    "dim": 16,
    "joint_dim": 8,
    "width": 16,
    "depth": 0,
    "n_atoms": 16,
    "n_nearest": 4,
    "image_size": 32,
}
"""Settings of a run that only shows that all works."""

Settings = dict[str, Any]


def make_units(
    experiment: str,
    dataset: str,
    seeds: Sequence[int],
    common: Settings,
    of_mode: dict[str, Settings],
    *,
    sizes: Sequence[int | None] = (None,),
    methods: Iterable[str] = METHODS,
) -> list[Unit]:
    """A unit for each method, mode, number of training classes and seed, with the settings of each put together."""
    found = []
    for method in methods:  # outermost, so that the slowest methods come last
        for mode in ("supervised", "unsupervised") if method in UNSUPERVISED else ("supervised",):
            for size in sizes:
                params = common | of_mode.get(mode, {}) | {"mode": mode}
                if size is not None:
                    params["n_train"] = size
                found += [Unit(experiment, dataset, method, seed, params) for seed in seeds]
    return found


def units_by_size(
    name: str, common: Settings, of_mode: dict[str, Settings], sizes: Sequence[int]
) -> Callable[..., list[Unit]]:
    """The function ``units`` of an experiment on one data set with several numbers of training classes."""

    def units(*, datasets: list[str] | None, seeds: list[int], quick: bool, data_dir: str | None) -> list[Unit]:
        """One unit a method, mode, seed and number of training classes."""
        if datasets not in (None, [name]):
            raise OptionError(f"This experiment runs on {name}; got {datasets}.")
        if quick:
            return make_units(name, name, seeds, common | QUICK, {}, sizes=sizes[:1])
        return make_units(name, name, seeds, common, of_mode, sizes=sizes)

    return units


def recipe_of(unit: Unit) -> Recipe:
    """What a unit trains."""
    metric, _, pictures = unit.method.partition("-")
    if unit.method not in METHODS:
        raise OptionError(f"There is no method {unit.method!r}; there are {', '.join(METHODS)}.")
    settings = {name: value for name, value in unit.options.items() if name != "n_train"}
    return Recipe.from_dict(settings | {"metric": metric, "encoder": pictures or "joints", "seed": unit.seed})


@lru_cache(maxsize=2)
def _load(name: str, data_dir: str | None) -> SkeletonSet:
    return load_skeletons(name, data_dir)


def work(unit: Unit, data_dir: str | None = None, folder: str | None = None) -> dict[str, Any]:
    """Train on the training classes and judge on the novel ones: by episodes, or by the protocol's exemplars."""
    skeletons = _load(unit.dataset, data_dir)
    parts = protocol(skeletons, unit.options.get("n_train"))
    train, novel = skeletons.subset(parts.train), skeletons.subset(parts.novel)
    recognizer = ActionRecognizer(recipe_of(unit), skeletons.graph, skeletons[0].frames.shape[3])
    checkpoint = None if folder is None else Path(folder) / "checkpoints" / f"{unit.key}.safetensors"
    begin = time.perf_counter()
    recognizer.fit(train, checkpoint_path=checkpoint)
    result: dict[str, Any] = {"seconds": time.perf_counter() - begin, "loss": float(np.mean(recognizer.losses[-50:]))}
    ways = ["alignment"] if recognizer.dictionary is None else ["alignment", "codes"]
    for way in ways:
        if parts.exemplars is None:
            scores = recognizer.scores(novel, inference=way)
            n_way = min(5, len(np.unique(novel.labels)))
            sampler = EpisodeSampler(novel.labels, n_way, 1, queries_for(novel.labels, 1), NOVEL_SEED)
            accuracy = evaluate_scores(scores, sampler, EPISODES)
        else:
            known = skeletons.subset(parts.exemplars)
            found = predict(recognizer.scores(novel, known, inference=way), known.labels)
            accuracy = accuracy_of((found == novel.labels).astype(float))
        result[way] = {"mean": accuracy.mean, "half_width": accuracy.half_width, "n": accuracy.n_episodes}
    if checkpoint is not None:
        checkpoint.unlink(missing_ok=True)
    return result
