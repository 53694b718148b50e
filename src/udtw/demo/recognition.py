"""Run the parts of the demo on few-shot recognition: novel actions of skeletons, and novel classes of images."""

import tempfile
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from udtw._engine.metrics import METRICS
from udtw.demo.common import OWN, TRAINED, Comparison, Part, Sizes, Tick, seeds_in_words
from udtw.demo.document import mean_std
from udtw.fewshot import EpisodeSampler
from udtw.fewshot.episodes import queries_for
from udtw.fewshot.evaluation import evaluate_scores
from udtw.images import ImageRecipe, ImageRecognizer, ImageSet, embed, load_backbone, open_tokens
from udtw.images.datasets import make_images
from udtw.plots import plot_match
from udtw.skeleton import ActionRecognizer, Recipe
from udtw.skeleton.datasets import Faults, SkeletonSet, make_actions, protocol

ACTION_EPISODES, IMAGE_EPISODES = 300, 200
ENCODER = {"dim": 32, "joint_dim": 12, "width": 32, "depth": 0, "stride": 6}
"""Encoder settings sufficient for generated actions."""
REPAIRED = "sDTW div., repaired"
ACTION_METHODS = {METRICS[metric].label: (metric, "ignore") for metric in TRAINED if metric != "udtw"} | {
    REPAIRED: ("soft_dtw_divergence", "estimate"),
    OWN: ("udtw", "estimate"),
}
"""Metric, and what is done with the confidence of the tracker: "estimate" also repairs joints before the encoder."""
IMAGE_METHODS = {"protonet": "Euclidean (pooled)"} | {name: METRICS[name].label for name in ("soft_dtw", "udtw")}


def recognize_steps(sizes: Sizes) -> int:
    """Count the progress steps of `recognize`."""
    return sizes.seeds * len(ACTION_METHODS)


def recognize(sizes: Sizes, tick: Tick) -> Part:
    """Measure the accuracy of every distance on novel actions, as recorded and with faults; align one of them."""
    accuracy: dict[str, list[list[float]]] = {label: [] for label in ACTION_METHODS}
    figures: list[tuple[Any, str]] = []
    for seed in range(sizes.seeds):
        actions = make_actions(12, sizes.clips, random_state=seed)
        parts = protocol(actions)
        train, novel = actions.subset(parts.train), actions.subset(parts.novel)
        faulty = Faults().of(novel, seed)
        sampler = EpisodeSampler(novel.labels, 5, 1, queries_for(novel.labels, 1), seed)
        for label, (metric, confidence) in ACTION_METHODS.items():
            tick(f"recognize: {label}")
            settings = ENCODER | {"confidence": confidence}
            recipe = Recipe.from_dict({"metric": metric, "seed": seed, "n_steps": sizes.action_steps, **settings})
            recognizer = ActionRecognizer(recipe, actions.graph).fit(train)
            scores = [recognizer.scores(clips) for clips in (novel, faulty)]
            accuracy[label].append([100 * evaluate_scores(one, sampler, ACTION_EPISODES).mean for one in scores])
            if metric == "udtw" and not figures:
                figures.append(_match_figure(recognizer, faulty, scores[1]))
    by_condition = [{label: [one[k] for one in values] for label, values in accuracy.items()} for k in range(2)]
    repaired = float(np.mean(by_condition[1][REPAIRED]))
    return Part(
        heading="Recognize",
        text="Twelve actions of a generated stick figure, five for training and five novel ones for the test: "
        "5-way 1-shot. Every distance has the same encoder, episodes and steps. In the last column the tracker loses "
        "limbs of the novel clips for a while, moves them at random or exchanges left and right; uDTW uses "
        "the confidence reported by the tracker: it repairs lost joints before the encoder, and weights what remains. "
        "“Repaired” has the first half of it.",
        title="Accuracy in % on novel actions; chance is 20",
        columns=["distance", "as recorded", "with faults"],
        rows=[
            [label, *(mean_std(list(column), 1) for column in zip(*values, strict=True))]
            for label, values in accuracy.items()
        ],
        note=f"Mean {seeds_in_words(sizes.seeds)}. Each seed has its own people; {ACTION_EPISODES} episodes each.",
        figures=figures,
        compared=[
            Comparison("Recognize actions as recorded", "accuracy in %", by_condition[0], apart=(REPAIRED,)),
            Comparison(
                "Recognize actions with lost joints",
                "accuracy in %",
                by_condition[1],
                caveat=f"With the repair of joints alone, {METRICS['soft_dtw_divergence'].label} has {repaired:.1f}.",
                apart=(REPAIRED,),
            ),
        ],
    )


