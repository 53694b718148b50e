"""Files of users: what is read, and the errors for those that cannot be."""

import numpy as np
import pytest

pytest.importorskip("typer")

from udtw.cli.files import read_series, read_series_set, write_columns
from udtw.errors import DataError


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "1,2\n3,4\n"),
        ("a.csv", "left,right\n1,2\n3,4"),
        ("a.csv", "\ufeffleft,right\r\n1,2\r\n\r\n3,4\r\n"),
        ("a.csv", '# made by hand\n"left","right"\n1,2\n3,4\n'),
        ("a.csv", "1;2\n3;4\n"),
        ("a.tsv", "1\t2\n3\t4\n"),
        ("a.txt", "1 2\n  3   4\n"),
    ],
)
def test_a_row_is_a_step_and_a_column_a_feature(tmp_path, name, text):
    (tmp_path / name).write_text(text, newline="")
    np.testing.assert_array_equal(read_series(tmp_path / name), [[1, 2], [3, 4]])


def test_one_column_is_one_feature(tmp_path):
    (tmp_path / "a.csv").write_text("value\n1\n-2e1\n")
    np.testing.assert_array_equal(read_series(tmp_path / "a.csv"), [[1], [-20]])


def test_npy(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(3))
    np.testing.assert_array_equal(read_series(tmp_path / "a.npy"), [[0], [1], [2]])
    np.save(tmp_path / "b.npy", np.zeros((4, 3, 2), np.float32))
    assert read_series_set(tmp_path / "b.npy").shape == (4, 3, 2)


def test_a_set_may_be_ragged(tmp_path):
    (tmp_path / "a.csv").write_text("1,2,3\n4,5\n")
    first, second = read_series_set(tmp_path / "a.csv")
    np.testing.assert_array_equal(first, [1, 2, 3])
    np.testing.assert_array_equal(second, [4, 5])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1,2\n3\n", "a.csv, line 2: 1 value"),
        ("x,y\n1,2\n\n3,four\n", "a.csv, line 4: value 2 is 'four', not a number"),
        ("1,2\n3,nan\n", "a.csv, line 2: value 2 is 'nan'"),
        ("1,2\n,4\n", "a.csv, line 2: value 1 is empty"),
        ("1,two\n3,4\n", "a.csv, line 1: value 2 is 'two'"),
        ("1\ninf\n", "a.csv, line 2"),
        ("", "holds no numbers"),
        ("x,y\n", "holds no numbers"),
    ],
)
def test_broken_text_is_named_with_its_line(tmp_path, text, said):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(DataError, match=said):
        read_series(tmp_path / "a.csv")


def test_binary_is_not_text(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"\x89PNG\xff\xfe")
    with pytest.raises(DataError, match="not a text file"):
        read_series(tmp_path / "a.csv")


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (np.array([{"a": 1}], dtype=object), "not a .npy file of numbers"),
        (np.array([1.0, np.nan]), r"at \(1,\) is nan"),
        (np.zeros((2, 2, 2)), r"shape \(2, 2, 2\)"),
        (np.array(["a"]), "real numbers"),
        (np.zeros((0, 2)), "at least one"),
    ],
)
def test_broken_npy(tmp_path, array, said):
    np.save(tmp_path / "a.npy", array, allow_pickle=True)
    with pytest.raises(DataError, match=said):
        read_series(tmp_path / "a.npy")


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        read_series(tmp_path / "a.csv")
    with pytest.raises(DataError, match="is a folder"):
        read_series(tmp_path)


def test_what_is_written_can_be_read(tmp_path):
    values = np.random.default_rng(0).standard_normal((5, 2))
    write_columns(tmp_path / "new" / "a.csv", ["x", "y"], list(values.T))
    np.testing.assert_array_equal(read_series(tmp_path / "new" / "a.csv"), values)


@pytest.mark.parametrize("shape", ["((((", "(4294967296, 4294967296)", "(-1,)"])
def test_npy_with_a_hostile_header(tmp_path, shape):
    np.save(tmp_path / "a.npy", np.arange(3.0))
    content = (tmp_path / "a.npy").read_bytes()
    text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".encode().ljust(117) + b"\n"
    (tmp_path / "a.npy").write_bytes(content[:10] + text + content[128:])
    with pytest.raises(DataError, match=r"not a \.npy file of numbers"):
        read_series(tmp_path / "a.npy")
