"""Renamed keywords."""

from dataclasses import dataclass

import pytest

from udtw._engine.deprecation import renamed_options
from udtw.errors import OptionError


@dataclass(frozen=True)
class Settings:
    rate: float = 0.1
    max_iter: int = 5


class Model:
    @renamed_options(iterations="max_iter", rate="training.rate", gamma="metric_params.gamma")
    def __init__(self, max_iter=1, training=Settings(), metric_params=None):  # noqa: B008 (frozen)
        self.given = max_iter, training, metric_params


def test_old_keywords_reach_the_new_ones():
    with pytest.warns(FutureWarning) as caught:
        model = Model(iterations=3, rate=0.5, gamma=2.0, metric_params={"beta": 1.0})
    assert model.given == (3, Settings(rate=0.5), {"beta": 1.0, "gamma": 2.0})
    assert len(caught) == 3
    assert caught[0].filename == __file__


def test_new_keywords_do_not_warn(recwarn):
    assert Model(max_iter=2).given == (2, Settings(), None)
    assert not recwarn


def test_both_names_at_once_are_refused():
    with pytest.warns(FutureWarning), pytest.raises(OptionError, match="both 'iterations' and 'max_iter'"):
        Model(iterations=3, max_iter=2)
