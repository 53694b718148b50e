"""Run all parts of the demo in order, with one progress bar and one report."""

import time
from pathlib import Path

import torch
from rich.console import Console

import udtw
from udtw._io.progress import progress_bar
from udtw.demo import recognition, series
from udtw.demo.common import LEAST_GAIN, Part, Sizes
from udtw.demo.document import Document
from udtw.errors import OptionError

PARTS = (
    (series.align_pairs, series.align_steps),
    (series.classify, series.classify_steps),
    (series.average, series.average_steps),
    (series.forecast, series.forecast_steps),
    (recognition.recognize, recognition.recognize_steps),
    (recognition.tell_apart, recognition.tell_apart_steps),
)
"""Functions that compute a part, and count its steps of the progress bar."""


TITLE = "Where uncertainty pays, and where it does not"
SUMMARY = "uDTW against the best of the other distances"
COLUMNS = ["task", "verdict", "uDTW", "best rival", "but"]
VERDICTS = (
    f"“Pays” and “does not pay”: a difference of at least {LEAST_GAIN:.0%} of the rival's value, with the same sign "
    "for every seed (--quick has one: it shows that everything runs, not more). The data are generated, and have what "
    "uDTW is made for; the documentation has results on real data."
)
NOW_YOURS = (
    "## Now yours\n\n"
    "`udtw align a.csv b.csv --out matches.csv --plot matches.png` matches two files of yours; "
    "`udtw explore` shows them in the browser."
)


def summary(parts: list[Part]) -> list[list[str]]:
    """Return the rows of the first table.

    >>> from udtw.demo import summary
    >>> from udtw.demo.common import Comparison, Part
    >>> one = Comparison("align", "steps off", {"DTW": [5.0], "uDTW": [2.0]}, lower=True)
    >>> summary([Part("Align", "Two series.", "Errors", [], [], "One seed.", compared=[one])])
    [['align: steps off', 'pays', '2.0', 'DTW: 5.0', '']]
    """
    return [one.row() for part in parts for one in part.compared]


def check_folder(out: Path) -> None:
    """Raise `OptionError` if ``out`` holds files but no report of the demo, which are somebody else's."""
    if out.is_dir() and any(out.iterdir()):
        report = out / "report.md"
        if not report.is_file() or not report.read_bytes().startswith(f"# {TITLE}\n".encode()):
            raise OptionError(f"--out {out} holds other files; choose a new folder, or add --force.")


def run_demo(out: Path, sizes: Sizes, progress: Console) -> tuple[list[Part], Path]:
    """Compute all parts and write the report into ``out``; return the parts and the path of report.html.

    ``progress`` is the console of the progress bar.

    >>> from pathlib import Path
    >>> from rich.console import Console
    >>> from udtw.demo import QUICK, run_demo
    >>> parts, page = run_demo(Path("out"), QUICK, Console(stderr=True))  # doctest: +SKIP
    """
    begin = time.perf_counter()
    threads = torch.get_num_threads()
    # Steps take about a millisecond: threads gain nothing, and on busy cores synchronizing them costs ten times that.
    torch.set_num_threads(1)
    try:
        with progress_bar("demo", sum(steps(sizes) for _, steps in PARTS), console=progress) as advance:
            advance(0, "first use: compiling …")
            parts = [part(sizes, lambda text: advance(note=text)) for part, _ in PARTS]
            advance(0, "done")
    finally:
        torch.set_num_threads(threads)
    return parts, _write(out, parts, time.perf_counter() - begin)


def _write(out: Path, parts: list[Part], seconds: float) -> Path:
    document = Document(TITLE)
    document.table(SUMMARY, COLUMNS, summary(parts), note=VERDICTS)
    document.text(
        "Everything here was generated, trained and measured by `udtw demo` on this machine; no data was downloaded. "
        "All numbers are from series that were not used for training."
    )
    for part in parts:
        part.add_to(document)
    document.text(NOW_YOURS)
    document.text(f"Made by udtw {udtw.__version__} in {seconds:.0f} s.")
    return document.write(out)
