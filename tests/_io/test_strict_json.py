"""JSON from untrusted files: the value, or a ValueError."""

import pytest

from udtw._io.strict_json import loads


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
        ('{"a": 1, "a": 2}', "the key 'a' is there twice"),
        ('[{"b": {"x": 1, "y": 2, "x": 1}}]', "the key 'x' is there twice"),
    ],
)
def test_damage_is_a_value_error(text, said):
    with pytest.raises(ValueError, match=said):
        loads(text)
