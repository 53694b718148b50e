"""`Unit`: equality, keys and checks of its fields."""

import dataclasses
import pickle
import re

import numpy as np
import pytest

from experiments import Unit
from udtw.errors import OptionError, StoreError

UNIT = Unit("ucr", "GunPoint", "udtw", 3, {"gamma": 0.1, "beta": [1, {"a": None}], "name": "ß"})


def test_options_give_the_parameters_back():
    assert UNIT.options == {"beta": [1, {"a": None}], "gamma": 0.1, "name": "ß"}
    assert Unit("a", "b", "c", 0).options == {}


def test_equal_units_are_one_in_a_set_whatever_the_order_of_parameters():
    same = Unit("ucr", "GunPoint", "udtw", 3, {"name": "ß", "beta": (1, {"a": None}), "gamma": np.float64(0.1)})
    assert {UNIT, same} == {UNIT}
    assert UNIT.key == same.key


def test_it_survives_its_fields_pickle_and_replace():
    assert Unit(**UNIT.fields) == UNIT
    assert pickle.loads(pickle.dumps(UNIT)) == UNIT
    assert dataclasses.replace(UNIT, seed=4).options == UNIT.options


@pytest.mark.parametrize(
    "other",
    [{"experiment": "x"}, {"dataset": "gunpoint"}, {"method": "dtw"}, {"seed": 4}, {"params": {"gamma": 0.1}}],
)
def test_every_field_changes_the_key(other):
    assert dataclasses.replace(UNIT, **other).key != UNIT.key


def test_one_true_and_one_point_zero_are_three_parameters():
    units = [Unit("e", "d", "m", 0, {"k": k}) for k in (1, True, 1.0)]
    assert len(set(units)) == len({unit.key for unit in units}) == 3


def test_the_key_is_the_same_on_every_machine():
    assert UNIT.key == "ucr-GunPoint-udtw-s3-a0b9731f76e86aef"


@pytest.mark.parametrize("name", ["../../etc", "a/b\\c", "x" * 500, "...", "nul\0", "a b\n", "γ", "CON:"])
def test_any_name_makes_a_safe_key(name):
    key = Unit(name, name, name, -1, {name: name}).key
    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{1,180}", key)


@pytest.mark.parametrize("change", [{"experiment": ""}, {"dataset": 3}, {"seed": 1.0}, {"seed": True}])
def test_fields_of_the_wrong_kind_are_refused(change):
    with pytest.raises(OptionError, match=f"{next(iter(change))} must be"):
        dataclasses.replace(UNIT, **change)


@pytest.mark.parametrize("params", [[1], "abc", (1, 2), {"a": float("nan")}, {"a": [float("inf")]}])
def test_parameters_must_be_a_dict_of_finite_values(params):
    with pytest.raises(OptionError, match="params must be"):
        Unit("e", "d", "m", 0, params)


@pytest.mark.parametrize("params", [{1: 2}, {"a": object()}, {"a": {2: 3}}])
def test_parameters_that_json_cannot_keep_are_refused(params):
    with pytest.raises(StoreError, match="params"):
        Unit("e", "d", "m", 0, params)
