"""Deletion curves: the accuracy that is left when the most certain, or the most uncertain, tokens are removed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from matplotlib.figure import Figure, SubFigure

from udtw.errors import LengthError, OptionError
from udtw.fewshot import EpisodeSampler, Tokens
from udtw.fewshot.evaluation import accuracy_of, encode_all, episode_accuracy, support_scores
from udtw.images import ImageRecognizer, TokenSet
from udtw.images.reverse_attention import check_uncertain
from udtw.plots.style import FONT, new_figure

SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
CERTAIN_COLOR, UNCERTAIN_COLOR = "#1450A0", "#C01024"
PANEL_INCHES = (2.9, 2.5)


@dataclass(frozen=True)
class DeletionCurves:
    """Accuracies after removing ``shares`` of the tokens of every image, in two orders.

    ``area ± half_width`` is the mean over the shares of ``uncertain_first − certain_first`` in each episode, and its
    95 % interval over episodes. It is positive if the model recognizes images by the tokens that it is certain of.

    >>> from experiments.deletion import DeletionCurves
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
    """Measure the one-shot accuracy of a model without a share of the tokens of supports and queries.

    The distances of all pairs of images are computed twice for each share, so the set should be small (hundreds of
    images). All shares and both orders use the same episodes.

    Examples
    --------
    >>> import tempfile
    >>> from experiments.deletion import deletion_curves
    >>> from udtw.images import ImageRecipe, ImageRecognizer, PatchBackbone, embed, open_tokens
    >>> from udtw.images.datasets import make_images
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     done = embed(make_images(4), PatchBackbone(48), folder)
    ...     tokens = open_tokens(folder)
    ...     model = ImageRecognizer(ImageRecipe(n_steps=2, dim=8, n_query=2), tokens.dim).fit(tokens.of_split("train"))
    ...     curves = deletion_curves(model, tokens.of_split("test"), shares=(0, 0.5), n_query=2, n_episodes=5)
    >>> len(curves.certain_first), curves.certain_first[0] == curves.uncertain_first[0]
    (2, True)
    """
    check_uncertain(recognizer)
    if not shares or not all(0 <= share < 1 for share in shares):
        raise OptionError(f"shares must lie in [0, 1); got {tuple(shares)}.")
    source = recognizer.source(tokens)
    encoded = encode_all(recognizer.model, source)
    sampler = EpisodeSampler(source.labels, n_way, 1, n_query, seed)
    episodes = [sampler.episode(number) for number in range(n_episodes)]
    accuracies = np.empty((2, len(shares), n_episodes))  # of certain tokens first, and uncertain first
    for row, uncertain in enumerate((False, True)):
        for column, share in enumerate(shares):
            kept = without(encoded, round(share * encoded.features.shape[1]), uncertain)
            scores = support_scores(recognizer.model, kept, kept)
            accuracies[row, column] = [episode_accuracy(episode, scores) for episode in episodes]
    difference = accuracy_of((accuracies[1] - accuracies[0]).mean(0))
    means = accuracies.mean(2)
    return DeletionCurves(
        tuple(float(share) for share in shares), tuple(means[0].tolist()), tuple(means[1].tolist()), difference.mean,
        difference.half_width,
    )  # fmt: skip


def without(tokens: Tokens, count: int, uncertain: bool) -> Tokens:
    """Remove the ``count`` most uncertain, or else most certain, tokens of each image; all images have one length."""
    assert tokens.variance is not None, "of a model with a SigmaNet"
    left = max(1, tokens.features.shape[1] - count)
    order = tokens.variance.argsort(dim=1, descending=not uncertain, stable=True)[:, :left].sort(1).values
    features = tokens.features.gather(1, order[..., None].expand(-1, -1, tokens.features.shape[2]))
    lengths = torch.full_like(tokens.lengths, left)
    return Tokens(features, lengths, tokens.variance.gather(1, order))


def plot_deletion(
    curves: DeletionCurves | Mapping[str, DeletionCurves], *, figure: Figure | SubFigure | None = None
) -> Figure | SubFigure:
    """Draw accuracies after removing tokens from the most certain, and from the most uncertain on.

    Parameters
    ----------
    curves : DeletionCurves or mapping of titles to them
        One panel each.
    figure : Figure or SubFigure, optional
        Where to draw; by default a new figure, not registered with pyplot: save it with ``savefig``.

    Examples
    --------
    >>> from experiments.deletion import DeletionCurves, plot_deletion
    >>> figure = plot_deletion({"birds": DeletionCurves((0.0, 0.5), (0.8, 0.5), (0.8, 0.7), 0.1, 0.02)})
    >>> figure.axes[0].get_title()
    'birds: area 10.0 ± 2.0 points'
    """
    every = {"": curves} if isinstance(curves, DeletionCurves) else dict(curves)
    if not every:
        raise LengthError("curves is empty; at least one is needed.")
    if figure is None:
        figure = new_figure((PANEL_INCHES[0] * len(every), PANEL_INCHES[1]), {})
    panels = figure.subplots(1, len(every), squeeze=False, sharey=True)[0]
    for axes, (title, one) in zip(panels, every.items(), strict=True):
        percent = [100 * share for share in one.shares]
        certain, uncertain = ([100 * value for value in values] for values in (one.certain_first, one.uncertain_first))
        axes.fill_between(percent, certain, uncertain, color="#888888", alpha=0.15, linewidth=0)
        axes.plot(percent, uncertain, "o-", color=UNCERTAIN_COLOR, markersize=3, label="most uncertain first")
        axes.plot(percent, certain, "s-", color=CERTAIN_COLOR, markersize=3, label="most certain first")
        axes.set_title(f"{title}: {one}" if title else str(one), fontsize=FONT)
        axes.set_xlabel("tokens removed (%)", fontsize=FONT)
        axes.tick_params(labelsize=FONT)
    panels[0].set_ylabel("accuracy (%)", fontsize=FONT)
    panels[0].legend(fontsize=FONT, frameon=False, loc="lower left")
    return figure
