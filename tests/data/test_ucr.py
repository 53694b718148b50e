"""`load_ucr`: every format gives the same arrays, every broken file is an error that names its line."""

import os

import numpy as np
import pytest

from udtw.data import available_ucr, load_ucr, save_npz
from udtw.errors import DataError

ROWS = {"TRAIN": "1\t0.5\t1.5\t-2\n2\t3\t4\t5\n", "TEST": "2\t6\t7\t8\n"}
TS_HEADER = "# a comment\n@problemName Toy\n@univariate true\n@equalLength true\n@classLabel true 1 2\n@data\n"
TS_ROWS = {"TRAIN": "0.5,1.5,-2:1\n3,4,5:2\n", "TEST": "6,7,8:2\n"}


def write(folder, name="Toy", suffix=".tsv", rows=ROWS, header=""):
    folder.mkdir(parents=True, exist_ok=True)
    for split, text in rows.items():
        (folder / f"{name}_{split}{suffix}").write_text(header + text)
    return folder


def write_train(folder, text):
    return write(folder, rows={**ROWS, "TRAIN": text})


def write_ts(folder, header=TS_HEADER, **rows):
    return write(folder, suffix=".ts", rows={**TS_ROWS, **rows}, header=header)


def assert_is_toy(data):
    assert np.array_equal(data.train.X, [[0.5, 1.5, -2], [3, 4, 5]])
    assert np.array_equal(data.test.X, [[6, 7, 8]])
    assert data.train.X.dtype == np.float64
    assert data.train.y.tolist() == [1, 2]
    assert data.test.y.tolist() == [2]
    assert data.train.y.dtype == data.test.y.dtype == np.int64


class TestWhereItLooks:
    @pytest.mark.parametrize("below", ["", "Toy", "ucr/Toy", "ucr"])
    def test_the_archive_the_folder_above_and_the_sets_own_folder_work(self, tmp_path, below):
        write(tmp_path / below)
        assert_is_toy(load_ucr("Toy", tmp_path))
        assert available_ucr(tmp_path) == ["Toy"]

    def test_the_environment_variable_is_the_default(self, tmp_path, monkeypatch):
        monkeypatch.setenv("UDTW_DATA", str(write(tmp_path)))
        assert_is_toy(load_ucr("Toy"))

    def test_without_any_folder_the_error_says_how_to_give_one(self, monkeypatch):
        monkeypatch.delenv("UDTW_DATA", raising=False)
        with pytest.raises(DataError, match="pass data_dir, or set the environment variable UDTW_DATA"):
            load_ucr("Toy")

    def test_a_folder_that_does_not_exist(self, tmp_path):
        with pytest.raises(DataError, match="absent does not exist"):
            load_ucr("Toy", tmp_path / "absent")

    def test_an_unknown_name_lists_the_folders_and_close_names(self, tmp_path):
        write(tmp_path / "ucr" / "GunPoint", "GunPoint")
        with pytest.raises(DataError, match=r"looked for .*Gunpoint_TRAIN.* in .*ucr.*Did you mean GunPoint\?"):
            load_ucr("Gunpoint", tmp_path)

    @pytest.mark.parametrize("name", ["", "../Toy", "a/b", "a\\b", "..", ".hidden", "a..b", "/etc/passwd", "a\0b", "*"])
    def test_names_never_leave_the_folder(self, tmp_path, name):
        with pytest.raises(DataError, match="not the name of a data set"):
            load_ucr(name, tmp_path)

    @pytest.mark.parametrize("split", ["TRAIN", "TEST"])
    def test_one_split_alone_is_an_error_that_names_the_other(self, tmp_path, split):
        (write(tmp_path) / f"Toy_{split}.tsv").unlink()
        with pytest.raises(DataError, match=f"Toy_{split} is not"):
            load_ucr("Toy", tmp_path)

    def test_all_sets_in_a_mixed_folder_are_listed(self, tmp_path):
        write(tmp_path, "B")
        write(tmp_path / "ucr" / "A", "A", ".txt")
        save_npz(load_ucr("B", tmp_path), tmp_path / "C.npz")
        (tmp_path / "empty").mkdir()
        assert available_ucr(tmp_path) == ["A", "B", "C"]


