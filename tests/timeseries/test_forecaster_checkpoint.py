"""The checkpoint of a forecaster: an interrupted training continues with the same bits; foreign files are refused."""

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from udtw._io.checkpoint import Checkpoint, History, read_checkpoint, write_checkpoint
from udtw._io.tensor_file import write_tensors
from udtw.errors import FileFormatError, OptionError
from udtw.timeseries import SequenceForecaster
from udtw.timeseries.forecaster_model import ForecastTask

pytestmark = pytest.mark.usefixtures("one_thread")


def series() -> tuple[np.ndarray, np.ndarray]:
    time = np.linspace(0, 6, 18)
    waves = np.stack([np.sin(time + phase) for phase in np.linspace(0, 5, 25)])
    return waves[:, :10], waves[:, 10:]


def forecaster(**settings) -> SequenceForecaster:
    small = {"hidden": 6, "max_iter": 3, "training": {"batch_size": 10}, "random_state": 0}
    return SequenceForecaster(**(small | settings))


def weights(model: SequenceForecaster) -> list[torch.Tensor]:
    return [p for module in (model.model_, model.sigma_) for p in module.parameters()]


class Stop(Exception):
    """Raised in place of a kill."""


def stopped_after(epochs: int, path, monkeypatch) -> None:
    """Train until ``epochs`` of all phases are in the file, and no further."""
    left = epochs

    def save(self, tensors, own=Checkpoint.save):
        nonlocal left
        own(self, tensors)
        left -= 1
        if left == 0:
            raise Stop

    with monkeypatch.context() as patched:
        patched.setattr(Checkpoint, "save", save)
        with pytest.raises(Stop):
            forecaster().fit(*series(), checkpoint_path=path)


@pytest.mark.parametrize("epochs", [1, 3, 4, 6], ids=["first phase", "end of it", "second phase", "end of all"])
def test_stopped_and_continued_is_bit_equal(epochs, tmp_path, monkeypatch):
    path = tmp_path / "training.safetensors"
    stopped_after(epochs, path, monkeypatch)
    whole, again = forecaster().fit(*series()), forecaster().fit(*series(), checkpoint_path=path)
    assert again.history_ == whole.history_
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(weights(again), weights(whole), strict=True))
    assert np.array_equal(again.bands_.scale, whole.bands_.scale)


def test_a_finished_training_is_not_repeated(tmp_path, monkeypatch):
    path = tmp_path / "training.safetensors"
    first = forecaster().fit(*series(), checkpoint_path=path)
    monkeypatch.setattr(ForecastTask, "step", lambda *_: pytest.fail("it trains again"))
    again = forecaster().fit(*series(), checkpoint_path=path)
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(weights(again), weights(first), strict=True))


@pytest.mark.parametrize("changed", ["metric_params", "data"])
def test_other_settings_or_data_are_refused_and_the_file_stays(changed, tmp_path):
    path = tmp_path / "training.safetensors"
    forecaster().fit(*series(), checkpoint_path=path)
    before = path.read_bytes()
    past, future = series()
    other = forecaster(metric_params={"gamma": 0.7}) if changed == "metric_params" else forecaster()
    with pytest.raises(OptionError, match=rf"other settings or data \({changed}\)"):
        other.fit(past + (changed == "data"), future, checkpoint_path=path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("seed", [None, np.random.RandomState(0)])
def test_a_seed_is_needed(seed, tmp_path):
    with pytest.raises(OptionError, match="an integer random_state"):
        forecaster(random_state=seed).fit(*series(), checkpoint_path=tmp_path / "training")


@pytest.mark.parametrize("content", [b"", b"no safetensors", b"\x08\0\0\0\0\0\0\0{}      "])
def test_a_foreign_or_damaged_file_is_named(content, tmp_path):
    path = tmp_path / "training.safetensors"
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match=r"training\.safetensors"):
        forecaster().fit(*series(), checkpoint_path=path)


@pytest.mark.parametrize(
    "history",
    [
        History([1.0], [], 0),
        History([1.0], [], 5),
        History([1.0], [1.0, 2.0], 0),
        History([1.0], [], "0"),
        History([1.0], [], True),
    ],
    ids=["no weights", "no such epoch", "more validation than training", "best is text", "best is a boolean"],
)
def test_a_history_that_does_not_fit_is_named(history, tmp_path):
    path = tmp_path / "training.safetensors"
    forecaster().fit(*series(), checkpoint_path=path)
    write_checkpoint(path, read_checkpoint(path).settings, {"euclidean": history}, {})
    with pytest.raises(FileFormatError, match=r"training\.safetensors"):
        forecaster().fit(*series(), checkpoint_path=path)


def rewritten(path, change) -> None:
    """Write the file again with its tensors changed, without the checksum."""
    with safe_open(path, "pt") as file:
        described = {key: value for key, value in file.metadata().items() if key != "sha256"}
    save_file(change(load_file(path)), path, described)


def test_a_file_with_a_gap_is_named(tmp_path):
    path = tmp_path / "training.safetensors"
    forecaster().fit(*series(), checkpoint_path=path)
    rewritten(path, lambda t: {name: one for name, one in t.items() if not name.startswith("optimizer.all.1.")})
    with pytest.raises(FileFormatError, match=r"it holds \d+ tensors where \d+ were written"):
        forecaster().fit(*series(), checkpoint_path=path)


@pytest.mark.parametrize(
    ("name", "tensor", "message"),
    [
        ("module.model.layers.0.weight", torch.full((6, 10), torch.nan), "is not finite"),
        ("module.model.layers.0.weight", torch.zeros(6, 11), "does not fit this model"),
        ("best.model.layers.0.weight", torch.zeros(6, 11), "does not fit this model"),
        ("optimizer.all.1.exp_avg", torch.zeros(7), "does not fit this optimizer"),
        ("generator", torch.zeros(3, dtype=torch.uint8), "no state of the random numbers"),
    ],
)
def test_a_state_that_does_not_fit_is_named(name, tensor, message, tmp_path):
    path = tmp_path / "training.safetensors"
    forecaster().fit(*series(), checkpoint_path=path)
    rewritten(path, lambda t: t | {name: tensor})
    with pytest.raises(FileFormatError, match=message):
        forecaster().fit(*series(), checkpoint_path=path)


def test_a_file_of_an_earlier_version_is_refused_and_named(tmp_path):
    path = tmp_path / "training.safetensors"
    write_tensors(path, "udtw.forecaster-training", 1, {"now.0": torch.zeros(2)}, {"settings": {}, "numbers": {}})
    before = path.read_bytes()
    with pytest.raises(FileFormatError, match="earlier version of udtw"):
        forecaster().fit(*series(), checkpoint_path=path)
    assert path.read_bytes() == before
