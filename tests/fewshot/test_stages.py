"""Which of features and variances the loss of a step reaches."""

import numpy as np
import pytest
import torch

from tests.fewshot.helpers import LinearEncoder, Waves
from udtw._io.training import Training
from udtw.errors import OptionError
from udtw.fewshot import EpisodeSampler, FewShotModel, Tokens
from udtw.fewshot.contrastive import ContrastiveTask
from udtw.fewshot.dictionary import Dictionary, DictionaryTask
from udtw.fewshot.evaluation import encode_all
from udtw.fewshot.recipe import FewShotRecipe
from udtw.fewshot.stages import KAPPA, SIGMA_TRAININGS, stages_of
from udtw.fewshot.tasks import EpisodicTask

SOURCE = Waves()
LABELS = torch.tensor([0, 1]), torch.tensor([0, 0, 1, 1])
PARTS = ("encoder", "sigma")


def make_model(**options) -> FewShotModel:
    torch.manual_seed(0)
    chosen = {"weighting": "likelihood", "beta": 0.1} | options
    return FewShotModel(LinearEncoder(dropout=0.0), "udtw", "cross_entropy", **chosen)


def gradients(model: FewShotModel, *stages: str) -> dict[str, torch.Tensor | None]:
    """The gradient of an episode by part of the model; None if the part gets none."""
    model.zero_grad(set_to_none=True)
    model(SOURCE.batch(np.array([0, 8, 1, 2, 9, 10])), *LABELS, stages).backward()
    found = {}
    for part in PARTS:
        known = [p.grad.flatten() for p in getattr(model, part).parameters() if p.grad is not None]
        found[part] = torch.cat(known) if known else None
    return found


def views(indices, generator):
    return SOURCE.batch(indices, generator), SOURCE.batch(indices, generator)


def tasks(model: FewShotModel, stages) -> dict:
    """A task of every kind on the model."""
    source = type("Views", (), {"__len__": lambda _: len(SOURCE.labels), "two_views": lambda _, i, g: views(i, g)})()
    dictionary = Dictionary(6, 8, 8, n_nearest=3)
    dictionary.start_from(encode_all(model, SOURCE, np.arange(0, 48, 8)))
    sampler = EpisodeSampler(SOURCE.labels, 3, 1, 2, seed=4)
    return {
        "episodes": EpisodicTask(model, SOURCE, sampler, stages=stages),
        "dictionary": DictionaryTask(model, dictionary, SOURCE, batch_size=12, dict_iter=1, stages=stages),
        "contrast": ContrastiveTask(model, source, batch_size=8, stages=stages),
    }


@pytest.mark.parametrize(("n_steps", "warm", "half"), [(8, 2, 4), (9, 3, 5), (10, 3, 5), (1, 1, 1)])
def test_how_many_steps_come_first(n_steps, warm, half):
    """A quarter and a half of the steps, rounded up."""
    for training, first, then, count in (("warm_up", "features", "both", warm), ("after", "features", "sigma", half)):
        found = [stages_of(training, number, n_steps) for number in range(n_steps)]
        assert found == [(first,)] * count + [(then,)] * (n_steps - count)


def test_every_stage_reaches_its_parts():
    model = make_model()
    learning = {stage: [part for part, g in gradients(model, stage).items() if g is not None and g.any()]
                for stage in ("both", "features", "sigma", "scaled")}  # fmt: skip
    assert learning == {"both": [*PARTS], "features": ["encoder"], "sigma": ["sigma"], "scaled": [*PARTS]}


def test_variances_alone_leave_what_an_encoder_says_of_its_noise():
    class Noisy(LinearEncoder):
        """Tokens with noise and weights of features that it learns."""

        states_noise = True

        def forward(self, batch):
            tokens = super().forward(batch)
            noise = tokens.features.square().mean(-1)
            return Tokens(tokens.features, tokens.lengths, noise=noise, weight=tokens.features.sigmoid())

    torch.manual_seed(0)
    model = FewShotModel(Noisy(dropout=0.0), "udtw", "cross_entropy", weighting="likelihood", beta=0.1)
    found = gradients(model, "sigma")
    assert found["encoder"] is None
    assert found["sigma"].any()


