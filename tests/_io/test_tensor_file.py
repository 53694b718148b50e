"""Tensors in a file: exact round trip, and damaged or foreign files are named."""

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from udtw._io.tensor_file import read_tensors, refuse_other_settings, write_tensors
from udtw.errors import FileFormatError, OptionError

TENSORS = {
    "weight": torch.arange(6, dtype=torch.float32).reshape(2, 3),
    "half": torch.ones(3, dtype=torch.bfloat16),
    "flags": torch.tensor([True, False]),
    "step": torch.tensor(7.0),
    "none": torch.zeros(0, 4),
}
ABOUT = {"phases": {"second": 1, "first": 2}, "rate": 0.1}


def written(folder):
    path = folder / "new" / "t.safetensors"
    write_tensors(path, "udtw.test", 3, TENSORS, ABOUT)
    return path


def read(path, about=("phases", "rate")):
    return read_tensors(path, "udtw.test", 3, about, "drawing")


def rewritten(path, tensors=None, **described):
    """The file with other tensors or metadata, as a program that knows nothing of checksums would write it."""
    with safe_open(path, "pt") as file:
        metadata = file.metadata() | described
    save_file(load_file(path) | (tensors or {}), path, {key: value for key, value in metadata.items() if value})


def test_tensors_and_values_come_back_in_order(tmp_path):
    tensors, about = read(written(tmp_path))
    assert tensors.keys() == TENSORS.keys()
    assert all(torch.equal(tensors[name], TENSORS[name]) for name in TENSORS)
    assert {name: tensor.dtype for name, tensor in tensors.items()} == {n: t.dtype for n, t in TENSORS.items()}
    assert about == ABOUT
    assert list(about["phases"]) == ["second", "first"]


def test_tensors_may_share_memory_and_need_a_gradient(tmp_path):
    weight = torch.ones(2, 3, requires_grad=True)
    write_tensors(tmp_path / "t", "udtw.test", 3, {"a": weight, "b": weight.T}, {})
    tensors, _ = read(tmp_path / "t", ())
    assert torch.equal(tensors["a"], tensors["b"].T)


@pytest.mark.parametrize("position", range(-1, -40, -7))
def test_one_changed_bit_is_detected(tmp_path, position):
    path = written(tmp_path)
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match=r"t\.safetensors is damaged.*checksum"):
        read(path)


@pytest.mark.parametrize(
    "change", [{"rate": "0.2"}, {"tensors": {"step": torch.tensor(8.0)}}, {"tensors": {"more": torch.ones(1)}}]
)
def test_content_that_was_not_written_with_its_checksum_is_refused(tmp_path, change):
    path = written(tmp_path)
    rewritten(path, **change)
    with pytest.raises(FileFormatError, match="checksum"):
        read(path)


def test_a_file_of_a_version_without_checksums_is_read(tmp_path):
    path = written(tmp_path)
    rewritten(path, sha256="")
    assert read(path)[1] == ABOUT


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileFormatError, match=r"There is no drawing at .*nothing"):
        read(tmp_path / "nothing")


@pytest.mark.parametrize("content", [b"", b"\x80\x04pickle", b"\xff" * 60])
def test_a_file_of_another_kind_is_named_and_kept(tmp_path, content):
    path = tmp_path / "t.safetensors"
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match=r"t\.safetensors cannot be read as a drawing"):
        read(path)
    assert path.read_bytes() == content


@pytest.mark.parametrize("other", [{"format": "udtw.other"}, {"version": "4"}, {"version": ""}])
def test_another_format_or_version_is_refused(tmp_path, other):
    path = written(tmp_path)
    rewritten(path, **other)
    with pytest.raises(FileFormatError, match=r"is not a drawing of udtw\.test, version 3"):
        read(path)


@pytest.mark.parametrize("text", ["", "{", '{"a": 1, "a": 2}', "[" * 100_000])
def test_damaged_json_is_named(tmp_path, text):
    path = written(tmp_path)
    rewritten(path, sha256="", phases=text)
    with pytest.raises(FileFormatError, match="damaged JSON"):
        read(path)


def test_the_same_settings_are_accepted_as_json_gives_them():
    refuse_other_settings("f", {"size": [2, 3], "gamma": 0.1}, {"gamma": 0.1, "size": (2, 3)})


@pytest.mark.parametrize("saved", [{"gamma": 0.2}, {}, {"gamma": 0.1, "beta": None}])
def test_other_settings_are_refused_by_name(saved):
    with pytest.raises(OptionError, match=r"other settings or data \((gamma|beta)\)"):
        refuse_other_settings("f", saved, {"gamma": 0.1})


def test_settings_of_another_kind_are_damage():
    with pytest.raises(FileFormatError, match="not a dictionary"):
        refuse_other_settings("f", [1], {"gamma": 0.1})
