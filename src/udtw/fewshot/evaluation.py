"""Accuracy of a trained model over many episodes, with its 95 % confidence interval.

The distances between all samples are computed once; an episode then only reads its rows and columns. So ten thousand
episodes cost hardly more than one.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from udtw._io.memory import refuse_if_too_large
from udtw.errors import ShapeError
from udtw.fewshot.dictionary import Dictionary, codes_of, histogram_intersection
from udtw.fewshot.episodes import Episode, EpisodeSampler
from udtw.fewshot.model import FewShotModel, predict
from udtw.fewshot.tasks import Source, moved
from udtw.fewshot.tokens import Tokens, concatenate

BATCH = 64
"""Samples that are encoded, and codes that are compared, at once."""
ENCODED_BYTES = 2**30
"""A larger set of tokens is not kept in memory during an evaluation."""
NORMAL_975 = 1.959964
"""97.5 % quantile of the normal distribution."""


@dataclass(frozen=True)
class Accuracy:
    """``mean ± half_width`` over ``n_episodes``; the interval is ``1.96·std/√n``, as the field reports it.

    >>> from udtw.fewshot.evaluation import Accuracy
    >>> print(Accuracy(mean=0.72, half_width=0.013, n_episodes=1000))
    72.0 ± 1.3 %
    """

    mean: float
    half_width: float
    n_episodes: int

    def __str__(self) -> str:
        return f"{100 * self.mean:.1f} ± {100 * self.half_width:.1f} %"


def accuracy_of(per_episode: Sequence[float] | np.ndarray) -> Accuracy:
    """Return mean and 95 % interval of the accuracies (n,) of single episodes, each in [0, 1].

    >>> from udtw.fewshot.evaluation import accuracy_of
    >>> print(accuracy_of([0.8, 0.6, 1.0, 0.8]))
    80.0 ± 16.0 %
    """
    values = np.asarray(per_episode, dtype=float)
    if values.ndim != 1 or values.size == 0:
        raise ShapeError(f"One accuracy per episode is needed, shape (n,) with n ≥ 1; got {values.shape}.")
    spread = float(values.std(ddof=1)) if values.size > 1 else float("nan")
    return Accuracy(float(values.mean()), NORMAL_975 * spread / values.size**0.5, values.size)


@torch.no_grad()
def encode_all(model: FewShotModel, source: Source, indices: np.ndarray | None = None) -> Tokens:
    """Encode the samples ``indices`` (all by default) in evaluation mode."""
    indices = np.arange(len(source.labels)) if indices is None else np.asarray(indices)
    device = next(model.parameters()).device
    model.eval()
    parts: list[Tokens] = []
    for part in _parts(indices):
        parts.append(model.encode(moved(source.batch(part), device)))
        if len(parts) == 1 and device.type == "cpu":
            each = parts[0].features.nbytes // len(part)
            refuse_if_too_large(
                2 * each * len(indices),  # in parts, and joined
                f"The tokens of {len(indices):,} samples, {each:,} bytes each,",
                "Encode fewer samples at once, by indices, or evaluate by episodes.",
            )
    return concatenate(parts)


@torch.no_grad()
def support_scores(model: FewShotModel, queries: Tokens, supports: Tokens) -> np.ndarray:
    """Return the score of every query against every support, (Q, S); lower is closer.

    Examples
    --------
    >>> import torch
    >>> from udtw.fewshot import FewShotModel, Tokens, support_scores
    >>> class Encoder(torch.nn.Identity):
    ...     dim = 4
    >>> model = FewShotModel(Encoder(), "euclidean", "cross_entropy")
    >>> items = Tokens(torch.rand(3, 5, 4), torch.full((3,), 5))
    >>> support_scores(model, items, items).shape
    (3, 3)
    """
    return model.objective.scores(model.comparator.in_chunks(queries, supports)).cpu().numpy()


@torch.no_grad()
def code_scores(model: FewShotModel, dictionary: Dictionary, queries: Tokens, supports: Tokens) -> np.ndarray:
    """Return minus the histogram intersection of the codes of queries and supports, (Q, S)."""
    codes = [
        torch.cat([codes_of(model, dictionary, part) for part in _token_parts(tokens)])
        for tokens in (queries, supports)
    ]
    rows = [-histogram_intersection(codes[0][i : i + BATCH], codes[1]) for i in range(0, len(queries), BATCH)]
    return torch.cat(rows).cpu().numpy()


def episode_accuracy(episode: Episode, scores: np.ndarray) -> float:
    """Share of queries whose nearest support has their class; ``scores`` (n, n) are those of all samples."""
    among = scores[np.ix_(episode.query.ravel(), episode.support.ravel())]
    return float((predict(among, episode.support_labels) == episode.query_labels).mean())


def evaluate(sampler: EpisodeSampler, n_episodes: int, accuracy: Callable[[Episode], float]) -> Accuracy:
    """Return mean and 95 % interval of ``accuracy(episode)`` over the sampler's first episodes."""
    return accuracy_of([accuracy(sampler.episode(number)) for number in range(n_episodes)])


def evaluate_scores(scores: np.ndarray, sampler: EpisodeSampler, n_episodes: int) -> Accuracy:
    """Return the accuracy by the nearest support, from ``scores`` (n, n) of all samples; lower is closer.

    Examples
    --------
    >>> import numpy as np
    >>> from udtw.fewshot import EpisodeSampler, evaluate_scores
    >>> labels = np.repeat([0, 1, 2], 5)
    >>> scores = (labels[:, None] != labels[None]).astype(float)
    >>> print(evaluate_scores(scores, EpisodeSampler(labels, n_way=2, n_shot=1, n_query=3), 10))
    100.0 ± 0.0 %
    """
    return evaluate(sampler, n_episodes, lambda episode: episode_accuracy(episode, scores))


@torch.no_grad()
def evaluate_episodes(model: FewShotModel, source: Source, sampler: EpisodeSampler, n_episodes: int) -> Accuracy:
    """Return the accuracy by the nearest support or prototype, as the model matches.

    For sets with too many pairs of samples to compare them all, and for prototypes, which differ between episodes.
    Samples are encoded once if their tokens fit into `ENCODED_BYTES`, else episode by episode.
    """
    device = next(model.parameters()).device
    model.eval()
    first = model.encode(moved(source.batch(np.arange(1)), device))
    fits = first.features.nbytes * len(source.labels) <= ENCODED_BYTES
    encoded = encode_all(model, source) if fits else None

    def accuracy(episode: Episode) -> float:
        chosen = np.concatenate([episode.support.ravel(), episode.query.ravel()])
        if encoded is None:
            tokens = model.encode(moved(source.batch(chosen), device))
        else:
            tokens = encoded[torch.from_numpy(chosen)]
        labels: Tensor = torch.from_numpy(episode.support_labels).to(device)
        comparison, columns = model.compare(tokens[len(labels) :], tokens[: len(labels)], labels)
        found = predict(model.objective.scores(comparison).cpu().numpy(), columns.cpu().numpy())
        return float((found == episode.query_labels).mean())

    return evaluate(sampler, n_episodes, accuracy)


def _token_parts(tokens: Tokens) -> Iterator[Tokens]:
    for start in range(0, len(tokens), BATCH):
        yield tokens[start : start + BATCH]


def _parts(indices: np.ndarray) -> Iterator[np.ndarray]:
    for start in range(0, len(indices), BATCH):
        yield indices[start : start + BATCH]
