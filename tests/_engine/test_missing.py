"""Steps with NaN: a named error, or left out."""

import numpy as np
import pytest
import torch

import udtw
from udtw.errors import LengthError, NonFiniteError, OptionError

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((9, 2)), RNG.standard_normal((7, 2))
VARIANCES = RNG.random(9) + 0.5
GAPS = [0, 4, 5]


def with_gaps():
    x = X.copy()
    x[GAPS, [0, 1, 0]] = np.nan
    return x


@pytest.mark.parametrize("variances", [None, VARIANCES, "estimate", 2.0])
def test_left_out_is_the_same_as_never_there(variances):
    kept = np.delete(np.arange(9), GAPS)
    own = variances[kept] if isinstance(variances, np.ndarray) else variances
    found = udtw.align(with_gaps(), Y, variances, nan_policy="omit")
    wanted = udtw.align(X[kept], Y, own)
    assert isinstance(found.coupling, np.ndarray)
    np.testing.assert_allclose(found.coupling, wanted.coupling)
    assert float(found.loss) == pytest.approx(float(wanted.loss))


def test_nothing_to_leave_out():
    assert float(udtw.align(X, Y, nan_policy="omit").loss) == float(udtw.align(X, Y).loss)


def test_a_padded_batch_keeps_its_gradient():
    x = torch.tensor(np.stack([with_gaps(), X]), requires_grad=True)
    y = torch.tensor(np.stack([Y, Y]))
    loss = udtw.align(x, y, lengths_x=[8, 9], nan_policy="omit").loss
    alone = udtw.align(torch.tensor(X[[1, 2, 3, 6, 7]]), y[0]).loss
    assert float(loss[0].detach()) == pytest.approx(float(alone))
    assert float(loss[1].detach()) == pytest.approx(float(udtw.align(X, Y).loss))
    loss.sum().backward()
    assert torch.isfinite(x.grad).all()
    assert (x.grad[0, [0, 4, 5, 8]] == 0).all()
    assert (x.grad[0, [1, 2, 3, 6, 7]] != 0).all()


def test_dtw_and_soft_dtw_take_it_too():
    kept = np.delete(X, GAPS, axis=0)
    assert float(udtw.dtw(with_gaps(), Y, nan_policy="omit")) == pytest.approx(float(udtw.dtw(kept, Y)))
    assert float(udtw.soft_dtw(Y, with_gaps(), nan_policy="omit")) == pytest.approx(float(udtw.soft_dtw(Y, kept)))


def test_what_cannot_be_left_out_is_named():
    with pytest.raises(NonFiniteError, match="nan_policy='omit'"):
        udtw.align(with_gaps(), Y)
    with pytest.raises(OptionError, match="nan_policy must be one of"):
        udtw.align(X, Y, nan_policy="skip")
    with pytest.raises(OptionError, match="ready-made cost"):
        udtw.align(None, None, cost=np.zeros((3, 3)), nan_policy="omit")
    with pytest.raises(LengthError, match="missing value in every step"):
        udtw.align(np.full(3, np.nan), np.zeros(3), nan_policy="omit")
    with pytest.raises(NonFiniteError):
        udtw.align(np.array([0.0, np.inf]), np.zeros(3), nan_policy="omit")


def test_lists_of_many_series_lose_their_missing_steps():
    series = [with_gaps()[: 6 + n % 3] for n in range(70)]
    kept = [one[~np.isnan(one).any(1)] for one in series]
    np.testing.assert_array_equal(udtw.align(series, Y, nan_policy="omit").loss, udtw.align(kept, Y).loss)
