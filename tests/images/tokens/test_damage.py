"""Damaged, foreign or out-of-range input is named, and only its shard is written again."""

import hashlib
import json
import random

import numpy as np
import pytest
import torch

pytest.importorskip("safetensors")
pytest.importorskip("PIL")
pytest.importorskip("kornia")
from safetensors.numpy import save

from tests.images.tokens.fakes import IMAGES, OPTIONS, Backbone, Images, expected, files, shards
from tests.skeleton.datasets.clips import many, outcome, source
from udtw._io.shard_store import MANIFEST
from udtw.errors import DataError, FileFormatError, NonFiniteError, RangeError, UdtwError
from udtw.images.tokens import embed, open_tokens
from udtw.images.tokens.token_set import TokenShard
from udtw.skeleton.datasets import prepare


def test_broken_images_are_refused_or_skipped(tmp_path):
    broken = IMAGES.changed({4: b"no image", 7: None})
    with pytest.raises(DataError, match=r"toy: the image '1/7.png' cannot be read: 1/7.png is not there"):
        embed(broken, Backbone(), tmp_path, images_per_shard=3)
    damaged = IMAGES.changed({4: b"no image"})
    with pytest.raises(DataError, match=r"toy: the image '1/4.png' cannot be read: 1/4.png is damaged"):
        embed(damaged, Backbone(), tmp_path, images_per_shard=3)
    assert len(shards(tmp_path)) == 1
    done = embed(broken, Backbone(), tmp_path, images_per_shard=3, on_error="skip")
    assert (done.images, done.kept, [one.name for one in done.skipped]) == (8, 1, ["1/4.png", "1/7.png"])
    tokens = open_tokens(tmp_path)
    kept = [0, 1, 2, 3, 5, 6, 8, 9]
    assert tokens.skipped == done.skipped
    assert tokens.labels.tolist() == [i % 3 for i in kept]
    assert torch.equal(tokens.tokens(range(8)), expected(IMAGES, kept).tokens.half().float())
    embed(damaged, Backbone(), tmp_path, images_per_shard=3, on_error="skip")
    with pytest.raises(DataError, match=r"'1/4.png' cannot be read"):
        embed(damaged, Backbone(stop=0), tmp_path, images_per_shard=3)


def test_a_shard_of_broken_images_only(tmp_path):
    embed(IMAGES.changed(dict.fromkeys((3, 4, 5), b"no")), Backbone(), tmp_path, images_per_shard=3, on_error="skip")
    tokens = open_tokens(tmp_path)
    assert torch.equal(tokens.tokens([3]), expected(IMAGES, [6]).tokens.half().float())
    with pytest.raises(DataError, match=r"none of the 2 images could be read. The first: toy: the image '0/0.png'"):
        embed(Images(2).changed({0: b"no", 1: None}), Backbone(), tmp_path / "none", on_error="skip")


def test_values_that_cannot_be_stored_are_refused(tmp_path):
    for spoil in (float("nan"), float("-inf")):
        with pytest.raises(NonFiniteError, match=r"NaN or infinity for the image '0/9.png'"):
            embed(IMAGES, Backbone(spoil=spoil), tmp_path, on_error="skip")
    with pytest.raises(RangeError, match=r"image '0/9.png' reaches 70000, too large for float16. Use dtype"):
        embed(IMAGES, Backbone(spoil=-7e4), tmp_path)
    assert shards(tmp_path) == []
    embed(IMAGES, Backbone(spoil=-7e4), tmp_path, dtype="float32")
    assert open_tokens(tmp_path).tokens([9]).min() == -7e4


@pytest.mark.parametrize("length", [0, 7, 100, -1])
def test_a_truncated_shard_is_named_and_written_again(tmp_path, length):
    embed(IMAGES, Backbone(), tmp_path, **OPTIONS)
    whole = files(tmp_path)
    victim = shards(tmp_path)[1]
    victim.write_bytes(whole[victim.name][:length])
    tokens = open_tokens(tmp_path)
    tokens.tokens([0, 9])
    with pytest.raises(FileFormatError, match=rf"{victim.name} is damaged: .* Embed the images again"):
        tokens.tokens([0, 4])
    assert embed(IMAGES, Backbone(), tmp_path, **OPTIONS).written == 1
    assert files(tmp_path) == whole


def test_a_mutated_manifest_gives_the_set_or_a_named_error(tmp_path):
    embed(IMAGES, Backbone(), tmp_path, **OPTIONS)
    path = tmp_path / MANIFEST
    whole = path.read_bytes()
    rng = random.Random(0)
    for _ in range(300):
        content = bytearray(whole)
        for _ in range(rng.randrange(1, 4)):
            content[rng.randrange(len(content))] = rng.randrange(256)
        path.write_bytes(bytes(content[: rng.choice([len(content)] * 5 + [rng.randrange(len(content))])]))
        result = outcome(lambda: open_tokens(tmp_path).tokens(range(10)))
        assert str(tmp_path) in str(result) if isinstance(result, UdtwError) else len(result) == 10


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"format": "other"}, "is not a folder of shards of tokens"),
        ({"version": 9}, "has version 9"),
        ({"shards": [{"file": "../x", "images": 10}]}, "not the name of a shard"),
        ({"labels": [7] * 10}, "labels must index"),
        ({"names": ["a"]}, "do not add up"),
        ({"splits": {"train": [3]}}, "splits must hold numbers of the 3 classes"),
        ({"sha256": []}, "0 digests"),
        ({"layout": {"grid": [4, 5], "dim": 6, "views": 0, "attention": False, "dtype": "int8"}}, "not a layout"),
    ],
)
def test_a_foreign_manifest_is_refused(tmp_path, changes, said):
    embed(IMAGES, Backbone(), tmp_path)
    path = tmp_path / MANIFEST
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    with pytest.raises(FileFormatError, match=said):
        open_tokens(tmp_path)


