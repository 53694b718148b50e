"""What cannot be aligned is named, with its place, by every backend; nothing of the caller's is changed."""

import numpy as np
import pytest
import torch

import udtw
from udtw.errors import (
    BackendError,
    BandError,
    GammaError,
    LengthError,
    NonFiniteError,
    OptionError,
    ShapeError,
    UdtwError,
    VarianceError,
)

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((3, 9, 2)), RNG.standard_normal((3, 7, 2))
VAR_X, VAR_Y = RNG.uniform(0.5, 2, (3, 9)), RNG.uniform(0.5, 2, (3, 7))


@pytest.mark.parametrize("backend", ["numba", "portable", "enumeration"])
@pytest.mark.parametrize("dim", [2, 20])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nan_and_infinity_are_named_with_their_place(backend, dim, bad):
    x, y = RNG.standard_normal((2, 5, dim)), RNG.standard_normal((2, 4, dim))
    y[1, 2, 0] = bad
    before = y.copy()
    with pytest.raises(NonFiniteError, match=r"y\[1, 2, 0\] is (nan|inf)"):
        udtw.align(x, y, backend=backend)
    with pytest.raises(NonFiniteError, match=r"x\[1, 2, 0\] is (nan|inf)"):
        udtw.dtw(y, x, backend=backend)
    with pytest.raises(NonFiniteError, match=r"y\[1, 2, 0\] is (nan|inf)"):  # where the gradient is made ahead
        udtw.align(torch.from_numpy(x).requires_grad_(), torch.from_numpy(y), backend=backend)
    assert np.array_equal(y, before, equal_nan=True)


@pytest.mark.parametrize("backend", ["numba", "portable"])
def test_a_gamma_of_each_pair_and_a_mask_without_a_path_are_refused_by_every_backend(backend):
    with pytest.raises(GammaError, match="positive"):
        udtw.align(torch.from_numpy(X), torch.from_numpy(Y), gamma=torch.tensor([1.0, -1.0, 1.0]), backend=backend)
    mask = np.ones((9, 7), bool)
    mask[4] = False
    with pytest.raises(BandError, match="leaves no path for pair 0"):
        udtw.align(X, Y, band=mask, backend=backend)


@pytest.mark.parametrize("backend", ["numba", "portable"])
@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf])
def test_variances_must_be_positive(backend, bad):
    a = VAR_X.copy()
    a[2, 3] = bad
    with pytest.raises(VarianceError, match=r"var_x\[2, 3\] is"):
        udtw.align(X, Y, a, VAR_Y, backend=backend)
    joint = np.ones((3, 9, 7))
    joint[0, 1, 2] = bad
    with pytest.raises(VarianceError, match=r"variance\[0, 1, 2\] is"):
        udtw.align(X, Y, variance=joint, backend=backend)
    b = VAR_Y.copy()
    b[1, -1] = bad
    x = torch.from_numpy(X).requires_grad_()  # where the gradient is made ahead
    for first in (X, x):
        with pytest.raises(VarianceError, match=r"var_y\[1, 6\] is"):
            udtw.align(first, *(torch.from_numpy(one) if first is x else one for one in (Y, VAR_X, b)), backend=backend)
    joint[2, 8, 6] = bad  # the first is named
    with pytest.raises(VarianceError, match=r"variance\[0, 1, 2\] is .* \(2 value\(s\) are not\)"):
        udtw.dtw(X, Y, variance=joint, backend=backend)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: udtw.align(X, Y, gamma=0), GammaError, "use udtw.dtw"),
        (lambda: udtw.align(X, Y, gamma=-1), GammaError, "positive"),
        (lambda: udtw.align(X, Y, gamma=torch.tensor([0.5, -2.0, -3.0])), GammaError, "got -2.0"),
        (lambda: udtw.align(X, Y[:2]), ShapeError, "Batch sizes"),
        (lambda: udtw.align(X, Y[..., :1]), ShapeError, "number of features"),
        (lambda: udtw.align(torch.ones(3), torch.ones(3, device="meta")), ShapeError, "must be on one device"),
        (lambda: udtw.align(X[None], Y), ShapeError, r"\(B, N, d\)"),
        (lambda: udtw.align(X[:, :0], Y), LengthError, "at least one step"),
        (lambda: udtw.align(X[..., :0], Y[..., :0]), LengthError, "at least one step and one feature"),
        (lambda: udtw.align(X, Y, VAR_Y), ShapeError, r"one variance per step, shape \(9,\)"),
        (lambda: udtw.align(X, Y, VAR_X, variance=np.ones((3, 9, 7))), OptionError, "not both"),
        (lambda: udtw.align(X, Y, variance=np.ones((3, 7, 9))), ShapeError, "one entry per match"),
        (lambda: udtw.align(X, Y, cost=np.ones((3, 9, 7))), OptionError, "not both"),
        (lambda: udtw.align(X, None), ShapeError, "x and y are needed"),
        (lambda: udtw.align(X, Y, lengths_x=10), LengthError, r"lengths_x\[0\] is 10"),
        (lambda: udtw.align(X, Y, lengths_x=[True, True, True]), LengthError, "whole numbers; got dtype torch.bool"),
        (lambda: udtw.align(X, Y, lengths_y=[1, 2]), LengthError, "one for each of 3 pairs"),
        (lambda: udtw.align(X, Y, distance="mean"), OptionError, "one of \\('expected', 'soft_min'\\)"),
        (lambda: udtw.align(X, Y, normalize="max"), OptionError, "normalize"),
        (lambda: udtw.align(None, None, cost=np.ones((3, 3)), debias=True), OptionError, "debias"),
        (lambda: udtw.align(X, Y, backend="gpu"), BackendError, "not known"),
        (lambda: udtw.align(X.astype(complex), Y), ShapeError, "real numbers"),
        (lambda: udtw.align(np.array(["a", "b"]), Y[0]), ShapeError, "real numbers"),
        (lambda: udtw.dtw(X, Y, normalize="path"), OptionError, "dtw can normalize"),
    ],
)
def test_calls_that_make_no_sense(call, error, message):
    with pytest.raises(error, match=message) as caught:
        call()
    assert isinstance(caught.value, UdtwError)
    assert isinstance(caught.value, ValueError)


def test_sparse_tensors_and_masks_are_refused_by_name():
    x = torch.rand(2, 4, 1)
    with pytest.raises(ShapeError, match=r"x is a tensor of layout torch.sparse_coo. Pass x.to_dense\(\)"):
        udtw.align(x.to_sparse(), x)
    with pytest.raises(LengthError, match=r"pass mask.sum\(1\)"):
        udtw.align(x, x, lengths_x=torch.ones(2, 4, dtype=torch.bool))


def test_tensors_on_two_devices_are_refused_by_name():
    x = torch.rand(2, 4, 1)
    with pytest.raises(ShapeError, match=r"on one device; got .*'x'.*cpu.*'y'.*meta.*\.to\(device\)"):
        udtw.align(x, x.to("meta"))
    with pytest.raises(ShapeError, match=r"on one device; got .*'var_x'.*meta"):
        udtw.align(x, x, torch.ones(2, 4, device="meta"))
