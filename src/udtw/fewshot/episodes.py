"""Episodes of few-shot learning: n_way classes, n_shot labeled supports and n_query queries of each."""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from udtw.errors import DataError, OptionError


@dataclass(frozen=True)
class Episode:
    """Positions of samples in the data set: ``support`` (n_way, n_shot), ``query`` (n_way, n_query).

    ``classes`` (n_way,) are the data set's labels; within the episode, the row is the label.
    """

    classes: np.ndarray
    support: np.ndarray
    query: np.ndarray

    @property
    def support_labels(self) -> np.ndarray:
        """(n_way·n_shot,) labels 0 … n_way − 1 of the flattened supports."""
        return np.repeat(np.arange(len(self.classes)), self.support.shape[1])

    @property
    def query_labels(self) -> np.ndarray:
        """(n_way·n_query,) labels of the flattened queries."""
        return np.repeat(np.arange(len(self.classes)), self.query.shape[1])


class EpisodeSampler:
    """Draws episodes: number i depends on ``seed`` and i alone, so it is the same in any order, process or resumed run.

    Parameters
    ----------
    labels : (n,) integers or strings
        Classes of the samples. Episodes name samples by their position here.
    n_way, n_shot, n_query : int
        Classes, supports per class and queries per class. Supports and queries never share a sample.
    seed : int
    queries : (n,) bool, optional
        True for samples that may only be queries, False for those that may only be supports (another camera, say).

    Examples
    --------
    >>> import numpy as np
    >>> from udtw.fewshot import EpisodeSampler
    >>> labels = np.repeat([0, 1, 2, 3], 10)
    >>> sampler = EpisodeSampler(labels, n_way=3, n_shot=1, n_query=5, seed=0)
    >>> episode = sampler.episode(7)
    >>> bool((labels[episode.support[:, 0]] == episode.classes).all())
    True
    >>> bool((sampler.episode(7).query == episode.query).all())
    True
    """

    def __init__(
        self, labels: Sequence[int] | np.ndarray, n_way: int, n_shot: int, n_query: int, seed: int = 0, *,
        queries: np.ndarray | None = None,
    ) -> None:  # fmt: skip
        for name, value in (("n_way", n_way), ("n_shot", n_shot), ("n_query", n_query)):
            if value < 1:
                raise OptionError(f"{name} must be at least 1; got {value}.")
        labels = np.asarray(labels)
        self.n_way, self.n_shot, self.n_query, self.seed = n_way, n_shot, n_query, seed
        self._members: dict[Any, np.ndarray] = {c: np.flatnonzero(labels == c) for c in np.unique(labels).tolist()}
        self._queries = None if queries is None else np.asarray(queries, dtype=bool)
        if self._queries is None:
            self._check("n_shot + n_query", n_shot + n_query, {c: len(own) for c, own in self._members.items()})
        else:
            counts = {c: int(self._queries[own].sum()) for c, own in self._members.items()}
            self._check("n_query", n_query, counts)
            self._check("n_shot", n_shot, {c: len(own) - counts[c] for c, own in self._members.items()})
        if len(self._members) < n_way:
            raise DataError(f"n_way={n_way} is more than the {len(self._members)} classes of the data.")

    @staticmethod
    def _check(what: str, needed: int, counts: dict[Any, int]) -> None:
        poor = [c for c, count in counts.items() if count < needed]
        if poor:
            raise DataError(
                f"Every class needs {what} = {needed} samples; classes {poor} have fewer "
                f"({[counts[c] for c in poor]}). Lower n_query or n_shot, or leave these classes out."
            )

    def episode(self, number: int) -> Episode:
        """Draw episode ``number``."""
        generator = np.random.default_rng((self.seed, number))
        classes = generator.choice(np.array(sorted(self._members)), self.n_way, replace=False)
        samples = np.stack([self._drawn(generator, self._members[c]) for c in classes.tolist()])
        return Episode(classes, samples[:, : self.n_shot], samples[:, self.n_shot :])

    def _drawn(self, generator: np.random.Generator, members: np.ndarray) -> np.ndarray:
        """Draw (n_shot + n_query,) samples of a class, the supports first."""
        if self._queries is None:
            return generator.choice(members, self.n_shot + self.n_query, replace=False)
        pools = (members[~self._queries[members]], self.n_shot), (members[self._queries[members]], self.n_query)
        return np.concatenate([generator.choice(pool, size, replace=False) for pool, size in pools])

    def batches(self, n_episodes: int, first: int = 0) -> "EpisodeBatches":
        """Return episodes ``first`` to ``first + n_episodes − 1`` as a ``batch_sampler`` of an ordinary `DataLoader`.

        Each is a list of indices, the supports first; ``support_labels`` and ``query_labels`` hold for all of them.

        >>> import numpy as np, torch
        >>> from udtw.fewshot import EpisodeSampler
        >>> images, labels = torch.rand(40, 3, 8, 8), np.repeat([0, 1, 2, 3], 10)
        >>> batches = EpisodeSampler(labels, n_way=3, n_shot=1, n_query=5).batches(100)
        >>> loader = torch.utils.data.DataLoader(images, batch_sampler=batches)
        >>> next(iter(loader)).shape, len(loader), batches.support_labels
        (torch.Size([18, 3, 8, 8]), 100, array([0, 1, 2]))
        """
        if n_episodes < 1 or first < 0:
            raise OptionError(f"n_episodes must be at least 1 and first at least 0; got {n_episodes} and {first}.")
        return EpisodeBatches(self, n_episodes, first)

    def __iter__(self) -> Iterator[Episode]:
        """Yield all episodes, without end."""
        number = 0
        while True:
            yield self.episode(number)
            number += 1


