"""Data sets by name: found in the usual folders, prepared or as original files."""

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("scipy")

from tests.skeleton.datasets.clips import many, mat_bytes, same, source
from udtw.errors import DataError, OptionError, SizeError
from udtw.skeleton import GRAPHS
from udtw.skeleton.datasets import load_skeletons, loading, prepare, protocol
from udtw.skeleton.datasets.class_splits import ClassSplit
from udtw.skeleton.datasets.loading import DATASETS, find_source
from udtw.skeleton.datasets.protocols import class_split

FILE = "a1_s1_t1_skeleton.mat"


@pytest.mark.parametrize("below", [".", "utd-mhad", "skeleton/utd-mhad"])
def test_the_folder_or_one_above_it(tmp_path, below, monkeypatch):
    (tmp_path / below).mkdir(parents=True, exist_ok=True)
    (tmp_path / below / FILE).write_bytes(mat_bytes())
    assert len(load_skeletons("utd-mhad", tmp_path)) == 1
    monkeypatch.setenv("UDTW_DATA", str(tmp_path))
    assert len(load_skeletons("utd-mhad")) == 1


def test_the_prepared_form_comes_first(tmp_path):
    (tmp_path / FILE).write_bytes(mat_bytes())
    original = load_skeletons("utd-mhad", tmp_path)
    prepare(find_source("utd-mhad", tmp_path), tmp_path / "utd-mhad")
    (tmp_path / FILE).unlink()
    assert same(load_skeletons("utd-mhad", tmp_path)[0], original[0])
    with pytest.raises(DataError, match="holds the prepared data set 'utd-mhad', not 'ntu60'"):
        load_skeletons("ntu60", tmp_path / "utd-mhad")


def test_originals_that_are_too_large_must_be_prepared(tmp_path, monkeypatch):
    (tmp_path / FILE).write_bytes(mat_bytes())
    monkeypatch.setattr(loading, "MAX_IN_MEMORY", 10)
    with pytest.raises(SizeError, match="too much to read into memory") as caught:
        load_skeletons("utd-mhad", tmp_path)
    assert f"udtw skeleton prepare utd-mhad --data-dir {tmp_path} --out DIR" in str(caught.value)


def test_wrong_names_and_options(tmp_path, monkeypatch):
    monkeypatch.delenv("UDTW_DATA", raising=False)
    with pytest.raises(OptionError, match=r"no skeleton data set 'ntu'; choose one of ntu60"):
        load_skeletons("ntu", tmp_path)
    with pytest.raises(OptionError, match="on_error must be one of"):
        load_skeletons("utd-mhad", tmp_path, on_error="warn")
    with pytest.raises(OptionError, match="ignore is a list of samples of NTU"):
        load_skeletons("utd-mhad", tmp_path, ignore="x.txt")
    with pytest.raises(OptionError, match="is generated"):
        find_source("synthetic", tmp_path)
    with pytest.raises(DataError, match="UDTW_DATA"):
        load_skeletons("utd-mhad")
    with pytest.raises(DataError, match="does not exist"):
        load_skeletons("utd-mhad", tmp_path / "none")


def test_only_broken_files_are_an_error(tmp_path):
    (tmp_path / FILE).write_bytes(b"")
    with pytest.raises(DataError, match=r"none of the 1 clips could be read. The first: .*a1_s1_t1"):
        load_skeletons("utd-mhad", tmp_path, on_error="skip")


def test_a_progress_bar_goes_to_standard_error(tmp_path, capsys):
    (tmp_path / FILE).write_bytes(mat_bytes())
    load_skeletons("utd-mhad", tmp_path, progress=True)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "reading utd-mhad" in shown.err


DOCS = Path(__file__).parents[3] / "docs/skeleton-data.md"


@pytest.mark.parametrize("name", DATASETS)
def test_every_data_set_has_a_layout_of_joints_a_source_and_a_row_in_the_documentation(name):
    dataset = DATASETS[name]
    assert dataset.graph in GRAPHS or name == "folder"
    assert (dataset.find is None) != (dataset.make is None)
    rows = [line for line in DOCS.read_text().splitlines() if line.startswith("|") and f"`{name}`" in line]
    assert any(f"`{dataset.graph}`" in row for row in rows) or name == "folder"
    assert len(rows) == 2  # files, protocol


def test_a_new_entry_is_loaded_and_split_by_its_name(tmp_path, monkeypatch):
    def find(folder):
        return replace(source(many(6)), name="toy")

    entry = loading.Dataset("none", "kinect20", lambda n: ClassSplit((0, 1), (), (2,)), find)
    monkeypatch.setitem(DATASETS, "toy", entry)
    skeletons = load_skeletons("toy", tmp_path)
    assert len(skeletons) == 6
    assert class_split(skeletons).novel == (2,)
    assert set(skeletons.labels[protocol(skeletons).novel]) == {2}
