"""The few-shot classifier of images: learns, resumes bit by bit, saves and loads; and its batches of tokens."""

import numpy as np
import pytest
import torch

from udtw._io.checkpoint import module_tensors, write_checkpoint
from udtw.errors import DataError, FileFormatError, OptionError
from udtw.images import ImageRecipe, ImageRecognizer, PatchBackbone, TokenSet, embed, open_tokens
from udtw.images.datasets import make_images
from udtw.images.projection import token_order
from udtw.images.recognizer import TokenSource

SOME = np.array([3, 0, 7])
SMALL = {"n_steps": 20, "dim": 24, "n_query": 3, "batch_size": 12, "learning_rate": 3e-3}


def recognizer(tokens, **settings) -> ImageRecognizer:
    return ImageRecognizer(ImageRecipe.from_dict(SMALL | settings), tokens.dim)


@pytest.mark.parametrize("mode", ["supervised", "unsupervised"])
@pytest.mark.parametrize("metric", ["protonet", "euclidean", "soft_dtw", "soft_dtw_divergence", "udtw"])
def test_training_lowers_the_loss(tokens, metric, mode):
    found = recognizer(tokens, metric=metric, mode=mode, dim=4, n_steps=40, learning_rate=0.01)
    found.fit(tokens.of_split("train"))
    assert np.mean(found.losses[-10:]) < np.mean(found.losses[:10])


@pytest.mark.parametrize("objective", ["similarity", "cross_entropy"])
@pytest.mark.parametrize("matching", ["support", "prototype"])
def test_novel_classes_are_told_apart_better_than_by_chance(tokens, objective, matching):
    found = recognizer(tokens, objective=objective, matching=matching).fit(tokens.of_split("train"))
    novel = tokens.of_split("test")
    one, five = (found.evaluate(novel, n_shot=shots, n_query=5, n_episodes=30) for shots in (1, 5))
    assert one.mean > 0.4  # chance is 0.2
    assert five.mean > one.mean


def test_the_model_is_the_papers(tokens):
    paper = ImageRecipe(
        weighting="precision", learned=False, sigma_range=(0.5, 2.0), sigma_hidden=0, sigma_gain=1.0,
        sigma_context=False,
    )  # fmt: skip
    model = ImageRecognizer(paper, 384).model
    assert {name: tuple(p.shape) for name, p in model.named_parameters() if name != "objective.log_scale"} == {
        "encoder.map.weight": (256, 384),
        "sigma.net.0.weight": (256, 256),
        "sigma.net.0.bias": (256,),
    }
    sigma = model.encode(torch.randn(2, 9, 384)).variance.sqrt()
    assert ((sigma > 0.5) & (sigma < 2)).all()


@pytest.mark.parametrize("mode", ["supervised", "unsupervised"])
def test_matches_are_evidence_in_both_modes_but_not_with_the_papers_weighting(mode):
    evidence, paper = (
        ImageRecognizer(ImageRecipe(mode=mode, weighting=weighting), 8).model.comparator.evidence
        for weighting in ("likelihood", "precision")
    )
    assert evidence
    assert not paper


@pytest.mark.parametrize("mode", ["supervised", "unsupervised"])
def test_interrupted_and_resumed_is_bit_equal(tokens, mode, tmp_path):
    train = tokens.of_split("train")
    whole = recognizer(tokens, mode=mode, n_steps=8).fit(train)
    path = tmp_path / "model.safetensors"

    def stop(number: int, loss: float) -> None:
        if number == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        recognizer(tokens, mode=mode, n_steps=8).fit(train, checkpoint_path=path, checkpoint_every=3, tick=stop)
    again = recognizer(tokens, mode=mode, n_steps=8).fit(train, checkpoint_path=path)
    assert again.losses == whole.losses
    for key, tensor in whole.model.state_dict().items():
        assert torch.equal(tensor, again.model.state_dict()[key]), key
    loaded = ImageRecognizer.load(path)
    chosen = {"n_query": 5, "n_episodes": 5}
    assert loaded.evaluate(tokens.of_split("test"), **chosen) == whole.evaluate(tokens.of_split("test"), **chosen)


def test_a_model_of_other_data_is_neither_continued_nor_applied_to_other_tokens(tokens, tmp_path):
    path = tmp_path / "model.safetensors"
    recognizer(tokens, n_steps=2).fit(tokens.of_split("train"), checkpoint_path=path)
    with pytest.raises(OptionError, match="data"):
        recognizer(tokens, n_steps=2).fit(tokens.of_split("test"), checkpoint_path=path)
    other = tokens.subset(range(10))
    other.identity = {**tokens.identity, "backbone": {"backbone": "another"}}
    with pytest.raises(DataError, match="same backbone"):
        ImageRecognizer.load(path).encode(ImageRecognizer.load(path).source(other).batch([0]))


def test_no_steps_leave_a_model_that_can_be_loaded(tokens, tmp_path):
    path = tmp_path / "model.safetensors"
    recognizer(tokens, n_steps=0).fit(tokens.of_split("train"), checkpoint_path=path)
    assert ImageRecognizer.load(path).losses == []


def test_settings_of_a_wrong_type_are_named():
    with pytest.raises(OptionError, match="n_query must be of type int"):
        ImageRecipe.from_dict({"n_query": "abc"})
    with pytest.raises(OptionError, match="dim"):
        ImageRecipe.from_dict({"dim": 2.5})
    assert ImageRecipe.from_dict({"gamma": 1, "normalize": None, "sigma_hidden": 3}).gamma == 1