@dataclass(frozen=True)
class EpisodeBatches:
    """Episodes as lists of indices, supports first: a ``batch_sampler`` of `torch.utils.data.DataLoader`."""

    sampler: EpisodeSampler
    n_episodes: int
    first: int = 0

    @property
    def support_labels(self) -> np.ndarray:
        """(n_way·n_shot,) labels 0 … n_way − 1 of the first samples of every batch."""
        return np.repeat(np.arange(self.sampler.n_way), self.sampler.n_shot)

    @property
    def query_labels(self) -> np.ndarray:
        """(n_way·n_query,) labels 0 … n_way − 1 of the other samples of every batch."""
        return np.repeat(np.arange(self.sampler.n_way), self.sampler.n_query)

    def __len__(self) -> int:
        return self.n_episodes

    def __iter__(self) -> Iterator[list[int]]:
        for number in range(self.first, self.first + self.n_episodes):
            episode = self.sampler.episode(number)
            yield np.concatenate([episode.support.ravel(), episode.query.ravel()]).tolist()


def fitting_n_way(labels: Sequence[int] | np.ndarray, n_way: int) -> int:
    """Return ``n_way``, or with a warning the number of classes if there are fewer, but at least two."""
    n_classes = len(np.unique(np.asarray(labels)))
    if n_way <= n_classes:
        return n_way
    if n_classes < 2:
        raise DataError(f"Episodes need two classes or more; the data has {n_classes}.")
    warnings.warn(
        f"n_way is {n_way}, but there are {n_classes} classes: episodes are {n_classes}-way.", UserWarning, stacklevel=3
    )
    return n_classes


def queries_for(labels: Sequence[int] | np.ndarray, n_shot: int, at_most: int = 10) -> int:
    """Return the queries per class that the smallest class allows beside its supports, from 1 to ``at_most``."""
    if not len(labels):
        raise DataError("There are no samples to draw episodes from.")
    smallest = int(np.unique(np.asarray(labels), return_counts=True)[1].min())
    return max(1, min(at_most, smallest - n_shot))
