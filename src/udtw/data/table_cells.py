"""Meaning of a cell of a table: a number (with decimal commas and thousands separators), a time, missing, or text."""

import itertools
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import numpy as np

MISSING = {"", "na", "n/a", "#n/a", "nan", "nat", "<na>", "null", "none", "nil", "missing", "-", "--", "?", "."}
"""Cells without a value, in lower case."""
FAULT = re.compile(
    r"err(or)?[ _-]?\d*|fail(ed|ure)?|fault|invalid|bad|(over|under)(flow|range)|out of range|no ?data|time ?out"
    r"|#(value!|div/0!|ref!|name\?|num!|null!)",
    re.IGNORECASE,
)
"""Words that devices and spreadsheets write instead of a number; they are never names of columns."""
INFINITE = re.compile(r"[+-]?inf(inity)?", re.IGNORECASE)
GROUPS = " \u00a0\u202f'’"
"""Thousands separators besides the point or the comma."""
DATE = re.compile(
    r"\d{4}[ -]?Q[1-4]|Q[1-4][ /-]?\d{4}|\d{4}-?W\d{2}"
    r"|\d{4}[-/.]\d{1,2}([-/.]\d{1,2})?([ T].*)?|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}([ T].*)?"
    r"|(?=.*\d{4})(?=.*\b(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)).{8,}",
    re.IGNORECASE,
)
CLOCK = re.compile(r"\d{1,3}:\d{2}(:\d{2}([.,]\d+)?)?( ?[ap]\.?m\.?)?", re.IGNORECASE)
QUARTER = re.compile(r"(?P<year>\d{4})(?P<between>[ -]?)Q(?P<part>[1-4])", re.IGNORECASE)
QUARTER_FIRST = re.compile(r"Q(?P<part>[1-4])(?P<between>[ /-]?)(?P<year>\d{4})", re.IGNORECASE)
WEEK = re.compile(r"(?P<year>\d{4})(?P<between>-?)W(?P<part>\d{2})", re.IGNORECASE)
OFFSET = re.compile(r"(?<=\d) ?(Z|UTC|[+-]\d{2}(:?\d{2})?)$")
"""Time zone behind a time of day."""
FORMS = (
    "%b %Y", "%B %Y", "%b-%Y", "%Y/%m", "%d.%m.%y", "%m/%d/%y", "%d/%m/%y", "%d.%m.%y %H:%M", "%m/%d/%y %H:%M",
    "%m/%d/%Y %I:%M %p", "%d/%m/%Y %I:%M %p", "%m/%d/%Y %I:%M:%S %p", "%H:%M:%S", "%H:%M", "%I:%M %p", "%I:%M:%S %p",
)  # fmt: skip
"""Forms of dates and times of day that pandas does not guess."""
ALIKE = 50
"""Number of the last cells that must be written alike."""
DAY = 86400.0
REGULAR = 0.15
"""Steps that differ from the usual one by a smaller share are equal, as months are."""
EPOCH = (1e8, 4.2e9), (1e11, 4.2e12), (1e14, 4.2e15), (1e17, 4.2e18)
"""Ranges of Unix times in seconds, milliseconds, microseconds and nanoseconds, from 1973 to 2103."""
TIME_NAME = re.compile(
    r"(date|time|datetime|time ?stamp|epoch|unix|seconds?|sec|millis|ms|minutes?|hours?|days?|month|year|week|frame"
    r"|zeit|uhrzeit|datum|temps|heure|fecha|hora|tiempo|tijd"
    r"|index|idx|row|step|sample|no|nr|t|ts|i|n|#)([ _-]?(utc|stamp|s|ms|us|ns|sec|time|no|nr|id|index|number))?"
    r"( ?[\[(].*[\])])?",
    re.IGNORECASE,
)
SURELY_TIME = re.compile(r"(date|time|datetime|time[ _]?stamp|epoch)( ?[\[(].*[\])])?", re.IGNORECASE)
"""Names of columns that are the time even if they are not in order, which is then an error."""
AXIS_NAME = re.compile(r"(x|depth|distance|position|wavelength|frequency|angle|age)( ?[\[(].*[\])])?", re.IGNORECASE)
"""Names of columns that are the axis if they are evenly spaced."""


