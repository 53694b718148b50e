"""Tell apart: generated images of classes that were never trained on, from one example each."""

import tempfile
from typing import Any

import numpy as np

from udtw.experiments.demo.parts import NAMES, Part, Tick, mean_std
from udtw.experiments.demo.sizes import Sizes
from udtw.images import ImageRecipe, ImageRecognizer, ImageSet, TokenSet, embed, load_backbone, open_tokens
from udtw.images.datasets import make_images
from udtw.plots.image_views import show_uncertainty

LABELS = {"protonet": "Euclidean (pooled)", **{name: NAMES[name] for name in ("soft_dtw", "udtw")}}
EPISODES = 200


def steps(sizes: Sizes) -> int:
    return sizes.seeds * len(LABELS) + 1


def tell_apart(sizes: Sizes, tick: Tick) -> Part:
    """Accuracy of three distances on novel classes of images, and where the model is uncertain."""
    accuracy: dict[str, list[float]] = {metric: [] for metric in LABELS}
    figures: list[tuple[Any, str]] = []
    images = make_images(sizes.images)
    with tempfile.TemporaryDirectory() as folder:
        tick("tell apart: tokens")
        embed(images, load_backbone("sift?image_size=48"), folder)
        tokens = open_tokens(folder)
        for seed in range(sizes.seeds):
            for metric, label in LABELS.items():
                tick(f"tell apart: {label}")
                recipe = ImageRecipe(
                    metric=metric, seed=seed, n_steps=sizes.image_steps, dim=32, n_query=2, learning_rate=3e-3
                )
                recognizer = ImageRecognizer(recipe, tokens.dim).fit(tokens.of_split("train"))
                novel = tokens.of_split("test")
                found = recognizer.evaluate(novel, n_query=3, n_episodes=EPISODES, seed=seed)
                accuracy[metric].append(100 * found.mean)
                if metric == "udtw" and not figures:
                    figures.append(_figure(recognizer, novel, images))
    return Part(
        heading="Tell apart",
        text="Generated images: a textured shape somewhere on clutter, 24 classes, 12 to train with and 8 that only "
        "the test sees. Their tokens are dense SIFT descriptors, for want of a network; the projection and the "
        "uncertainty are learned. 5-way 1-shot.",
        title="Accuracy in % on novel classes of images; chance is 20",
        columns=["distance", "5-way 1-shot"],
        rows=[[LABELS[metric], mean_std(values, 1)] for metric, values in accuracy.items()],
        note=f"Mean ± std over {sizes.seeds} seed(s) of the training and the episodes; {EPISODES} episodes each.",
        figures=figures,
    )


def _figure(recognizer: ImageRecognizer, novel: TokenSet, images: ImageSet) -> tuple[Any, str]:
    chosen = np.random.default_rng(0).choice(len(novel), 4, replace=False).tolist()
    return show_uncertainty(recognizer, novel, images, chosen), "Where the model is certain (blue) and where not (red)."
