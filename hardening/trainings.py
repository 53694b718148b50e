"""The file of a forecaster's training."""

from pathlib import Path

from hardening.containers import safetensors_seeds
from hardening.parsers import Parser, Read, Seed, demand, put


def _forecaster_training(folder: Path) -> tuple[list[Seed], Read]:
    import torch

    from udtw.timeseries.training import Training
    from udtw.timeseries.training_file import Progress, TrainingFile

    generator = torch.Generator().manual_seed(0)
    training = Training(
        torch.nn.Linear(4, 2), torch.nn.MSELoss(), learning_rate=0.1, weight_decay=0.0, batch_size=3, max_epochs=1,
        patience=None, generator=generator,
    )  # fmt: skip
    series = torch.randn(6, 4, generator=generator)
    training.run((series, series[:, :2]), None)
    file = TrainingFile(folder / "training.safetensors", {"gamma": 0.1, "data": "00"})
    file.write(Progress({"udtw": vars(training.history)}, training.tensors()))

    def read(name: str, content: bytes) -> None:
        put(file.path, content)
        found = file.read()
        for phase in found.numbers:
            file.restore(training, found, phase)
            demand(all(torch.isfinite(weight).all() for weight in training.parameters), "finite weights")

    seeds = safetensors_seeds(file.path.read_bytes(), file.path.name, ["numbers", "settings"])
    return [*seeds, *seeds[-2:]], read


PARSERS = [Parser("forecaster-training", "`SequenceForecaster.fit(checkpoint_path=)`", _forecaster_training)]
