"""Options, progress and start of several processes, for the commands that train or run for long."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from udtw._io.progress import progress_bar
from udtw.cli.output import messages, note, show


class Mode(StrEnum):
    supervised = "supervised"
    unsupervised = "unsupervised"


class Objective(StrEnum):
    similarity = "similarity"
    cross_entropy = "cross_entropy"


ObjectiveOption = Annotated[
    Objective | None,
    typer.Option(
        help="The paper's (d² − δ)² + βΩ, or cross-entropy over −(d² + βΩ).", show_default="that of the preset"
    ),
]


class Preset(StrEnum):
    default = "default"
    paper = "paper"


PresetOption = Annotated[
    Preset, typer.Option(help="`paper`: the settings of the paper, for all that are not given otherwise.")
]
Out = Annotated[Path, typer.Option(help="The model, a .safetensors file; training resumes from it if it exists.")]
Steps = Annotated[int, typer.Option(help="Training steps.")]
EpisodesPerStep = Annotated[int, typer.Option(help="Episodes per training step; their losses are averaged.")]
Devices = Annotated[int, typer.Option(help="Processes (CPU) or GPUs that share the episodes of a step.")]
Accelerator = Annotated[str, typer.Option(help="Of lightning-fabric: `cpu`, `cuda`, `auto`.")]
Strategy = Annotated[str, typer.Option(help="Of lightning-fabric: `auto`, `ddp`.")]


def show_trained(recognizer: Any, name: str, out: Path, counted: dict[str, int], as_json: bool) -> None:
    """Print what was trained and the mean loss of the last steps."""
    note(f"wrote {out}")
    recipe, last = recognizer.recipe, recognizer.losses[-50:]
    result = {
        "model": str(out), "metric": recipe.metric, "mode": recipe.mode, **counted,
        "steps": len(recognizer.losses), "loss": sum(last) / len(last) if last else None,
    }  # fmt: skip
    show(f"Trained on {name}", result, as_json)


def with_progress(steps: int, shown: bool, fit: Callable[[Callable[[int, float], None]], Any]) -> None:
    """Call ``fit(tick)`` under a bar of ``steps`` that shows the last loss."""
    with progress_bar("training", steps, shown, messages()) as advance:
        done = 0

        def tick(number: int, loss: float) -> None:
            nonlocal done
            advance(number + 1 - done, f"loss {loss:.4f}")  # more than 1 after a resumed training's first step
            done = number + 1

        fit(tick)


WORDS = {"none": None, "true": True, "false": False}


def parse_setting(text: str) -> tuple[str, Any]:
    """Return the name and value of ``"width=64"``: a number, a pair (``0.5:2``), true or false, None, or the text."""
    from udtw.errors import OptionError

    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise OptionError(f"--setting must be NAME=VALUE, as in width=64; got {text!r}.")
    if value.strip().lower() in WORDS:
        return name.strip(), WORDS[value.strip().lower()]
    numbers = [_parse_number(part) for part in value.split(":")]
    if None in numbers:
        return name.strip(), value.strip()
    return name.strip(), numbers[0] if len(numbers) == 1 else tuple(numbers)


def _parse_number(text: str) -> int | float | None:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return None


def launch(accelerator: str, devices: int, strategy: str) -> Any:
    """Launch a lightning-fabric object whose other processes run the same command; return None for a single process.

    Under ``torchrun`` the processes are already running, and their number is torchrun's.
    """
    from udtw._io.distributed import join_torchrun

    found = join_torchrun(accelerator)
    if found is None and (accelerator, devices, strategy) == ("cpu", 1, "auto"):
        return None
    devices, machines = found or (devices, 1)
    try:
        from lightning_fabric import Fabric
    except ModuleNotFoundError as error:
        raise ImportError(
            "Several devices need lightning-fabric; install it with: pip install 'udtw[distributed]'"
        ) from error
    fabric = Fabric(accelerator=accelerator, devices=devices, strategy=strategy, num_nodes=machines)
    fabric.launch()
    return fabric


Dask = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Scheduler of a Dask cluster, as in `tcp://10.0.0.1:8786`, whose workers do the work. They need udtw, and "
        "must see the data and the folder of results at the same paths.",
    ),
]
CONNECT_SECONDS = 10


@contextmanager
def dask_cluster(address: str | None) -> Iterator[None]:
    """Use the workers of the cluster at ``address`` as joblib's; without an address do nothing."""
    if address is None:
        yield
        return
    from udtw.errors import WorkerError

    try:
        import joblib
        from distributed import Client
    except ModuleNotFoundError as error:
        raise ImportError("--dask needs Dask; install it with: pip install 'udtw[distributed]'") from error
    try:
        client = Client(address, timeout=CONNECT_SECONDS)
    except (OSError, ValueError) as error:
        raise WorkerError(
            f"No Dask scheduler answers at {address}: {error}. Start one with `dask scheduler`, and workers with "
            "`dask worker ADDRESS --nthreads 1`."
        ) from error
    with client:
        workers = client.scheduler_info()["workers"]
        note(f"Dask: {len(workers)} workers at {address}")
        with joblib.parallel_config("dask", client=client):
            yield
