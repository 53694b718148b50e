"""The token cache: what the backbone gives comes out, an interrupted run goes on, changes cost their shards alone."""

import os
import pickle

import numpy as np
import pytest
import torch

pytest.importorskip("safetensors")
pytest.importorskip("PIL")
pytest.importorskip("kornia")

from tests.images.tokens.fakes import IMAGES, OPTIONS, Backbone, Images, Stop, expected, files, png, shards
from udtw._io.shard_store import MANIFEST
from udtw.errors import DataError, FileFormatError, OptionError, ShapeError
from udtw.images.tokens import embed, open_tokens
from udtw.images.tokens.store import check_against
from udtw.images.views import PRESETS


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
    with pytest.raises(DataError, match=r"toy is not what was embedded \(changed: 2/2.png; new: 1/10.png\)"):
        check_against(tokens, now)
    with pytest.raises(DataError, match=r"\(gone: 2/8.png\). Embed it again"):
        open_tokens(tmp_path, Images(8))


class Growing(Backbone):
    """Gives another grid from the second batch on."""

    def __call__(self, pixels, *, attention=False):
        again = bool(self.seen)
        found = super().__call__(pixels, attention=attention)
        return type(found)(found.tokens[:, :16], (4, 4)) if again else found


@pytest.mark.parametrize("size", [2, 10])
def test_one_grid_for_all_images(tmp_path, size):
    with pytest.raises(ShapeError, match=r"must return one grid for all images"):
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