class TestTables:
    @pytest.mark.parametrize(
        "text",
        [
            "  1.0000000e+00   5e-1  1.5 -2.0\n  2.0 3 4 5\n",
            "1\t0.5\t1.5\t-2\r\n2\t3\t4\t5\r\n",
            "\ufeff1\t0.5\t1.5\t-2\n\n2\t3\t4\t5\n\n",
            "1\t0.5\t1.5\t-2\n2\t3\t4\t5",
        ],
        ids=["blanks", "windows", "byte order mark and blank lines", "no newline at the end"],
    )
    def test_dialects(self, tmp_path, text):
        write_train(tmp_path, text)
        assert_is_toy(load_ucr("Toy", tmp_path))

    def test_txt_is_read_like_tsv(self, tmp_path):
        assert_is_toy(load_ucr("Toy", write(tmp_path, suffix=".txt")))

    def test_nan_at_the_end_is_padding_and_nan_inside_stays(self, tmp_path):
        data = load_ucr("Toy", write_train(tmp_path, "1\t1\tNaN\t2\n2\t3\tnan\tNaN\n"))
        assert isinstance(data.train.X, list)
        assert np.array_equal(data.train.X[0], [1, np.nan, 2], equal_nan=True)
        assert data.train.X[1].tolist() == [3]
        assert data.train.lengths.tolist() == [3, 1]
        assert data.test.X.shape == (1, 3)

    def test_words_as_labels_make_strings_in_both_splits(self, tmp_path):
        data = load_ucr("Toy", write_train(tmp_path, "Cat\t1\t2\t3\n2\t3\t4\t5\n"))
        assert data.train.y.tolist() == ["Cat", "2"]
        assert data.test.y.tolist() == ["2"]

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("1\t1\t2\n2\t3\t4\t5\n", r"Toy_TRAIN.tsv, line 2: 3 values, but line 1 has 2.*Pad shorter series"),
            ("1\t1\t2\n\n2\t3\tx\n", r"line 3: value 2 is 'x'.*missing values as NaN"),
            ("1\t1\t\t2\n", r"line 1: value 2 is '', not a finite number"),
            ("1\t1\tinf\n", "line 1: value 2 is 'inf', not a finite number"),
            ("1\t1\t2\n\t1\t2\n", "line 2: the first column is '' where the class label belongs"),
            ("-0.25\t1\t2\n", "line 1: the first column is '-0.25' where the class label belongs"),
            ("nan\t1\t2\n", "line 1: the first column is 'nan'"),
            ("1\tNaN\tNaN\n", "line 1: the series has no value"),
            ("1\n", "line 1: the series has no value"),
            ("", "Toy_TRAIN.tsv is empty"),
            ("\n \n", "Toy_TRAIN.tsv is empty"),
        ],
    )
    def test_a_broken_file_names_the_line_and_the_remedy(self, tmp_path, text, message):
        with pytest.raises(DataError, match=message):
            load_ucr("Toy", write_train(tmp_path, text))

    def test_a_binary_file_is_not_a_table(self, tmp_path):
        (write(tmp_path) / "Toy_TRAIN.tsv").write_bytes(b"\x89PNG\xff\xfe")
        with pytest.raises(DataError, match=r"Toy_TRAIN.tsv is not a text file"):
            load_ucr("Toy", tmp_path)


