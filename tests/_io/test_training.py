"""The training loop: schedules, early stopping, best weights, checkpoints and threads."""

import math

import pytest
import torch

from udtw._io.checkpoint import Checkpoint
from udtw._io.training import CELLS_FOR_THREADS, Task, Training, cosine, own_randomness, threads_for
from udtw.errors import FileFormatError


class Descent(Task):
    """One weight follows Adam; losses are as given, and rates and modes are written down."""

    def __init__(self, losses=(), valid=None, rate=0.1, schedule=None):
        self.model = torch.nn.Linear(1, 1, bias=False)
        torch.nn.init.zeros_(self.model.weight)
        self.modules = {"model": self.model}
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=rate)
        self.optimizers = {"model": self.optimizer}
        self.losses, self.valid, self.schedule = losses, valid, schedule
        self.rates, self.weights, self.done = [], [], 0

    def step(self, number):
        assert self.model.training
        self.rates.append(self.optimizer.param_groups[0]["lr"])
        self.optimizer.zero_grad()
        (self.model.weight - 1).square().sum().backward()
        self.optimizer.step()
        self.weights.append(self.model.weight.item())
        self.done = number + 1
        return self.losses[number] if self.losses else 1.0

    def validate(self):
        return None if self.valid is None else self.valid[self.done - 1]


def test_a_cosine_falls_from_the_rate_to_zero():
    task = Descent(rate=0.3, schedule=cosine)
    Training(task, 8).run()
    assert task.rates == [0.3 * 0.5 * (1 + math.cos(math.pi * number / 8)) for number in range(8)]
    constant = Descent(rate=0.3)
    Training(constant, 3).run()
    assert constant.rates == [0.3] * 3


def test_the_cosine_is_that_of_torch():
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.7)
    theirs = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 50)
    for number in range(50):
        assert optimizer.param_groups[0]["lr"] == pytest.approx(0.7 * cosine(number, 50), rel=1e-12)
        optimizer.step()
        theirs.step()


@pytest.mark.parametrize("every", [1, 3])
def test_a_resumed_training_is_the_unbroken_one(tmp_path, every):
    whole, first, second = (Descent(schedule=cosine) for _ in range(3))
    Training(whole, 8).run()

    def stop(number, loss):
        if number == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Training(first, 8, checkpoint=Checkpoint(tmp_path / "c", every=every)).run(stop)
    history = Training(second, 8, checkpoint=Checkpoint(tmp_path / "c", every=every)).run()
    kept = {1: 4, 3: 3}[every]
    assert second.rates == whole.rates[kept:]
    assert second.weights == whole.weights[kept:]
    assert len(history.train) == 8


def test_the_best_weights_are_kept_also_when_interrupted():
    task = Descent(losses=[5.0] * 9, valid=[3, 1, 2, 0.5, 4, 4, 4, 4, 4])
    history = Training(task, 9, keep_best=True).run()
    assert (history.best, history.valid) == (3, task.valid)
    assert task.model.weight.item() == task.weights[3]
    assert not task.model.training

    def stop(number, loss):
        if number == 2:
            raise KeyboardInterrupt

    other = Descent(losses=[5.0] * 9, valid=task.valid)
    with pytest.raises(KeyboardInterrupt):
        Training(other, 9, keep_best=True).run(stop)
    assert other.model.weight.item() == other.weights[1]


def test_patience_ends_a_training_without_progress(tmp_path):
    losses = [3.0, 2.0, 2.5, 2.1, 2.0, 1.0, 0.5]
    checkpoint = Checkpoint(tmp_path / "c", every=100)
    history = Training(Descent(losses), 7, keep_best=True, patience=3, checkpoint=checkpoint).run()
    assert (history.train, history.best) == (losses[:5], 1)
    assert Checkpoint(tmp_path / "c").history["training"] == history  # the last step is written whatever "every" is


def test_no_steps_leave_a_file_too(tmp_path):
    Training(Descent(), 0, checkpoint=Checkpoint(tmp_path / "c")).run()
    assert Checkpoint(tmp_path / "c").history["training"].train == []


def test_threads_follow_the_size_of_a_step():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        for cells, expected in ((CELLS_FOR_THREADS - 1, 1), (CELLS_FOR_THREADS, 2), (None, 2)):
            with threads_for(cells):
                assert torch.get_num_threads() == expected
            assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_own_randomness_leaves_the_global_generator():
    torch.manual_seed(5)
    before = torch.get_rng_state()
    with own_randomness(3, 7, device=torch.device("cpu")):
        first = torch.rand(3)
    with own_randomness(3, 7, device=torch.device("cpu")):
        assert torch.equal(torch.rand(3), first)
    assert torch.equal(before, torch.get_rng_state())


def test_a_buffer_may_be_infinite_and_a_weight_may_not(tmp_path):
    """The scale of a constant feature is infinite on purpose."""
    path = tmp_path / "c"
    for name, value in (("scale", math.inf), ("weight", math.nan)):
        task, again = Descent(), Descent()
        for one in (task, again):
            one.model.register_buffer("scale", torch.ones(1))
        Training(task, 2).run()
        task.model.state_dict()[name].fill_(value)
        Training(task, 0, checkpoint=Checkpoint(path)).run()
        if name == "scale":
            assert Training(again, 0, checkpoint=Checkpoint(path)).task.model.scale.isinf().all()
        else:
            with pytest.raises(FileFormatError, match="weight is not finite"):
                Training(again, 0, checkpoint=Checkpoint(path))
        path.unlink()
