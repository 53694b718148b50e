"""The `.npz` cache: exact round trip, and other files are refused."""

import zipfile

import numpy as np
import pytest

from udtw.data import LabelledSeries, UCRData, load_ucr, save_npz
from udtw.errors import DataError

RNG = np.random.default_rng(0)


def ragged(*lengths, features=()):
    return [RNG.standard_normal((n, *features)) for n in lengths]


SETS = {
    "univariate": (RNG.standard_normal((4, 7)), RNG.standard_normal((2, 7))),
    "multivariate": (RNG.standard_normal((4, 7, 3)), RNG.standard_normal((2, 7, 3))),
    "ragged": (ragged(3, 5, 1, 4), ragged(2, 6)),
    "ragged multivariate": (ragged(3, 5, 1, 4, features=(2,)), ragged(2, 2, features=(2,))),
    "missing values": (np.where(RNG.random((4, 7)) < 0.3, np.nan, 1.0), RNG.standard_normal((2, 7))),
}


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("labels", [[1, 2, 1, -3], ["a", "ß", "", "long label"]])
def test_every_kind_of_set_survives_the_round_trip(tmp_path, name, labels):
    train, test = SETS[name]
    y = np.array(labels)
    save_npz(UCRData("Toy", LabelledSeries(train, y), LabelledSeries(test, y[:2])), tmp_path / "Toy.npz")
    data = load_ucr("Toy", tmp_path)
    for found, expected in ((data.train.X, train), (data.test.X, test)):
        for one, other in zip(found, expected, strict=True):
            assert np.array_equal(one, other, equal_nan=True)
    assert isinstance(data.train.X, type(train))
    assert data.train.y.tolist() == labels
    assert data.train.y.dtype == y.dtype


def arrays(**changes):
    part = {"values": np.ones((5, 1)), "lengths": np.array([2, 3]), "labels": np.array([1, 2])}
    whole = {f"{split}_{key}": array for split in ("train", "test") for key, array in part.items()}
    return {**whole, **changes}


@pytest.mark.parametrize(
    "changes",
    [
        {"train_lengths": np.array([2, 4])},
        {"train_lengths": np.array([5, 0])},
        {"train_lengths": np.array([2.0, 3.0])},
        {"train_labels": np.array([1, 2, 3])},
        {"train_labels": np.array([{}, []], dtype=object)},
        {"test_values": np.ones(5)},
        {"test_values": np.array([[1.0], [np.inf], [1.0], [1.0], [1.0]])},
        {"test_values": np.array([["a"]] * 5)},
    ],
    ids=["sum", "empty series", "type of lengths", "number of labels", "pickle", "shape", "infinity", "type of values"],
)
def test_a_foreign_npz_is_refused(tmp_path, changes):
    np.savez(tmp_path / "Toy.npz", **arrays(**changes))
    with pytest.raises(DataError, match=r"Toy.npz is not a cache that udtw wrote, or it is damaged.*Delete it"):
        load_ucr("Toy", tmp_path)


def test_a_truncated_npz_is_refused_at_any_length(tmp_path):
    path = tmp_path / "Toy.npz"
    np.savez(path, **arrays())
    whole = path.read_bytes()
    for length in (0, 1, 10, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(DataError, match=r"Toy.npz"):
            load_ucr("Toy", tmp_path)
    path.write_bytes(whole.replace(b"train_labels", b"other_labels"))
    with pytest.raises(DataError, match=r"Toy.npz"):
        load_ucr("Toy", tmp_path)


def test_a_failed_write_leaves_the_old_cache_and_no_temporary_file(tmp_path, monkeypatch):
    path = tmp_path / "Toy.npz"
    path.write_bytes(b"old")
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    X = np.zeros((1, 3))
    data = UCRData("Toy", LabelledSeries(X, np.array([1])), LabelledSeries(X, np.array([1])))
    with pytest.raises(OSError, match="disk full"):
        save_npz(data, path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("header", [b"{'descr': (((", b"{'shape': (4294967296, 2)"])
def test_a_damaged_header_inside_is_refused(tmp_path, header):
    path = tmp_path / "Toy.npz"
    np.savez(path, **arrays())
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["train_values.npy"] = members["train_values.npy"].replace(b"{'descr': '<f8'"[: len(header)], header, 1)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    with pytest.raises(DataError, match=r"Toy.npz"):
        load_ucr("Toy", tmp_path)


def test_a_file_that_expands_too_much_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("udtw.data.ucr.RATIO_FROM", 2**20)
    np.savez_compressed(tmp_path / "Toy.npz", **arrays(train_values=np.zeros((2**19, 1))))
    with pytest.raises(DataError, match=r"Toy.npz.*more than \d+ bytes"):
        load_ucr("Toy", tmp_path)