def test_features_alone_learn_by_the_loss_without_uncertainty():
    model = make_model()
    certain = FewShotModel(model.encoder, "soft_dtw_divergence", "cross_entropy")
    batch = SOURCE.batch(np.array([0, 8, 1, 2, 9, 10]))
    torch.testing.assert_close(model(batch, *LABELS, ("features",)), certain(batch, *LABELS))


def test_faithful_adds_the_gradients_of_both_stages():
    model = make_model()
    together = gradients(model, "features", "sigma")
    for part, stage in zip(PARTS, ("features", "sigma"), strict=True):
        torch.testing.assert_close(together[part], gradients(model, stage)[part])


def test_variances_learn_by_the_same_loss_alone_as_together():
    model = make_model()
    torch.testing.assert_close(gradients(model, "sigma")["sigma"], gradients(model, "both")["sigma"])


@pytest.mark.parametrize(("per_feature", "sigma_context"), [(False, False), (True, False), (True, True)])
def test_scaled_gradients_are_those_of_a_token_times_its_variance_to_kappa(per_feature, sigma_context):
    model = make_model(per_feature=per_feature, sigma_context=sigma_context)
    encoded = model.encoder(SOURCE.batch(np.arange(4)))
    raw = model.with_variance(encoded).variance
    scaled = model.with_variance(encoded, "scaled")
    torch.testing.assert_close(scaled.variance, raw)
    torch.testing.assert_close(scaled.features, encoded.features)
    for values, source in ((scaled.variance, raw), (scaled.features, encoded.features)):
        weight = torch.randn(values.shape, generator=torch.Generator().manual_seed(1))
        factor = raw.detach() ** KAPPA
        factor = factor[..., None] if factor.ndim < values.ndim else factor
        parameters = list(model.encoder.parameters())
        found = torch.autograd.grad((weight * values).sum(), parameters, retain_graph=True)
        expected = torch.autograd.grad((weight * factor * source).sum(), parameters, retain_graph=True)
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("sigma_training", SIGMA_TRAININGS)
@pytest.mark.parametrize("kind", ["episodes", "dictionary", "contrast"])
def test_every_task_learns_in_the_stages_of_its_training(kind, sigma_training):
    """In a step without "sigma" or "both" the SigmaNet stays, and without "features" or "both" the encoder does."""
    model = make_model()
    task = tasks(model, lambda number: stages_of(sigma_training, number, 4))[kind]

    def state() -> dict[str, torch.Tensor]:
        return {part: torch.nn.utils.parameters_to_vector(getattr(model, part).parameters()).detach().clone()
                for part in PARTS}  # fmt: skip

    seen = [state()]
    Training(task, 4).run(lambda number, loss: seen.append(state()))
    for number in range(4):
        moved = {part for part in PARTS if not seen[number][part].equal(seen[number + 1][part])}
        stages = set(stages_of(sigma_training, number, 4))
        assert ("encoder" in moved) == bool(stages & {"both", "scaled", "features"})
        assert ("sigma" in moved) == bool(stages & {"both", "scaled", "sigma"})


@pytest.mark.parametrize("sigma_training", ["warm_up", "after"])
def test_parts_that_learn_alone_are_refused_in_several_processes(sigma_training):
    task = tasks(make_model(), lambda number: stages_of(sigma_training, number, 4))["episodes"]
    task.world = 2
    with pytest.raises(OptionError, match="not possible in several processes"):
        task.step(0)


def test_a_model_without_variances_has_one_stage():
    recipe = FewShotRecipe(metric="soft_dtw", sigma_training="after", n_steps=10)
    assert recipe.stages(recipe.model(LinearEncoder()))(9) == ("both",)


def test_an_unknown_training_is_named():
    with pytest.raises(OptionError, match="sigma_training must be one of"):
        FewShotRecipe(sigma_training="later")
    with pytest.raises(OptionError, match="sigma_training must be one of"):
        stages_of("later", 0, 1)
