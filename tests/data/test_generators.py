"""The generators against the statistics that their formulas imply."""

import numpy as np
import pytest

from udtw.data import cylinder_bell_funnel, synthetic_control
from udtw.errors import OptionError

GENERATORS = [(cylinder_bell_funnel, 3, 128), (synthetic_control, 6, 60)]


@pytest.mark.parametrize(("generator", "n_classes", "length"), GENERATORS)
class TestBoth:
    def test_shape_and_balanced_shuffled_classes(self, generator, n_classes, length):
        data = generator(n_per_class=7, random_state=0)
        assert data.X.shape == (7 * n_classes, length)
        assert np.bincount(data.y).tolist() == [0] + [7] * n_classes
        assert (np.diff(data.y) < 0).any()

    def test_the_seed_decides_everything_and_the_global_state_nothing(self, generator, n_classes, length):
        before = np.random.get_state()[1].copy()  # noqa: NPY002
        one, two, three = (generator(3, random_state=s) for s in (1, np.random.default_rng(1), 2))
        assert np.array_equal(one.X, two.X)
        assert np.array_equal(one.y, two.y)
        assert not np.array_equal(one.X, three.X)
        assert np.array_equal(before, np.random.get_state()[1])  # noqa: NPY002

    @pytest.mark.parametrize("other", [8, 33, 300])
    def test_any_length(self, generator, n_classes, length, other):
        data = generator(2, length=other, random_state=0)
        assert data.X.shape == (2 * n_classes, other)
        assert np.isfinite(data.X).all()

    @pytest.mark.parametrize("options", [{"n_per_class": 0}, {"length": 7}])
    def test_impossible_sizes_are_refused(self, generator, n_classes, length, options):
        with pytest.raises(OptionError, match="n_per_class must be at least 1 and length at least 8"):
            generator(**options)


def mean_of(data, label):
    return data.X[data.y == label].mean(axis=0)


def test_cylinder_bell_and_funnel_have_their_shapes():
    data = cylinder_bell_funnel(3000, random_state=0)
    outside = data.X[:, :15]
    assert outside.mean() == pytest.approx(0, abs=0.02)
    assert outside.std() == pytest.approx(1, abs=0.02)
    cylinder, bell, funnel = (mean_of(data, label) for label in (1, 2, 3))
    # Steps 33 to 48 lie inside every event: the onset is over and the shortest one is not.
    assert cylinder[32:48].mean() == pytest.approx(6, abs=0.1)
    assert 16 <= funnel.argmax() <= 32
    assert bell.argmax() > 50
    assert np.allclose(bell + funnel, cylinder, atol=0.35)


def test_synthetic_control_has_its_six_patterns():
    data = synthetic_control(3000, random_state=0)
    t = np.arange(60)
    normal, cyclic, up, down, shift_up, shift_down = (mean_of(data, label) for label in range(1, 7))
    assert np.allclose(normal, 30, atol=0.5)
    assert data.X[data.y == 1].min() > 24
    assert data.X[data.y == 1].max() < 36
    assert np.allclose(up, 30 + 0.35 * t, atol=0.6)
    assert np.allclose(down, 30 - 0.35 * t, atol=0.6)
    assert np.allclose(shift_up[:20], 30, atol=0.6)
    assert np.allclose(shift_up[41:], 30 + 13.75, atol=0.6)
    assert np.allclose(shift_down[41:], 30 - 13.75, atol=0.6)
    assert cyclic[3] > 38
    assert cyclic[9] < 22
