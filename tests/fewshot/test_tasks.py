"""Few-shot training learns, and an interrupted run ends with the same bits as an unbroken one."""

import math

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from tests.fewshot.helpers import LinearEncoder, Waves
from udtw._io.checkpoint import Checkpoint
from udtw._io.training import Training
from udtw.errors import FileFormatError, OptionError
from udtw.fewshot import EpisodeSampler, FewShotModel, Tokens, evaluation
from udtw.fewshot.contrastive import ContrastiveTask, info_nce
from udtw.fewshot.dictionary import Dictionary, DictionaryTask, narrowness
from udtw.fewshot.evaluation import code_scores, encode_all, evaluate_episodes, evaluate_scores, support_scores
from udtw.fewshot.model import comparator_names
from udtw.fewshot.tasks import EpisodicTask

SOURCE = Waves()


def make_model(metric: str = "udtw", objective: str = "cross_entropy", **options) -> FewShotModel:
    torch.manual_seed(0)
    return FewShotModel(LinearEncoder(), metric, objective, beta=0.1, **options)


def episodic(model: FewShotModel) -> EpisodicTask:
    sampler = EpisodeSampler(SOURCE.labels, 3, 1, 2, seed=4)
    return EpisodicTask(model, SOURCE, sampler, learning_rate=1e-2, episodes_per_step=2)


def dictionary_task(model: FewShotModel) -> DictionaryTask:
    dictionary = Dictionary(6, 8, 8, n_nearest=3)
    dictionary.start_from(encode_all(model, SOURCE, np.arange(0, 48, 8)))
    model.train()
    return DictionaryTask(model, dictionary, SOURCE, batch_size=12, dict_iter=3, beta=0.1, dictionary_rate=1e-2)


def train(task, n_steps: int, path=None, config=None, every: int = 100, tick=None) -> list[float]:
    """The losses of all steps."""
    checkpoint = None if path is None else Checkpoint(path, config, every=every)
    return Training(task, n_steps, checkpoint=checkpoint).run(tick).train


@pytest.mark.parametrize("metric", [name for name in comparator_names() if name != "grid"])  # waves are no squares
@pytest.mark.parametrize("objective", ["similarity", "cross_entropy"])
def test_training_lowers_the_loss(metric, objective):
    losses = train(episodic(make_model(metric, objective)), 30)
    assert np.mean(losses[-8:]) < np.mean(losses[:8])


def test_a_trained_model_recognises_classes_and_matching_by_prototypes_agrees_for_one_shot(monkeypatch):
    model = make_model(matching="prototype")
    train(episodic(model), 60)
    fresh = Waves(seed=1)
    tokens = encode_all(model, fresh)
    one_shot = EpisodeSampler(fresh.labels, 5, 1, 4, seed=9)
    by_support = evaluate_scores(support_scores(model, tokens, tokens), one_shot, 60)
    assert by_support.mean > 0.8  # chance is 0.2
    more = evaluate_episodes(model, fresh, EpisodeSampler(fresh.labels, 5, 3, 4, seed=9), 20)
    assert more.mean > by_support.mean - 0.05
    monkeypatch.setattr(evaluation, "ENCODED_BYTES", 0)  # as if the set were too large to be encoded at once
    assert evaluate_episodes(model, fresh, EpisodeSampler(fresh.labels, 5, 3, 4, seed=9), 20) == more


def state(task) -> dict[str, torch.Tensor]:
    return {f"{name}.{key}": t.clone() for name, m in task.modules.items() for key, t in m.state_dict().items()}


@pytest.mark.parametrize("make", [episodic, dictionary_task])
def test_interrupted_and_resumed_is_bit_equal(make, tmp_path):
    whole = make(make_model())
    losses = train(whole, 12)
    torch.manual_seed(123)  # the global generator must not matter
    first = make(make_model())
    path = tmp_path / "run" / "checkpoint.safetensors"

    def stop(number: int, loss: float) -> None:
        if number == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(first, 12, path, every=5, tick=stop)
    second = make(make_model())
    assert train(second, 12, path, every=5) == losses
    for key, tensor in state(whole).items():
        assert torch.equal(tensor, state(second)[key]), key
    third = make(make_model())
    assert train(third, 12, path) == losses  # nothing left to do
    assert all(torch.equal(t, state(third)[k]) for k, t in state(whole).items())


