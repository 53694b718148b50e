"""Files made to do harm: nothing in them is run, nothing is written because of them, and each is refused by name.

Archives are in `tests/images/datasets/test_archives.py`; what is common to all readers is here.
"""

import hashlib
import io
import json
import pickle
import stat
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from experiments import Store, Unit
from udtw._io.checkpoint import read_checkpoint
from udtw.cli.files import read_series
from udtw.data import load_ucr
from udtw.errors import DataError, UdtwError
from udtw.images import ImageRecognizer, open_tokens
from udtw.images.backbones.hugging_face import read_processing
from udtw.images.backbones.onnx import OnnxBackbone
from udtw.images.datasets.class_splits import read_split_file
from udtw.images.datasets.folders import open_folder
from udtw.images.tokens.token_set import TokenShard
from udtw.skeleton import ActionRecognizer
from udtw.skeleton.datasets import load_skeletons, open_prepared
from udtw.skeleton.datasets.kinetics import read_clip, read_lifted
from udtw.skeleton.datasets.numbered_sets import read_mat
from udtw.skeleton.datasets.store import ClipShard
from udtw.timeseries import SequenceForecaster


class Touch:
    """Writes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def pickles(harm):
    """Payloads by name, each of which runs `Touch` in a reader that unpickles."""
    torch_file, array, arrays = io.BytesIO(), io.BytesIO(), io.BytesIO()
    torch.save({"weights": harm}, torch_file)
    np.save(array, np.array([harm], dtype=object), allow_pickle=True)
    members = {f"{part}_{key}": np.array([harm], dtype=object) for part in ("train", "test") for key in ("values",)}
    np.savez(arrays, frames=np.array([harm], dtype=object), **members)
    return {
        "pickle": pickle.dumps(harm),
        "text pickle": pickle.dumps(harm, protocol=0),
        "torch": torch_file.getvalue(),
        "npy": array.getvalue(),
        "npz": arrays.getvalue(),
    }


def in_file(name, load):
    def read(folder, content):
        (folder / name).write_bytes(content)
        return load(folder / name)

    return read


def shard(kind):
    def read(folder, content):
        path = folder / f"shard-00000-{hashlib.sha256(content).hexdigest()}.safetensors"
        path.write_bytes(content)
        return kind(path)

    return read


def forecaster(folder, content):
    name = f"weights-{hashlib.sha256(content).hexdigest()}.safetensors"
    (folder / name).write_bytes(content)
    (folder / "config.json").write_text(
        json.dumps({"format": "udtw.SequenceForecaster", "version": 1, "weights": name})
    )
    return SequenceForecaster.load(folder)


READERS = {
    "series": in_file("a.npy", read_series),
    "table": in_file("a.csv", read_series),
    "cache": in_file("Toy.npz", lambda path: load_ucr("Toy", path.parent)),
    "lifted skeletons": lambda folder, content: read_lifted(content, "x.npz"),
    "MATLAB": lambda folder, content: read_mat(content, "x.mat"),
    "checkpoint": in_file("a.safetensors", read_checkpoint),
    "action recognizer": in_file("a.safetensors", ActionRecognizer.load),
    "image recognizer": in_file("a.pt", ImageRecognizer.load),
    "forecaster": forecaster,
    "shard of skeletons": shard(ClipShard),
    "shard of tokens": shard(TokenShard),
    "ONNX": in_file("a.onnx", OnnxBackbone),
    "result": in_file("a.json", lambda path: Store(path.parent).results()),
}


@pytest.mark.parametrize("payload", ["pickle", "text pickle", "torch", "npy", "npz"])
@pytest.mark.parametrize("reader", READERS)
def test_pickles_are_refused_and_not_run(tmp_path, reader, payload):
    harmed = tmp_path / "harmed"
    content = pickles(Touch(harmed))[payload]
    (tmp_path / "files").mkdir()
    with pytest.raises(UdtwError):
        READERS[reader](tmp_path / "files", content)
    assert not harmed.exists()


def test_the_payload_would_have_worked(tmp_path):
    content = pickles(Touch(tmp_path / "harmed"))
    with np.load(io.BytesIO(content["npz"]), allow_pickle=True) as arrays:
        arrays["frames"]
    assert (tmp_path / "harmed").exists()


JSON_READERS = {
    "OpenPose": lambda folder, content: read_clip(content, "x.json"),
    "split": in_file("split.json", read_split_file),
    "processor": in_file("preprocessor_config.json", lambda path: read_processing(path.parent)),
    "result": in_file("a.json", lambda path: Store(path.parent).results()),
    "forecaster": in_file("config.json", lambda path: SequenceForecaster.load(path.parent)),
    "skeletons": in_file("manifest.json", lambda path: open_prepared(path.parent)),
    "tokens": in_file("manifest.json", lambda path: open_tokens(path.parent)),
}
BOMBS = {
    "deep lists": b"[" * 200_000,
    "deep objects": b'{"a":' * 200_000 + b"1" + b"}" * 200_000,
    "a number of a million digits": b'{"data": ' + b"9" * 1_000_000 + b"}",
    "a key twice": b'{"format": "udtw.TokenSet", "train": ["a"], "train": ["b"], "data": []}',
    "half a character": b'{"\xd8": 1}',
}


@pytest.mark.parametrize("bomb", BOMBS)
@pytest.mark.parametrize("reader", JSON_READERS)
def test_json_bombs_are_refused(tmp_path, reader, bomb):
    with pytest.raises(UdtwError):
        JSON_READERS[reader](tmp_path, BOMBS[bomb])


def test_a_result_with_a_key_twice_is_refused(tmp_path):
    unit = Unit("ucr", "Toy", "udtw", 0)
    store = Store(tmp_path)
    store.write(unit, {"accuracy": 0.5})
    path = store.path(unit)
    path.write_text(path.read_text().replace('"accuracy": 0.5', '"accuracy": 0.5, "accuracy": 0.9'))
    with pytest.raises(UdtwError, match="duplicate key 'accuracy'"):
        store.results()


def zip_file(path, *members):
    with zipfile.ZipFile(path, "w") as archive:
        for name, mode in members:
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            archive.writestr(info, b"content")
    return path


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFCHR, stat.S_IFBLK, stat.S_IFIFO, stat.S_IFSOCK])
def test_links_devices_and_pipes_in_zip_files_are_refused(tmp_path, kind):
    with pytest.raises(DataError, match="is a link or a device"):
        open_folder(zip_file(tmp_path / "x.zip", ("a.png", kind | 0o777))).files()


def test_archives_write_only_into_the_cache(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UDTW_CACHE", str(tmp_path / "cache"))
    members = zip_file(tmp_path / "x.zip", ("cat/NUL.png", 0), ("cat/con.png", 0o4777), ("aux/COM1.png", 0))
    folder = open_folder(members)
    assert [folder.read(name) for name in folder.files()] == [b"content"] * 3
    assert {path.name for path in tmp_path.iterdir()} == {"x.zip", "cache"}
    files = [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert not any(path.stat().st_mode & 0o7111 for path in files)  # plain files, which cannot be executed


def test_clips_in_a_zip_file_are_taken_by_their_own_names_and_once(tmp_path):
    name = "a1_s1_t1_skeleton.mat"
    zip_file(tmp_path / "x.zip", (f"../../{name}", 0))
    with pytest.raises(DataError, match=r"is not a \.mat file"):
        load_skeletons("utd-mhad", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["x.zip"]
    zip_file(tmp_path / "x.zip", (f"a/{name}", 0), (f"b/{name}", 0))
    with pytest.raises(DataError, match=f"it holds {name} twice"):
        load_skeletons("utd-mhad", tmp_path)
