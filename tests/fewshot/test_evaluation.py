import numpy as np
import pytest

from udtw.errors import ShapeError
from udtw.fewshot.evaluation import accuracy_of


def test_mean_and_interval_by_hand():
    found = accuracy_of([0.2, 0.4, 0.6])
    assert found.mean == pytest.approx(0.4)
    assert found.half_width == pytest.approx(1.96 * 0.2 / 3**0.5, rel=1e-4)
    assert str(found) == "40.0 ± 22.6 %"


def test_the_interval_covers_the_truth_in_95_of_100_cases():
    generator = np.random.default_rng(0)
    episodes = generator.binomial(25, 0.7, (2000, 400)) / 25
    covered = [abs(a.mean - 0.7) <= a.half_width for a in map(accuracy_of, episodes)]
    assert 0.935 < np.mean(covered) < 0.965


def test_nothing_has_no_accuracy():
    with pytest.raises(ShapeError):
        accuracy_of([])
