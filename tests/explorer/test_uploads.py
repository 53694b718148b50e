"""Uploaded files: which are read, and which are refused with a reason."""

import gzip
import io
import zipfile

import numpy as np
import pytest

pytest.importorskip("PIL")
pytest.importorskip("pandas")

import pandas
from PIL import Image

from tests.explorer.helpers import data_url
from udtw.errors import DataError, NonFiniteError, SizeError, UdtwError
from udtw.explorer.uploads import (
    MAX_FEATURES,
    MAX_SERIES_BYTES,
    MAX_STEPS,
    MAX_UNPACKED,
    UploadCache,
    decode_contents,
    file_name,
    read_image,
    read_upload,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1\n2\n3\n", [[1], [2], [3]]),
        ("a,b\n1,2\n3,4\n5,6\n", [[1, 2], [3, 4], [5, 6]]),
        ("1;2;3;4", [[1], [2], [3], [4]]),
        ("# a comment\n1\t2\r\n3\t4\r\n\r\n5\t6", [[1, 2], [3, 4], [5, 6]]),
        ("\ufeff1e3\n-2.5\n0\n", [[1000], [-2.5], [0]]),
    ],
    ids=["column", "header", "one row", "tabs and comments", "byte order mark"],
)
def test_a_csv_file_is_a_series(text, expected):
    np.testing.assert_array_equal(read_upload(text.encode(), "a.csv").values, expected)


def packed(kind):
    """The series 1, 2, 4 in a file of this kind."""
    frame, buffer = pandas.DataFrame({"value": [1.0, 2.0, 4.0]}), io.BytesIO()
    if kind == "csv.gz":
        return gzip.compress(b"value\n1\n2\n4\n")
    if kind == "json":
        return b"[1, 2, 4]"
    if kind in ("npy", "npz"):
        array = frame["value"].to_numpy()
        np.save(buffer, array) if kind == "npy" else np.savez_compressed(buffer, value=array)
    else:
        frame.to_parquet(buffer) if kind == "parquet" else frame.to_excel(buffer, index=False)
    return buffer.getvalue()


@pytest.mark.parametrize("kind", ["csv.gz", "parquet", "xlsx", "json", "npy", "npz"])
def test_what_the_command_line_reads_can_be_uploaded(kind):
    np.testing.assert_array_equal(read_upload(packed(kind), f"a.{kind}").values, [[1], [2], [4]])


