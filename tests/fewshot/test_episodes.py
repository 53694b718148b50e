import numpy as np
import pytest
import torch

from udtw.errors import DataError, OptionError
from udtw.fewshot import EpisodeSampler
from udtw.fewshot.episodes import fitting_n_way, queries_for

LABELS = np.repeat([3, 5, 7, 9], [6, 7, 8, 9])


def sampler(**changes) -> EpisodeSampler:
    return EpisodeSampler(LABELS, **({"n_way": 3, "n_shot": 2, "n_query": 4, "seed": 1} | changes))


def test_supports_and_queries_belong_to_their_class_and_never_meet():
    for number in range(50):
        episode = sampler().episode(number)
        assert episode.support.shape == (3, 2)
        assert episode.query.shape == (3, 4)
        assert len(set(episode.classes)) == 3
        for row, label in enumerate(episode.classes):
            drawn = np.concatenate([episode.support[row], episode.query[row]])
            assert (LABELS[drawn] == label).all()
            assert len(set(drawn)) == 6


def test_labels_of_an_episode_follow_its_rows():
    episode = sampler().episode(0)
    np.testing.assert_array_equal(LABELS[episode.query.ravel()], episode.classes[episode.query_labels])
    np.testing.assert_array_equal(LABELS[episode.support.ravel()], episode.classes[episode.support_labels])


def test_an_episode_depends_on_its_number_and_the_seed_only():
    first = [sampler().episode(n).query for n in range(5)]
    again = [sampler().episode(n).query for n in reversed(range(5))][::-1]
    np.testing.assert_array_equal(first, again)
    in_order = iter(sampler())
    np.testing.assert_array_equal(first, [next(in_order).query for _ in range(5)])
    assert not np.array_equal(first, [sampler(seed=2).episode(n).query for n in range(5)])


def test_classes_are_drawn_evenly():
    drawn = np.concatenate([sampler().episode(n).classes for n in range(2000)])
    counts = np.array([(drawn == c).sum() for c in (3, 5, 7, 9)])
    # Each count is binomial(2000, 3/4): five standard deviations are 97.
    assert np.abs(counts - 1500).max() < 97


def test_queries_are_as_many_as_the_smallest_class_allows():
    assert queries_for(LABELS, 2) == 4
    assert queries_for(LABELS, 2, at_most=3) == 3
    assert queries_for(LABELS, 9) == 1


def test_an_ordinary_loader_draws_the_same_episodes_supports_first():
    data = torch.arange(len(LABELS))
    batches = sampler().batches(4, first=2)
    loader = torch.utils.data.DataLoader(data, batch_sampler=batches)
    assert len(loader) == 4
    for number, batch in enumerate(loader, start=2):
        episode = sampler().episode(number)
        expected = np.concatenate([episode.support.ravel(), episode.query.ravel()])
        np.testing.assert_array_equal(batch, expected)
        np.testing.assert_array_equal(batches.support_labels, episode.support_labels)
        np.testing.assert_array_equal(batches.query_labels, episode.query_labels)
    with pytest.raises(OptionError, match="n_episodes must be at least 1"):
        sampler().batches(0)


def test_episodes_of_few_classes_have_all_of_them_and_say_so():
    assert fitting_n_way(LABELS, 4) == 4
    with pytest.warns(UserWarning, match="n_way is 5, but there are 4 classes: episodes are 4-way"):
        assert fitting_n_way(LABELS, 5) == 4
    with pytest.raises(DataError, match="two classes or more; the data has 1"):
        fitting_n_way([3, 3], 5)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"n_way": 5}, DataError, "n_way=5 is more than the 4 classes of the data"),
        ({"n_query": 5}, DataError, r"classes \[3\] have fewer"),
        ({"n_shot": 0}, OptionError, "n_shot must be at least 1"),
    ],
)
def test_impossible_episodes_are_refused(changes, error, message):
    with pytest.raises(error, match=message):
        sampler(**changes)
