"""Work that is killed: experiments, training of recognizers and forecasters, extraction of tokens, preparing clips.

Each is what a user runs, only smaller.
"""

import io
import json
import random
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import numpy as np

from experiments import Store, Unit


def bits(tensor: Any) -> tuple[str, tuple[int, ...], bytes]:
    """Type, shape and bytes of an array or tensor."""
    array = np.asarray(tensor)
    return str(array.dtype), array.shape, array.tobytes()


class Scene(ABC):
    """Work in a folder that a further `run` continues."""

    warm = True
    """Whether it can run in the process that forks the others; pools of workers do not survive a fork."""

    @abstractmethod
    def run(self, folder: Path) -> None:
        """Do the work in ``folder``, or continue it."""

    @abstractmethod
    def finished(self, folder: Path) -> dict[str, Any]:
        """What is complete, by udtw's own readers, which raise if a file is damaged; no later kill may change it."""

    @abstractmethod
    def result(self, folder: Path) -> Any:
        """What must be the same however often the work was interrupted."""


class _Experiment(Scene):
    """Units of an experiment, as `udtw reproduce` runs them; each is a file, and no finished one is computed again."""

    n_jobs = 1

    @abstractmethod
    def units(self, folder: Path) -> tuple[list[Unit], Any]:
        """The units, and the function that computes one."""

    def run(self, folder: Path) -> None:
        from rich.console import Console

        from experiments import run

        units, work = self.units(folder)
        summary = run(units, work, Store(folder / "units"), n_jobs=self.n_jobs, console=Console(file=io.StringIO()))
        if self.n_jobs > 1:
            # As Python does at its end, which a forked child does not reach.
            from joblib.externals.loky import get_reusable_executor

            get_reusable_executor().shutdown(wait=True)
        if summary.failed:
            raise RuntimeError(summary.failed[0].error)

    def _paths(self, folder: Path) -> list[Path]:
        store = Store(folder / "units")
        return [store.path(unit) for unit, _ in store.results()]

    def finished(self, folder: Path) -> dict[str, Any]:
        return {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in self._paths(folder)}

    def result(self, folder: Path) -> Any:
        return {path.name: path.read_bytes() for path in self._paths(folder)}


def _noise(unit: Unit) -> dict:
    rng = random.Random(unit.seed)
    time.sleep(rng.uniform(0.005, 0.015))
    return {"noise": [unit.options["scale"] * rng.gauss(0, 1) for _ in range(500)]}


class ToyExperiment(_Experiment):
    """150 units that only sleep and write."""

    def units(self, folder: Path) -> tuple[list[Unit], Any]:
        return [Unit("toy", f"set {i % 3}", "noise", i, {"scale": 0.5}) for i in range(150)], _noise


class ToyExperimentTwoJobs(ToyExperiment):
    n_jobs, warm = 2, False


class Barycenters(_Experiment):
    """The experiment "barycenters" on generated data sets."""

    def __init__(self, data: Path) -> None:
        self.data = data
        rng = np.random.default_rng(0)
        for name in ("Aa", "Bb"):
            rows = [
                [1 + i % 2, *np.round(np.sin(np.arange(16) / (2 + i % 2)) + rng.normal(0, 0.1, 16), 3)]
                for i in range(24)
            ]
            for split in ("TRAIN", "TEST"):
                (data / f"{name}_{split}.tsv").write_text("\n".join("\t".join(map(str, row)) for row in rows))

    def units(self, folder: Path) -> tuple[list[Unit], Any]:
        from experiments.registry import experiment, units_of, work_of

        module = experiment("barycenters")
        options = {"datasets": ["Aa", "Bb"], "seeds": [0, 1, 2], "quick": True, "data_dir": str(self.data)}
        units = units_of(module, backbones=None, per_class=None, **options)
        # Only methods that start at once: the others compile kernels first, which has nothing to do with files.
        units = [unit for unit in units if unit.method in ("euclidean", "dtw")]
        return units, work_of(module, str(self.data), folder)


class _Training(Scene):
    """Training with a checkpoint at every second step; resumed, it ends with the same bits."""

    @abstractmethod
    def fit(self, path: Path) -> None:
        """Train, or continue from the checkpoint ``path``."""

    def run(self, folder: Path) -> None:
        self.fit(folder / "model.safetensors")

    def finished(self, folder: Path) -> dict[str, Any]:
        from udtw._io.checkpoint import read_checkpoint

        path = folder / "model.safetensors"
        losses = read_checkpoint(path).history["training"].train if path.exists() else []
        return {f"step {step}": loss for step, loss in enumerate(losses)}

    def result(self, folder: Path) -> Any:
        from udtw._io.checkpoint import read_checkpoint

        saved = read_checkpoint(folder / "model.safetensors")
        return {name: bits(tensor) for name, tensor in saved.tensors.items()}, saved.history, saved.settings


