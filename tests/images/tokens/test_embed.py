"""The token cache: what the backbone gives comes out, an interrupted run goes on, changes cost their shards alone."""

import json
import os
import pickle
import random

import numpy as np
import pytest
import torch

pytest.importorskip("safetensors")
pytest.importorskip("PIL")
pytest.importorskip("kornia")

from tests.images.tokens.fakes import Backbone, Images, Stop, png
from tests.skeleton.datasets.clips import many, outcome, source
from udtw.data.checked_shards import MANIFEST
from udtw.errors import DataError, FileFormatError, NonFiniteError, OptionError, RangeError, ShapeError, UdtwError
from udtw.images.augmentation import PRESETS
from udtw.images.tokens import check_against, embed, open_tokens
from udtw.images.views import Views
from udtw.skeleton.datasets import prepare

IMAGES = Images(10)


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def shards(folder):
    return sorted(folder.glob("shard-*"))


def expected(images, indices, view=None, seed=0):
    backbone = Backbone()
    pixels = [backbone.prepare(images.image(i)) for i in indices]
    if view is not None:
        views = Views(PRESETS["photo"], seed)
        pixels = [views(one, images.names[i], view) for i, one in zip(indices, pixels, strict=True)]
    return backbone(torch.stack(pixels), attention=True)


