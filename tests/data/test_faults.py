"""Sensor faults."""

import numpy as np
import pytest

from udtw.data import add_faults
from udtw.data.faults import FAULTS, STRENGTHS
from udtw.errors import OptionError, ShapeError

X = np.sin(np.arange(100) / 7) + np.arange(6)[:, None]


@pytest.mark.parametrize("kind", [*FAULTS, "mixed"])
def test_only_the_steps_at_fault_change_and_the_input_does_not(kind):
    before = X.copy()
    faulty, where = add_faults(X, kind, random_state=0)
    assert np.array_equal(X, before)
    assert (faulty == X)[~where].all()
    assert where.any(1).all()
    again, _ = add_faults(X, kind, random_state=0)
    assert np.array_equal(faulty, again)


@pytest.mark.parametrize("kind", FAULTS)
def test_stronger_faults_change_more(kind):
    change = [np.abs(add_faults(X, kind, strength, 0)[0] - X).sum() for strength in STRENGTHS]
    assert change[0] < change[1] < change[2]


def test_the_shares_of_the_steps():
    assert add_faults(X, "bursts", random_state=0)[1].sum(1).tolist() == [20] * 6
    assert add_faults(X, "spikes", random_state=0)[1].sum(1).tolist() == [5] * 6
    faulty, where = add_faults(X, "dropouts", "strong", 0)
    assert where.sum(1).tolist() == [30] * 6
    assert (faulty[where] == 0).all()


@pytest.mark.parametrize(
    ("options", "error"),
    [({"kind": "rust"}, OptionError), ({"strength": "huge"}, OptionError), ({"X": X[0]}, ShapeError)],
)
def test_bad_input_is_named(options, error):
    with pytest.raises(error, match="must"):
        add_faults(**({"X": X} | options))
