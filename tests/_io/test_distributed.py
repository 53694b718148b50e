"""Several processes under torchrun make the steps of one, up to rounding; a killed one costs time and nothing else."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.fewshot.helpers import LinearEncoder, Waves
from udtw._io.checkpoint import Checkpoint, read_checkpoint
from udtw._io.distributed import Processes, join_torchrun
from udtw._io.training import Training
from udtw.fewshot import FewShotModel
from udtw.fewshot.contrastive import ContrastiveTask
from udtw.fewshot.dictionary import Dictionary, DictionaryTask
from udtw.timeseries import SequenceForecaster

STEPS = 6
BATCH = 7  # not a multiple of two


class WaveViews(Waves):
    def __len__(self) -> int:
        return len(self.labels)

    def two_views(self, indices, generator):
        return self.batch(indices, generator), self.batch(indices, generator)


def contrastive(fabric=None) -> ContrastiveTask:
    torch.manual_seed(0)
    model = FewShotModel(LinearEncoder(), "udtw", "cross_entropy", beta=0.1)
    return ContrastiveTask(model, WaveViews(), batch_size=BATCH, learning_rate=1e-2, fabric=fabric)


def dictionary(fabric=None) -> DictionaryTask:
    torch.manual_seed(0)
    model = FewShotModel(LinearEncoder(dropout=0.0), "udtw", beta=0.1)
    return DictionaryTask(
        model, Dictionary(5, 4, 8, n_nearest=3), Waves(), batch_size=BATCH, dict_iter=2, fabric=fabric
    )


TASKS = {"contrastive": contrastive, "dictionary": dictionary}


def forecaster(path=None, fabric=None, tick=None) -> SequenceForecaster:
    time = np.linspace(0, 6, 20)
    series = np.stack([np.sin(time + phase) for phase in np.linspace(0, 5, 33)])
    model = SequenceForecaster("udtw", hidden=8, training={"batch_size": BATCH}, max_iter=3, random_state=0)
    return model.fit(series[:, :12], series[:, 12:], checkpoint_path=path, fabric=fabric)


def body(folder: Path) -> None:
    """What each process does. The second one kills itself once, in the midst of the second training."""
    from lightning_fabric import Fabric

    torch.set_num_threads(1)
    devices, machines = join_torchrun("cpu")
    fabric = Fabric(accelerator="cpu", devices=devices, num_nodes=machines, strategy="ddp")
    fabric.launch()

    def tick(number: int, loss: float) -> None:
        if (name, number, fabric.global_rank) == ("dictionary", STEPS // 2, 1) and not (folder / "killed").exists():
            (folder / "killed").write_text("")
            os.kill(os.getpid(), signal.SIGKILL)

    for name, make in TASKS.items():
        path = folder / f"{name}.safetensors"
        checkpoint = Checkpoint(path, writes=fabric.is_global_zero)
        Training(make(fabric), STEPS, checkpoint=checkpoint).run(tick)
    model = forecaster(folder / "forecaster.safetensors", fabric)
    if fabric.is_global_zero:
        model.save(folder / "forecaster")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder in which two processes have trained everything, one of them killed on the way."""
    folder = tmp_path_factory.mktemp("trained")
    root = Path(__file__).parents[2]
    environment = os.environ | {
        "PYTHONPATH": f"{root}{os.pathsep}{root / 'src'}", "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=1",
        __file__, str(folder),
    ]  # fmt: skip
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


def test_the_killed_process_was_replaced(trained):
    assert (trained / "killed").exists()


@pytest.mark.parametrize("name", TASKS)
def test_two_processes_train_as_one(trained, name):
    alone = TASKS[name]()
    losses = Training(alone, STEPS).run().train
    saved = read_checkpoint(trained / f"{name}.safetensors")
    np.testing.assert_allclose(saved.history["training"].train, losses, rtol=1e-4)
    for part, module in alone.modules.items():
        for key, tensor in module.state_dict().items():
            torch.testing.assert_close(saved.tensors[f"module.{part}.{key}"], tensor, rtol=1e-3, atol=1e-4)


def test_two_processes_train_a_forecaster_as_one(trained):
    together, alone = SequenceForecaster.load(trained / "forecaster"), forecaster()
    for phase, history in alone.history_.items():
        np.testing.assert_allclose(together.history_[phase].train, history.train, rtol=1e-4)
    for mine, theirs in zip(together.model_.parameters(), alone.model_.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-4)


class Third:
    """Stands in for the third of four processes of a fabric."""

    global_rank, world_size = 2, 4


@pytest.mark.parametrize("count", [1, 3, 4, 9])
def test_shares_cover_every_row_once(count):
    fabrics = [type("Fabric", (), {"global_rank": rank, "world_size": 4})() for rank in range(4)]
    shares = [Processes(fabric).share(count) for fabric in fabrics]
    assert torch.cat(shares).tolist() == list(range(count))


def test_repeated_rows_bring_no_gradient():
    third = Processes(Third())
    every = torch.arange(1.0, 6.0)[:, None]  # five rows for four processes: two each, so the third has one and a repeat
    assert third.rows(5).tolist() == [4, 4]
    assert third.own(every)[:, 0].tolist() == [5.0, 0.0]


def test_one_process_keeps_all_rows():
    alone = Processes()
    every = torch.randn(3, 2)
    assert alone.rows(3).tolist() == [0, 1, 2]
    assert torch.equal(alone.own(every), every)
    assert torch.equal(alone.gather(every, 3), every)
    assert alone.writes


def test_outside_torchrun_there_is_nothing_to_join(monkeypatch):
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    assert join_torchrun("cpu") is None


if __name__ == "__main__":
    body(Path(sys.argv[1]))
