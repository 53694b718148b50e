"""The paper's tables on skeletons: an entry for each table, and the units, work and report that they share.

A unit is one trained recognizer, judged on novel classes. Its ``params`` are settings of `udtw.skeleton.Recipe` (others
have their defaults) and ``n_train``, the number of training classes if not all are used. Its result holds the accuracy
by alignment and, for training without labels, by codes. All methods of a table have the same encoder, blocks,
augmentation, episodes and steps.
"""

import time
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from experiments import published
from experiments.experiment import Experiment, Results, chosen_datasets, over_seeds
from experiments.published import Rows
from experiments.units import Unit
from udtw._engine.metrics import METRICS
from udtw.demo.document import Document
from udtw.errors import OptionError
from udtw.fewshot import EpisodeSampler
from udtw.fewshot.episodes import queries_for
from udtw.fewshot.evaluation import Accuracy, accuracy_of, evaluate_scores
from udtw.fewshot.model import predict
from udtw.skeleton import ActionRecognizer, Recipe
from udtw.skeleton.datasets import SkeletonSet, load_skeletons, protocol
from udtw.skeleton.datasets.protocols import Protocol, cross_view

EPISODES = 2000
NOVEL_SEED = 12345
"""Test episodes are the same for all methods and seeds."""
UNSUPERVISED = published.TRAINED
"""Methods that are also trained without labels."""
METHODS = {name: METRICS[name].label for name in UNSUPERVISED} | {
    "udtw-paper": "uDTW, paper's weighting",
    "tap": "TAP",
    "protonet": "ProtoNet",
    "matchnet": "MatchNets",
    "protonet-pictures": "ProtoNet (pictures)",
    "matchnet-pictures": "MatchNets (pictures)",
}
"""Name in units to name in tables."""
VARIANTS: dict[str, dict[str, Any]] = {
    "pictures": {"encoder": "pictures"},
    "paper": {"weighting": "precision", "learned": False, "sigma_gain": 8.0, "sigma_range": [0.5, 2.0]},
    "repaired": {},
    "whole": {"frequencies": 0},
}
"""What follows "-" in the name of a method, and its settings: the convolutional net on rendered blocks, as in the
paper; the paper's weighting; joints repaired by their confidence, where the metric has no use for it; features of the
whole body only, without those of single joints."""
WAYS = {
    ("supervised", "alignment"): "Supervised",
    ("supervised", "cross-view"): "Cross-view, all classes",
    ("unsupervised", "codes"): "Unsupervised, by codes",
    ("unsupervised", "alignment"): "Unsupervised, by alignment",
}
"""Mode of training and way of inference to the heading in reports."""
QUICK = {
    "n_steps": 4, "dim": 16, "joint_dim": 8, "width": 16, "depth": 0, "n_atoms": 16, "n_nearest": 4, "image_size": 32,
}  # fmt: skip
"""Settings of a run that only shows that everything works."""

Settings = dict[str, Any]
COMMON: Settings = {
    "width": 64, "joint_dim": 32, "depth": 0, "n_steps": 300, "rotation": 30.0, "stretch": 0.1, "noise": 0.02,
}  # fmt: skip
"""Settings for sets of about a thousand clips of a Kinect, chosen on UTD-MHAD's training and validation classes."""


