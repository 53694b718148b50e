"""``udtw skeleton train``: train a few-shot recogniser of actions."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from udtw.cli import options
from udtw.cli.output import messages, note, show


class Comparator(StrEnum):
    euclidean = "euclidean"
    soft_dtw = "soft_dtw"
    soft_dtw_divergence = "soft_dtw_divergence"
    udtw = "udtw"
    protonet = "protonet"
    matchnet = "matchnet"
    tap = "tap"


class Mode(StrEnum):
    supervised = "supervised"
    unsupervised = "unsupervised"


class Objective(StrEnum):
    similarity = "similarity"
    cross_entropy = "cross_entropy"


def train(
    name: Annotated[str, typer.Argument(help="A data set as for `udtw skeleton prepare`, or `synthetic`.")],
    out: Annotated[Path, typer.Option(help="The model, a .safetensors file; training goes on from it if it exists.")],
    data_dir: options.SkeletonDir = None,
    metric: Annotated[Comparator, typer.Option(help="How two clips are compared.")] = Comparator.udtw,
    mode: Annotated[Mode, typer.Option(help="With labels in episodes, or by a dictionary without labels.")] = (
        Mode.supervised
    ),
    objective: Annotated[
        Objective, typer.Option(help="The paper's (d² − δ)² + βΩ, or cross-entropy over −(d² + βΩ).")
    ] = Objective.cross_entropy,
    gamma: options.Gamma = 0.1,
    beta: options.Beta = 0.1,
    steps: Annotated[int, typer.Option(help="Training steps.")] = 300,
    classes: Annotated[
        int | None, typer.Option(help="Train on so many of the training classes; all by default.")
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option(help="Any other setting of udtw.skeleton.Recipe, as in `--setting width=64 --setting depth=0`."),
    ] = None,
    episodes_per_step: Annotated[int, typer.Option(help="Episodes whose losses a step averages.")] = 1,
    devices: Annotated[int, typer.Option(help="Processes (CPU) or GPUs that share the episodes of a step.")] = 1,
    accelerator: Annotated[str, typer.Option(help="Of lightning-fabric: `cpu`, `cuda`, `auto`.")] = "cpu",
    strategy: Annotated[str, typer.Option(help="Of lightning-fabric: `auto`, `ddp`.")] = "auto",
    seed: options.Seed = 0,
    json: options.Json = False,
) -> None:
    """Train on the training classes of the data set's protocol; novel classes are never seen.

    Stop it at any time: the same command goes on from the last checkpoint and ends with the same weights.

    Examples:

    - `udtw skeleton train synthetic --out model.safetensors --steps 100`

    - `udtw skeleton train utd-mhad --data-dir ~/skeletons --metric udtw --out udtw.safetensors`

    - `udtw skeleton train ntu120 --data-dir prepared --classes 100 --steps 30000 --devices 2 --strategy ddp
    --episodes-per-step 2 --out ntu120.safetensors`
    """
    from rich.progress import Progress

    from udtw.skeleton import ActionRecognizer, Recipe
    from udtw.skeleton.datasets import load_skeletons, protocol

    recipe = Recipe.from_dict(
        {"metric": str(metric), "mode": str(mode), "objective": str(objective), "gamma": gamma, "beta": beta}
        | {"n_steps": steps, "seed": seed, "episodes_per_step": episodes_per_step}
        | dict(parse_setting(text) for text in setting or [])
    )
    fabric = launch(accelerator, devices, strategy) if (devices, accelerator, strategy) != (1, "cpu", "auto") else None
    main = fabric is None or fabric.is_global_zero
    skeletons = load_skeletons(name, data_dir, progress=main)
    chosen = skeletons.subset(protocol(skeletons, classes).train)
    recognizer = ActionRecognizer(recipe, skeletons.graph, skeletons[0].frames.shape[3])
    with Progress(console=messages(), disable=not main) as progress:
        bar = progress.add_task("steps", total=steps)

        def tick(number: int, loss: float) -> None:
            progress.update(bar, completed=number + 1, description=f"loss {loss:.4f}")

        recognizer.fit(chosen, checkpoint_path=out, fabric=fabric, tick=tick)
    if not main:
        return
    note(f"wrote {out}")
    last = recognizer.losses[-50:]
    show(
        f"Trained on {name}",
        {
            "model": str(out), "metric": recipe.metric, "mode": recipe.mode, "clips": len(chosen),
            "steps": len(recognizer.losses), "loss": sum(last) / len(last) if last else None,
        },
        json,
    )  # fmt: skip


def parse_setting(text: str) -> tuple[str, Any]:
    """``"width=64"`` as ("width", 64): numbers where they are numbers, ``none`` as None, else the text itself."""
    from udtw.errors import OptionError

    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise OptionError(f"--setting must be NAME=VALUE, as in width=64; got {text!r}.")
    if value.strip().lower() == "none":
        return name.strip(), None
    for kind in (int, float):
        try:
            return name.strip(), kind(value)
        except ValueError:
            continue
    return name.strip(), value.strip()


def launch(accelerator: str, devices: int, strategy: str) -> Any:
    """A launched lightning-fabric object; the other processes run the same command."""
    try:
        from lightning_fabric import Fabric
    except ModuleNotFoundError as error:
        raise ImportError(
            "Several devices need lightning-fabric; install it with: pip install 'udtw[distributed]'"
        ) from error
    fabric = Fabric(accelerator=accelerator, devices=devices, strategy=strategy)
    fabric.launch()
    return fabric
