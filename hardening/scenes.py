"""What is killed: experiments, trainings of recognisers and forecasters, extraction of tokens, preparation of clips.

Each is as udtw is used, only smaller. See `hardening.kills.Scene`.
"""

import io
import json
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import numpy as np

from hardening.parsers import put

Bits = tuple[str, tuple[int, ...], bytes]


def bits(tensor: Any) -> Bits:
    """Type, shape and bytes of an array or tensor."""
    array = np.asarray(tensor)
    return str(array.dtype), array.shape, array.tobytes()


def _missing(before: dict[str, Any], after: dict[str, Any]) -> str | None:
    gone = [name for name, content in before.items() if after.get(name) != content]
    return f"{gone[0]} was finished and is lost or was changed" if gone else None


class Experiment:
    """The experiment "barycenters" on generated data sets, as `udtw reproduce` runs it; each unit is a file."""

    def __init__(self, data: Path, jobs: int = 1, share: int = 30) -> None:
        self.name, self.share, self.jobs, self.data = f"experiment, {jobs} process(es)", share, jobs, data
        self.warm = jobs == 1
        rng = np.random.default_rng(0)
        for name in ("Aa", "Bb"):
            rows = [
                [1 + i % 2, *np.round(np.sin(np.arange(16) / (2 + i % 2)) + rng.normal(0, 0.1, 16), 3)]
                for i in range(24)
            ]
            text = "\n".join("\t".join(map(str, row)) for row in rows).encode()
            for split in ("TRAIN", "TEST"):
                put(data / f"{name}_{split}.tsv", text)

    def run(self, folder: Path) -> None:
        from rich.console import Console

        from udtw.experiments import Store, run
        from udtw.experiments.registry import experiment, units_of, work_of

        module = experiment("barycenters")
        options = {"datasets": ["Aa", "Bb"], "seeds": [0, 1, 2], "quick": True, "data_dir": str(self.data)}
        units = units_of(module, backbones=None, per_class=None, **options)
        # Those that start at once: the others compile for minutes what has nothing to do with files.
        units = [unit for unit in units if unit.method in ("euclidean", "dtw")]
        work = work_of(module, str(self.data), folder)
        summary = run(units, work, Store(folder / "units"), n_jobs=self.jobs, console=Console(file=io.StringIO()))
        if self.jobs > 1:
            # As Python does at its end, which a forked child does not reach.
            from joblib.externals.loky import get_reusable_executor

            get_reusable_executor().shutdown(wait=True)
        if summary.failed:
            raise RuntimeError(summary.failed[0].error)

    def finished(self, folder: Path) -> dict[str, bytes]:
        from udtw.experiments import Store

        store = Store(folder / "units")
        return {unit.key: store.path(unit).read_bytes() for unit, _ in store.results()}

    def lost(self, before: dict[str, bytes], after: dict[str, bytes]) -> str | None:
        return _missing(before, after)

    def result(self, folder: Path) -> Any:
        return self.finished(folder)


class _Training(ABC):
    """Training with a checkpoint at every second step; resumed, it ends with the same bits."""

    share, warm = 18, True

    @abstractmethod
    def fit(self, path: Path) -> None:
        """Train, or go on with the checkpoint ``path``."""

    def run(self, folder: Path) -> None:
        self.fit(folder / "model.safetensors")

    def finished(self, folder: Path) -> list[float]:
        from udtw.checkpoint import read_checkpoint

        path = folder / "model.safetensors"
        return read_checkpoint(path).history["training"].train if path.exists() else []

    def lost(self, before: list[float], after: list[float]) -> str | None:
        return None if after[: len(before)] == before else "steps that a checkpoint had are lost or other ones"

    def result(self, folder: Path) -> Any:
        from udtw.checkpoint import read_checkpoint

        saved = read_checkpoint(folder / "model.safetensors")
        return {name: bits(tensor) for name, tensor in saved.tensors.items()}, saved.history, saved.settings


