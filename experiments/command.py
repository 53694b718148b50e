"""``udtw reproduce`` and ``udtw report``: the paper's experiments, in runs that can be stopped at any time."""

from pathlib import Path
from typing import Annotated

import typer

from experiments.experiment import with_preset
from experiments.registry import experiment, name_of, protocol_name, units_of, work_of, write_report
from experiments.runner import run
from experiments.store import Store, exclusive
from experiments.units import Unit
from udtw.cli import options
from udtw.cli.command import command
from udtw.cli.output import messages, note
from udtw.cli.training import Dask, dask_cluster
from udtw.errors import DataError, OptionError


def reproduce(  # noqa: PLR0913 (every parameter is an option that users type)
    name: Annotated[
        str,
        typer.Argument(
            metavar="ucr|faults|ecg5000|barycenters|calibration|alignments|utd-mhad|nw-ucla|ntu60|ntu120|kinetics|omniglot|cifar-fs|…",
            help="Which experiment; also ucr-default (as `ucr --protocol default`), joint (many series on one axis) "
            "and skeleton-faults; for images also miniimagenet, tieredimagenet, cub, dogs, cars, aircraft, nabirds, "
            "cotton80, soylocal, cross-domain, clutter.",
        ),
    ],
    data_dir: options.DataDir = None,
    out: Annotated[Path, typer.Option(help="Folder of results; those of experiment NAME go to OUT/NAME.")] = Path(
        "runs"
    ),
    jobs: Annotated[int, typer.Option(help="Processes; -1: all cores.")] = 1,
    seeds: Annotated[
        str | None, typer.Option(help="As in `0,1,2` or `0-4`; by default those of the experiment.")
    ] = None,
    datasets: Annotated[
        str | None,
        typer.Option(
            "--datasets",
            "--parts",
            help="As in `GunPoint,ECG200`; of alignments as in `vienna,cores`; by default all.",
        ),
    ] = None,
    methods: Annotated[
        str | None, typer.Option(help="As in `soft_dtw,udtw`, names of the experiment's methods; by default all.")
    ] = None,
    backbones: Annotated[
        str | None, typer.Option(help="For images: as in `patches,dinov3`; see `udtw images embed`.")
    ] = None,
    per_class: options.PerClass = None,
    pairs: Annotated[int | None, typer.Option(help="For alignments: pairs of each row and seed.")] = None,
    protocol: Annotated[
        str | None,
        typer.Option(
            help="For ucr: `seeds` (50/25/25 by seed) or `default` (the archive's own split).", show_default="seeds"
        ),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(help="For images and skeletons: `paper`, the paper's settings; results go to OUT/NAME-paper."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A small version; its results go to OUT/NAME-quick.")] = False,
    dask: Dask = None,
) -> None:
    """Run an experiment of the paper and write its report.

    Every result is stored as soon as it is computed: after Ctrl-C or a power cut, the same command continues where the
    run stopped. The exit code is 1 if a part failed (the next run tries it again), 130 after Ctrl-C.

    Examples:

    - `udtw reproduce ucr --data-dir ~/ucr --jobs 2`

    - `udtw reproduce ucr --protocol default --data-dir ~/ucr`

    - `udtw reproduce faults --data-dir ~/ucr`

    - `udtw reproduce ecg5000 --data-dir ~/ucr --seeds 0-4`

    - `udtw reproduce barycenters --data-dir ~/ucr --datasets GunPoint,ECG200 --quick`

    - `udtw reproduce alignments --data-dir ~/data --parts vienna,synthetic --pairs 2`

    - `udtw reproduce cars --preset paper --data-dir ~/cars --backbones dinov3`

    - `udtw reproduce utd-mhad --data-dir ~/skeletons --methods soft_dtw,udtw --jobs 2`

    - `udtw reproduce cub --data-dir ~/CUB_200_2011 --backbones dinov3 --jobs 2`

    - `udtw reproduce ucr --data-dir /shared/ucr --out /shared/runs --dask tcp://10.0.0.1:8786`
    """
    if protocol is not None:
        name = protocol_name(name, protocol)
    entry = experiment(name)
    usual_seeds = list(entry.seeds[:1] if quick else entry.seeds)
    folder = out / "-".join([name, *([preset] if preset else []), *(["quick"] if quick else [])])
    where = None if data_dir is None else str(data_dir)
    units = units_of(
        entry,
        backbones=options.parse_list(backbones),
        per_class=per_class,
        pairs=pairs,
        datasets=options.parse_list(datasets),
        seeds=parse_seeds(seeds) or usual_seeds,
        quick=quick,
        data_dir=where,
    )
    if preset is not None:
        units = with_preset(entry, units, preset, quick)
    if methods is not None:
        units = _of_methods(units, options.parse_list(methods) or [])
    store = Store(folder / "units")
    missing = [unit for unit in units if not store.has(unit)]
    with dask_cluster(dask):
        if missing and entry.prepare is not None:
            with exclusive(folder / "tokens"):
                entry.prepare(missing, where, str(folder), jobs)
        summary = run(units, work_of(entry, where, folder), store, n_jobs=jobs, console=messages())
    results = store.results()
    if results:
        note(f"Open {write_report(name, results, folder)}")
    if summary.failed:
        raise typer.Exit(1)


def _of_methods(units: list[Unit], wanted: list[str]) -> list[Unit]:
    """Return the units of these methods only."""
    known = list(dict.fromkeys(unit.method for unit in units))
    unknown = [one for one in wanted if one not in known]
    if unknown or not wanted:
        raise OptionError(f"--methods takes some of {', '.join(known)}; got {', '.join(unknown) or 'none'}.")
    return [unit for unit in units if unit.method in wanted]


def parse_seeds(text: str | None) -> list[int] | None:
    """Return the seeds of ``"0,1,2"``, ``"0-4"`` or a mixture, without repetitions."""
    seeds: list[int] = []
    for part in options.parse_list(text) or []:
        first, dash, last = part.partition("-")
        try:
            seeds += range(int(first), int(last) + 1) if dash else [int(first)]
        except ValueError:
            raise OptionError(f"--seeds must be whole numbers such as 0,1,2 or 0-4; got {text!r}.") from None
    if text is not None and not seeds:
        raise OptionError(f"--seeds names no seed; got {text!r}.")
    return list(dict.fromkeys(seeds)) or None


def report(
    folder: Annotated[Path, typer.Argument(help="A folder of results, as in runs/ucr, or one of several, as in runs.")],
) -> None:
    """Write the report (Markdown and HTML) of the results so far.

    Examples:

    - `udtw report runs/ucr`

    - `udtw report runs`
    """
    folders = [one for one in (folder, *sorted(folder.glob("*"))) if (one / "units").is_dir()]
    if not folders:
        raise DataError(f"{folder} holds no results: it has no folder 'units', nor does any folder in it.")
    for one in folders:
        results = Store(one / "units").results()
        names = {name_of(unit) for unit, _ in results}
        if len(names) != 1 or None in names:
            found = ", ".join(sorted({unit.experiment for unit, _ in results})) or "none"
            raise DataError(f"{one / 'units'} must hold results of one known experiment; found {found}.")
        typer.echo(write_report(str(names.pop()), results, one))


app = typer.Typer(rich_markup_mode="markdown")
for function in (reproduce, report):
    app.command()(command(function))