class SkeletonTraining(_Training):
    def __init__(self, data: Path) -> None:
        from udtw.skeleton.datasets import make_actions

        self.clips = make_actions(n_classes=3, n_clips=4)

    def fit(self, path: Path) -> None:
        from udtw.skeleton import ActionRecognizer, Recipe

        recipe = Recipe(n_steps=40, n_way=2, n_query=1, dim=8, joint_dim=4, width=8, depth=1, heads=2, noise=0.01)
        ActionRecognizer(recipe, self.clips.graph).fit(self.clips, checkpoint_path=path, checkpoint_every=2)


class ImageTraining(_Training):
    def __init__(self, data: Path) -> None:
        from udtw.images import open_tokens

        _embed(data / "tokens", 48)
        self.tokens = open_tokens(data / "tokens")

    def fit(self, path: Path) -> None:
        from udtw.images import ImageRecipe, ImageRecognizer

        recipe = ImageRecipe(n_steps=60, n_way=2, n_query=1, dim=8)
        ImageRecognizer(recipe, self.tokens.dim).fit(self.tokens, checkpoint_path=path, checkpoint_every=2)


def _embed(folder: Path, count: int) -> None:
    from udtw.images import embed
    from udtw.images.backbones.patches import PatchBackbone
    from udtw.images.datasets import make_images

    images = make_images()
    few = images.subset(np.linspace(0, len(images) - 1, count).astype(int))
    embed(few, PatchBackbone(32, 8), folder, views=1, augmentation="drawing", images_per_shard=4)


class _Shards(Scene):
    """A folder of shards and its manifest, which is written last."""

    def finished(self, folder: Path) -> dict[str, Any]:
        from udtw._io.shard_store import check_file

        found = {path.name: path.read_bytes() for path in folder.glob("shard-*")}
        for name in found:
            check_file(folder / name, "")
        manifest = folder / "manifest.json"
        if manifest.exists():
            self.open(folder)
            found["manifest.json"] = json.dumps(json.loads(manifest.read_bytes()), sort_keys=True).encode()
        return found

    def result(self, folder: Path) -> Any:
        return self.finished(folder)

    @abstractmethod
    def open(self, folder: Path) -> Any:
        """What a finished folder holds."""


class TokenExtraction(_Shards):
    def run(self, folder: Path) -> None:
        _embed(folder, 80)

    def open(self, folder: Path) -> Any:
        from udtw.images import open_tokens

        tokens = open_tokens(folder)
        return tokens.tokens(range(len(tokens)))


class Preparation(_Shards):
    def run(self, folder: Path) -> None:
        from udtw.skeleton.datasets import prepare
        from udtw.skeleton.datasets.skeleton_set import Entry, Source

        entries = tuple(Entry(f"clip {i}", i % 2) for i in range(120))
        prepare(Source("utd-mhad", "kinect20", ("a", "b"), entries, _clip), folder, clips_per_shard=2)

    def open(self, folder: Path) -> Any:
        from udtw.skeleton.datasets import open_prepared

        return [clip.frames.sum() for clip in open_prepared(folder)]


def _clip(index: int) -> np.ndarray:
    return np.random.default_rng(index).normal(size=(60, 1, 20, 3)).astype(np.float32)


class Forecasters(Scene):
    """Eight forecasters, trained one after the other and each saved in place of the one before."""

    count = 8

    def __init__(self, data: Path) -> None:
        series = np.random.default_rng(0).normal(size=(40, 12)).cumsum(1)
        self.past, self.future = series[:, :8], series[:, 8:]

    def run(self, folder: Path) -> None:
        from udtw.timeseries import SequenceForecaster

        for version in range(len(self.finished(folder)), self.count):
            model = SequenceForecaster(
                "udtw", hidden=16, max_iter=2, training={"patience": version + 1}, random_state=version
            )
            model.fit(self.past, self.future).save(folder / "model")

    def finished(self, folder: Path) -> dict[str, Any]:
        from udtw.timeseries import SequenceForecaster

        if not (folder / "model" / "config.json").exists():
            return {}
        latest = int(SequenceForecaster.load(folder / "model").random_state)
        return {f"version {version} or a later one": True for version in range(latest + 1)}

    def result(self, folder: Path) -> Any:
        from udtw.timeseries import SequenceForecaster

        model = SequenceForecaster.load(folder / "model")
        return [bits(part) for part in model.predict(self.past, return_std=True)]
