"""JSON from untrusted files: the value, or a ValueError."""

import json

import pytest

from udtw._io.strict_json import loads, read_versioned
from udtw.errors import FileFormatError


def test_json_is_read():
    assert loads(b'{"a": [1, {"b": null}], "c": "d"}') == {"a": [1, {"b": None}], "c": "d"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "Expecting"),
        (b"\xff\xff", "decode"),
        ("[" * 100_000, "too deep"),
        ('{"a":' * 100_000, "too deep"),
        ("9" * 5000, "digits"),
        ('{"a": 1, "a": 2}', "duplicate key 'a'"),
        ('[{"b": {"x": 1, "y": 2, "x": 1}}]', "duplicate key 'x'"),
    ],
)
def test_damage_is_a_value_error(text, said):
    with pytest.raises(ValueError, match=said):
        loads(text)


def test_the_object_comes_back(tmp_path):
    content = {"format": "udtw.Thing", "version": 2, "more": [1, 2]}
    (tmp_path / "thing.json").write_text(json.dumps(content))
    assert read_versioned(tmp_path / "thing.json", "udtw.Thing", 2, "a thing") == content


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "holds no thing.json, so it is not a thing"),
        ("{", "damaged or not JSON"),
        ("[" * 100_000, "damaged or not JSON"),
        ("[]", "does not describe a udtw.Thing"),
        ('{"format": "other", "version": 2}', "does not describe a udtw.Thing"),
        ('{"format": "udtw.Thing", "version": 3}', "has version 3; this udtw reads version 2"),
    ],
)
def test_other_files_are_refused(tmp_path, text, said):
    if text is not None:
        (tmp_path / "thing.json").write_text(text)
    with pytest.raises(FileFormatError, match=said):
        read_versioned(tmp_path / "thing.json", "udtw.Thing", 2, "a thing")
