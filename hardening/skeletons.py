"""Files of skeletons: NTU RGB+D, Kinetics (OpenPose), UTD-MHAD, NATOPS, and the prepared form of all of them."""

import hashlib
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from hardening.parsers import Parser, Read, Seed, demand, mat_seeds, put, reader, safetensors_seeds, zip_of, zip_seeds

JOINT = " 277.4 191.8 1026.4 514.1 -0.2 0.05 0.98 0.02 2"


def _check_set(skeletons: Any) -> None:
    for clip in skeletons:
        _check_clip(clip)
        demand(0 <= clip.label < len(skeletons.classes), "a label that is no class")


def _load(name: str, folder: Path, **options: Any) -> Callable[[], Any]:
    from udtw.skeleton.datasets import load_skeletons

    return lambda: load_skeletons(name, folder, **options)


def _clip_reader(name: str, folder: Path) -> Read:
    """Read clips as `load_skeletons` does, but search the folder once."""
    from udtw.skeleton.datasets.loading import find_source

    source = find_source(name, folder)
    return reader(folder, lambda: source.clip(0), _check_clip)


def _check_clip(clip: Any) -> None:
    demand(not np.isinf(clip.frames).any(), "an infinite coordinate")  # a Clip checks its own shape and type


def _ntu_text(n_frames: int, bodies: tuple[str, ...], rng: np.random.Generator) -> bytes:
    lines = [str(n_frames)]
    for frame in range(n_frames):
        seen = bodies if frame else bodies[:1]
        lines.append(str(len(seen)))
        for body in seen:
            lines += [f"{body} 0 1 1 0 0 0 0.01 -0.02 2", "25"]
            points = rng.normal([0, 0, 3], [0.2, 0.6, 0.2], (25, 3)).round(3)
            lines += [" ".join(f"{value:g}" for value in point) + JOINT for point in points]
    return ("\n".join(lines) + "\n").encode()


def _ntu(folder: Path) -> tuple[list[Seed], Read]:
    rng = np.random.default_rng(0)
    file = "S001C002P003R002A059.skeleton"
    contents = [_ntu_text(1, ("7",), rng), _ntu_text(2, ("7", "8"), rng), _ntu_text(12, ("7",), rng)]
    put(folder / file, contents[0])
    return [Seed(content, "text", file) for content in contents], _clip_reader("ntu60", folder)


def _ntu_ignore(folder: Path) -> tuple[list[Seed], Read]:
    rng = np.random.default_rng(0)
    for name in ("S001C001P001R001A001", "S001C001P001R001A002"):
        put(folder / "data" / f"{name}.skeleton", _ntu_text(1, ("7",), rng))
    listed = b"Samples with missing skeletons\n\nS001C001P001R001A001\nS001C002P005R002A008.skeleton\r\n"
    put(folder / "missing.txt", listed)
    load = _load("ntu60", folder / "data", ignore=folder / "missing.txt")
    return [Seed(listed, "text", "missing.txt")], reader(folder, load, _check_set)


def _person(rng: np.random.Generator) -> dict[str, Any]:
    return {"pose": rng.uniform(0.1, 0.9, 36).round(3).tolist(), "score": rng.uniform(0, 1, 18).round(2).tolist()}


def _kinetics_files(folder: Path) -> dict[str, bytes]:
    rng = np.random.default_rng(0)
    data = [{"frame_index": 1, "skeleton": [_person(rng)]}, {"frame_index": 2, "skeleton": []}]
    known = {"label": "archery", "label_index": 1}
    files = {
        "kinetics_train/clip.json": json.dumps({"data": data, **known}).encode(),
        "kinetics_train_label.json": json.dumps({"clip": {"has_skeleton": True, **known}, "gone": known}).encode(),
    }
    for name, content in files.items():
        put(folder / name, content)
    return files


def _kinetics(damaged: str) -> Callable[[Path], tuple[list[Seed], Read]]:
    def prepare(folder: Path) -> tuple[list[Seed], Read]:
        files = _kinetics_files(folder)
        of_clip = damaged.endswith("clip.json")
        read = _clip_reader("kinetics", folder) if of_clip else reader(folder, _load("kinetics", folder), _check_set)
        return [Seed(files[damaged], kind, damaged) for kind in ("json", "json", "text")], read

    return prepare


def _kinetics_3d(folder: Path) -> tuple[list[Seed], Read]:
    _kinetics_files(folder)
    buffer = io.BytesIO()
    np.save(buffer, np.zeros((2, 1, 18, 3), np.float32))
    members = {"frames.npy": buffer.getvalue()}
    file = "kinetics_train/clip.npz"
    put(folder / file, zip_of(members))
    return zip_seeds(members, file, ["frames.npy"]), _clip_reader("kinetics-3d", folder)