def test_single_images_are_classified(tokens):
    found = recognizer(tokens, n_steps=0)
    found.fit(tokens.of_split("train"))
    supports = np.array([0, 20, 40])
    assert found.classify(tokens, supports, supports, np.array([7, 2, 5])).tolist() == [7, 2, 5]
    chosen = tokens.subset(supports)
    assert found.predict(chosen, ["a", "c", "b"], chosen).tolist() == ["a", "c", "b"]
    np.testing.assert_allclose(found.predict_proba(chosen, [2, 1, 0], chosen).sum(1), 1, rtol=1e-6)
    one = found.encode(tokens)
    assert torch.equal(one.features[supports], found.encode(found.source(tokens).batch(supports)).features)


def test_labels_play_no_part_without_them(tokens):
    train = tokens.of_split("train")
    shuffled = train.subset(np.arange(len(train)))
    shuffled.labels = np.random.default_rng(0).permutation(train.labels)
    both = [recognizer(tokens, mode="unsupervised", n_steps=3).fit(one) for one in (train, shuffled)]
    assert both[0].losses == both[1].losses


def test_tokens_of_another_backbone_and_foreign_checkpoints_are_named(tokens, tmp_path):
    with pytest.raises(DataError, match="same backbone"):
        ImageRecognizer(ImageRecipe(dim=4), 10).fit(tokens)
    with pytest.raises(OptionError, match="order"):
        ImageRecipe(order="spiral")
    path = tmp_path / "x.safetensors"
    write_checkpoint(path, {"recipe": {"metric": "udtw"}}, {}, {})
    with pytest.raises(FileFormatError, match="image recognizer"):
        ImageRecognizer.load(path)


@pytest.mark.parametrize(
    "change", [{"inputs": 2**31}, {"inputs": 2**70}, {"inputs": None}, {"recipe": {"dim": 10**12}}, {"recipe": []}]
)
def test_a_checkpoint_that_claims_impossible_sizes_is_refused_at_once(tmp_path, change):
    path = tmp_path / "c.safetensors"
    made = ImageRecognizer(ImageRecipe.from_dict(SMALL), 30)
    write_checkpoint(path, made.config | change, {}, module_tensors(made._modules))
    with pytest.raises(FileFormatError, match=r"c\.safetensors does not"):
        ImageRecognizer.load(path)


def grid_of(side: int) -> TokenSet:
    values = torch.randn(40, side**2, 6, generator=torch.Generator().manual_seed(0))
    return TokenSet.from_arrays(values, np.repeat(np.arange(5), 8))


@pytest.mark.parametrize(
    ("side", "settings", "order"),
    [
        (9, {}, "raster"),
        (10, {}, "set"),
        (10, {"mode": "unsupervised", "n_steps": 0}, "set"),
        (10, {"order": "snake"}, "snake"),
        (10, {"warp_penalty": 0.1}, "raster"),
        (10, {"preset": "paper"}, "raster"),
    ],
)
def test_many_tokens_are_a_set_and_the_recipe_says_so_after_training(tmp_path, side, settings, order):
    tokens = grid_of(side)
    found = recognizer(tokens, **{"n_steps": 1, "dim": 4} | settings).fit(tokens)
    assert found.recipe.order == order
    assert found.model.metric == ("set" if order == "set" else "udtw")
    found.save(tmp_path / "model.safetensors")
    loaded = ImageRecognizer.load(tmp_path / "model.safetensors")
    assert loaded.recipe == found.recipe
    asked = tokens.subset(SOME)
    assert (loaded.predict(asked, list("abc"), asked) == found.predict(asked, list("abc"), asked)).all()


def test_an_untrained_model_chooses_the_order_by_the_first_tokens_and_old_ones_read_row_by_row():
    tokens = grid_of(10)
    for seen in (tokens, tokens.tokens(SOME)):
        found = recognizer(tokens, dim=4)
        found.encode(seen)
        assert found.model.metric == found.recipe.order == "set"
    assert ImageRecipe.from_saved({"metric": "udtw"}).order == "raster"


@pytest.mark.parametrize("order", ["raster", "snake", "hilbert"])
def test_tokens_come_in_reading_order(tokens, order):
    plain = tokens.tokens(SOME)
    assert torch.equal(TokenSource(tokens, order).batch(SOME), plain[:, token_order(order, tokens.grid)])


def versions(tokens, index: int) -> list[torch.Tensor]:
    return [tokens.tokens([index], view)[0] for view in (None, 0, 1)]


def test_training_draws_the_image_or_a_view_and_the_same_numbers_draw_the_same(tokens):
    source, many = TokenSource(tokens), np.zeros(60, int)
    drawn = source.batch(many, np.random.default_rng(0))
    counts = [sum(torch.equal(row, one) for row in drawn) for one in versions(tokens, 0)]
    assert sum(counts) == 60
    assert min(counts) > 8
    assert torch.equal(drawn, source.batch(many, np.random.default_rng(0)))


def test_two_views_differ_and_are_versions_of_the_same_image(tokens):
    first, second = TokenSource(tokens).two_views(SOME, np.random.default_rng(0))
    for index, one, other in zip(SOME, first, second, strict=True):
        places = [[torch.equal(t, v) for v in versions(tokens, int(index))] for t in (one, other)]
        assert sum(places[0]) == sum(places[1]) == 1
        assert places[0] != places[1]


def test_tokens_without_views_say_how_to_get_some(tmp_path):
    embed(make_images(1), PatchBackbone(32, 16), tmp_path)
    with pytest.raises(DataError, match="--views"):
        TokenSource(open_tokens(tmp_path)).two_views(SOME, np.random.default_rng(0))
