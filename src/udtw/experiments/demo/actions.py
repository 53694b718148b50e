"""Recognise: actions of generated skeletons that were never trained on, from one example each."""

from typing import Any

import numpy as np

from udtw.experiments.demo.parts import NAMES, Part, Tick, mean_std
from udtw.experiments.demo.sizes import Sizes
from udtw.fewshot import EpisodeSampler
from udtw.fewshot.episodes import queries_for
from udtw.fewshot.evaluation import evaluate_scores
from udtw.plots import plot_match
from udtw.skeleton import ActionRecognizer, Recipe
from udtw.skeleton.datasets import SkeletonSet, make_actions, protocol

METRICS = ("euclidean", "soft_dtw", "soft_dtw_divergence", "udtw")
EPISODES = 300
SMALL = {"dim": 32, "joint_dim": 12, "width": 32, "depth": 0, "stride": 6}
"""Of the encoder: enough for generated actions."""


def steps(sizes: Sizes) -> int:
    return sizes.seeds * len(METRICS)


def recognise(sizes: Sizes, tick: Tick) -> Part:
    """Accuracy of every distance on novel actions, and what matched in one of them."""
    accuracy: dict[str, list[float]] = {metric: [] for metric in METRICS}
    figures: list[tuple[Any, str]] = []
    for seed in range(sizes.seeds):
        actions = make_actions(12, sizes.clips, random_state=seed)
        parts = protocol(actions)
        train, novel = actions.subset(parts.train), actions.subset(parts.novel)
        sampler = EpisodeSampler(novel.labels, 5, 1, queries_for(novel.labels, 1), seed)
        for metric in METRICS:
            tick(f"recognise: {NAMES[metric]}")
            recipe = Recipe.from_dict({"metric": metric, "seed": seed, "n_steps": sizes.action_steps, **SMALL})
            recognizer = ActionRecognizer(recipe, actions.graph).fit(train)
            scores = recognizer.scores(novel)
            accuracy[metric].append(100 * evaluate_scores(scores, sampler, EPISODES).mean)
            if metric == "udtw" and not figures:
                figures.append(_figure(recognizer, novel, scores))
    return Part(
        heading="Recognise",
        text="Twelve actions of a generated stick figure, five to train with and five that only the test sees: "
        "5-way 1-shot. Every distance has the same encoder, episodes and steps.",
        title="Accuracy in % on novel actions; chance is 20",
        columns=["distance", "5-way 1-shot"],
        rows=[[NAMES[metric], mean_std(values, 1)] for metric, values in accuracy.items()],
        note=f"Mean ± std over {sizes.seeds} seed(s), each with its own people; {EPISODES} episodes each.",
        figures=figures,
    )


def _figure(recognizer: ActionRecognizer, novel: SkeletonSet, scores: np.ndarray) -> tuple[Any, str]:
    """The first novel clip with its nearest of the same and of another class."""
    far = np.where(np.arange(len(novel)) == 0, np.inf, scores[0])
    same = novel.labels == novel.labels[0]
    chosen = [int(np.where(where, far, np.inf).argmin()) for where in (same, ~same)]
    figure = plot_match(novel[0], [novel[i] for i in chosen], recognizer, classes=novel.classes)
    return figure, "A novel clip against its nearest of the same action, and of another: coupling and uncertainty."