def test_torch_randomness_is_left_as_it_was():
    task = episodic(make_model())
    torch.manual_seed(5)
    before = torch.get_rng_state()
    task.step(0)
    assert torch.equal(before, torch.get_rng_state())


def test_resuming_with_other_settings_is_refused(tmp_path):
    path = tmp_path / "c.safetensors"
    train(episodic(make_model()), 2, path, config={"gamma": 0.1, "beta": 1})
    with pytest.raises(OptionError, match="gamma"):
        train(episodic(make_model()), 2, path, config={"gamma": 0.2, "beta": 1})


def test_a_damaged_checkpoint_is_named_and_kept(tmp_path):
    path = tmp_path / "c.safetensors"
    train(episodic(make_model()), 2, path)
    content = path.read_bytes()
    for broken in (content[:100], b"", b"\x80\x04pickle", content[:8] + b"x" + content[9:]):
        path.write_bytes(broken)
        with pytest.raises(FileFormatError, match=r"c\.safetensors"):
            train(episodic(make_model()), 4, path)
        assert path.read_bytes() == broken
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match="does not fit"):
        train(episodic(make_model("tap")), 4, path)


def test_the_gain_reaches_the_sigma_net_and_nothing_else():
    model = make_model(sigma_gain=3.0).eval()
    batch = SOURCE.batch(np.arange(4))
    features, lengths = model.encoder(batch).features, model.encoder(batch).lengths
    tokens = model.encode(batch)
    assert torch.equal(tokens.features, features)
    assert torch.equal(tokens.variance, model.sigma(3 * features, lengths))
    assert not torch.equal(tokens.variance, model.sigma(features, lengths))


@pytest.mark.parametrize(
    ("metric", "options"),
    [
        ("euclidean", {}),
        ("soft_dtw", {}),
        ("soft_dtw_divergence", {}),
        ("udtw", {}),
        ("udtw", {"weighting": "likelihood"}),
        ("udtw", {"weighting": "likelihood", "per_feature": True}),
    ],
)
def test_a_dictionary_learns_without_labels(metric, options):
    model = make_model(metric, **options)
    task = dictionary_task(model)
    losses = train(task, 20)
    assert np.mean(losses[-5:]) < np.mean(losses[:5])
    tokens = encode_all(model, SOURCE)
    scores = code_scores(model, task.dictionary, tokens, tokens)
    assert evaluate_scores(scores, EpisodeSampler(SOURCE.labels, 3, 1, 2, seed=9), 60).mean > 0.5  # chance is 0.33


def test_a_dictionary_minimises_the_free_energy():
    model = make_model(weighting="likelihood")
    task = dictionary_task(model)
    tokens = encode_all(model, SOURCE, np.arange(12))
    with torch.no_grad():
        target = task.dictionary.reconstruct(task._codes(tokens))
        expected = model.comparator.free_energy(tokens, model.with_variance(target)).mean()
        assert task._loss(tokens, target) == pytest.approx(expected.item(), rel=1e-6)


@pytest.mark.parametrize(
    "options",
    [
        {"matching": "nearest"},
        {"sigma_range": (2.0, 1.0)},
        {"sigma_range": (0.0, 1.0)},
        {"sigma_range": (0.5, np.inf)},
        {"sigma_gain": 0.0},
        {"sigma_gain": np.nan},
    ],
)
def test_impossible_models_are_refused(options):
    with pytest.raises(OptionError, match="must be"):
        make_model(**options)


def without_checksum(path) -> dict[str, str]:
    """What the file says of itself, for writing it anew with other tensors."""
    with safe_open(path, "pt") as file:
        return {key: value for key, value in file.metadata().items() if key != "sha256"}


