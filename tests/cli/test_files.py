"""Tables that commands write."""

import json

import pytest

pytest.importorskip("typer")

from udtw.cli.files import read_series
from udtw.cli.output import write_table
from udtw.errors import OptionError

ROWS = [{"i": 0, "name": 'a "b", c', "value": 0.1}, {"i": 1, "name": None, "value": 1e-17}]


def test_what_is_written_can_be_read(tmp_path, capsys):
    write_table(tmp_path / "new" / "a.csv", ROWS)
    assert read_series(tmp_path / "new" / "a.csv").values.tolist() == [[0, 0.1], [1, 1e-17]]
    assert "left out name (no numbers)" in capsys.readouterr().err
    write_table(tmp_path / "a.tsv", ROWS)
    assert (tmp_path / "a.tsv").read_text().splitlines()[2] == "1\t\t1e-17"
    write_table(tmp_path / "a.json", ROWS)
    assert json.loads((tmp_path / "a.json").read_text()) == ROWS


def test_other_names_are_refused(tmp_path):
    with pytest.raises(OptionError, match=r"--out a\.xlsx"):
        write_table(tmp_path / "a.xlsx", ROWS)
