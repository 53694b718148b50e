"""NumPy's format from files that nobody has checked: the array, or a ValueError, and no memory for false sizes."""

import io
import tracemalloc

import numpy as np
import pytest

from udtw._io.npy import read_npy


def npy(array, **options):
    buffer = io.BytesIO()
    np.save(buffer, array, **options)
    return buffer.getvalue()


def with_header(text, data=b"", version=b"\x01\x00"):
    return b"\x93NUMPY" + version + len(text).to_bytes(2, "little") + text + data


def claiming(shape, data=b""):
    return with_header(f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}\n".encode(), data)


@pytest.mark.parametrize(
    "array",
    [np.arange(6.0).reshape(2, 3), np.asfortranarray(np.arange(6).reshape(3, 2)), np.float32(3), np.array(["é"])],
)
def test_what_numpy_wrote(array):
    found = read_npy(io.BytesIO(npy(array)))
    np.testing.assert_array_equal(found, array)
    assert found.dtype == array.dtype


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "magic"),
        (npy(np.arange(3.0))[:-1], "23 bytes of numbers do not make the shape"),
        (npy(np.arange(3.0)) + b"x", "25 bytes"),
        (npy(np.array([{}]), allow_pickle=True), "unpickled"),
        (with_header(b"{'descr': '<f8', 'fortran_order': (((\n"), ""),
        (with_header(b"[" * 5000 + b"\n"), ""),
        (with_header(b"{1: \n"), ""),
        (with_header(b"", version=b"\x07\x00"), "version"),
        (claiming("(-1, -2)", bytes(16)), "do not make the shape"),
        (claiming(f"(0, {10**30})"), "do not make the shape"),
        (claiming(f"({10**30},)"), "do not make the shape"),
    ],
)
def test_damage_is_a_value_error(content, said):
    with pytest.raises(ValueError, match=said or None):
        read_npy(io.BytesIO(content))


def test_a_claimed_shape_takes_no_memory():
    tracemalloc.start()
    with pytest.raises(ValueError, match="do not make the shape"):
        read_npy(io.BytesIO(claiming("(500000000,)")))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**20
