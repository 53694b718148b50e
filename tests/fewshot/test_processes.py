"""Several processes make the same steps as one, up to rounding, and one of them writes the checkpoint."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.fewshot.helpers import LinearEncoder, Waves
from udtw._io.checkpoint import Checkpoint, read_checkpoint
from udtw._io.training import Training
from udtw.errors import OptionError
from udtw.fewshot import EpisodeSampler, FewShotModel
from udtw.fewshot.tasks import EpisodicTask

STEPS = 4


def make_task(fabric=None, episodes_per_step: int = 4) -> EpisodicTask:
    source = Waves()
    torch.manual_seed(0)
    model = FewShotModel(LinearEncoder(), "udtw", "cross_entropy", beta=0.1)
    sampler = EpisodeSampler(source.labels, 3, 1, 2, seed=4)
    return EpisodicTask(model, source, sampler, learning_rate=1e-2, episodes_per_step=episodes_per_step, fabric=fabric)


def train_in_processes(path: Path) -> None:
    """The body of the two processes; run as a script, since ddp starts the same script again."""
    from lightning_fabric import Fabric

    torch.set_num_threads(1)
    fabric = Fabric(accelerator="cpu", devices=2, strategy="ddp")
    fabric.launch()
    checkpoint = Checkpoint(path, writes=fabric.is_global_zero)
    losses = Training(make_task(fabric), STEPS, checkpoint=checkpoint).run().train
    try:
        make_task(fabric, episodes_per_step=3)
        refused = ""
    except OptionError as error:
        refused = str(error)
    if fabric.is_global_zero:
        print(json.dumps({"losses": losses, "world": fabric.world_size, "refused": refused}))


def test_two_processes_train_as_one(tmp_path):
    path = tmp_path / "two.safetensors"
    root = Path(__file__).parents[2]
    environment = os.environ | {"PYTHONPATH": f"{root}{os.pathsep}{root / 'src'}", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, __file__, str(path)], env=environment, capture_output=True, text=True, check=True, timeout=300
    )
    found = json.loads(done.stdout.strip().splitlines()[-1])
    assert found["world"] == 2
    assert "multiple of the 2 processes" in found["refused"]
    alone = make_task()
    np.testing.assert_allclose(found["losses"], Training(alone, STEPS).run().train, rtol=1e-4)
    weights = read_checkpoint(path).tensors
    for name, tensor in alone.modules["model"].state_dict().items():
        torch.testing.assert_close(weights[f"module.model.{name}"], tensor, rtol=1e-3, atol=1e-5)


def test_a_fabric_of_one_process_changes_nothing():
    fabric = pytest.importorskip("lightning_fabric").Fabric(accelerator="cpu", devices=1)
    losses = [Training(make_task(which), STEPS).run().train for which in (fabric, None)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)


if __name__ == "__main__":
    train_in_processes(Path(sys.argv[1]))
