"""What a browser may send to the explorer."""

from pathlib import Path

import numpy as np

from hardening.parsers import Parser, Read, Seed, demand

CONTENTS = (
    b"time,value\n# comment\n0,1.5\n1,-2e3\n2,0.25\n",
    b"0\t1.5\n1\t2\n2\t3\n",
    b"1;2\n4;5\n7;8\n",
    b"1,2,3,4,5\n",
)


def _csv(folder: Path) -> tuple[list[Seed], Read]:
    from udtw.explorer.uploads import MAX_FEATURES, MAX_STEPS, MIN_STEPS, read_csv

    def read(file: str, content: bytes) -> None:
        series = read_csv(content, file)
        demand(series.ndim == 2 and np.isfinite(series).all(), "finite numbers (T, d)")
        demand(MIN_STEPS <= len(series) <= MAX_STEPS and 1 <= series.shape[1] <= MAX_FEATURES, "the limits")

    return [Seed(content, "text") for content in CONTENTS], read


def _url(folder: Path) -> tuple[list[Seed], Read]:
    from udtw.explorer.uploads import MAX_CSV_BYTES, decode_contents, file_name

    def read(file: str, content: bytes) -> None:
        text = content.decode("latin-1")
        demand("/" not in file_name(text) and file_name(text), "a name without folders")
        demand(len(decode_contents(text, file, MAX_CSV_BYTES)) <= MAX_CSV_BYTES, "no more bytes than are allowed")

    return [Seed(b"data:text/csv;base64,MSwyCjMsNAo1LDYK", "text")], read


PARSERS = [
    Parser("csv-upload", "a CSV file sent to the explorer", _csv),
    Parser("url-upload", "the data URL in which the browser sends a file", _url),
]