@dataclass(frozen=True)
class Numbers:
    """The cells of a column as numbers; NaN where a cell is missing or no number."""

    values: np.ndarray
    missing: np.ndarray
    """Which cells are empty, or say that there is no value."""
    bad: np.ndarray
    """Which cells are neither missing nor a finite number."""
    doubtful: np.ndarray = field(default_factory=lambda: np.zeros(0, bool))
    """Which cells, such as 1,200, can be a number with a thousands separator or one with a decimal comma."""

    @property
    def clean(self) -> bool:
        return not self.bad.any()

    @property
    def textual(self) -> bool:
        """Whether cells are there, but not one of them is a number."""
        return bool(self.bad.any() and (self.bad | self.missing).all())


def is_missing(cell: Any) -> bool:
    """Return whether a cell has no value."""
    if isinstance(cell, str):
        return cell.strip().lower() in MISSING
    return cell is None or cell is ... or (isinstance(cell, float) and np.isnan(cell)) or str(cell) in ("NaT", "<NA>")


def cell_text(cell: Any) -> str:
    """Return a cell as it is written; empty if it is missing."""
    return "" if is_missing(cell) else cell.isoformat() if hasattr(cell, "isoformat") else str(cell).strip()


def is_number(cell: Any, decimal: str | None) -> bool:
    """Return whether a cell is a number, finite or not."""
    if isinstance(cell, str):
        return (
            _plain(decimal).fullmatch(cell.strip()) is not None or _grouped(decimal).fullmatch(cell.strip()) is not None
        )
    return isinstance(cell, int | float | np.number) and not is_missing(cell)


def is_time(cell: Any) -> bool:
    """Return whether a cell looks like a date, a time of day, or both."""
    if isinstance(cell, str):
        text = cell.strip()
        return DATE.fullmatch(text) is not None or CLOCK.fullmatch(text) is not None
    return hasattr(cell, "isoformat") and not is_missing(cell)


def _plain(decimal: str | None) -> re.Pattern[str]:
    point = re.escape(decimal or ".")
    return re.compile(rf"[+-]?(?:\d+(?:{point}\d*)?|{point}\d+)(?:[eE][+-]?\d+)?|{INFINITE.pattern}", re.IGNORECASE)


def _grouped(decimal: str | None) -> re.Pattern[str]:
    point, group = (",", r"\.") if decimal == "," else (r"\.", ",")
    return re.compile(rf"[+-]?[1-9]\d{{0,2}}(?:([{group}{GROUPS}])\d{{3}})(?:\1\d{{3}})*(?:{point}\d+)?")


def numbers(cells: Any, decimal: str | None = None) -> Numbers:
    """Parse a column (a pandas Series); ``decimal`` is the decimal separator, "." or ","."""
    import pandas

    if cells.dtype != object and cells.dtype.kind in "fiub":
        values = cells.to_numpy(dtype=np.float64, na_value=np.nan)
        return Numbers(values, np.isnan(values), np.isinf(values), np.zeros(len(values), bool))
    listed = cells.tolist()
    missing = np.array([is_missing(cell) for cell in listed], bool)
    text = np.array([isinstance(cell, str) for cell in listed], bool) & ~missing
    values, bad = np.full(len(listed), np.nan), np.zeros(len(listed), bool)
    doubtful = np.zeros(len(listed), bool)
    for at in np.flatnonzero(~text & ~missing):
        cell = listed[at]
        try:
            values[at] = np.nan if hasattr(cell, "isoformat") else float(cell)
        except (TypeError, ValueError):
            values[at] = np.nan
    if text.any():
        written = pandas.Series([cell.strip().replace("\u2212", "-") for cell in cells[text]], dtype=object)
        plain = written.str.fullmatch(_plain(decimal)).to_numpy(bool)
        grouped = written.str.fullmatch(_grouped(decimal)).to_numpy(bool) & ~plain
        one_group = written.str.fullmatch(r"[+-]?\d{1,3},\d{3}").to_numpy(bool) & grouped
        readable = written.where(plain | grouped)
        if grouped.any():
            drop = f"[{'.' if decimal == ',' else ','}{GROUPS}]"
            readable = readable.mask(grouped, readable.str.replace(drop, "", regex=True))
        if decimal == ",":
            readable = readable.str.replace(",", ".", regex=False)
        values[text] = pandas.to_numeric(readable, errors="coerce").to_numpy(np.float64)
        # One that has a point or two groups besides its comma shows what the comma means in the column.
        if decimal is None and one_group.any() and not (grouped & ~one_group).any():
            doubtful[text] = one_group
    bad = ~missing & ~np.isfinite(values)
    return Numbers(np.where(bad, np.nan, values), missing, bad, doubtful)


