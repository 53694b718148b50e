"""Training learns, and a run that was interrupted ends with the same bits as one that was not."""

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from tests.fewshot.helpers import LinearEncoder, Waves
from udtw.errors import FileFormatError, OptionError
from udtw.fewshot import Dictionary, DictionaryTask, EpisodeSampler, EpisodicTask, FewShotModel, evaluation, loop
from udtw.fewshot.evaluation import code_scores, encode_all, evaluate_episodes, evaluate_scores, support_scores
from udtw.fewshot.model import METRICS

SOURCE = Waves()


def make_model(metric: str = "udtw", objective: str = "cross_entropy", **options) -> FewShotModel:
    torch.manual_seed(0)
    return FewShotModel(LinearEncoder(), metric, objective, beta=0.1, **options)


def episodic(model: FewShotModel, n_steps: int = 30) -> EpisodicTask:
    sampler = EpisodeSampler(SOURCE.labels, 3, 1, 2, seed=4)
    return EpisodicTask(model, SOURCE, sampler, n_steps=n_steps, learning_rate=1e-2, episodes_per_step=2)


def dictionary_task(model: FewShotModel) -> DictionaryTask:
    dictionary = Dictionary(6, 8, 8, n_nearest=3)
    dictionary.start_from(encode_all(model, SOURCE, np.arange(0, 48, 8)))
    model.train()
    return DictionaryTask(model, dictionary, SOURCE, batch_size=12, dict_iter=3, beta=0.1, dictionary_rate=1e-2)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("objective", ["similarity", "cross_entropy"])
def test_training_lowers_the_loss(metric, objective):
    losses = loop.run(episodic(make_model(metric, objective)), 30)
    assert np.mean(losses[-8:]) < np.mean(losses[:8])


def test_a_trained_model_recognises_classes_and_matching_by_prototypes_agrees_for_one_shot(monkeypatch):
    model = make_model(matching="prototype")
    loop.run(episodic(model, 60), 60)
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
    losses = loop.run(whole, 12)
    torch.manual_seed(123)  # the global generator must not matter
    first = make(make_model())
    path = tmp_path / "run" / "checkpoint.safetensors"

    def stop(number: int, loss: float) -> None:
        if number == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        loop.run(first, 12, checkpoint_path=path, checkpoint_every=5, tick=stop)
    second = make(make_model())
    assert loop.run(second, 12, checkpoint_path=path, checkpoint_every=5) == losses
    for key, tensor in state(whole).items():
        assert torch.equal(tensor, state(second)[key]), key
    third = make(make_model())
    assert loop.run(third, 12, checkpoint_path=path) == losses  # nothing left to do
    assert all(torch.equal(t, state(third)[k]) for k, t in state(whole).items())


def test_torch_randomness_is_left_as_it_was():
    task = episodic(make_model())
    torch.manual_seed(5)
    before = torch.get_rng_state()
    task.step(0)
    assert torch.equal(before, torch.get_rng_state())


def test_resuming_with_other_settings_is_refused(tmp_path):
    path = tmp_path / "c.safetensors"
    loop.run(episodic(make_model()), 2, checkpoint_path=path, config={"gamma": 0.1, "beta": 1})
    with pytest.raises(OptionError, match="gamma"):
        loop.run(episodic(make_model()), 2, checkpoint_path=path, config={"gamma": 0.2, "beta": 1})


def test_a_damaged_checkpoint_is_named_and_kept(tmp_path):
    path = tmp_path / "c.safetensors"
    loop.run(episodic(make_model()), 2, checkpoint_path=path)
    content = path.read_bytes()
    for broken in (content[:100], b"", b"\x80\x04pickle", content[:8] + b"x" + content[9:]):
        path.write_bytes(broken)
        with pytest.raises(FileFormatError, match=r"c\.safetensors"):
            loop.run(episodic(make_model()), 4, checkpoint_path=path)
        assert path.read_bytes() == broken
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match="does not fit"):
        loop.run(episodic(make_model("tap")), 4, checkpoint_path=path)


def test_the_gain_reaches_the_sigma_net_and_nothing_else():
    model = make_model(sigma_gain=3.0).eval()
    batch = SOURCE.batch(np.arange(4))
    features, lengths = model.encoder(batch).features, model.encoder(batch).lengths
    tokens = model.encode(batch)
    assert torch.equal(tokens.features, features)
    assert torch.equal(tokens.variance, model.sigma(3 * features, lengths))
    assert not torch.equal(tokens.variance, model.sigma(features, lengths))


@pytest.mark.parametrize("metric", ["euclidean", "soft_dtw", "soft_dtw_divergence", "udtw"])
def test_a_dictionary_learns_without_labels(metric):
    model = make_model(metric)
    task = dictionary_task(model)
    losses = loop.run(task, 20)
    assert np.mean(losses[-5:]) < np.mean(losses[:5])
    tokens = encode_all(model, SOURCE)
    scores = code_scores(model, task.dictionary, tokens, tokens)
    assert evaluate_scores(scores, EpisodeSampler(SOURCE.labels, 3, 1, 2, seed=9), 60).mean > 0.5  # chance is 0.33


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
    loop.run(task, 2, checkpoint_path=path)
    damaged = load_file(path) | {f"optimizer.{next(iter(task.optimizers))}.0.exp_avg": torch.zeros(7)}
    save_file(damaged, path, without_checksum(path))
    with pytest.raises(FileFormatError, match=r"c\.safetensors does not fit this optimiser"):
        loop.run(episodic(make_model()), 4, checkpoint_path=path)


@pytest.mark.parametrize("losses", [torch.zeros(2, 2, dtype=torch.float64), torch.tensor(1.0), torch.zeros(2)])
def test_losses_of_another_kind_are_refused(tmp_path, losses):
    path = tmp_path / "c.safetensors"
    loop.run(episodic(make_model()), 2, checkpoint_path=path)
    save_file(load_file(path) | {"losses": losses}, path, without_checksum(path))
    with pytest.raises(FileFormatError, match=r"is not a checkpoint"):
        loop.run(episodic(make_model()), 4, checkpoint_path=path)
