"""Results of `python -m hardening` as tables in Markdown."""

import json
from pathlib import Path

from hardening.fuzz import Tally, load_tally
from hardening.parsers import parsers


def _table(headings: list[str], rows: list[list[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _findings(tally: Tally) -> str:
    return "; ".join(f"{found['count']} × {what.lstrip('!')}" for what, found in tally.findings.items()) or "none"


def fuzz_table(folder: Path, seed: int = 0) -> str:
    """One row a parser that has a result in ``folder``."""
    rows = []
    for name, parser in parsers().items():
        tally = load_tally(folder / f"{name}.json", name, seed)
        if tally.done:
            numbers = (tally.done, tally.accepted, tally.named_errors)
            rows.append(
                [f"`{name}`", parser.reads, *(f"{number:,}".replace(",", " ") for number in numbers), _findings(tally)]
            )
    return _table(["parser", "reads", "inputs", "accepted", "named error", "findings"], rows)


def kill_table(folder: Path) -> str:
    """One row a scene, from kills.json."""
    found = json.loads((folder / "kills.json").read_text())
    rows = [
        [
            scene["scene"], str(scene["kills"]), str(scene["mid_write"]), str(scene["completed"]),
            "; ".join(scene["findings"]) or "none",
        ]
        for scene in found["scenes"]
    ]  # fmt: skip
    rows.append(
        ["all", *(str(sum(one[key] for one in found["scenes"])) for key in ("kills", "mid_write", "completed")), ""]
    )
    return _table(["killed", "kills", "in the middle of a write", "runs that ended", "findings"], rows)