@pytest.mark.parametrize(("size", "batch"), [(1, 4), (4, 3), (256, 4)])
def test_tokens_come_out_as_the_backbone_gave_them(tmp_path, size, batch):
    done = embed(IMAGES, Backbone(), tmp_path / "new" / "out", images_per_shard=size, batch_size=batch, dtype="float32")
    tokens = open_tokens(tmp_path / "new" / "out")
    assert (done.images, done.written, done.kept, done.skipped) == (10, -(-10 // size), 0, ())
    assert (tokens.name, tokens.classes, tokens.names) == ("toy", IMAGES.classes, IMAGES.names)
    assert (tokens.grid, tokens.dim, tokens.n_views, tokens.has_attention, len(tokens)) == ((4, 5), 6, 0, False, 10)
    assert tokens.identity == {"backbone": Backbone().identity, "augmentation": None, "seed": None}
    assert np.array_equal(tokens.labels, IMAGES.labels)
    assert tokens.splits == IMAGES.splits
    assert tokens.tokens([7, 0, 7, -1]).dtype == torch.float32
    torch.testing.assert_close(tokens.tokens([7, 0, 7, -1]), expected(IMAGES, [7, 0, 7, 9]).tokens)


def test_half_precision_is_the_default_and_is_rounding(tmp_path):
    embed(IMAGES, Backbone(), tmp_path, attention=True)
    tokens, exact = open_tokens(tmp_path), expected(IMAGES, range(10))
    assert torch.equal(tokens.tokens(range(10)), exact.tokens.half().float())
    assert torch.equal(tokens.attention([3, 1]), exact.attention[[3, 1]])


def test_views_are_tokens_of_augmented_images(tmp_path):
    embed(IMAGES, Backbone(), tmp_path, views=2, augmentation="photo", seed=5, dtype="float32", images_per_shard=4)
    tokens = open_tokens(tmp_path)
    assert (tokens.n_views, tokens.identity["seed"]) == (2, 5)
    assert tokens.identity["augmentation"] == PRESETS["photo"].as_json()
    torch.testing.assert_close(tokens.tokens([8, 1]), expected(IMAGES, [8, 1]).tokens)
    for view in (0, 1):
        torch.testing.assert_close(tokens.tokens([8, 1], view), expected(IMAGES, [8, 1], view=view, seed=5).tokens)
    with pytest.raises(OptionError, match=r"has 2 views of each image, counted from 0; got view 2"):
        tokens.tokens([0], 2)


def test_pixels_of_views_do_not_depend_on_batches(tmp_path):
    def seen(batch, size):
        backbone = Backbone()
        folder = tmp_path / f"{batch} {size}"
        embed(IMAGES, backbone, folder, views=2, augmentation="photo", batch_size=batch, images_per_shard=size)
        return {one.numpy().tobytes() for one in backbone.seen}

    assert seen(1, 1) == seen(4, 7) == seen(32, 256)
    assert len(seen(1, 256)) == 30


def test_subsets_keep_their_tokens(tmp_path):
    embed(IMAGES, Backbone(), tmp_path, images_per_shard=3)
    tokens = open_tokens(tmp_path)
    test = tokens.of_split("test")
    assert test.names == tuple(IMAGES.names[i] for i in (0, 3, 6, 9))
    assert test.splits == IMAGES.splits
    assert tokens.of_split("train").labels.tolist() == [1, 2, 1, 2, 1, 2]
    assert torch.equal(test.subset([2]).tokens([0]), tokens.tokens([6]))
    assert tokens.of_classes(["b"]).labels.tolist() == [1, 1, 1]
    assert torch.equal(tokens.of_classes([2, "b"]).tokens([1]), tokens.tokens([2]))
    with pytest.raises(OptionError, match=r"has no split 'val'; it has train, test"):
        tokens.of_split("val")
    with pytest.raises(OptionError, match=r"has no class 'x'"):
        tokens.of_classes(["x"])
    with pytest.raises(IndexError, match=r"toy has 10 images; got indices 0 to 10"):
        tokens.tokens([0, 10])
    with pytest.raises(OptionError, match=r"without attention. Embed it again"):
        tokens.attention([0])


def test_an_opened_set_can_be_sent_to_worker_processes(tmp_path):
    embed(IMAGES, Backbone(), tmp_path)
    tokens = open_tokens(tmp_path)
    before = tokens.tokens([1, 2])
    assert torch.equal(pickle.loads(pickle.dumps(tokens.subset([2, 1]))).tokens([1, 0]), before)


def test_tokens_are_not_read_before_they_are_asked_for(tmp_path):
    embed(IMAGES, Backbone(), tmp_path, images_per_shard=5)
    tokens = open_tokens(tmp_path)
    shards(tmp_path)[1].unlink()
    tokens.tokens([4])
    with pytest.raises(FileFormatError, match=r"shard-00001-.* is missing. Embed the images again"):
        tokens.tokens([5])


OPTIONS = {"views": 1, "augmentation": "drawing", "images_per_shard": 3, "batch_size": 2}


@pytest.mark.parametrize("stop", [0, 5, 6, 13, 19])
def test_a_stopped_run_goes_on_and_ends_with_the_same_files(tmp_path, stop):
    embed(IMAGES, Backbone(), tmp_path / "whole", **OPTIONS)
    with pytest.raises(Stop):
        embed(IMAGES, Backbone(stop=stop), tmp_path / "out", **OPTIONS)
    with pytest.raises(FileFormatError, match=MANIFEST):
        open_tokens(tmp_path / "out")
    done = embed(IMAGES, Backbone(), tmp_path / "out", **OPTIONS)
    assert done.kept == stop // 6
    assert files(tmp_path / "out") == files(tmp_path / "whole")


def test_the_second_call_does_nothing(tmp_path):
    embed(IMAGES, Backbone(), tmp_path, **OPTIONS)
    before = {path.name: path.stat().st_mtime_ns for path in shards(tmp_path)}
    done = embed(IMAGES, Backbone(stop=0), tmp_path, **OPTIONS)
    assert (done.written, done.kept) == (0, 4)
    assert {path.name: path.stat().st_mtime_ns for path in shards(tmp_path)} == before


def test_a_changed_image_renews_its_shard_alone(tmp_path):
    embed(IMAGES, Backbone(), tmp_path, images_per_shard=4)
    changed = IMAGES.changed({5: png(99)})
    backbone = Backbone()
    done = embed(changed, backbone, tmp_path, images_per_shard=4)
    assert (done.written, done.kept, len(backbone.seen)) == (1, 2, 4)
    assert torch.equal(open_tokens(tmp_path).tokens(range(10)), expected(changed, range(10)).tokens.half().float())
    assert len(shards(tmp_path)) == 3


@pytest.mark.parametrize(
    ("backbone", "options"),
    [
        ({"model": "other"}, {}),
        ({"layer": -2}, {}),
        ({}, {"dtype": "float32"}),
        ({}, {"attention": True}),
        ({}, {"seed": 1}),
        ({}, {"views": 2}),
        ({}, {"augmentation": "photo"}),
    ],
)
def test_whatever_the_tokens_depend_on_renews_them(tmp_path, backbone, options):
    embed(IMAGES, Backbone(), tmp_path, **OPTIONS)
    done = embed(IMAGES, Backbone(**backbone), tmp_path, **{**OPTIONS, **options}, replace=True)
    assert (done.written, done.kept, len(shards(tmp_path))) == (4, 0, 4)


@pytest.mark.parametrize(
    ("count", "backbone", "options", "said"),
    [
        (6, {}, {}, "4 other images"),
        (10, {"model": "other"}, {}, "another backbone"),
        (10, {}, {"augmentation": "photo"}, "another augmentation"),
        (10, {}, {"views": 2}, "another number of views"),
    ],
)
def test_finished_tokens_are_not_given_up_by_accident(tmp_path, count, backbone, options, said):
    embed(IMAGES, Backbone(), tmp_path, **OPTIONS)
    before = shards(tmp_path)
    with pytest.raises(DataError, match=said):
        embed(Images(count), Backbone(**backbone), tmp_path, **{**OPTIONS, **options})
    assert shards(tmp_path) == before


def test_the_seed_is_a_matter_of_views_only(tmp_path):
    embed(IMAGES, Backbone(), tmp_path)
    assert embed(IMAGES, Backbone(), tmp_path, seed=1, augmentation="photo").kept == 1


def test_images_that_changed_since_are_named(tmp_path):
    embed(IMAGES.changed({9: b"no image"}), Backbone(), tmp_path, on_error="skip")
    tokens = open_tokens(tmp_path, IMAGES)
    now = Images(contents=[*IMAGES.contents[:2], png(50), *IMAGES.contents[3:], png(60)])
    with pytest.raises(DataError, match=r"toy is not what was embedded \(1 changed: 2/2.png; 1 new: 1/10.png\)"):
        check_against(tokens, now)
    with pytest.raises(DataError, match=r"\(1 gone: 2/8.png\). Embed it again"):
        open_tokens(tmp_path, Images(8))


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


def test_values_that_cannot_be_kept_are_refused(tmp_path):
    for spoil in (float("nan"), float("-inf")):
        with pytest.raises(NonFiniteError, match=r"NaN or infinity for the image '0/9.png'"):
            embed(IMAGES, Backbone(spoil=spoil), tmp_path, on_error="skip")
    with pytest.raises(RangeError, match=r"image '0/9.png' reaches 70000, too large for float16. Use dtype"):
        embed(IMAGES, Backbone(spoil=-7e4), tmp_path)
    assert shards(tmp_path) == []
    embed(IMAGES, Backbone(spoil=-7e4), tmp_path, dtype="float32")
    assert open_tokens(tmp_path).tokens([9]).min() == -7e4


@pytest.mark.parametrize("length", [0, 7, 100, -1])
def test_a_cut_shard_is_named_and_made_again(tmp_path, length):
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
        ({"format": "other"}, "is not a folder of tokens"),
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


def test_shards_of_another_layout_are_noticed(tmp_path):
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


class Growing(Backbone):
    """Gives another grid from the second batch on."""

    def __call__(self, pixels, *, attention=False):
        again = bool(self.seen)
        found = super().__call__(pixels, attention=attention)
        return type(found)(found.tokens[:, :16], (4, 4)) if again else found


@pytest.mark.parametrize("size", [2, 10])
def test_one_grid_for_all_images(tmp_path, size):
    with pytest.raises(ShapeError, match=r"must give one grid for all images"):
        embed(IMAGES, Growing(), tmp_path, batch_size=2, images_per_shard=size)
    assert not (tmp_path / MANIFEST).exists()


class Blind(Backbone):
    has_attention = False


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"on_error": "ignore"}, "on_error must be one of"),
        ({"images_per_shard": 0}, "images_per_shard must be a whole number of at least 1; got 0"),
        ({"batch_size": 0}, "batch_size must be"),
        ({"views": -1}, "views must be a whole number of at least 0"),
        ({"views": 2}, "views=2 needs an augmentation"),
        ({"views": 2, "augmentation": "strong"}, "augmentation must be one of"),
        ({"dtype": "int8"}, "dtype must be one of"),
        ({"n_jobs": 0}, "n_jobs must be"),
        ({"attention": True}, "has no attention"),
    ],
)
def test_options_that_do_not_fit(tmp_path, options, said):
    with pytest.raises(OptionError, match=said):
        embed(IMAGES, Blind(), tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_a_progress_bar_counts_the_images(tmp_path, capsys):
    pytest.importorskip("rich")
    embed(IMAGES, Backbone(), tmp_path, images_per_shard=4)
    os.remove(shards(tmp_path)[0])
    embed(IMAGES, Backbone(), tmp_path, images_per_shard=4, progress=True)
    shown = capsys.readouterr()
    assert (shown.out, "embedding toy" in shown.err, "10/10" in shown.err) == ("", True, True)