def test_shards_of_another_layout_are_detected(tmp_path):
    embed(IMAGES, Backbone(), tmp_path)
    path = tmp_path / MANIFEST
    manifest = json.loads(path.read_text())
    path.write_text(json.dumps({**manifest, "layout": {**manifest["layout"], "grid": [5, 4]}}))
    with pytest.raises(FileFormatError, match=r"holds Layout\(grid=\(4, 5\).*manifest.json says Layout\(grid=\(5, 4\)"):
        open_tokens(tmp_path).tokens([0])


def test_another_set_is_not_overwritten(tmp_path):
    embed(IMAGES, Backbone(), tmp_path)
    with pytest.raises(DataError, match=r"holds the prepared data set 'toy'. Choose another folder for 'other'"):
        embed(Images(3, name="other"), Backbone(), tmp_path)
    with pytest.raises(DataError, match=r"does not describe a udtw.SkeletonSet. Choose another folder for 'toy'"):
        prepare(source(many(2)), tmp_path)
    assert len(open_tokens(tmp_path)) == 10


@pytest.mark.parametrize("change", [{"dim": 2**63}, {"dim": 2**40}, {"grid": [2**20 + 1, 5]}, {"views": 10**30}])
def test_impossible_sizes_are_refused(tmp_path, change):
    embed(IMAGES, Backbone(), tmp_path)
    path = tmp_path / MANIFEST
    manifest = json.loads(path.read_text())
    path.write_text(json.dumps({**manifest, "layout": {**manifest["layout"], **change}}))
    with pytest.raises(FileFormatError, match="not a layout of tokens"):
        open_tokens(tmp_path)


def test_a_layout_that_the_shards_do_not_have_allocates_no_memory(tmp_path):
    embed(IMAGES, Backbone(), tmp_path)
    path = tmp_path / MANIFEST
    manifest = json.loads(path.read_text())
    path.write_text(json.dumps({**manifest, "layout": {**manifest["layout"], "grid": [2**20, 2**20]}}))
    with pytest.raises(FileFormatError, match=r"manifest.json says Layout"):
        open_tokens(tmp_path).tokens(range(10))


def shard_file(folder, arrays, header):
    """A shard written by safetensors alone, with the checksum in its name."""
    content = save(arrays, metadata={"images": header})
    path = folder / f"shard-00000-{hashlib.sha256(content).hexdigest()}.safetensors"
    path.write_bytes(content)
    return path


LAYOUT = {"grid": [1, 1], "dim": 1, "views": 0, "attention": False, "dtype": "float16"}


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ({"layout": LAYOUT | {"dim": float("inf")}}, "is not a shard of tokens"),
        ({"layout": LAYOUT | {"dim": 2}}, "is not a shard of tokens .*tokens: F16 of "),
        ({"layout": LAYOUT | {"attention": True}}, "is not a shard of tokens"),
        ({"names": ["a", "b"]}, "is not a shard of tokens .*tokens: F16 of "),
        ({"names": [1]}, "does not list its images"),
        ({"layout": None}, "is not a shard of tokens"),
        ("[" * 50_000, "does not list its images"),
    ],
)
def test_a_shard_with_an_impossible_description_is_refused(tmp_path, header, said):
    known = {"plan": "", "layout": LAYOUT, "names": ["a"], "skipped": []}
    text = header if isinstance(header, str) else json.dumps(known | header)
    path = shard_file(tmp_path, {"tokens": np.zeros((1, 1, 1), np.float16)}, text)
    with pytest.raises(FileFormatError, match=said):
        TokenShard(path)


def test_files_of_version_1_are_read(tmp_path):
    known = {"plan": "0", "layout": LAYOUT, "names": ["a"], "skipped": []}
    path = shard_file(tmp_path, {"tokens": np.full((1, 1, 1), 0.5, np.float16)}, json.dumps(known))
    manifest = {
        "format": "udtw.TokenSet", "version": 1, "name": "toy", "backbone": {}, "augmentation": None, "seed": None,
        "layout": LAYOUT, "classes": ["x"], "splits": {"train": [0]}, "shards": [{"file": path.name, "images": 1}],
        "names": ["a"], "labels": [0], "sha256": ["0"], "skipped": [],
    }  # fmt: skip
    (tmp_path / MANIFEST).write_text(json.dumps(manifest))
    assert open_tokens(tmp_path).tokens([0]).tolist() == [[[0.5]]]
