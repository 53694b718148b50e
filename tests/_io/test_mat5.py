"""MATLAB files: read as SciPy reads them, and refused with a word where SciPy would end the process."""

import io
import random

import numpy as np
import pytest

pytest.importorskip("scipy")
from scipy.io import savemat

from udtw._io.mat5 import read_array, read_value

LIMIT = 2**20
ROWS = np.zeros((1, 2), dtype=[("number", object), ("name", object)])
ROWS["number"], ROWS["name"] = [[3, 250]], [["a.jpg", "späte.jpg"]]


def mat(compress=False, **arrays):
    buffer = io.BytesIO()
    savemat(buffer, arrays, do_compression=compress)
    return buffer.getvalue()


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("dtype", ["f8", "f4", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"])
def test_arrays_of_every_type_among_others(compress, dtype):
    wanted = np.arange(24).reshape(2, 3, 4).astype(dtype)
    content = mat(compress, first="text", long_name_of_another=np.ones((3, 1)), a={"b": 1}, x=wanted, last=[[1j]])
    found = read_array(content, "x", LIMIT)
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("value", [5.0, np.ones((1, 2), np.int8), np.zeros((3, 0))])
def test_small_arrays_are_stored_inside_their_tag(value):
    np.testing.assert_array_equal(read_array(mat(x=value), "x", LIMIT), np.atleast_2d(value))


def test_big_endian_files():
    def element(kind, data):
        return kind.to_bytes(4, "big") + len(data).to_bytes(4, "big") + data + bytes(-len(data) % 8)

    parts = [
        element(6, (6).to_bytes(4, "big") + bytes(4)),
        element(5, (1).to_bytes(4, "big") + (2).to_bytes(4, "big")),
        element(1, b"x"),
        element(9, np.array([1.5, -2], ">f8").tobytes()),
    ]
    content = bytes(124) + b"\x01\x00MI" + element(14, b"".join(parts))
    np.testing.assert_array_equal(read_array(content, "x", LIMIT), [[1.5, -2]])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "0 bytes, shorter than a header"),
        (bytes(200), "no header"),
        (mat(x=1.0)[:140], "an element of"),
        (mat(x=1.0)[:132], "cut off inside a tag"),
        (mat(y=1.0), "no array called x"),
        (mat(x="word"), "x is not an array of real numbers"),
        (mat(x=[[1j]]), "x is not an array of real numbers"),
        (mat(x=1.0)[:124] + b"\x00\x02IM", "save it with -v7"),
        (mat(True, x=np.zeros((LIMIT // 8, 2))), f"more than {LIMIT} bytes"),
        (mat(True, x=1.0)[:136] + b"\x00" * 20, "an element of|header"),
    ],
)
def test_other_files_are_refused(content, said):
    with pytest.raises(ValueError, match=said):
        read_array(content, "x", LIMIT)


def test_an_unknown_type_of_data_which_ends_scipy():
    content = bytearray(mat(d_skel=np.ones((20, 3, 6))))
    at = content.index(b"d_skel\0\0") + 8
    content[at] = 255
    with pytest.raises(ValueError, match="data of the unknown type 255"):
        read_array(bytes(content), "d_skel", LIMIT)


@pytest.mark.parametrize("compress", [False, True])
def test_mutated_files_give_an_array_or_a_value_error(compress):
    rng = random.Random(0)
    whole = mat(compress, a="text", x=np.arange(60.0).reshape(5, 3, 4))
    kinds = set()
    for _ in range(2000):
        content = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            content[rng.randrange(120, len(content))] = rng.choice([0, 255, 127, rng.randrange(256)])
        try:
            kinds.add(type(read_array(bytes(content), "x", LIMIT)))
        except ValueError as error:
            kinds.add(type(error))
    assert kinds == {np.ndarray, ValueError}


@pytest.mark.parametrize("compress", [False, True])
def test_structures_cells_and_text(compress):
    cells = np.array(["AM General Hummer SUV 2000", "Ram C/V"], dtype=object)
    content = mat(compress, other=1.0, rows=ROWS, names=cells, text="word", empty="")
    rows = read_value(content, "rows", LIMIT)
    assert [row["name"] for row in rows] == ["a.jpg", "späte.jpg"]
    assert [int(row["number"][0, 0]) for row in rows] == [3, 250]
    assert read_value(content, "names", LIMIT) == ["AM General Hummer SUV 2000", "Ram C/V"]
    assert (read_value(content, "text", LIMIT), read_value(content, "empty", LIMIT)) == ("word", "")
    np.testing.assert_array_equal(read_value(content, "other", LIMIT), [[1.0]])


@pytest.mark.parametrize(
    ("value", "said"),
    [(np.array(["ab", "cd"]), "not one row of text"), ([[1j]], "not an array of real numbers")],
)
def test_values_that_are_not_understood(value, said):
    with pytest.raises(ValueError, match=said):
        read_value(mat(x=value), "x", LIMIT)


def test_cells_in_cells_without_end():
    cell = np.array([1.0], dtype=object)
    for _ in range(12):
        outer = np.empty(1, dtype=object)
        outer[0] = cell
        cell = outer
    with pytest.raises(ValueError, match="more than 8 deep"):
        read_value(mat(x=cell), "x", LIMIT)


def test_a_lie_about_the_number_of_structures():
    content = bytearray(mat(x=ROWS))
    at = content.index((1).to_bytes(4, "little") + (2).to_bytes(4, "little"), 128)
    content[at : at + 8] = b"\xff\xff\xff\x7f" * 2
    with pytest.raises(ValueError, match="cut off"):
        read_value(bytes(content), "x", LIMIT)


@pytest.mark.parametrize("compress", [False, True])
def test_mutated_structures_give_rows_or_a_value_error(compress):
    rng = random.Random(1)
    whole = mat(compress, x=ROWS)
    kinds = set()
    for _ in range(2000):
        content = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            content[rng.randrange(120, len(content))] = rng.choice([0, 255, 127, rng.randrange(256)])
        try:
            kinds.add(type(read_value(bytes(content), "x", LIMIT)))
        except ValueError:
            kinds.add(ValueError)
    assert {list, ValueError} <= kinds <= {list, str, np.ndarray, ValueError}
