"""Damage: always some, the same for the same seed, and of the kinds that parsers stumble over."""

import json
import random

import pytest
from hardening.mutations import BINARY, JSON, KINDS, TEXT, change_json, mutated, replace_number

CONTENT = {
    "binary": bytes(range(200)),
    "text": b"1\t0.5\t-1.25\nlabel 2\n",
    "json": json.dumps({"a": [1, 2.5, {"b": None}], "c": "d"}).encode(),
}


@pytest.mark.parametrize("kind", KINDS)
def test_content_is_always_changed_and_by_the_seed_alone(kind):
    found = [mutated(CONTENT[kind], kind, random.Random(seed)) for seed in range(300)]
    assert CONTENT[kind] not in found
    assert found == [mutated(CONTENT[kind], kind, random.Random(seed)) for seed in range(300)]
    assert len(set(found)) > 200


@pytest.mark.parametrize("content", [b"", b"x", b"\n", b"{}", b"[]"])
@pytest.mark.parametrize("mutator", sorted({*BINARY, *TEXT, *JSON}, key=lambda one: one.__name__))
def test_every_mutator_survives_any_content(mutator, content):
    for seed in range(50):
        assert isinstance(mutator(content, random.Random(seed)), bytes)


def test_numbers_become_trouble():
    found = {replace_number(b"a 1.5 b", random.Random(seed)) for seed in range(300)}
    assert {b"a nan b", b"a 1e999 b", b"a -1 b", b"a  b"} <= found


def test_json_stays_json_and_changes_its_shape():
    found = [change_json(CONTENT["json"], random.Random(seed)) for seed in range(300)]
    values = [json.loads(one) for one in found]
    assert any("c" not in value for value in values)
    assert any(not isinstance(value.get("a"), list) for value in values)
    assert any(b"NaN" in one for one in found)
