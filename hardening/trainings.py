"""The file of a forecaster's training."""

from pathlib import Path

from hardening.containers import safetensors_seeds
from hardening.parsers import Parser, Read, Seed, demand, put


def _forecaster_training(folder: Path) -> tuple[list[Seed], Read]:
    import torch

    from udtw.checkpoint import Checkpoint
    from udtw.timeseries.forecaster_model import ForecastTask
    from udtw.training import Training

    path, settings = folder / "training.safetensors", {"gamma": 0.1, "data": "00"}
    generator = torch.Generator().manual_seed(0)
    series = torch.randn(6, 4, generator=generator)

    def resumed() -> Training:
        data = (series, series[:, :2])
        task = ForecastTask(
            torch.nn.Linear(4, 2), torch.nn.MSELoss(), data, None, generator, rates=(0.1, 0.0), batch_size=3
        )
        return Training(task, 1, keep_best=True, checkpoint=Checkpoint(path, settings), phase="udtw")

    resumed().run()

    def read(name: str, content: bytes) -> None:
        put(path, content)
        weights = resumed().task.modules["model"].parameters()
        demand(all(torch.isfinite(weight).all() for weight in weights), "finite weights")

    seeds = safetensors_seeds(path.read_bytes(), path.name, ["phases", "settings"])
    return [*seeds, *seeds[-2:]], read


PARSERS = [Parser("forecaster-training", "`SequenceForecaster.fit(checkpoint_path=)`", _forecaster_training)]
