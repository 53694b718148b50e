"""``udtw align`` with more than two files: all series on one axis."""

from pathlib import Path
from typing import Any

import numpy as np
import typer

from udtw._engine.match_many import JointMatch, match_many
from udtw.cli.output import messages, note, save_figure, show, write_table
from udtw.data.series_files import Series


def align_many(
    files: list[Path], series: list[Series], level: float, outputs: tuple[Path | None, Path | None], json: bool
) -> None:
    """Match series that were read from ``files``, and write and print what was found, the verdict first."""
    out, plot = outputs
    omitted = [file.name for file, one in zip(files, series, strict=True) if len(one) < one.steps[-1] + 1]
    if omitted:
        note(f"steps that were left out are not counted: {', '.join(omitted)}")
    with messages().status(f"matching {len(series)} series …"):
        joint = match_many([one.values for one in series], level=level)
        if plot is not None:
            save_figure(joint.plot(), plot)
    names = [file.name for file in files]
    if out is not None:
        write_table(out, _rows(joint, names))
        wrong = [name for name, one in zip(names, joint.trust, strict=True) if one.verdict == "none"]
        if wrong:
            note(f"warning: the rows of {', '.join(wrong)}, which match nothing, are not to be trusted")
    if json:
        numbers = {"files": [str(one) for one in files], "columns": series[0].names, "axis": names[joint.medoid]}
        show("", numbers | {"level": level, "steps": len(joint.mean), "series": _numbers(joint, names)}, True)
        return
    typer.echo(f"{len(series)} series on the axis of {names[joint.medoid]}, {len(joint.mean)} steps")
    for one in _numbers(joint, names):
        gain = "" if one["gain"] is None else f"; gain {one['gain']:.3g}, offset {one['offset']:.3g}"
        typer.echo(f"{one['file']}: {one['sentence']} Noise {one['noise']:.2g}{gain}; intervals of {one['width']:.3g}.")


def _numbers(joint: JointMatch, names: list[str]) -> list[dict[str, Any]]:
    """Return what was found of each series; gain and offset of a single feature only."""
    found = []
    for k, (name, trust, noise) in enumerate(zip(names, joint.trust, joint.noise, strict=True)):
        known = joint.low[k] >= 0
        single = np.ndim(noise.gain) == 0
        found.append(
            {
                "file": name, "verdict": trust.verdict, "sentence": trust.sentence,
                "gain": noise.gain if single else None, "offset": noise.offset if single else None,
                "noise": float(np.sqrt(np.mean(noise.variance))),
                "width": float((joint.high[k] - joint.low[k] + 1)[known].mean()) if known.any() else None,
            }
        )  # fmt: skip
    return found


def _rows(joint: JointMatch, names: list[str]) -> list[dict[str, Any]]:
    """Return a row for each series and step of the axis; None where a series has no step."""
    frame = joint.to_frame()
    frame["series"] = np.array(names, object)[frame["series"]]
    frame[["low", "high"]] = frame[["low", "high"]].astype(object).where(frame["low"] >= 0, None)
    return frame.astype(object).where(frame.notna(), None).to_dict("records")
