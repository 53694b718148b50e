"""Adam's state as tensors: it comes back whole, and nothing that does not fit gets in."""

import pytest
import torch

from udtw.optimizer_state import restore_state, state_tensors


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