@dataclass(frozen=True)
class SkeletonTable:
    """An experiment that trains every method on one or more data sets of skeletons."""

    name: str
    title: str
    common: Settings
    """Settings of all methods."""
    of_mode: dict[str, Settings]
    """Settings of training with ("supervised") and without labels ("unsupervised"), beside the common ones."""
    datasets: tuple[str, ...] = ()
    """By default the one that has the name of the table."""
    also: tuple[str, ...] = ()
    """Data sets that can be asked for."""
    seeds: tuple[int, ...] = (0, 1, 2)
    sizes: tuple[int, ...] = ()
    """Numbers of training classes, a column each; by default all classes, and a row for each way of training."""
    published: dict[str, Rows] = field(default_factory=dict)
    """The paper's figures by mode and method."""
    cross_view: bool = False
    """Also train on all classes as some cameras see them, and test on the clips of the others by their nearest training
    clip."""
    columns: tuple[str, ...] = ()
    """Headings of the paper's figures, if they have a table of their own."""

    @property
    def experiment(self) -> Experiment:
        """The entry of the registry."""
        return Experiment(
            self.name, self.title, self.units, work, self.report, self.seeds, keeps_files=True, recipe=Recipe
        )

    def units(
        self, *, datasets: list[str] | None, seeds: list[int], quick: bool, data_dir: str | None = None
    ) -> list[Unit]:
        """Return a unit for each data set, method, mode, number of training classes and seed."""
        common, of_mode = (self.common | QUICK, {}) if quick else (self.common, self.of_mode)
        sizes = self.sizes[:1] if quick else self.sizes
        parts: list[tuple[str, dict[str, Any]]] = [
            (mode, common | of_mode.get(mode, {}) | {"mode": mode} | size)
            for mode in ("supervised", "unsupervised")
            for size in ([{"n_train": size} for size in sizes] or [{}])
        ]
        if self.cross_view:
            parts.insert(1, ("supervised", parts[0][1] | {"cross_view": True}))
        return [
            Unit(self.name, dataset, method, seed, params)
            for dataset in chosen_datasets(datasets, self.datasets or [self.name], self.also)
            for method in METHODS  # before the modes and seeds, so that the slowest methods come last
            for mode, params in parts
            if mode == "supervised" or method in UNSUPERVISED
            for seed in seeds
        ]  # fmt: skip

    def report(self, results: Results, document: Document) -> None:
        """Report our accuracies, with the paper's."""
        if self.sizes:
            for mode, way in WAYS:
                self._report_sizes(results, document, mode, way)
            return
        for name in sorted({unit.dataset for unit, _ in results}):
            _report_ways([(unit, result) for unit, result in results if unit.dataset == name], document, name)
        if self.columns:
            both = self.published["supervised"], self.published["unsupervised"]
            blank = (None,) * (len(self.columns) // 2)
            document.table(
                "The paper's accuracies, in %",
                ["", *self.columns],
                [[METHODS[m], *(cell for rows in both for cell in rows.get(m, blank))] for m in both[0]],
            )

    def _report_sizes(self, results: Results, document: Document, mode: str, way: str) -> None:
        """Report a table of methods by numbers of training classes, with "ours (paper)" in the cells."""
        found = accuracies(results, mode, way)
        if not found:
            return
        # The paper classifies by codes where it trains without labels.
        printed = {} if (mode, way) == ("unsupervised", "alignment") else self.published.get(mode, {})
        rows = []
        for method, label in METHODS.items():
            theirs = printed.get(method.partition("-")[0], [None] * len(self.sizes))
            if any((method, size) in found for size in self.sizes) or method in printed:
                ours = [over_seeds(found[method, size]) if (method, size) in found else "–" for size in self.sizes]
                rows.append([label, *(o if t is None else f"{o} ({t})" for o, t in zip(ours, theirs, strict=True))])
        title = f"{WAYS[mode, way]}: accuracy in % by number of training classes; the paper's in brackets"
        document.table(title, ["", *map(str, self.sizes)], rows)


SKELETON_TABLES = (
    # 27 actions of 8 people: 15 for training, 4 for validation, 8 novel ones. The settings were chosen on the training
    # and validation classes.
    SkeletonTable(
        "utd-mhad",
        "UTD-MHAD: few-shot action recognition",
        COMMON,
        {
            "unsupervised": {
                "n_steps": 50, "dropout": 0.0, "encoder_rate": 1e-4, "n_atoms": 128, "n_nearest": 64,
                "temperature": 5.0,
            }
        },
        also=("synthetic",),
        seeds=(0, 1, 2, 3, 4),
    ),
    # 10 actions of 10 people, seen by three cameras: 5 for training, in views 1 and 2; 5 novel ones with supports from
    # these views and queries from view 3. Settings are those of UTD-MHAD: five novel classes leave none to choose by.
    SkeletonTable(
        "nw-ucla",
        "Northwestern-UCLA: few-shot and cross-view action recognition",
        COMMON,
        {"unsupervised": {"n_steps": 50, "dropout": 0.0, "encoder_rate": 1e-4}},
        seeds=(0, 1, 2, 3, 4),
        cross_view=True,
    ),
    # Novel classes A1, A7, …, A55 with one exemplar each; 10 to 50 of the others for training.
    SkeletonTable(
        "ntu60",
        "NTU RGB+D 60: one-shot action recognition",
        {"joint_dim": 100, "n_steps": 20_000, "stride": 6, "frequencies": 0},
        {"unsupervised": {"n_steps": 2_000}},
        sizes=(10, 20, 30, 40, 50),
        published=published.SKELETONS["ntu60"],
    ),
    # Novel classes A1, A7, …, A115 with one exemplar each; 20 to 100 of the others for training.
    SkeletonTable(
        "ntu120",
        "NTU RGB+D 120: one-shot action recognition",
        {"joint_dim": 100, "n_steps": 30_000, "stride": 6, "frequencies": 0},
        {"unsupervised": {"n_steps": 3_000}},
        sizes=(20, 40, 60, 80, 100),
        published=published.SKELETONS["ntu120"],
    ),
    # 200 actions for training, 5-way 1-shot episodes over the others; from 2D joints and from lifted 3D joints.
    SkeletonTable(
        "kinetics",
        "Kinetics-skeleton: few-shot action recognition",
        {"joint_dim": 100, "n_steps": 30_000, "block_size": 10, "stride": 10, "frequencies": 0},
        {"unsupervised": {"n_steps": 3_000}},
        datasets=("kinetics", "kinetics-3d"),
        published=published.SKELETONS["kinetics"],
        columns=("supervised 2D", "supervised 3D", "unsupervised 2D", "unsupervised 3D"),
    ),
)  # fmt: skip
"""Each entry is an experiment of `udtw reproduce`."""


def recipe_of(unit: Unit) -> Recipe:
    """Return the recipe that a unit trains by."""
    if unit.method not in METHODS:
        raise OptionError(f"There is no method {unit.method!r}; there are {', '.join(METHODS)}.")
    settings = {name: value for name, value in unit.options.items() if name not in ("n_train", "cross_view")}
    return recipe_by(unit.method, settings | {"seed": unit.seed})


def recipe_by(method: str, settings: Settings) -> Recipe:
    """Return the recipe of a method: the name of a comparator, alone or followed by "-" and one of `VARIANTS`."""
    metric, _, variant = method.partition("-")
    return Recipe.from_dict(settings | {"metric": metric} | VARIANTS.get(variant, {}))


@lru_cache(maxsize=2)
def load_once(name: str, data_dir: str | None) -> SkeletonSet:
    """Load the data set, and keep it in memory for the next unit."""
    return load_skeletons(name, data_dir)


def work(unit: Unit, data_dir: str | None = None, folder: str | None = None) -> dict[str, Any]:
    """Return the accuracy on novel classes after training on the others, by episodes or by the protocol's exemplars."""
    skeletons = load_once(unit.dataset, data_dir)
    crossed = unit.options.get("cross_view", False)
    if crossed:
        seen, tested = cross_view(skeletons)
        parts = Protocol(seen, np.arange(0), tested, exemplars=seen)
    else:
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
            accuracy = novel_accuracy(recognizer, novel, parts.queries, way)
        else:
            known = skeletons.subset(parts.exemplars)
            found = predict(recognizer.scores(novel, known, inference=way), known.labels)
            accuracy = accuracy_of((found == novel.labels).astype(float))
        result["cross-view" if crossed else way] = {
            "mean": accuracy.mean,
            "half_width": accuracy.half_width,
            "n": accuracy.n_episodes,
        }
    if checkpoint is not None:
        checkpoint.unlink(missing_ok=True)
    return result


def novel_accuracy(
    recognizer: ActionRecognizer, novel: SkeletonSet, queries: np.ndarray | None = None, way: str = "auto"
) -> Accuracy:
    """Return accuracy in `episodes_of` the clips of novel classes.

    ``way`` of inference as in `ActionRecognizer.scores`.
    """
    if queries is None:
        scores = recognizer.scores(novel, inference=way)
    else:  # the others are never compared
        rows, columns = np.flatnonzero(queries), np.flatnonzero(~queries)
        scores = np.full((len(novel), len(novel)), np.inf, np.float32)
        scores[np.ix_(rows, columns)] = recognizer.scores(novel.subset(rows), novel.subset(columns), inference=way)
    return evaluate_scores(scores, episodes_of(novel.labels, queries), EPISODES)


def episodes_of(labels: np.ndarray, queries: np.ndarray | None = None) -> EpisodeSampler:
    """Return the test episodes, the same for all methods and seeds: 5-way 1-shot with up to 10 queries per class."""
    possible = labels if queries is None else labels[queries]
    n_query = queries_for(possible, 1 if queries is None else 0)
    return EpisodeSampler(labels, min(5, len(np.unique(labels))), 1, n_query, NOVEL_SEED, queries=queries)


def accuracies(results: Results, mode: str, way: str) -> dict[tuple[str, Any], list[float]]:
    """Return the accuracies of the seeds, in their order, for each (method, n_train)."""
    found: dict[tuple[str, Any], list[float]] = {}
    for unit, result in sorted(results, key=lambda pair: pair[0].seed):
        if unit.options["mode"] == mode and way in result:
            found.setdefault((unit.method, unit.options.get("n_train")), []).append(result[way]["mean"])
    return found


def _report_ways(results: Results, document: Document, name: str) -> None:
    """Report one data set (methods down, ways of training and inference across), then the differences to uDTW."""
    every = {heading: accuracies(results, *way) for way, heading in WAYS.items()}
    columns = {heading: found for heading, found in every.items() if found}
    cross_view = " Cross-view: by the nearest training clip." if WAYS["supervised", "cross-view"] in columns else ""
    widths = [result[way]["half_width"] for _, result in results for _, way in WAYS if way in result]
    document.table(
        f"{name}: 5-way 1-shot accuracy on novel classes, in %",
        ["comparator", *columns],
        [
            [label, *(over_seeds(c[m, None]) if (m, None) in c else None for c in columns.values())]
            for m, label in METHODS.items()
            if any((m, None) in c for c in columns.values())
        ],
        f"Mean ± 95 % interval over training seeds {sorted({unit.seed for unit, _ in results})} (Student's t); each is "
        f"judged by the same {EPISODES} episodes with up to 10 queries per class, whose own interval is about "
        f"±{100 * np.mean(widths):.1f}. Chance is 20 %.{cross_view}",
    )
    for way, heading in WAYS.items():
        rows = against(results, way=way)
        if rows:
            document.table(f"{name}, {heading.lower()}: uDTW minus the other, in points", ["other", "difference"], rows)


def against(
    results: Results, method: str = "udtw", way: tuple[str, str] = ("supervised", "alignment")
) -> list[list[Any]]:
    """Return rows ``[other, "mean difference ± 95 % interval"]`` of ``method`` minus every other, paired by seed."""
    found = accuracies(results, *way)
    rows = []
    for other, label in METHODS.items():
        pair = found.get((method, None), []), found.get((other, None), [])
        if other != method and len(pair[0]) == len(pair[1]) > 1:
            rows.append([label, over_seeds([a - b for a, b in zip(*pair, strict=True)])])
    return rows