def _match_figure(recognizer: ActionRecognizer, novel: SkeletonSet, scores: np.ndarray) -> tuple[Any, str]:
    """Draw the first clip with the nearest clip of its own class and of another class."""
    far = np.where(np.arange(len(novel)) == 0, np.inf, scores[0])
    same = novel.labels == novel.labels[0]
    chosen = [int(np.where(where, far, np.inf).argmin()) for where in (same, ~same)]
    figure = plot_match(novel[0], [novel[i] for i in chosen], recognizer, classes=novel.classes)
    return (
        figure,
        "A clip with faults against its nearest of the same action, and of another: coupling and uncertainty.",
    )


def tell_apart_steps(sizes: Sizes) -> int:
    """Count the progress steps of `tell_apart`."""
    return sizes.seeds * len(IMAGE_METHODS) + 1


def tell_apart(sizes: Sizes, tick: Tick) -> Part:
    """Measure the accuracy of three distances on novel classes of images, and draw an image of each."""
    accuracy: dict[str, list[float]] = {metric: [] for metric in IMAGE_METHODS}
    images = make_images(sizes.images)
    with tempfile.TemporaryDirectory() as folder:
        tick("tell apart: tokens")
        embed(images, load_backbone("sift?image_size=48"), folder)
        tokens = open_tokens(folder)
        for seed in range(sizes.seeds):
            for metric, label in IMAGE_METHODS.items():
                tick(f"tell apart: {label}")
                recipe = ImageRecipe(
                    metric=metric,
                    seed=seed,
                    dim=32,
                    n_query=2,
                    n_steps=sizes.image_steps,
                    learning_rate=3e-3,
                )
                recognizer = ImageRecognizer(recipe, tokens.dim).fit(tokens.of_split("train"))
                novel = tokens.of_split("test")
                result = recognizer.evaluate(novel, n_query=3, n_episodes=IMAGE_EPISODES, seed=seed)
                accuracy[metric].append(100 * result.mean)
    return Part(
        heading="Tell apart",
        text="Generated images: a textured shape on clutter, 24 classes, 12 for training and 8 novel ones "
        "for the test. Their tokens are dense SIFT descriptors, which need no network; the projection and the "
        "uncertainty are learned. 5-way 1-shot.",
        title="Accuracy in % on novel classes of images; chance is 20",
        columns=["distance", "5-way 1-shot"],
        rows=[[IMAGE_METHODS[metric], mean_std(values, 1)] for metric, values in accuracy.items()],
        note=f"Mean {seeds_in_words(sizes.seeds)} of the training and the episodes; {IMAGE_EPISODES} episodes each.",
        figures=[(_images_figure(images), "One image of each novel class.")],
        compared=[
            Comparison(
                "Tell images apart by dense SIFT",
                "accuracy in %",
                {IMAGE_METHODS[metric]: values for metric, values in accuracy.items()},
                caveat="On photographs of cars, with tokens of a pretrained network: 60.0 against 57.2.",
            )
        ],
    )


def _images_figure(images: ImageSet) -> Figure:
    """Draw one image of each novel class."""
    novel = images.of_split("test")
    chosen = [int(np.flatnonzero(novel.labels == label)[0]) for label in np.unique(novel.labels)]
    figure = Figure((1.5 * len(chosen), 1.9), layout="constrained")
    for axes, index in zip(figure.subplots(1, len(chosen)), chosen, strict=True):
        axes.imshow(novel.image(index))
        axes.set_title(novel.classes[int(novel.labels[index])], fontsize=9)
        axes.set_axis_off()
    return figure