class TestTsFiles:
    def test_univariate_equals_the_table(self, tmp_path):
        assert_is_toy(load_ucr("Toy", write_ts(tmp_path)))

    def test_several_features_come_with_time_before_features(self, tmp_path):
        header = TS_HEADER.replace("univariate true", "univariate false")
        data = load_ucr("Toy", write_ts(tmp_path, header, TRAIN="1,2,3:4,5,6:1\n", TEST="7,8,9:0,0,?:2\n"))
        assert data.train.X.shape == (1, 3, 2)
        assert data.train.X[0].tolist() == [[1, 4], [2, 5], [3, 6]]
        assert np.array_equal(data.test.X[0], [[7, 0], [8, 0], [9, np.nan]], equal_nan=True)

    def test_different_lengths_and_labels_in_their_own_case(self, tmp_path):
        header = "@univariate true\n@equalLength false\n@classLabel true Banana Pear\n@data\n"
        data = load_ucr("Toy", write_ts(tmp_path, header, TRAIN="1,2,NaN:Banana\n3:Pear\n", TEST="4,5:Pear\n"))
        assert [series.tolist() for series in data.train.X] == [[1, 2], [3]]
        assert data.train.y.tolist() == ["Banana", "Pear"]
        assert data.test.X.shape == (1, 2)

    @pytest.mark.parametrize(
        ("rows", "message"),
        [
            ("1,2,3:1\n1,2:2\n", r"Toy_TRAIN.ts, line 8: channels of \[2\] values; expected 3.*@equalLength false"),
            ("1,2,3:1\n1,x,3:2\n", "line 8: 'x' in channel 1 is not a finite number"),
            ("1,2,3:1\n1,,3:2\n", "line 8: '' in channel 1 is not a finite number"),
            ("1,2,3:1\n1,2,3\n", "line 8: no class label"),
            ("1,2,3:1\n1,2,3:7\n", r"line 8: no class label.*Labels by the header: \['1', '2'\]"),
            ("1,2,3:1\n1,2,3:4,5,6:2\n", r"line 8: 2 channel\(s\), but line 7 has 1"),
            ("1,2,3:1\n\n1,2,3:2\n", "line 8: no class label"),
            ("NaN,?,NaN:1\n", "line 7: the series has no value"),
            ("", "has no series: below a line '@data'"),
        ],
    )
    def test_a_broken_file_names_the_line(self, tmp_path, rows, message):
        with pytest.raises(DataError, match=message):
            load_ucr("Toy", write_ts(tmp_path, TRAIN=rows))

    @pytest.mark.parametrize(
        ("header", "message"),
        [
            ("@timeStamps true\n@classLabel true 1 2\n@data\n", "has time stamps"),
            ("@targetLabel true\n@data\n", "has no class labels"),
            ("@classLabel false\n@data\n", "has no class labels"),
            ("@classLabel true 1 2\n", "has no series"),
        ],
    )
    def test_unsupported_headers_are_refused(self, tmp_path, header, message):
        with pytest.raises(DataError, match=message):
            load_ucr("Toy", write_ts(tmp_path, header))

    def test_splits_with_different_features_are_refused(self, tmp_path):
        header = TS_HEADER.replace("univariate true", "univariate false")
        with pytest.raises(DataError, match=r"Toy_TRAIN.ts has 2 feature\(s\), but .*Toy_TEST.ts has 1"):
            load_ucr("Toy", write_ts(tmp_path, header, TRAIN="1,2,3:4,5,6:1\n"))


class TestJoined:
    def test_all_is_train_then_test(self, tmp_path):
        joined = load_ucr("Toy", write(tmp_path)).all
        assert joined.X.shape == (3, 3)
        assert joined.y.tolist() == [1, 2, 2]
        assert len(joined) == 3

    def test_splits_of_two_lengths_join_as_a_list(self, tmp_path):
        joined = load_ucr("Toy", write(tmp_path, rows={**ROWS, "TEST": "1\t1\t2\n"})).all
        assert joined.lengths.tolist() == [3, 3, 2]


class TestCache:
    def test_a_cache_newer_than_the_files_is_read_in_their_place(self, tmp_path):
        data = load_ucr("Toy", write(tmp_path))
        save_npz(data, tmp_path / "Toy.npz")
        for split in ROWS:
            (tmp_path / f"Toy_{split}.tsv").write_text("broken")
            os.utime(tmp_path / f"Toy_{split}.tsv", (1, 1))
        assert_is_toy(load_ucr("Toy", tmp_path))

    def test_a_cache_older_than_the_files_is_not(self, tmp_path):
        (tmp_path / "Toy.npz").write_bytes(b"stale")
        os.utime(tmp_path / "Toy.npz", (1, 1))
        assert_is_toy(load_ucr("Toy", write(tmp_path)))
