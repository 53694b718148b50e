"""The vector functions against NumPy, over their whole range."""

import numpy as np
import pytest
from numba import njit

from udtw._kernels.cpu import simd
from udtw._kernels.cpu.simd import borrow, lanes, load, splat, store

DTYPES = [np.float32, np.float64]


def apply(function, values: np.ndarray) -> np.ndarray:
    @njit
    def run(source, out):
        for t in range(0, source.size, lanes(source)):
            store(out, t, function(load(source, t)))

    width = simd.VECTOR_BYTES // values.itemsize
    padded = np.resize(values, -(-values.size // width) * width)
    out = np.zeros_like(padded)
    run(padded, out)
    return out[: values.size]


@pytest.mark.parametrize("dtype", DTYPES)
def test_exp2_fraction_is_exact_to_a_few_units_in_the_last_place(dtype):
    x = np.linspace(-0.5, 0.5, 10_001).astype(dtype)
    exact = np.exp2(x.astype(np.longdouble))
    assert np.abs(apply(simd.exp2_fraction, x) / exact - 1).max() < 3 * np.finfo(dtype).eps


@pytest.mark.parametrize("dtype", DTYPES)
def test_logarithm(dtype):
    limit = 30 if dtype == np.float32 else 300
    x = np.concatenate([np.logspace(-limit, limit, 5001), 1 + np.linspace(-0.01, 0.01, 5001)]).astype(dtype)
    exact = np.log(x.astype(np.longdouble))
    error = np.abs(apply(simd.log, x) - exact)
    assert (error <= 4 * np.finfo(dtype).eps * np.abs(exact)).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_halving_is_exact(dtype):
    x = np.arange(127 if dtype == np.float32 else 1023).astype(dtype)
    assert np.array_equal(apply(simd.halved, x), np.exp2(-x.astype(np.longdouble)).astype(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_worst_of_two_numbers_is_the_larger_and_nan_is_worse_than_any(dtype):
    a = np.array([0, 1, 3, np.inf, 2, np.nan, np.inf, -np.nan] * 2, dtype)
    b = np.array([2, 0, 3, 1, np.inf, 5, np.nan, np.inf] * 2, dtype)

    @njit
    def run(a, b, out):
        for t in range(0, a.size, lanes(a)):
            store(out, t, simd.worst(load(a, t), load(b, t)))

    out = np.zeros_like(a)
    run(a, b, out)
    assert np.array_equal(out, np.array([2, 1, 3, np.inf, np.inf, np.nan, np.nan, np.nan] * 2, dtype), equal_nan=True)


def test_single_numbers_are_counted_along_the_whole_array():
    a = np.arange(24.0).reshape(2, 3, 4)

    @njit
    def run(a):
        simd.put(a, 23, simd.get(a, 13) + 0.5)

    run(a)
    assert a[1, 2, 3] == 13.5
    assert np.array_equal(a.ravel()[:23], np.arange(23.0))


@pytest.mark.parametrize("dtype", DTYPES)
def test_mantissa_and_exponent_recompose(dtype):
    limit = 37 if dtype == np.float32 else 300
    x = np.logspace(-limit, limit, 4000).astype(dtype)
    mantissa, exponent = apply(simd.mantissa, x), apply(simd.exponent, x)
    assert ((mantissa >= 1) & (mantissa < 2)).all()
    assert np.array_equal(np.ldexp(mantissa, exponent.astype(int)), x)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_choices_and_products_of_vectors(dtype):
    a, b, c, d = np.random.default_rng(0).standard_normal((4, 16)).astype(dtype)

    @njit
    def run(a, b, c, d, out):
        a = borrow(a)
        for t in range(0, a.size, lanes(a)):
            x, y, z, u = load(a, t), load(b, t), load(c, t), load(d, t)
            store(out[0], t, simd.minimum(x, y))
            store(out[1], t, simd.maximum(x, y))
            store(out[2], t, simd.fma(x, y, z))
            store(out[3], t, simd.where_greater(x, y, z, u))
            store(out[4], t, simd.nearest(x))
            store(out[5], t, splat(a, a[3]))
            store(out[6], t, (x + y) * (z - u))
            store(out[7], t, x / y)
            store(out[8], t, simd.fnma(x, y, z))

    out = np.zeros((9, 16), dtype)
    run(a, b, c, d, out)
    exact = (a.astype(np.longdouble) * b + c).astype(dtype)
    assert np.array_equal(out[0], np.minimum(a, b))
    assert np.array_equal(out[1], np.maximum(a, b))
    assert np.array_equal(out[2], exact)  # rounded once
    assert np.array_equal(out[3], np.where(a > b, c, d))
    assert np.array_equal(out[4], np.rint(a))
    assert (out[5] == a[3]).all()
    assert np.array_equal(out[6], (a + b) * (c - d))
    assert np.array_equal(out[7], a / b)
    assert np.array_equal(out[8], (c - a.astype(np.longdouble) * b).astype(dtype))  # rounded once


@pytest.mark.parametrize(("dtype", "halvings", "probability"), [(np.float32, 50, 1e-22), (np.float64, 128, 1e-250)])
def test_what_counts_as_nothing(dtype, halvings, probability):
    """Their product is a normal number, so that no subnormal one slows the kernels down."""

    @njit
    def run(a):
        return lanes(a), simd.most_halvings(a), simd.least_probability(a)

    assert run(np.zeros(1, dtype)) == (simd.VECTOR_BYTES // np.dtype(dtype).itemsize, halvings, dtype(probability))
    assert 2.0**-halvings * probability > np.finfo(dtype).tiny
