"""Deletion curves: the accuracy that is left when the most certain, or the most uncertain, tokens are removed."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from udtw.errors import OptionError
from udtw.fewshot import EpisodeSampler, Tokens
from udtw.fewshot.evaluation import accuracy_of, encode_all, episode_accuracy, support_scores
from udtw.images.recognizer import ImageRecognizer
from udtw.images.reverse_attention import check_uncertain
from udtw.images.tokens import TokenSet

SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)


@dataclass(frozen=True)
class DeletionCurves:
    """Accuracies after removing ``shares`` of the tokens of every image, in two orders.

    ``area ± half_width``: the mean over the shares of ``uncertain_first − certain_first``, in each episode, and its
    95 % interval over episodes. Positive: what the model calls certain is what it recognises by.

    >>> from udtw.images import DeletionCurves
    >>> print(DeletionCurves((0.0, 0.5), (0.8, 0.5), (0.8, 0.7), 0.1, 0.02))
    area 10.0 ± 2.0 points
    """

    shares: tuple[float, ...]
    certain_first: tuple[float, ...]
    uncertain_first: tuple[float, ...]
    area: float
    half_width: float

    def __str__(self) -> str:
        return f"area {100 * self.area:.1f} ± {100 * self.half_width:.1f} points"


def deletion_curves(
    recognizer: ImageRecognizer, tokens: TokenSet, *, shares: Sequence[float] = SHARES, n_way: int = 5,
    n_query: int = 10, n_episodes: int = 1000, seed: int = 0,
) -> DeletionCurves:  # fmt: skip
    """One-shot accuracies of a model without a share of the tokens, of supports and queries alike.

    The distances of all pairs of images are computed twice for each share, so that the set should be small (hundreds
    of images). All shares and both orders have the same episodes.

    Examples
    --------
    >>> import tempfile
    >>> from udtw.images import ImageRecipe, ImageRecognizer, PatchBackbone, deletion_curves, embed, open_tokens
    >>> from udtw.images.datasets import make_images
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     done = embed(make_images(4), PatchBackbone(48), folder)
    ...     tokens = open_tokens(folder)
    ...     model = ImageRecognizer(ImageRecipe(n_steps=2, dim=8, n_query=2), tokens.dim).fit(tokens.of_split("train"))
    ...     found = deletion_curves(model, tokens.of_split("test"), shares=(0, 0.5), n_query=2, n_episodes=5)
    >>> len(found.certain_first), found.certain_first[0] == found.uncertain_first[0]
    (2, True)
    """
    check_uncertain(recognizer)
    if not shares or not all(0 <= share < 1 for share in shares):
        raise OptionError(f"shares must lie in [0, 1); got {tuple(shares)}.")
    source = recognizer.source(tokens)
    encoded = encode_all(recognizer.model, source)
    sampler = EpisodeSampler(source.labels, n_way, 1, n_query, seed)
    episodes = [sampler.episode(number) for number in range(n_episodes)]
    found = np.empty((2, len(shares), n_episodes))  # of certain tokens first, and uncertain first
    for row, uncertain in enumerate((False, True)):
        for column, share in enumerate(shares):
            kept = without(encoded, round(share * encoded.features.shape[1]), uncertain)
            scores = support_scores(recognizer.model, kept, kept)
            found[row, column] = [episode_accuracy(episode, scores) for episode in episodes]
    difference = accuracy_of((found[1] - found[0]).mean(0))
    means = found.mean(2)
    return DeletionCurves(
        tuple(float(share) for share in shares), tuple(means[0].tolist()), tuple(means[1].tolist()), difference.mean,
        difference.half_width,
    )  # fmt: skip


def without(tokens: Tokens, count: int, uncertain: bool) -> Tokens:
    """The tokens without the ``count`` most uncertain, or else most certain, of each image; all of one length."""
    assert tokens.variance is not None, "of a model with a SigmaNet"
    left = max(1, tokens.features.shape[1] - count)
    order = tokens.variance.argsort(dim=1, descending=not uncertain, stable=True)[:, :left].sort(1).values
    features = tokens.features.gather(1, order[..., None].expand(-1, -1, tokens.features.shape[2]))
    lengths = torch.full_like(tokens.lengths, left)
    return Tokens(features, lengths, tokens.variance.gather(1, order))
