"""A forecaster's training in a file: stopped anywhere it goes on with the same bits, and takes in nothing foreign."""

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from udtw.errors import FileFormatError, OptionError
from udtw.timeseries import SequenceForecaster, forecaster_training
from udtw.timeseries.training_file import Progress, TrainingFile

pytestmark = pytest.mark.usefixtures("one_thread")


def series() -> tuple[np.ndarray, np.ndarray]:
    time = np.linspace(0, 6, 18)
    waves = np.stack([np.sin(time + phase) for phase in np.linspace(0, 5, 25)])
    return waves[:, :10], waves[:, 10:]


def forecaster(**settings) -> SequenceForecaster:
    return SequenceForecaster(**({"hidden": 6, "max_epochs": 3, "batch_size": 10, "random_state": 0} | settings))


def weights(model: SequenceForecaster) -> list[torch.Tensor]:
    return [p for module in (model.model_, model.sigma_) for p in module.parameters()]


class Stop(Exception):
    """Raised in place of a kill."""


def stopped_after(epochs: int, path, monkeypatch) -> None:
    """Train until ``epochs`` of all phases are in the file, and no further."""
    left = epochs

    def write(self, progress, own=TrainingFile.write):
        nonlocal left
        own(self, progress)
        left -= 1
        if left == 0:
            raise Stop

    with monkeypatch.context() as patched:
        patched.setattr(TrainingFile, "write", write)
        with pytest.raises(Stop):
            forecaster().fit(*series(), checkpoint_path=path)


@pytest.mark.parametrize("epochs", [1, 3, 4, 6], ids=["first phase", "end of it", "second phase", "end of all"])
def test_stopped_and_continued_is_bit_equal(epochs, tmp_path, monkeypatch):
    path = tmp_path / "training.safetensors"
    stopped_after(epochs, path, monkeypatch)
    whole, again = forecaster().fit(*series()), forecaster().fit(*series(), checkpoint_path=path)
    assert again.history_ == whole.history_
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(weights(again), weights(whole), strict=True))
    assert np.array_equal(again.std_scale_, whole.std_scale_)


def test_a_finished_training_is_not_repeated(tmp_path, monkeypatch):
    path = tmp_path / "training.safetensors"
    first = forecaster().fit(*series(), checkpoint_path=path)
    monkeypatch.setattr(forecaster_training.Training, "_epoch", lambda *_: pytest.fail("it trains again"))
    again = forecaster().fit(*series(), checkpoint_path=path)
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(weights(again), weights(first), strict=True))


@pytest.mark.parametrize("changed", ["gamma", "data"])
def test_other_settings_or_data_are_refused_and_the_file_stays(changed, tmp_path):
    path = tmp_path / "training.safetensors"
    forecaster().fit(*series(), checkpoint_path=path)
    before = path.read_bytes()
    past, future = series()
    other = forecaster(gamma=0.7) if changed == "gamma" else forecaster()
    with pytest.raises(OptionError, match=rf"other settings or data \({changed}\)"):
        other.fit(past + (changed == "data"), future, checkpoint_path=path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("seed", [None, np.random.RandomState(0)])
def test_a_seed_is_needed(seed, tmp_path):
    with pytest.raises(OptionError, match="random_state as an integer"):
        forecaster(random_state=seed).fit(*series(), checkpoint_path=tmp_path / "training")


@pytest.mark.parametrize("content", [b"", b"no safetensors", b"\x08\0\0\0\0\0\0\0{}      "])
def test_a_foreign_or_damaged_file_is_named(content, tmp_path):
    path = tmp_path / "training.safetensors"
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match=r"training\.safetensors"):
        forecaster().fit(*series(), checkpoint_path=path)


@pytest.mark.parametrize(
    ("numbers", "tensors"),
    [
        ({"euclidean": {"train": [1.0], "valid": [], "best": 0}}, {}),
        ({"euclidean": {"train": [1.0], "valid": [], "best": 5}}, {}),
        ({"euclidean": {"train": "1", "valid": [], "best": 0}}, {}),
        ({"euclidean": {"steps": 3}}, {}),
        ({"euclidean": 3}, {}),
    ],
    ids=["no weights", "no such epoch", "no losses", "unknown history", "no history"],
)
def test_content_that_does_not_fit_is_named(numbers, tensors, tmp_path, monkeypatch):
    path = tmp_path / "training.safetensors"
    found: list[TrainingFile] = []
    monkeypatch.setattr(TrainingFile, "read", lambda self: found.append(self) or Progress())
    forecaster().fit(*series(), checkpoint_path=path)
    monkeypatch.undo()
    found[0].write(Progress(numbers, tensors))
    with pytest.raises(FileFormatError, match=r"training\.safetensors"):
        forecaster().fit(*series(), checkpoint_path=path)


def test_a_state_with_a_gap_is_named(tmp_path):
    path = tmp_path / "training.safetensors"
    forecaster().fit(*series(), checkpoint_path=path)
    with safe_open(path, "pt") as file:
        described = {key: value for key, value in file.metadata().items() if key != "sha256"}
    kept = {name: tensor for name, tensor in load_file(path).items() if not name.startswith("optimizer.1.")}
    save_file(kept, path, described)
    with pytest.raises(FileFormatError, match="state of some parameters is missing"):
        forecaster().fit(*series(), checkpoint_path=path)
