"""The columns of a table: which are features, time axis, labels or names of series, and their cells as numbers.

Everything that the user did not say and that is decided here goes into the notes of the table.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from udtw.data.table import ReadOptions, Table
from udtw.data.table_cells import (
    SURELY_TIME,
    TIME_NAME,
    Numbers,
    cell_text,
    compact_dates,
    is_missing,
    is_row_number,
    is_time,
    numbers,
    time_rank,
    times,
)
from udtw.errors import DataError, OptionError, ShapeError

MANY = 100
"""Number of columns above which all are parsed together, which is faster."""
NUMBER_LIKE = re.compile(r"\W*\d")
"""Beginning of cells such as `$5`, `5 kg` or `1,5`."""
TOTAL = re.compile(r"((grand |sub)?totals?|sum(me)?|gesamt|average|mean|mittel(wert)?)[: ]*", re.IGNORECASE)
"""Words beside a row of totals."""
LISTED = 12
"""Number of names that a message lists."""
LABEL_NAMES = ("label", "labels", "class", "target", "y")


class Columns:
    """The columns of a table, parsed when they are first needed, and the notes about them."""

    def __init__(self, table: Table, options: ReadOptions) -> None:
        self.table = table
        self.options = replace(options, columns=None) if table.chosen else options
        self.width = len(table.cells.columns)
        self._numbers = _all_numbers(table, options.decimal) if self.width > MANY else {}
        self.left_out: list[str] = []

    def title(self, number: int) -> str:
        """Return the name of a column, or its number counted from 1."""
        return self.name(number) or str(number + 1)

    def name(self, number: int) -> str | None:
        """Return the name of a column; None if the table has no names."""
        return self.table.names[number] if self.table.names else None

    def place(self, number: int, row: int) -> str:
        """Return what a message calls a cell, with its text."""
        return f"{self.table.place(row)}: {self.table.column(number)} is {self.text(number, row)!r:.60}"

    def text(self, number: int, row: int) -> str:
        """Return a cell as it is written."""
        return cell_text(self.table.cells[number].iloc[row])

    def find(self, wanted: str, flag: str) -> int:
        """Return the column that the user named, by name or by number counted from 1."""
        names = self.table.names or []
        hits = [number for number, name in enumerate(names) if name == wanted.strip()]
        hits = hits or [number for number, name in enumerate(names) if name.lower() == wanted.strip().lower()]
        if len(hits) > 1:
            raise OptionError(
                f"{flag} {wanted}: {self.table.where} has {len(hits)} columns of that name; give a number."
            )
        if hits:
            return hits[0]
        if wanted.strip().isdigit() and 1 <= int(wanted) <= self.width:
            return int(wanted) - 1
        known = listed([name or str(number + 1) for number, name in enumerate(names)]) if names else ""
        has = f"its columns are {known}" if known else f"it has no names, and {self.width} column(s), numbered from 1"
        raise OptionError(f"{flag} {wanted}: {self.table.where} has no such column; {has}.")

    def numbers(self, number: int) -> Numbers:
        """Return the cells of a column as `Numbers`; raise `DataError` where a comma can be read in two ways."""
        if number not in self._numbers:
            parsed = numbers(self.table.cells[number], self.options.decimal)
            if parsed.doubtful.any():
                self._settle(number, parsed)
            self._numbers[number] = parsed
        return self._numbers[number]

    def _settle(self, number: int, parsed: Numbers) -> None:
        """Note how a comma is read if that is clear, or raise if it is not."""
        row = int(np.argmax(parsed.doubtful))
        if self.table.separator != ",":
            raise DataError(
                f"{self.place(number, row)}, which may have a decimal comma or a thousands separator. Say which: "
                "--decimal ',' or --decimal '.'."
            )
        note = f"{self.text(number, row)} is read as {parsed.values[row]:g} (--decimal ',' reads decimal commas)"
        if note not in self.table.notes:
            self.table.notes.append(note)

    def values(self, chosen: Sequence[int]) -> np.ndarray:
        """Return columns as an array (rows, columns); raise `DataError` at the first cell that is not a number."""
        return np.column_stack([self._clean(number) for number in chosen])

    def _clean(self, number: int) -> np.ndarray:
        parsed = self.numbers(number)
        if parsed.clean:
            return parsed.values
        row = int(np.argmax(parsed.bad))
        place = self.place(number, row)
        if self.text(number, row).lower().lstrip("+-") in ("inf", "infinity"):
            raise DataError(f"{place}, not a finite number. Empty the cell, and use --missing omit or interpolate.")
        if self.options.decimal is None and numbers(self.table.cells[number].iloc[[row]], ",").clean:
            raise DataError(f"{place}, not a number with a decimal point. For decimal commas use --decimal ','.")
        raise DataError(
            f"{place}, not a number. Empty the cell and use --missing omit or interpolate, or choose other columns "
            "with --columns. A header has at most one line, with a name for each column."
        )

    def seconds(self, number: int) -> np.ndarray:
        """Return the time axis as numbers."""
        parsed = self.numbers(number)
        if parsed.clean:
            days = compact_dates(parsed.values)
            return parsed.values if days is None else (days - days.min()).dt.total_seconds().to_numpy()
        stamps = times(self.table.cells[number])
        if stamps is None:
            raise DataError(f"{self.place(number, int(np.argmax(parsed.bad)))}, neither a time nor a number.")
        return stamps

    def time_column(self, groups: list[np.ndarray] | None = None, roles: Sequence[int | None] = ()) -> int | None:
        """Return the time axis of a table of steps: the one given, or the one that can be nothing else.

        ``groups`` are the rows of each series of a long table, ``roles`` the columns with another role. Raise
        `DataError` if several columns could be the time, or if one has dates in almost all rows.
        """
        if self.options.time_column is not None:
            return self.find(self.options.time_column, "--time-column")
        if self.width < 2 or len(self.table.cells) < 2:
            return None
        taken = {*roles, *self.given_features()}
        free = [number for number in range(self.width) if number not in taken]
        first = next((number for number in range(self.width) if self.name(number) != "" and number not in roles), -1)
        ranks: dict[int, list[int]] = {}
        for number in free:
            rank = self._time_rank(number, number == first, groups)
            if rank is not None:
                ranks.setdefault(rank, []).append(number)
        if not ranks:
            return None
        best = ranks[min(ranks)]
        dates = [number for number in best if not self.numbers(number).clean]
        best = dates or best
        doubtful = min(ranks) == 5 or (min(ranks) < 4 and not self._are_one_axis(best))
        if doubtful and not taken.intersection(range(self.width)) - set(roles):
            names = listed([self.title(number) for number in best])
            rest = [self.title(one) for one in range(self.width) if one not in roles and one not in best]
            alone = (
                f"{self.table.where}: column {names} is evenly spaced, which a time axis is, and perhaps a measurement"
            )
            several = f"{self.table.where}: each of the columns {names} can be the time axis"
            raise DataError(
                f"{alone if len(best) == 1 else several}. Say which: --time-column {self.title(best[0])}, or "
                f"--columns {','.join([self.title(best[0]), *rest][:3] if len(best) == 1 else rest[:3] or ['NAMES'])}"
                f"{' if it is a feature' if len(best) == 1 else ' for the features'}."
            )
        return None if doubtful and min(ranks) == 5 else best[0]

    def _time_rank(self, number: int, first: bool, groups: list[np.ndarray] | None) -> int | None:
        """Return how surely a column is the time axis, as `time_rank`; 2 for dates under another name than ``time``."""
        parsed, name = self.numbers(number), self.name(number)
        if not parsed.clean:  # numbers first: most columns are, and `12.05.24` is not one
            if times(self.table.cells[number]) is None:
                self._refuse_a_few_other_cells(number)
                return None
            return 1 if name is not None and SURELY_TIME.fullmatch(name) else 2
        if groups is None:
            return time_rank(parsed.values, name, first)
        own = [parsed.values[rows] for rows in groups]
        if name and SURELY_TIME.fullmatch(name):
            return 1
        if len(own) > 1 and all(len(one) < 3 or is_row_number(one) for one in own):
            return 3 if all((np.diff(one) > 0).all() for one in own) else None
        ranks = {time_rank(one, name, False) for one in own if len(one) > 2}
        return 3 if ranks == {3} else None

    def _are_one_axis(self, chosen: list[int]) -> bool:
        """Return whether columns of numbers are the same axis in other units, so that each can be the time."""
        if any(not self.numbers(number).clean for number in chosen):
            return len(chosen) == 1
        values = [self.numbers(number).values for number in chosen]
        origin, *others = [(one - one[0]) / (np.ptp(one) or 1.0) for one in values]
        return all(np.allclose(origin, one, atol=1e-6, equal_nan=True) for one in others)

    def _refuse_a_few_other_cells(self, number: int) -> None:
        """Raise `DataError` for a column of dates with a few other cells, such as a row of totals."""
        cells = self.table.cells[number].tolist()
        other = [row for row, cell in enumerate(cells) if not is_missing(cell) and not is_time(cell)]
        dates = sum(1 for cell in cells if not is_missing(cell)) - len(other)
        if 0 < len(other) <= dates / 4 and dates >= 3:
            raise DataError(
                f"{self.place(number, other[0])}, but the other cells are dates. Delete such rows (totals, remarks); "
                "those above the header are left out with --skip-rows."
            )

    def is_row_index(self, number: int) -> bool:
        """Return whether a column of a wide table numbers its rows; it is then left out, with a note."""
        name = self.name(number)
        if number > 0 or (name and not TIME_NAME.fullmatch(name) and name.lower() != "id"):
            return False
        index = is_row_number(self._clean(number))
        if index:
            self.left_out.append(f"{self.title(number)} (numbers the rows)")
        return index

    def label_column(self, guess: bool, optional: bool) -> int | None:
        """Return the column of labels: the one given, or with ``guess`` one that is named so."""
        names, wanted = [name.lower() for name in self.table.names or ()], self.options.label_column
        if wanted is not None:
            if optional and wanted.lower() not in names and (names or not wanted.isdigit()):
                return None
            return self.find(wanted, "--label-column")
        hits = [number for number, name in enumerate(names) if name in LABEL_NAMES]
        return hits[0] if guess and len(hits) == 1 else None

    def labels(self, number: int) -> list[str]:
        """Return the labels of all rows; raise `DataError` if one is missing."""
        cells = self.table.cells[number].tolist()
        for row, cell in enumerate(cells):
            if is_missing(cell):
                raise DataError(f"{self.table.place(row)}: the label ({self.title(number)!r}) is missing.")
        return [label_text(cell) for cell in cells]

    def ids(self, number: int) -> list[str]:
        """Return the names of series of all rows; raise `DataError` if one is empty."""
        names = [cell_text(cell) for cell in self.table.cells[number]]
        if "" in names:
            raise DataError(f"{self.table.place(names.index(''))}: the id ({self.title(number)!r}) is empty.")
        return names

    def given_features(self) -> list[int]:
        """Return the columns that the user named, in that order; none if the user named none."""
        wanted = self.options.columns
        if wanted is None:
            return []
        if self.table.names is None and self.width == len(wanted) and not any(one.isdigit() for one in wanted):
            return list(range(self.width))  # a file of these columns alone, without names
        chosen = [self.find(one, "--columns") for one in wanted]
        if not chosen:
            raise OptionError("--columns names no column.")
        if len(set(chosen)) < len(chosen):
            raise OptionError(f"--columns names a column twice: {', '.join(wanted)}.")
        return chosen

    def features(self, exclude: Sequence[int] = ()) -> list[int]:
        """Return the columns that are features: those given, or all of numbers that have no other role."""
        if self.options.columns is not None:
            chosen = self.given_features()
            for number in set(chosen) & set(exclude):
                raise OptionError(f"--columns names {self.title(number)!r}, which has another role already.")
            return chosen
        chosen = []
        for number in (one for one in range(self.width) if one not in exclude):
            parsed = self.numbers(number)
            if parsed.missing.all():
                self.left_out.append(f"{self.title(number)} (empty)")
            elif parsed.textual and self.name(number) and self._is_text(number):
                self._refuse_totals(number)
                self.left_out.append(f"{self.title(number)} (no numbers)")
            elif exclude and parsed.clean and time_rank(parsed.values, self.name(number), number == 0) in (1, 3, 4):
                self.left_out.append(f"{self.title(number)} (an index)")
            else:
                chosen.append(number)
        return chosen

    def _refuse_totals(self, number: int) -> None:
        """Raise `DataError` if only the last cell of a column of words is one for a total, such as of months."""
        *others, last = (cell_text(cell) for cell in self.table.cells[number])
        if others and TOTAL.fullmatch(last) and not any(TOTAL.fullmatch(one) for one in others):
            raise DataError(
                f"{self.place(number, len(others))}: a row of totals is not a step. Delete it, or choose the features "
                "with --columns."
            )

    def _is_text(self, number: int) -> bool:
        """Return whether the cells of a column are words or dates, rather than numbers in an unknown form."""
        cells = self.table.cells[number]
        return times(cells) is not None or not any(NUMBER_LIKE.match(cell_text(cell)) for cell in cells)

    def describe(self, chosen: list[int], time: int | None) -> str:
        """Return which columns are used as features and as time, and which are left out."""
        text = f"using column{'s' * (len(chosen) > 1)} {listed([self.title(number) for number in chosen])}"
        if time is not None:
            text += f"; time column {self.title(time)}{' (unnamed)' if self.name(time) == '' else ''}"
        return text + self.describe_left_out()

    def describe_left_out(self) -> str:
        """Return which columns are left out, after a semicolon; empty if none is."""
        return f"; left out {', '.join(self.left_out)}" if self.left_out else ""


def _all_numbers(table: Table, decimal: str | None) -> dict[int, Numbers]:
    """Parse all columns together; return none of them if a comma in one can be read in two ways."""
    import pandas

    width, rows = len(table.cells.columns), len(table.cells)
    parsed = numbers(pandas.Series(table.cells.to_numpy(object).T.ravel(), dtype=object), decimal)
    if parsed.doubtful.any():
        return {}
    parts = (parsed.values, parsed.missing, parsed.bad, parsed.doubtful)
    return {at: Numbers(*(one.reshape(width, rows)[at] for one in parts)) for at in range(width)}


STEP_NAME = re.compile(r"(.*?)(\d+(?:\.\d+)?)(\D*)")
"""Name of a step in a wide table: `t0`, `step_12`, `7`, `x[3]`, `15min`."""
ID_NAME = re.compile(r"(.*[ _-])?(id|ids|uuid|key|nr|no|number|code)", re.IGNORECASE)


def steps_of(names: Sequence[str]) -> tuple[list[int], list[int]] | None:
    """Return which columns of a wide table are steps, ordered by the number in their names, and which others are not.

    Steps are a family of names, one word with different numbers, that most columns belong to. None if there is no such
    family. Raise `DataError` if two families have the same numbers, such as x0 … x9 and y0 … y9.

    >>> steps_of(["patient_id", "t0", "t1", "t10", "t2"])
    ([1, 2, 4, 3], [0])
    """
    families: dict[tuple[str, str], dict[int, float]] = {}
    for at, name in enumerate(names):
        if (found := STEP_NAME.fullmatch(name)) and not is_time(name):
            families.setdefault((found[1].casefold(), found[3].casefold()), {})[at] = float(found[2])
    if not families:
        return None
    steps, *rest = sorted(families.values(), key=len, reverse=True)
    for numbered in rest:
        if len(steps) > 2 and sorted(numbered.values()) == sorted(steps.values()):
            first, second = (listed([names[at] for at in one]) for one in (steps, numbered))
            raise DataError(
                f"the columns {first} and {second} can both be the steps of a series. Choose some with --columns; "
                "series of several features are read in the long format (--id-column)."
            )
    if len(steps) < max(3, len(names) / 2 + 0.5) or len(set(steps.values())) < len(steps):
        return None
    return sorted(steps, key=lambda at: steps[at]), [at for at in range(len(names)) if at not in steps]


def order_by_names(names: Sequence[str], wanted: Sequence[str], file: str, model: str) -> list[int]:
    """Return the columns of ``file`` that have the ``wanted`` names of ``model``, in that order.

    Columns without names are taken in their order. Raise `DataError` if a name is missing.
    """
    found, sought = ([one.strip().casefold() for one in some] for some in (names, wanted))
    unnamed = [all(one.isdigit() or one == "value" for one in some) for some in (found, sought)]
    if found == sought or (any(unnamed) and len(found) == len(sought)):
        return list(range(len(found)))
    missing = [one for one, name in zip(wanted, sought, strict=True) if name not in found]
    if not missing and not any(unnamed) and len(set(sought)) == len(sought):
        return [found.index(name) for name in sought]
    lacking = f"has no column {listed(missing)}" if missing and not any(unnamed) else "has other columns"
    raise ShapeError(
        f"{file} {lacking}: it has {len(names)} feature(s), {listed(list(names))}, and {model} has {len(wanted)}, "
        f"{listed(list(wanted))}. Rename the columns, or choose them in this order with --columns."
    )


def listed(names: list[str]) -> str:
    """Return names in one line; if they are many, the middle ones are left out."""
    return ", ".join(names) if len(names) <= LISTED else f"{', '.join(names[:3])}, …, {names[-1]} ({len(names)})"


def label_text(cell: Any) -> str:
    """Return a label as text; 2, "2" and "2.0" are one label."""
    text = cell_text(cell)
    try:
        number = float(text)
    except ValueError:
        return text
    return str(int(number)) if number.is_integer() else text
