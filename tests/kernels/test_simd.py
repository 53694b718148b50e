"""The vector functions against NumPy, over their whole range."""

import numpy as np
import pytest
from numba import njit

from udtw.kernels import simd
from udtw.kernels.simd import lanes, load, store

DTYPES = [np.float32, np.float64]


def apply(function, values: np.ndarray) -> np.ndarray:
    @njit
    def run(source, out):
        for t in range(0, source.size, lanes(source)):
            store(out, t, function(load(source, t)))

    width = 32 // values.itemsize
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
def test_powers_of_two_are_exact(dtype):
    x = np.arange(-126 if dtype == np.float32 else -1022, 1).astype(dtype)
    assert np.array_equal(apply(simd.power_of_two, x), np.exp2(x.astype(np.longdouble)).astype(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_mantissa_and_exponent_recompose(dtype):
    limit = 37 if dtype == np.float32 else 300
    x = np.logspace(-limit, limit, 4000).astype(dtype)
    mantissa, exponent = apply(simd.mantissa, x), apply(simd.exponent, x)
    assert ((mantissa >= 1) & (mantissa < 2)).all()
    assert np.array_equal(np.ldexp(mantissa, exponent.astype(int)), x)