def times(cells: Any) -> np.ndarray | None:
    """Return a column of dates or times of day in seconds, NaN where missing; None if one of the cells is neither."""
    import pandas

    if cells.dtype != object and cells.dtype.kind in "mM":
        unit = pandas.Timedelta("1s")
        origin = cells.min() if cells.dtype.kind == "M" else pandas.Timedelta(0)
        return ((cells - origin) / unit).to_numpy(np.float64)
    listed = [None if is_missing(cell) else cell for cell in cells.tolist()]
    present = [cell for cell in listed if cell is not None]
    if not present or not all(is_time(cell) for cell in present):
        return None
    if all(isinstance(cell, str) and CLOCK.fullmatch(cell.strip()) for cell in present):
        return _past_midnight(np.array([np.nan if cell is None else _clock(cell) for cell in listed]))
    if any(hasattr(cell, "hour") and not hasattr(cell, "year") for cell in present):  # datetime.time of a spreadsheet
        return _past_midnight(np.array([np.nan if cell is None else _clock(str(cell)) for cell in listed]))
    found = _dates(listed, present)
    return None if found is None else ((found - found.min()) / pandas.Timedelta("1s")).to_numpy(np.float64)


def _dates(cells: list[Any], present: list[Any]) -> Any:
    """Return the cells as a pandas Series of dates in UTC, or None; ``present`` are those that are not missing."""
    import pandas

    if all(isinstance(cell, str) and _period(cell) is not None for cell in present):
        days = [None if cell is None else _first_day(cell) for cell in cells]
        return None if None in [day for day, cell in zip(days, cells, strict=True) if cell] else pandas.to_datetime(
            pandas.Series(days, dtype=object), utc=True
        )  # fmt: skip
    for options in _date_formats(present):
        try:
            found = pandas.to_datetime(pandas.Series(cells, dtype=object), utc=True, **options)
        except (ValueError, OverflowError, TypeError):
            continue
        if "dayfirst" not in options or found.dropna().is_monotonic_increasing:
            return found
    return None


def _period(cell: str) -> re.Match[str] | None:
    """Return the parts of a quarter or week such as 2019Q4, Q4 2019 or 2019-W52."""
    return next((found for form in (QUARTER, QUARTER_FIRST, WEEK) if (found := form.fullmatch(cell.strip()))), None)


def _first_day(cell: str) -> date | None:
    """Return the first day of a quarter or week; None if the year has no such week."""
    found = _period(cell)
    if found is None:
        return None
    year, part = int(found["year"]), int(found["part"])
    try:
        return date.fromisocalendar(year, part, 1) if found.re is WEEK else date(year, 3 * part - 2, 1)
    except ValueError:
        return None