class SkeletonTraining(_Training):
    name = "skeleton training"

    def __init__(self) -> None:
        from udtw.skeleton.datasets.synthetic import make_actions

        self.clips = make_actions(n_classes=3, n_clips=4)

    def fit(self, path: Path) -> None:
        from udtw.skeleton import ActionRecognizer, Recipe

        recipe = Recipe(n_steps=40, n_way=2, n_query=1, dim=8, joint_dim=4, width=8, depth=1, heads=2, noise=0.01)
        ActionRecognizer(recipe, self.clips.graph).fit(self.clips, checkpoint_path=path, checkpoint_every=2)


class ImageTraining(_Training):
    name = "image training"

    def __init__(self, tokens: Path) -> None:
        from udtw.images import open_tokens

        _embed(tokens, 48)
        self.tokens = open_tokens(tokens)

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


class _Shards(ABC):
    """A folder of shards and its manifest, which is written last."""

    warm = True

    def finished(self, folder: Path) -> dict[str, bytes]:
        from udtw.data.shard_store import check_file

        found = {path.name: path.read_bytes() for path in folder.glob("shard-*")}
        for name in found:
            check_file(folder / name, "")
        manifest = folder / "manifest.json"
        if manifest.exists():
            self.open(folder)
            found["manifest.json"] = json.dumps(json.loads(manifest.read_bytes()), sort_keys=True).encode()
        return found

    def lost(self, before: dict[str, bytes], after: dict[str, bytes]) -> str | None:
        return _missing(before, after)

    def result(self, folder: Path) -> Any:
        return self.finished(folder)

    @abstractmethod
    def open(self, folder: Path) -> Any:
        """What a finished folder holds."""


class TokenExtraction(_Shards):
    name, share = "token extraction", 12

    def run(self, folder: Path) -> None:
        _embed(folder, 80)

    def open(self, folder: Path) -> Any:
        from udtw.images import open_tokens

        tokens = open_tokens(folder)
        return tokens.tokens(range(len(tokens)))


class Preparation(_Shards):
    name, share = "preparation of clips", 8

    def run(self, folder: Path) -> None:
        from udtw.skeleton.datasets import Entry, Source, prepare

        entries = tuple(Entry(f"clip {i}", i % 2) for i in range(120))
        source = Source("utd-mhad", "kinect20", ("a", "b"), entries, _clip)
        prepare(source, folder, clips_per_shard=2)

    def open(self, folder: Path) -> Any:
        from udtw.skeleton.datasets import open_prepared

        return [clip.frames.sum() for clip in open_prepared(folder)]


def _clip(index: int) -> np.ndarray:
    return np.random.default_rng(index).normal(size=(60, 1, 20, 3)).astype(np.float32)


class Forecasters:
    """Eight forecasters, trained one after the other and each saved in place of the one before."""

    name, share, warm = "forecaster training", 12, True
    count = 8

    def __init__(self) -> None:
        series = np.random.default_rng(0).normal(size=(40, 12)).cumsum(1)
        self.past, self.future = series[:, :8], series[:, 8:]

    def run(self, folder: Path) -> None:
        from udtw.timeseries import SequenceForecaster

        for version in range(self.finished(folder) + 1, self.count):
            model = SequenceForecaster("udtw", hidden=16, max_epochs=2, patience=version, random_state=version)
            model.fit(self.past, self.future).save(folder / "model")

    def finished(self, folder: Path) -> int:
        """Number of the version that is there; −1 if none."""
        from udtw.timeseries import SequenceForecaster

        # Before the first `config.json` there is nothing to load.
        if not (folder / "model" / "config.json").exists():
            return -1
        return int(SequenceForecaster.load(folder / "model").random_state)

    def lost(self, before: int, after: int) -> str | None:
        return None if after >= before else f"forecaster {before} is lost; there is {after}"

    def result(self, folder: Path) -> Any:
        from udtw.timeseries import SequenceForecaster

        model = SequenceForecaster.load(folder / "model")
        return [bits(part) for part in model.predict(self.past, return_std=True)]


def scenes(root: Path) -> list[Any]:
    """All of them; ``root`` is for their data."""
    return [
        Experiment(root / "series"),
        Experiment(root / "series", jobs=2, share=2),
        SkeletonTraining(),
        ImageTraining(root / "tokens"),
        TokenExtraction(),
        Preparation(),
        Forecasters(),
    ]
