"""How long an image episode takes once its tokens are cached. `python -m benchmarks.image_episode`.

5-way 5-shot with 15 queries a class, 196 tokens of 384 features (DINOv3 ViT-S/16 at 224 pixels): 75 queries against 5
prototypes, 375 pairs, by uDTW row by row, from the files on disk to the answers; all threads.
"""

import tempfile
import time
from typing import Any

import numpy as np
import torch
from torch import Tensor

from udtw.fewshot import EpisodeSampler, evaluation
from udtw.images import ImageRecipe, ImageRecognizer, TokenGrid, embed, open_tokens
from udtw.images.datasets import make_images

EPISODES = 15


class RandomTokens:
    """Tokens of the size of DINOv3's: 14 × 14 of 384 features. What they say does not matter for the time."""

    dim, has_attention = 384, False
    identity: dict[str, Any] = {"backbone": "random"}  # noqa: RUF012 (never changed)

    def prepare(self, image: Any) -> Tensor:
        return torch.zeros(3, 1, 1)

    def __call__(self, pixels: Tensor, *, attention: bool = False) -> TokenGrid:
        return TokenGrid(torch.randn(len(pixels), 196, self.dim), (14, 14))


def main() -> None:
    evaluation.ENCODED_BYTES = 0  # Every episode reads its own images, as if the set were too large for the memory.
    with tempfile.TemporaryDirectory() as folder:
        embed(make_images(20), RandomTokens(), folder)
        tokens = open_tokens(folder)
        recognizer = ImageRecognizer(ImageRecipe(metric="udtw", order="raster", n_steps=0), tokens.dim).fit(tokens)
        source = recognizer.source(tokens)
        times = []
        for number in range(EPISODES + 2):
            sampler = EpisodeSampler(source.labels, 5, 5, 15, seed=number)
            start = time.perf_counter()
            evaluation.evaluate_episodes(recognizer.model, source, sampler, 1)
            times.append(time.perf_counter() - start)
        found = 1e3 * np.array(times[2:])  # the first ones compile
        print(f"uDTW, 375 pairs of 196 tokens with {torch.get_num_threads()} thread(s), {EPISODES} episodes")
        print(f"median {np.median(found):.0f} ms an episode, slowest {found.max():.0f} ms")


if __name__ == "__main__":
    main()