def _mat() -> bytes:
    from scipy.io import savemat

    buffer = io.BytesIO()
    savemat(buffer, {"d_skel": np.random.default_rng(0).normal(size=(20, 3, 2)).round(3)})
    return buffer.getvalue()


def _utd_mat(folder: Path) -> tuple[list[Seed], Read]:
    file = "a1_s1_t1_skeleton.mat"
    put(folder / file, _mat())
    return mat_seeds(_mat(), file), _clip_reader("utd-mhad", folder)


def _utd_zip(folder: Path) -> tuple[list[Seed], Read]:
    members = {f"Skeleton/a{action}_s1_t1_skeleton.mat": _mat() for action in (1, 2)}
    read = reader(folder, _load("utd-mhad", folder), _check_set)
    return zip_seeds(members, "Skeleton.zip", list(members)[:1]), read


def _natops(folder: Path) -> tuple[list[Seed], Read]:
    channels = ":".join(",".join(str(round(0.1 * c + t, 2)) for t in range(2)) for c in range(24))
    text = (
        f"@univariate false\n@dimensions 24\n@classLabel true 1 2 3 4 5 6\n@data\n{channels}:1\n{channels}:6\n".encode()
    )
    for split in ("TRAIN", "TEST"):
        put(folder / f"NATOPS_{split}.ts", text)
    return [Seed(text, "text", "NATOPS_TRAIN.ts")], reader(folder, _load("natops", folder), _check_set)


def prepared_folder(folder: Path) -> tuple[bytes, str]:
    """Prepare a data set of three clips; return its manifest and the name of its only shard."""
    from udtw.skeleton.datasets import prepare
    from udtw.skeleton.datasets.skeleton_set import Entry, Source

    clips = [np.random.default_rng(i).normal(size=(2, 1 + i % 2, 20, 3)).astype(np.float32) for i in range(3)]
    entries = tuple(Entry(f"clip {i}", i % 2, subject=i) for i in range(3))
    prepare(Source("utd-mhad", "kinect20", ("a", "b"), entries, clips.__getitem__), folder)
    return (folder / "manifest.json").read_bytes(), next(folder.glob("shard-*")).name


def _manifest(folder: Path) -> tuple[list[Seed], Read]:
    manifest, _ = prepared_folder(folder)
    read = reader(folder, _load("utd-mhad", folder), _check_set)
    return [Seed(manifest, kind, "manifest.json") for kind in ("json", "json", "text")], read


def shard_reader(folder: Path, manifest: bytes, shard: str, load: Callable[[], None]) -> Read:
    """Write a damaged shard under its new checksum, and a manifest that names it."""

    def read(file: str, content: bytes) -> None:
        name = f"shard-00000-{hashlib.sha256(content).hexdigest()}.safetensors"
        put(folder / name, content)
        put(folder / "manifest.json", manifest.replace(shard.encode(), name.encode()))
        try:
            load()
        finally:
            (folder / name).unlink()

    return read


def _shard(folder: Path) -> tuple[list[Seed], Read]:
    from udtw.skeleton.datasets.store import ClipShard

    manifest, shard = prepared_folder(folder)
    content = (folder / shard).read_bytes()
    load_set = _load("utd-mhad", folder)

    def load() -> None:
        _check_set(load_set())
        contents = ClipShard(next(folder.glob("shard-00000-*"))).contents  # what `prepare` reads of a finished shard
        demand(len(contents.names) == len(contents.columns["labels"]), "a label for each name")

    (folder / shard).unlink()
    return safetensors_seeds(content, shard, ["clips"]), shard_reader(folder, manifest, shard, load)


PARSERS = [
    Parser("ntu", '`load_skeletons("ntu60")`, .skeleton', _ntu),
    Parser("ntu-ignore", "`--ignore` list of NTU samples", _ntu_ignore),
    Parser("kinetics-json", '`load_skeletons("kinetics")`, OpenPose JSON', _kinetics("kinetics_train/clip.json")),
    Parser("kinetics-labels", '`load_skeletons("kinetics")`, label lists', _kinetics("kinetics_train_label.json")),
    Parser("kinetics-3d", '`load_skeletons("kinetics-3d")`, .npz', _kinetics_3d),
    Parser("utd-mat", '`load_skeletons("utd-mhad")`, .mat', _utd_mat),
    Parser("utd-zip", '`load_skeletons("utd-mhad")`, .zip of .mat', _utd_zip),
    Parser("natops", '`load_skeletons("natops")`, .ts of 24 channels', _natops),
    Parser("skeleton-manifest", "`open_prepared`, manifest.json", _manifest),
    Parser("skeleton-shard", "`open_prepared`, shards with a right checksum", _shard),
]