def test_a_spreadsheet_and_a_table_that_unpack_to_too_much_are_not_read():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("xl/worksheets/sheet1.xml", b" " * (MAX_UNPACKED + 1))
    table = io.BytesIO()
    pandas.DataFrame({"value": np.zeros(MAX_UNPACKED // 8 + 1)}).to_parquet(table)
    for content in (buffer.getvalue(), table.getvalue()):
        assert len(content) < MAX_SERIES_BYTES
        with pytest.raises(SizeError, match=r"big\.xlsx has more than .* after unpacking"):
            read_upload(content, "big.xlsx")


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        (b"", DataError, "empty"),
        (b"  \n\n", DataError, "empty"),
        (b"PK\3\4junk", DataError, "damaged spreadsheet or archive"),
        (b"\x1f\x8bjunk", DataError, "damaged gzip"),
        (gzip.compress(b"1\n2\n3\n", mtime=0)[:-4], DataError, "damaged gzip"),
        (gzip.compress(b"1\n" * 10**7, mtime=0), SizeError, "after unpacking"),
        (b"PAR1junk", DataError, "damaged Parquet"),
        (b"\x93NUMPY junk", DataError, "not a .npy file"),
        (b'{"a": [1, 2', DataError, "not JSON"),
        (b"time,value\n", DataError, "no numbers"),
        (b"1\nnan\n3\n", NonFiniteError, "line 2"),
        (b"1\ninf\n3\n", DataError, "line 2"),
        (b"1,2\n3,\n5,6\n", NonFiniteError, "value 2 is empty"),
        (b"1\ntwo\n3\n", DataError, "'two', not a number"),
        (b"1,2\n3\n4,5\n", DataError, "line 2: 1 value(s), but line 1 has 2"),
        (b"1\n2\n", DataError, "at least 3"),
        (b";0;1\n" + b"9" * 5000 + b";1;2\n3;4;5\n", DataError, "not a number"),
        (b"1e200\n2\n3\n", DataError, "1e100"),
        (b"\x89PNG\r\n\x1a\n\0\0", DataError, "not a text file"),
        ("1\n2\n3 é\n".encode("latin-1"), DataError, "UTF-8"),
        (b"1\n" * (MAX_STEPS + 2), SizeError, "rows"),
        (b"1," * (MAX_STEPS + 1) + b"1", SizeError, "time steps"),
        ((b"1," * MAX_FEATURES + b"1\n") * 3, SizeError, "columns"),
        (b"1," * 200_000, SizeError, "characters"),
        (b" " * (MAX_SERIES_BYTES + 1), SizeError, "bytes"),
        (b"=cmd|' /C calc'!A0\n1\n2\n", DataError, "no numbers|not a number|at least|3 name(s)"),
        (b"__import__('os').system('x')\n1\n2\n3\n", None, ""),
    ],
    ids=lambda value: repr(value)[:24] if isinstance(value, bytes) else None,
)
def test_files_that_are_not_series_are_refused_by_name(content, error, message):
    if error is None:  # text in the first line is a header and is never executed
        assert len(read_upload(content, "a.csv").values) == 3
        return
    with pytest.raises(error) as caught:
        read_upload(content, "mine.csv")
    assert "mine.csv" in str(caught.value)
    assert any(one in str(caught.value) for one in message.split("|"))
    advice = "use `udtw align` with --band"
    assert "--" not in str(caught.value).replace(advice, "")  # the page has no flags


@pytest.mark.parametrize(
    "contents", [None, 7, "", "hello", "data:text/csv,1", ["data:;base64,MQ=="], "data:;base64,%%"]
)
def test_contents_that_are_not_a_file_are_refused(contents):
    with pytest.raises(DataError, match=r"a\.csv"):
        decode_contents(contents, "a.csv", 100)


def test_a_file_beyond_the_limit_is_refused_before_it_is_decoded():
    with pytest.raises(SizeError, match="at most 100"):
        decode_contents(data_url(b"x" * 200), "a.csv", 100)
    assert decode_contents(data_url(b"x" * 100), "a.csv", 100) == b"x" * 100


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a.csv", "a.csv"),
        ("../../etc/passwd", "passwd"),
        ("C:\\data\\a.csv", "a.csv"),
        ("a\nimport os\u2028.csv", "aimport os.csv"),
        ("", "file"),
        (None, "file"),
        ("x" * 500, "x" * 59 + "…"),
    ],
)
def test_names_of_files_are_made_safe_to_show(name, shown):
    assert file_name(name) == shown


def test_an_image_is_read_and_a_damaged_one_refused():
    buffer = io.BytesIO()
    Image.new("RGB", (30, 20), "red").save(buffer, "PNG")
    assert read_image(buffer.getvalue(), "a.png").size == (30, 20)
    for content in (b"", b"not an image", buffer.getvalue()[:40]):
        with pytest.raises(UdtwError, match=r"a\.png"):
            read_image(content, "a.png")


def test_an_image_that_claims_too_many_pixels_is_not_decoded():
    buffer = io.BytesIO()
    Image.new("1", (30_000, 1_000)).save(buffer, "PNG")
    with pytest.raises(DataError, match="pixels"):
        read_image(buffer.getvalue(), "bomb.png")


def test_the_cache_keeps_the_newest_and_knows_only_its_own_keys():
    cache = UploadCache(2)
    keys = [cache.put(name, name.encode(), name.upper()) for name in ("a", "b", "c")]
    assert cache.get(keys[2]) == ("c", "C")
    for key in (keys[0], "../../etc/passwd", None, 3, ["a"]):
        with pytest.raises(DataError, match="Upload it again"):
            cache.get(key)
