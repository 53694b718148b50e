import json

import pytest

from udtw._io.versioned_json import read_versioned
from udtw.errors import FileFormatError


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
