"""Zip files: members in memory, and one kind of error whatever zipfile raises."""

import random

import pytest

from tests.skeleton.datasets.clips import zip_bytes
from udtw._io.zip_members import ArchiveError, open_zip, read_member

WHOLE = zip_bytes({"one": b"1" * 500, "folder/two": b"2"})


def test_members():
    archive = open_zip(WHOLE)
    assert read_member(archive, "one", 500) == b"1" * 500
    assert read_member(archive, archive.infolist()[1], 500) == b"2"


def test_a_member_may_not_be_larger_than_allowed():
    with pytest.raises(ArchiveError, match="more than 499 bytes"):
        read_member(open_zip(WHOLE), "one", 499)
    with pytest.raises(ArchiveError, match="three"):
        read_member(open_zip(WHOLE), "three", 499)


def test_mutated_archives_give_members_or_that_error():
    rng = random.Random(0)
    outcomes = set()
    for _ in range(3000):
        content = bytearray(WHOLE)
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(content))
            content[at : at + rng.choice([0, 1, 1, 1, 4, 9])] = bytes([rng.choice([0, 255, rng.randrange(256)])])
        try:
            archive = open_zip(bytes(content))
            outcomes |= {type(read_member(archive, info, 1000)) for info in archive.infolist()}
        except ArchiveError as error:
            outcomes.add(type(error))
    assert outcomes == {bytes, ArchiveError}
