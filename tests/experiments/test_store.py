"""`Store`: results are complete, and damaged files are named."""

import json
import math

import numpy as np
import pytest
import torch

from experiments import Store, Unit
from experiments.store import exclusive
from udtw.errors import StoreBusyError, StoreError

UNIT = Unit("toy", "A", "dtw", 0, {"gamma": 0.5})


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "results")


def test_a_result_is_there_after_it_was_written_and_not_before(store):
    assert not store.has(UNIT)
    assert store.results() == []
    store.write(UNIT, {"accuracy": 0.1, "steps": [1, 2], "note": None, "ok": True})
    assert store.has(UNIT)
    assert store.read(UNIT) == {"accuracy": 0.1, "steps": [1, 2], "note": None, "ok": True}
    assert Store(store.folder).results() == [(UNIT, store.read(UNIT))]


def test_reading_what_is_not_there_says_so(store):
    with pytest.raises(StoreError, match="has no result of Unit"):
        store.read(UNIT)


def test_results_come_in_one_order_however_they_were_written(store, tmp_path):
    units = [Unit("toy", d, m, s, {"k": k}) for d in "BA" for m in ("z", "y") for s in (10, 9) for k in (2, 1)]
    other = Store(tmp_path / "other")
    for unit in units:
        store.write(unit, {"key": unit.key})
    for unit in reversed(units):
        other.write(unit, {"key": unit.key})
    assert store.results() == other.results()
    assert [unit for unit, _ in store.results()] == sorted(units)


def test_not_a_number_and_infinity_are_kept_in_valid_json(store):
    store.write(UNIT, {"loss": [float("nan"), float("inf"), -math.inf, 1.0]})
    nan, *rest = store.read(UNIT)["loss"]
    assert math.isnan(nan)
    assert rest == [math.inf, -math.inf, 1.0]
    json.loads(store.path(UNIT).read_text(), parse_constant=pytest.fail)


def test_numbers_of_numpy_and_torch_become_plain_ones(store):
    store.write(UNIT, {"a": np.float32(0.5), "b": np.arange(3), "c": torch.tensor([[1.5]]), "d": np.bool_(True)})
    assert store.read(UNIT) == {"a": 0.5, "b": [0, 1, 2], "c": [[1.5]], "d": True}


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ({"a": {"b": [object()]}}, r"result\.a\.b\[0\] is a object"),
        ({"a": {1: 2}}, r"result\.a has the key 1"),
        ({"$float": "nan"}, r"has the key '\$float'"),
        ([1], "must be a dict"),
        (None, "must be a dict"),
    ],
)
def test_a_result_that_json_cannot_keep_is_refused_and_leaves_nothing(store, result, message):
    with pytest.raises(StoreError, match=message):
        store.write(UNIT, result)
    assert not store.has(UNIT)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"{}", b'{"unit": 3, "result": {}}', b"\xff\xfe", b'{"unit": {"seed": 1}, "result": {}}'],
)
def test_a_damaged_file_is_named(store, content):
    store.write(UNIT, {})
    store.path(UNIT).write_bytes(content)
    for read in (store.results, lambda: store.read(UNIT)):
        with pytest.raises(StoreError, match=rf"{UNIT.key}\.json is damaged.*Remove the file"):
            read()


def test_a_foreign_or_renamed_file_is_named(store):
    store.write(UNIT, {})
    (store.folder / "copy.json").write_bytes(store.path(UNIT).read_bytes())
    with pytest.raises(StoreError, match=r"copy\.json is damaged, or not a result"):
        store.results()


def test_leftovers_of_killed_runs_are_no_results_and_can_be_removed(store):
    store.write(UNIT, {"a": 1})
    (store.folder / f".{UNIT.key}.json.0123.tmp").write_text('{"unit"')
    assert len(store.results()) == 1
    assert store.clean_leftovers() == 1
    assert [path.name for path in store.folder.iterdir()] == [f"{UNIT.key}.json"]
    assert Store(store.folder / "absent").clean_leftovers() == 0


def test_a_write_that_fails_leaves_no_trace(store, monkeypatch):
    store.write(UNIT, {"a": 1})
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        store.write(UNIT, {"a": 2})
    assert store.read(UNIT) == {"a": 1}
    assert store.clean_leftovers() == 0


def test_only_one_run_at_a_time_holds_a_folder(tmp_path):
    with exclusive(tmp_path):
        second = exclusive(tmp_path)
        with pytest.raises(StoreBusyError, match=r"in use by another run \(process \d+\)"):
            second.__enter__()
    with exclusive(tmp_path):
        pass
