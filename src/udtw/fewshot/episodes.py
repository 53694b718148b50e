"""Episodes of few-shot learning: n_way classes, n_shot labelled supports and n_query queries of each."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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
    """Episode number i is a function of ``seed`` and i alone: the same in any order, process or resumed run.

    Parameters
    ----------
    labels : (n,) integers
        Classes of the samples. Episodes name samples by their position here.
    n_way, n_shot, n_query : int
        Classes, supports a class and queries a class. Supports and queries never share a sample.
    seed : int
    """

    def __init__(
        self, labels: Sequence[int] | np.ndarray, n_way: int, n_shot: int, n_query: int, seed: int = 0
    ) -> None:
        for name, value in (("n_way", n_way), ("n_shot", n_shot), ("n_query", n_query)):
            if value < 1:
                raise OptionError(f"{name} must be at least 1; got {value}.")
        labels = np.asarray(labels)
        self.n_way, self.n_shot, self.n_query, self.seed = n_way, n_shot, n_query, seed
        self._members = {int(c): np.flatnonzero(labels == c) for c in np.unique(labels)}
        needed = n_shot + n_query
        poor = [c for c, members in self._members.items() if len(members) < needed]
        if poor:
            raise DataError(
                f"Every class needs n_shot + n_query = {needed} samples; classes {poor} have fewer "
                f"({[len(self._members[c]) for c in poor]}). Lower n_query or n_shot, or leave these classes out."
            )
        if len(self._members) < n_way:
            raise DataError(f"n_way={n_way} classes were asked for; the data has {len(self._members)}.")

    def episode(self, number: int) -> Episode:
        generator = np.random.default_rng((self.seed, number))
        classes = generator.choice(np.array(sorted(self._members)), self.n_way, replace=False)
        drawn = [generator.choice(self._members[int(c)], self.n_shot + self.n_query, replace=False) for c in classes]
        samples = np.stack(drawn)
        return Episode(classes, samples[:, : self.n_shot], samples[:, self.n_shot :])

    def __iter__(self) -> Iterator[Episode]:
        number = 0
        while True:
            yield self.episode(number)
            number += 1


def queries_for(labels: Sequence[int] | np.ndarray, n_shot: int, at_most: int = 10) -> int:
    """Queries a class that the smallest class allows beside its supports: at most ``at_most``, at least one."""
    if not len(labels):
        raise DataError("There are no samples to draw episodes from.")
    smallest = int(np.unique(np.asarray(labels), return_counts=True)[1].min())
    return max(1, min(at_most, smallest - n_shot))