def _next_periods(cells: list[str], count: int) -> list[str] | None:
    """Return the quarters or weeks that follow, written as the last one."""
    days, last = [_first_day(cell) for cell in cells], _period(cells[-1])
    if last is None or not all(days):
        return None
    weekly = last.re is WEEK
    number = [one.toordinal() // 7 if weekly else 4 * one.year + one.month // 3 for one in days if one]
    step = _usual_step(np.diff(number))
    if step is None:
        return None
    texts = []
    for ahead in range(1, count + 1):
        at = number[-1] + int(step) * ahead
        # Ordinal 1 is a Monday, so that whole weeks keep the remainder of the first day.
        year, part = date.fromordinal(7 * at + 1).isocalendar()[:2] if weekly else (at // 4, at % 4 + 1)
        name = f"W{part:02d}" if weekly else f"Q{part}"
        parts = (name, str(year)) if last.re is QUARTER_FIRST else (str(year), name)
        texts.append(last["between"].join(parts))
    return texts


def stamps_of(cells: list[str]) -> Any:
    """Return dates that are written as texts as a pandas Series in UTC; None if one of them is not a date."""
    if any(CLOCK.fullmatch(cell) for cell in cells) or not all(is_time(cell) for cell in cells):
        return None
    return _dates(cells, cells)


def next_times(cells: list[str], count: int) -> list[str] | None:
    """Return the ``count`` times that follow a time axis, written as it is; None if its steps are unknown.

    Dates go on at their frequency (so that a month follows a month), or by the median step; numbers by that too. A time
    zone is that of the last cell. Steps of length zero are not counted.
    """
    import pandas

    if len(cells) < 3 or "" in cells:
        return None
    if all(is_number(cell, None) for cell in cells):
        whole = all(re.fullmatch(r"[+-]?\d{1,19}", cell) for cell in cells)
        axis = np.array([int(cell) if whole else float(cell) for cell in cells])
        days = compact_dates(axis)
        if days is not None:
            following = next_times([one.strftime("%Y-%m-%d") for one in days], count)
            return None if following is None else [one.replace("-", "") for one in following]
        step = _usual_step(np.diff(axis))
        if step is None:
            return None
        ahead = range(1, count + 1)
        if whole:
            return [str(int(axis[-1]) + int(step) * number) for number in ahead]
        return [f"{axis[-1] + step * number:.12g}" for number in ahead]
    if all(_period(cell) for cell in cells):
        return _next_periods(cells, count)
    if all(CLOCK.fullmatch(cell) for cell in cells):
        return _next_clocks(cells, count)
    stamps = stamps_of(cells)
    step = None if stamps is None else _usual_step(stamps.diff().iloc[1:].dt.total_seconds().to_numpy())
    if stamps is None or step is None:
        return None
    zone = OFFSET.search(cells[-1]) if ":" in cells[-1] else None
    zone_text = zone[0] if zone else ""
    ahead_of_utc = pandas.Timestamp(f"2000-01-01 00:00{zone[1]}").utcoffset() if zone else None
    local = stamps.dt.tz_localize(None) + (ahead_of_utc or pandas.Timedelta(0))
    following = pandas.date_range(local.iloc[-1], periods=count + 1, freq=_frequency(local, step))[1:]
    alike = [at for at, cell in enumerate(cells) if cell.endswith(zone_text)][-ALIKE:]
    bare = [cells[at][: len(cells[at]) - len(zone_text)] for at in alike]
    write = _written_as(bare, local.iloc[alike].tolist())
    return [write(one) + zone_text for one in following]


def _usual_step(steps: np.ndarray) -> float | None:
    """Return the median of the steps that are not zero; None if there is none, or one goes back."""
    rising = np.sort(steps[steps > 0])
    return None if (steps < 0).any() or not len(rising) else float(rising[(len(rising) - 1) // 2])


def _frequency(dates: Any, step: float) -> Any:
    """Return the frequency of a pandas Series of dates with the usual ``step`` in seconds."""
    import pandas

    months = step / DAY / 30.44
    if months > 0.9 and (dates.dt.day == dates.dt.day.iloc[0]).all():  # a month may be missing
        return pandas.DateOffset(months=round(months))
    return pandas.infer_freq(pandas.DatetimeIndex(dates)) or pandas.Timedelta(seconds=step)


def _next_clocks(cells: list[str], count: int) -> list[str] | None:
    """Return the times of day that follow, written as the last ones; None for hours from 24 on, which count on."""
    import pandas

    seconds = np.array([_clock(cell) for cell in cells])
    step = _usual_step(np.diff(_past_midnight(seconds.copy())))
    if step is None or seconds.max() >= DAY:
        return None
    stamps = [pandas.Timestamp(0) + pandas.Timedelta(seconds=one) for one in (*seconds, seconds[-1] + step)][-ALIKE:]
    write = _written_as(cells[1 - ALIKE :], stamps[:-1])
    return [write(stamps[-1] + pandas.Timedelta(seconds=step * ahead)) for ahead in range(count)]


def _written_as(cells: list[str], stamps: list[Any]) -> Callable[[Any], str]:
    """Return how dates are written in all of these cells, the last of an axis: a function of a date."""
    from pandas.tseries.api import guess_datetime_format

    last = cells[-1]
    fraction = re.search(r"(?<=:\d\d)[.,]\d+$", last)
    digits = len(fraction[0]) if fraction else 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of the guess that is wrong
        guesses = [guess_datetime_format(last[: len(last) - digits], dayfirst=first) for first in (False, True)]
    usual = ["%Y-%m-%d"] if len(last) <= 10 else []
    joint = "T" if "T" in last else " "
    others = [f"%Y-%m-%d{joint}%H:%M", f"%Y-%m-%d{joint}%H"]
    forms = [*filter(None, guesses), *usual, *others, *FORMS]
    for form, bare in itertools.product(forms, (r"$^", r"(?<!\d)0(?=\d+[-/. ])", r"(?<![\d:])0(?=\d)")):

        def write(stamp: Any, form: str = form, bare: str = bare) -> str:
            part = fraction[0][0] + f"{stamp:%f}".ljust(9, "0")[: digits - 1] if fraction else ""
            return re.sub(bare, "", stamp.strftime(form)) + part

        if all(write(stamp).casefold() == cell.casefold() for stamp, cell in zip(stamps, cells, strict=True)):
            return write
    default = usual[0] if usual else f"%Y-%m-%d{joint}%H:%M:%S"
    return lambda stamp: stamp.strftime(default)


def describe_axis(time: np.ndarray, text: list[str]) -> list[str]:
    """Return what is irregular in a time axis (in seconds, and as it is written): repeated and missing steps."""
    known = np.flatnonzero(np.isfinite(time))
    steps = np.diff(time[known])
    notes, repeated = [], np.flatnonzero(steps == 0)
    if len(repeated):
        notes.append(
            f"{len(repeated)} step(s) repeat the time of the step before, the first is {text[known[repeated[0]]]}"
        )
    missing = missing_steps(time, text)
    if missing:
        first = text[min(missing)]
        notes.append(f"{sum(missing.values())} step(s) are missing from the time axis, the first after {first}")
    return notes


def missing_steps(time: np.ndarray, text: list[str]) -> dict[int, int]:
    """Return after which steps of a time axis (in seconds, and as it is written) some are missing, and how many."""
    known = np.flatnonzero(np.isfinite(time))
    steps = np.diff(time[known])
    if len(steps) < 4 or not (steps > 0).any():
        return {}
    usual = float(np.median(steps[steps > 0]))
    dates = stamps_of([text[at] for at in known]) if usual == DAY else None
    if dates is not None and (dates.dt.weekday < 5).all():  # business days
        days = dates.dt.tz_localize(None).to_numpy().astype("datetime64[D]")
        steps = DAY * np.busday_count(days[:-1], days[1:])
    gaps = np.flatnonzero(steps > 1.5 * usual)
    if np.mean(np.abs(steps - usual) < REGULAR * usual) < 1 - 2 * REGULAR:
        return {}
    return {int(known[at]): round(float(steps[at] / usual)) - 1 for at in gaps}


def _date_formats(cells: list[Any]) -> list[dict[str, Any]]:
    """Return options of `pandas.to_datetime` in the order of trial; the last ones have no order of day and month."""
    parts = [re.match(r"(\d{1,2})[-/.](\d{1,2})[-/.]", cell.strip()) for cell in cells if isinstance(cell, str)]
    firsts, seconds = ([int(one[group]) for one in parts if one] for group in (1, 2))
    mixed = [{"format": "mixed", "dayfirst": day_first} for day_first in (False, True)]
    if firsts and max(firsts) > 12:
        mixed = mixed[::-1]
    elif firsts and max(seconds) <= 12 and any("." in str(one[0]) for one in parts if one):
        mixed = mixed[::-1]  # 3.4.2024 is written where the day comes first
    return [{"format": "ISO8601"}, *mixed, {"format": "mixed"}]


def compact_dates(values: np.ndarray) -> Any:
    """Return numbers such as 20240131 as a pandas Series of dates; None if one of them is not a date."""
    import pandas

    if not len(values) or not ((values > 19000000) & (values < 21000000) & (values % 1 == 0)).all():
        return None
    found = pandas.to_datetime(pandas.Series(values.astype(int).astype(str)), format="%Y%m%d", errors="coerce")
    return None if found.isna().any() else found


def _clock(text: str) -> float:
    digits = re.sub(r"[^\d:.,]", "", text).rstrip(".").replace(",", ".")
    hours, minutes, *seconds = digits.split(":")
    half = re.search("[ap]", text, re.IGNORECASE)
    hour = int(hours) if half is None else int(hours) % 12 + 12 * (half[0] in "pP")
    return 3600 * hour + 60 * int(minutes) + (float(seconds[0]) if seconds else 0.0)


def _past_midnight(seconds: np.ndarray) -> np.ndarray:
    """Let times of day go on after midnight: a fall by more than twelve hours is the next day."""
    known = np.flatnonzero(np.isfinite(seconds))
    days = np.cumsum(np.diff(seconds[known], prepend=seconds[known][:1]) < -DAY / 2)
    seconds[known] += DAY * days
    return seconds


def is_row_number(values: np.ndarray) -> bool:
    """Return whether a column counts the rows: 0, 1, 2, … or 1, 2, 3, …, at least three of them."""
    return len(values) >= 3 and values[0] in (0, 1) and bool((np.diff(values) == 1).all())


def time_rank(values: np.ndarray, name: str | None, first: bool) -> int | None:
    """Return how surely a column of numbers is a time axis or an index, 1 (surely) to 5 (perhaps); None if it is not.

    1. Named like nothing else (``time``), in any order: one that goes back is refused later.
    3. Unix times or dates such as 20240131. Or named like a time, and rising or falling strictly; or numbers that count
       evenly in another order, or with repeats.
    4. Without a name and rising; or the first column, which counts the rows, holds Unix times, or is evenly spaced and
       has no name or that of an axis (of which the values may also be in another order).
    5. The first column, evenly spaced, with a name that says nothing.
    """
    name = None if name is None else name.strip()
    known = values[np.isfinite(values)]
    steps = np.diff(known)
    if name is not None and SURELY_TIME.fullmatch(name) and len(steps) >= 2 and steps.any():
        return 1
    named = name is not None and TIME_NAME.fullmatch(name) is not None
    rises = len(steps) >= max(2, len(values) - 1) and bool((steps > 0).all())
    if named and len(steps) >= 2 and (rises or (steps < 0).all() or _counts_in_disorder(known) or _repeats(steps)):
        return 3
    if _are_dates(known):
        return 3
    if first and name and AXIS_NAME.fullmatch(name) and len(known) >= 8 and not rises and _is_even(known):
        return 4
    if not rises or not (first or name == ""):
        return None
    counts = is_row_number(values) and (name is None or len(values) >= 5)  # three values of `temp` can be 1, 2, 3
    if name == "" or counts or any(low <= values[0] and values[-1] <= high for low, high in EPOCH):
        return 4
    if len(values) < 8 or not np.allclose(steps, steps.mean(), rtol=1e-3):
        return None
    return 4 if name is None or AXIS_NAME.fullmatch(name) else 5


def _counts_in_disorder(values: np.ndarray) -> bool:
    """Return whether all values are different, and whole numbers or many, and evenly spaced once they are sorted."""
    steps = np.diff(np.sort(values))
    whole = bool((values % 1 == 0).all() and (steps > 0).all())
    return (whole and (len(values) >= 8 or bool((steps == steps[0]).all()))) or (len(values) >= 8 and _is_even(values))


def _is_even(values: np.ndarray) -> bool:
    """Return whether all values are different and evenly spaced once they are sorted."""
    steps = np.diff(np.sort(values))
    return bool((steps > 0).all() and np.allclose(steps, steps.mean(), rtol=1e-3))


def _repeats(steps: np.ndarray) -> bool:
    """Return whether whole numbers count evenly, but for a few repeats and gaps."""
    if len(steps) < 8 or (steps < 0).any() or (steps % 1).any() or not steps.any():
        return False
    return bool(np.mean(steps == np.median(steps[steps > 0])) > 0.5)


def _are_dates(values: np.ndarray) -> bool:
    """Return whether numbers are dates such as 20240131, or Unix times: even, or full seconds as ms, μs or ns."""
    if len(values) < 4 or (values % 1).any() or len(distinct := np.unique(values)) < 4:
        return False
    if compact_dates(values) is not None:
        return True
    finer = next((at for at, (low, high) in enumerate(EPOCH) if low <= distinct[0] and distinct[-1] <= high), None)
    return finer is not None and (_is_even(distinct) or (finer > 0 and not (values % 1000**finer).any()))
