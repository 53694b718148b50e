"""Checkpoint files: what is written is read again, and nothing that does not fit is restored."""

import math

import pytest
import torch

from udtw._io.checkpoint import (
    Checkpoint,
    History,
    load_modules,
    module_tensors,
    read_checkpoint,
    restore_state,
    state_tensors,
    write_checkpoint,
)
from udtw._io.tensor_file import write_tensors
from udtw.errors import FileFormatError, OptionError

HISTORY = {"first": History([2.0, math.inf], [1.5, 1.0], 1), "second": History([0.1], [], -1)}


def test_what_is_written_is_read_again(tmp_path):
    path, tensors = tmp_path / "folder" / "c.safetensors", {"module.model.weight": torch.randn(2, 3)}
    write_checkpoint(path, {"gamma": 0.1}, HISTORY, tensors)
    saved = read_checkpoint(path)
    assert (saved.settings, saved.history) == ({"gamma": 0.1}, HISTORY)
    assert saved.tensors.keys() == tensors.keys()
    assert torch.equal(saved.tensors["module.model.weight"], tensors["module.model.weight"])


def test_a_loss_of_nan_can_be_kept(tmp_path):
    write_checkpoint(tmp_path / "c", {}, {"training": History([math.nan])}, {})
    assert math.isnan(read_checkpoint(tmp_path / "c").history["training"].train[0])


def test_phases_before_the_last_are_past(tmp_path):
    write_checkpoint(tmp_path / "c", {}, HISTORY, {})
    found = Checkpoint(tmp_path / "c")
    assert [found.is_past(phase) for phase in ("first", "second", "third")] == [True, False, False]


def test_other_settings_are_refused(tmp_path):
    write_checkpoint(tmp_path / "c", {"gamma": 0.1, "beta": 1}, {}, {})
    with pytest.raises(OptionError, match=r"\(gamma\)"):
        Checkpoint(tmp_path / "c", {"gamma": 0.2, "beta": 1})


def test_only_one_process_writes(tmp_path):
    Checkpoint(tmp_path / "c", writes=False).save({})
    assert not (tmp_path / "c").exists()


def test_few_shot_models_of_earlier_versions_are_read(tmp_path):
    model, again = torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)
    tensors = module_tensors({"model": model}) | {"losses": torch.tensor([0.5, 0.25], dtype=torch.float64)}
    write_tensors(tmp_path / "c", "udtw.fewshot", 1, tensors, {"config": {"seed": 0}})
    saved = read_checkpoint(tmp_path / "c")
    assert (saved.settings, saved.history) == ({"seed": 0}, {"training": History([0.5, 0.25])})
    load_modules(tmp_path / "c", saved.tensors, {"model": again})
    assert torch.equal(model.weight, again.weight)


def test_trainings_of_forecasters_of_earlier_versions_are_refused_by_name(tmp_path):
    write_tensors(tmp_path / "c", "udtw.forecaster-training", 1, {}, {"settings": {}, "numbers": {}})
    with pytest.raises(FileFormatError, match=r"earlier version of udtw .* no longer supported"):
        read_checkpoint(tmp_path / "c")


@pytest.mark.parametrize(("settings", "phases"), [([], {}), ({}, []), ({}, {"training": 0}), ({}, {"training": None})])
def test_a_damaged_description_is_named(settings, phases, tmp_path):
    tensors = {f"loss.training.{part}": torch.zeros(0, dtype=torch.float64) for part in ("train", "valid")}
    about = {"settings": settings, "phases": phases, "count": 2}
    write_tensors(tmp_path / "c.safetensors", "udtw.training", 1, tensors, about)
    with pytest.raises(FileFormatError, match=r"c\.safetensors has a"):
        read_checkpoint(tmp_path / "c.safetensors")


def stepped(steps: int = 2) -> tuple[torch.nn.Linear, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    for _ in range(steps):
        model(torch.ones(1, 3)).square().sum().backward()
        optimizer.step()
    return model, optimizer


def test_the_next_step_is_the_same_after_a_restore():
    _, first = stepped(3)
    tensors = {"else.0.step": torch.zeros(7)} | state_tensors(first, "adam.")
    model, second = stepped(3)
    second.state.clear()
    restore_state(second, tensors, "adam.")
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    second.step()
    other, third = stepped(3)
    for parameter in other.parameters():
        parameter.grad = torch.ones_like(parameter)
    third.step()
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))


def test_before_the_first_step_there_is_nothing():
    _, optimizer = stepped(0)
    assert state_tensors(optimizer, "adam.") == {}


@pytest.mark.parametrize(
    "damage",
    [
        lambda t: t | {"0.exp_avg": torch.zeros(7)},
        lambda t: {key.replace("exp_avg_sq", "exp_avg_other"): value for key, value in t.items()},
        lambda t: {key: value for key, value in t.items() if key != "0.step"},
        lambda t: t | {"99999999999.step": torch.zeros(())},
        lambda t: t | {"2.step": torch.ones(())},
        lambda t: t | {"x.step": torch.zeros(())},
        lambda t: t | {"0.step": torch.tensor(torch.nan)},
        lambda t: t | {"0.step": torch.tensor(0.0)},
        lambda t: t | {"0.step": torch.tensor(2.0**54)},
        lambda t: t | {"0.step": torch.tensor(2)},
        lambda t: t | {"0.exp_avg": t["0.exp_avg"].int()},
        lambda t: t | {"0.exp_avg_sq": t["0.exp_avg_sq"] * torch.inf},
    ],
)
def test_a_state_that_does_not_fit_is_refused_and_changes_nothing(damage):
    _, optimizer = stepped()
    before = state_tensors(optimizer, "")
    with pytest.raises(ValueError, match="parameter"):
        restore_state(optimizer, damage(before), "")
    assert all(torch.equal(tensor, before[name]) for name, tensor in state_tensors(optimizer, "").items())