def test_a_damaged_state_of_the_optimiser_is_refused_before_the_next_step(tmp_path):
    path = tmp_path / "c.safetensors"
    task = episodic(make_model())
    train(task, 2, path)
    damaged = load_file(path) | {f"optimizer.{next(iter(task.optimizers))}.0.exp_avg": torch.zeros(7)}
    save_file(damaged, path, without_checksum(path))
    with pytest.raises(FileFormatError, match=r"c\.safetensors does not fit this optimizer"):
        train(episodic(make_model()), 4, path)


@pytest.mark.parametrize("losses", [torch.zeros(2, 2, dtype=torch.float64), torch.tensor(1.0), torch.zeros(2)])
def test_losses_of_another_kind_are_refused(tmp_path, losses):
    path = tmp_path / "c.safetensors"
    train(episodic(make_model()), 2, path)
    save_file(load_file(path) | {"loss.training.train": losses}, path, without_checksum(path))
    with pytest.raises(FileFormatError, match=r"is not a checkpoint"):
        train(episodic(make_model()), 4, path)


def test_narrowness_is_one_for_equal_tokens_and_zero_for_spread_ones():
    features = torch.randn(1, 4000, 4) / 2  # unit tokens of four features have a standard deviation of 1/2
    lengths = torch.tensor([4000])
    assert narrowness(Tokens(features, lengths)) < 0.05
    assert narrowness(Tokens(torch.ones(1, 4000, 4), lengths)) > 0.99
    assert narrowness(Tokens(0.5 * features, lengths)) == pytest.approx(0.5, abs=0.05)


class WaveViews(Waves):
    """A `ViewSource` of the same waves."""

    def __len__(self) -> int:
        return len(self.labels)

    def two_views(self, indices, generator):
        return self.batch(indices, generator), self.batch(indices, generator)


def test_info_nce_of_a_small_case():
    scores = torch.tensor([[0.0, 1.0], [2.0, 0.5]])
    rows = [math.log(1 + math.exp(-1 / 0.5)), math.log(1 + math.exp(-1.5 / 0.5))]
    columns = [math.log(1 + math.exp(-2 / 0.5)), math.log(1 + math.exp(-0.5 / 0.5))]
    expected = 0.5 * (sum(rows) / 2 + sum(columns) / 2)
    assert info_nce(scores, 0.5).item() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("objective", ["similarity", "cross_entropy"])
def test_the_contrastive_loss_adds_the_regulariser_of_the_positives(objective):
    model = FewShotModel(LinearEncoder(dropout=0.0), "udtw", objective, beta=0.3)
    task = ContrastiveTask(model, WaveViews(), batch_size=6, temperature=0.2, seed=3)
    generator = np.random.default_rng((3, 0))
    source = task.source
    views = source.two_views(generator.choice(len(source), 6, replace=False), generator)
    with torch.no_grad():
        found = model.comparator(*(model.encode(view) for view in views))
        scores = found.distance + (0.3 * found.regularizer if objective == "cross_entropy" else 0)
        expected = info_nce(scores, 0.2) + 0.3 * found.regularizer.diagonal().mean()
    assert task.step(0) == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize("weighting", ["precision", "likelihood"])
def test_contrastive_training_lowers_the_loss(weighting):
    torch.manual_seed(0)
    model = FewShotModel(LinearEncoder(), "udtw", beta=0.1, weighting=weighting)
    losses = train(ContrastiveTask(model, WaveViews(), batch_size=12, learning_rate=1e-2), 30)
    assert np.mean(losses[-8:]) < np.mean(losses[:8])


def test_impossible_contrasts_are_refused():
    model = FewShotModel(LinearEncoder(), "udtw")
    with pytest.raises(OptionError, match="temperature"):
        ContrastiveTask(model, WaveViews(), temperature=0.0)
    with pytest.raises(OptionError, match="two in a batch"):
        ContrastiveTask(model, WaveViews(), batch_size=1)
