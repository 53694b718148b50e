"""What udtw itself writes and reads again: checkpoints, forecasters, results of experiments."""

import contextlib
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from hardening.parsers import Parser, Read, Seed, demand, put, reader, safetensors_seeds


def _checkpoint(folder: Path) -> tuple[list[Seed], Read]:
    import torch

    from udtw._io.checkpoint import Checkpoint
    from udtw._io.training import Task, Training

    class Fit(Task):
        def __init__(self) -> None:
            self.model = torch.nn.Linear(2, 1)
            self.modules = {"model": self.model}
            self.optimizers = {"main": torch.optim.AdamW(self.model.parameters())}
            self.generator = torch.Generator()

        def step(self, number: int) -> float:
            loss = self.model(torch.rand(1, 2, generator=self.generator)).sum()
            loss.backward()
            self.optimizers["main"].step()
            return loss.item()

    path, config = folder / "c.safetensors", {"recipe": {"seed": 0, "gamma": 0.1}}

    def train(n_steps: int) -> Training:
        training = Training(Fit(), n_steps, keep_best=True, checkpoint=Checkpoint(path, config, writes=n_steps == 2))
        training.run()
        return training

    train(2)

    def check(training: Training) -> None:
        losses = training.history.train
        demand(isinstance(losses, list) and all(isinstance(loss, float) for loss in losses), "a list of losses")

    seeds = safetensors_seeds(path.read_bytes(), path.name, ["settings", "phases"])
    return seeds, reader(folder, lambda: train(3), check)  # a training that goes on reads the file and makes a step


def _recognizer(kind: str) -> Any:
    def prepare(folder: Path) -> tuple[list[Seed], Read]:
        from udtw._io.checkpoint import History, module_tensors, write_checkpoint
        from udtw.images import ImageRecipe, ImageRecognizer
        from udtw.skeleton import ActionRecognizer, Recipe

        path = folder / "c.safetensors"
        found: Any
        if kind == "skeleton":
            small = {"dim": 4, "joint_dim": 2, "width": 4, "depth": 1, "heads": 2, "block_size": 2, "n_atoms": 2}
            found = ActionRecognizer(Recipe.from_dict({**small, "mode": "unsupervised", "n_nearest": 1}), "upperbody8")
        else:
            found = ImageRecognizer(ImageRecipe.from_dict({"dim": 2}), inputs=3)
        write_checkpoint(path, found.config, {"training": History([0.5])}, module_tensors(found._modules))
        read = reader(
            folder, lambda: type(found).load(path), lambda again: demand(isinstance(again.losses, list), "losses")
        )
        seeds = safetensors_seeds(path.read_bytes(), path.name, ["settings"])
        return [*seeds, seeds[-1], seeds[-1]], read  # most of it is in the configuration

    return prepare


PAST = np.random.default_rng(0).normal(size=(6, 4))


def _forecaster(folder: Path) -> tuple[list[Seed], Read]:
    from udtw.timeseries import SequenceForecaster

    forecaster = SequenceForecaster("udtw", hidden=(2,), max_iter=1, training={"batch_size": 6}, random_state=0)
    forecaster.fit(PAST, PAST[:, :2]).save(folder)
    config = (folder / "config.json").read_bytes()
    name = json.loads(config)["weights"]
    weights = (folder / name).read_bytes()

    def check(found: Any) -> None:
        weights = [*found.model_.parameters(), *(found.sigma_.parameters() if found.sigma_ is not None else ())]
        demand(all(np.isfinite(weight.numpy()).all() for weight in weights), "finite weights")
        steps, features = found._past_shape
        mean, std = found.predict(np.zeros((2, steps, features)), return_std=True)
        demand(len(mean) == 2 and mean.shape == std.shape, "a forecast and its deviation")

    plain = reader(folder, lambda: SequenceForecaster.load(folder), check)

    def read(file: str, content: bytes) -> None:
        if file == "config.json":
            plain(file, content)
            return
        renamed = f"weights-{hashlib.sha256(content).hexdigest()}.safetensors"
        put(folder / renamed, content)
        try:
            plain("config.json", config.replace(name.encode(), renamed.encode()))
        finally:
            if renamed != name:  # the unchanged weights, which config.json needs
                (folder / renamed).unlink()

    seeds = [Seed(config, kind, "config.json") for kind in ("json", "json", "text")]
    return [*seeds, *safetensors_seeds(weights, name)], read


def _results(folder: Path) -> tuple[list[Seed], Read]:
    from experiments import Store, Unit
    from udtw.errors import UdtwError

    unit = Unit("ucr", "GunPoint", "udtw", 0, {"gamma": 0.1, "grid": [1, 2]})
    store = Store(folder / "units")
    store.write(unit, {"accuracy": 0.9, "losses": [1.0, float("nan")], "best": {"gamma": None}})
    content = store.path(unit).read_bytes()
    store.path(unit).unlink()

    def read(file: str, content: bytes) -> None:
        path = store.folder / file
        with contextlib.suppress(ValueError, TypeError, KeyError, RecursionError, UdtwError):
            path = store.path(Unit(**json.loads(content)["unit"]))  # the name that belongs to it, if it has one
        put(path, content)
        try:
            for found, result in store.results():
                demand(isinstance(result, dict) and found.fields, "a dictionary of results")
        finally:
            path.unlink()

    return [Seed(content, kind, f"{unit.key}.json") for kind in ("json", "json", "text")], read


def _forecaster_training(folder: Path) -> tuple[list[Seed], Read]:
    import torch

    from udtw._engine.metrics import get_metric
    from udtw._io.checkpoint import Checkpoint
    from udtw._io.training import Training
    from udtw.timeseries.forecaster_model import Forecaster, ForecastLoss, ForecastTask

    path, settings = folder / "training.safetensors", {"gamma": 0.1, "data": "00"}
    generator = torch.Generator().manual_seed(0)
    series = torch.randn(6, 4, 1, generator=generator)

    def resumed() -> Training:
        data = (series, series[:, :2])
        model, loss = Forecaster((4, 1), (2, 1), []), ForecastLoss(get_metric("euclidean"))
        task = ForecastTask(model, loss, data, None, generator, rates=(0.1, 0.0), batch_size=3)
        return Training(task, 1, keep_best=True, checkpoint=Checkpoint(path, settings), phase="udtw")

    resumed().run()

    def read(name: str, content: bytes) -> None:
        put(path, content)
        weights = resumed().task.modules["model"].parameters()
        demand(all(torch.isfinite(weight).all() for weight in weights), "finite weights")

    seeds = safetensors_seeds(path.read_bytes(), path.name, ["phases", "settings"])
    return [*seeds, *seeds[-2:]], read


PARSERS = [
    Parser("checkpoint", "resume of a training, .safetensors", _checkpoint),
    Parser("action-model", "`ActionRecognizer.load`", _recognizer("skeleton")),
    Parser("image-model", "`ImageRecognizer.load`", _recognizer("image")),
    Parser("forecaster", "`SequenceForecaster.load`: config.json and weights", _forecaster),
    Parser("results", "`Store.results`: results of experiments", _results),
    Parser("forecaster-training", "`SequenceForecaster.fit(checkpoint_path=)`", _forecaster_training),
]
