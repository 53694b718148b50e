"""Forecasts of users' files: one long series or many, the future of each as rows of a table."""

import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from udtw._io.atomic import write_atomically
from udtw._io.strict_json import read_versioned
from udtw.cli.files import like_training, read_series, read_series_table, saved_reading
from udtw.cli.output import note, save_figure, show, working, write_table, writing
from udtw.data.series_files import Series, SeriesTable
from udtw.data.table import ReadOptions
from udtw.data.table_cells import next_times
from udtw.errors import FileFormatError, LengthError

if TYPE_CHECKING:
    from udtw.timeseries import SequenceForecaster

FORMAT, VERSION, ABOUT = "udtw.forecast", 1, "series.json"
"""File beside those of the forecaster that describes how its series are read."""
MOST_RIVALS = 50
"""Most columns of series that are also forecast by statsmodels, which takes up to a second for each."""
SHOWN = 6
"""Panels of ``--plot``."""


@dataclass(frozen=True)
class FileForecaster:
    """A forecaster of the series in files, and how they are read."""

    forecaster: "SequenceForecaster"
    reading: ReadOptions
    names: list[str]
    horizon: int
    level: float

    def save(self, folder: Path) -> None:
        """Write the forecaster into ``folder``, which was checked, for `load_forecaster`."""
        about = {
            "format": FORMAT, "version": VERSION, "reading": vars(self.reading), "names": self.names,
            "horizon": self.horizon, "level": self.level,
        }  # fmt: skip
        with writing(folder, "--model"):
            self.forecaster.save(folder, force=True)
            write_atomically(folder / ABOUT, json.dumps(about, indent=1).encode())

    def predict(self, file: Path, given: dict[str, Any], *, out: Path | None, plot: Path | None, as_json: bool) -> None:
        """Forecast the series of a file, write and print; ``given`` are the flags that differ from training."""
        reading = replace(self.reading, **given)
        series, ids = read_long_series(file, reading)
        series = like_training(SeriesTable(series), file, self.names, None, given).series
        self.report(file, series, ids, {"series": len(series)}, out=out, plot=plot, as_json=as_json)

    def report(
        self, file: Path, series: Sequence[Series], ids: list[str], result: dict[str, Any], *,
        out: Path | None, plot: Path | None, as_json: bool,
    ) -> None:  # fmt: skip
        """Forecast what follows ``series``; write the rows, draw and print."""
        values = [one.values for one in series]
        mean, std = self.forecaster.predict(values, return_std=True)
        low, high = self.forecaster.predict_interval(values, self.level)
        rows = self._rows(series, ids, (mean, std, low, high))
        if out is not None:
            write_table(out, rows)
        if plot is not None:
            save_figure(self._figure(series, ids, mean, (low, high)), plot)
        result = {"file": str(file), **result, "horizon": self.horizon, "columns": self.names, "level": self.level}
        if as_json:
            show("", result | {"forecast": rows}, True)
            return
        last = {name: [float(mean[0, at, number]) for at in (0, -1)] for number, name in enumerate(self.names)}
        which = f" of {ids[0]}" if len(series) > 1 else ""
        show(f"Forecast of {file.name}", result | {f"first and last step{which}": last}, False)

    def _rows(self, series: Sequence[Series], ids: list[str], found: tuple[Any, ...]) -> list[dict[str, Any]]:
        rows = []
        for number, one in enumerate(series):
            times = None if one.time_text is None else next_times(one.time_text, self.horizon)
            for feature, name in enumerate(self.names):
                for ahead in range(self.horizon):
                    values = (float(table[number, ahead, feature]) for table in found)
                    rows.append(
                        ({"series": ids[number]} if len(series) > 1 else {})
                        | {"step": int(one.steps[-1]) + 1 + ahead}
                        | ({} if times is None else {"time": times[ahead]})
                        | ({"column": name} if len(self.names) > 1 else {})
                        | dict(zip(("value", "std", "low", "high"), values, strict=True))
                    )
        return rows

    def _figure(
        self, series: Sequence[Series], ids: list[str], mean: np.ndarray, interval: tuple[np.ndarray, np.ndarray]
    ) -> Any:
        from udtw.cli.figures import breaks_of
        from udtw.plots import plot_forecast
        from udtw.plots.forecast import MAX_COLUMNS

        panels = max(1, SHOWN // len(self.names))
        drawn = series[:panels]
        shown = min(*(len(one) for one in drawn), 4 * self.horizon)
        past = np.stack([one.values[-shown:] for one in drawn])
        low, high = (one[:panels] for one in interval)
        several = [[] if len(series) == 1 else [name] for name in ids[:panels]]
        titles = [", ".join([*one, *([name] if len(self.names) > 1 or not one else [])]) for one in several
                  for name in self.names]  # fmt: skip
        axis_names, times = zip(*(self._time_axis(one, shown) for one in drawn), strict=True)
        figure = plot_forecast(
            past, None, mean[:panels], interval=(low, high), level=self.level, titles=titles, times=times
        )
        owners = [one for one in drawn for _ in self.names]
        for axes, one in zip(figure.axes, owners, strict=False):
            past_line = axes.get_lines()[0]
            breaks = breaks_of(one) - (len(one) - shown)
            breaks = breaks[breaks > 0]
            past_line.set_data(*(np.insert(np.asarray(data, float), breaks, np.nan) for data in past_line.get_data()))
        names = [name for name in axis_names for _ in self.names]
        for axes, name in list(zip(figure.axes, names, strict=False))[-MAX_COLUMNS:]:
            axes.set_xlabel(name)
        return figure

    def _time_axis(self, series: Series, shown: int) -> tuple[str, list[str]]:
        """Return the name of the time axis and the times of the last ``shown`` steps and those forecast, or numbers."""
        following = None if series.time_text is None else next_times(series.time_text, self.horizon)
        if series.time_text is None or following is None:
            last = int(series.steps[-1])
            ahead = range(last + 1, last + 1 + self.horizon)
            return "step", [*map(str, series.steps[-shown:].tolist()), *map(str, ahead)]
        return series.time_name or "time", [*series.time_text[-shown:], *following]


def load_forecaster(folder: Path) -> FileForecaster:
    """Load the forecaster that `FileForecaster.save` wrote."""
    from udtw.timeseries import SequenceForecaster

    about = read_versioned(folder / ABOUT, FORMAT, VERSION, "a forecaster of `udtw forecast --model`")
    forecaster = SequenceForecaster.load(folder)
    try:
        reading = saved_reading(about["reading"])
        return FileForecaster(forecaster, reading, list(about["names"]), int(about["horizon"]), float(about["level"]))
    except (KeyError, TypeError, ValueError) as error:
        raise FileFormatError(f"{folder / ABOUT} does not describe how series are read: {error!r:.200}.") from error


def read_long_series(file: Path, reading: ReadOptions) -> tuple[list[Series], list[str]]:
    """Read one series whose rows are steps or, with an id column, several; return them with their names."""
    if reading.id_column is None:
        return [read_series(file, reading)], [file.stem]
    table = read_series_table(file, reading)
    return table.series, table.ids


def train(
    series: Sequence[Series], reading: ReadOptions, horizon: int, past: int | None, season: int | None, level: float,
    make: Any,
) -> tuple[FileForecaster, dict[str, Any]]:  # fmt: skip
    """Train a forecaster of long series; also return its error on their last steps, without which it was tried first.

    ``make()`` returns a new `SequenceForecaster`.
    """
    values = [one.values for one in series]
    short = min(len(one) for one in values)
    if short <= horizon + 2:
        raise LengthError(
            f"--horizon {horizon} needs series of more than {horizon + 2} steps; the shortest has {short}."
        )
    result: dict[str, Any] = {"series": len(values), "steps": [short, max(len(one) for one in values)]}
    known = [one[:-horizon] for one in values]
    truth = np.stack([one[-horizon:] for one in values])
    if short >= (past or horizon) + 3 * horizon:
        with working(f"training without the last {horizon} steps, to see how well it does …"):
            trial = make().fit(known, horizon=horizon, window=past, season=season)
        result["backtest"] = _backtest(trial, known, truth, level)
    else:
        note(f"too short for a test on the last {horizon} steps: the error of the forecast is not known")
    with working(f"training on {len(values)} series …"):
        forecaster = make().fit(values, horizon=horizon, window=past, season=season)
    result |= {"loss": forecaster.loss_, "season": forecaster.season_ if forecaster.season_ > 1 else None}
    return FileForecaster(forecaster, reading, series[0].names, horizon, level), result


def _backtest(trial: "SequenceForecaster", known: list[np.ndarray], truth: np.ndarray, level: float) -> dict[str, Any]:
    """Return the error of a forecaster on the last steps beside that of simpler forecasts; say if one is better."""
    low, high = trial.predict_interval(known, level)
    found = {"rmse": _rmse(trial.predict(known), truth)}
    simple = {"last_value": np.stack([one[-1:] for one in known])}
    horizon, season = truth.shape[1], trial.season_
    if season > 1:
        simple["last_season"] = np.stack([one[len(one) - season + np.arange(horizon) % season] for one in known])
    simple |= _of_statsmodels(known, horizon, season)
    errors = {name: _rmse(one, truth) for name, one in simple.items()}
    found |= {f"rmse_of_{name}": error for name, error in errors.items()}
    best = min(errors, key=lambda name: errors[name])
    if errors[best] < found["rmse"]:
        note(
            f"a simpler forecast is better on the last {horizon} steps: {best.replace('_', ' ')} with rmse "
            f"{errors[best]:.4g}, against {found['rmse']:.4g}"
        )
    return found | {"coverage": float(((low <= truth) & (truth <= high)).mean())}


def _rmse(forecast: np.ndarray, truth: np.ndarray) -> float:
    return float(np.sqrt(np.square(forecast - truth).mean()))


def _of_statsmodels(known: list[np.ndarray], horizon: int, season: int) -> dict[str, np.ndarray]:
    """Return the forecasts of Theta and of exponential smoothing with a damped trend, if statsmodels is installed."""
    if sum(one.shape[1] for one in known) > MOST_RIVALS:
        return {}
    try:
        from statsmodels.tsa.forecasting.theta import ThetaModel
        from statsmodels.tsa.holtwinters import ExponentialSmoothing
    except ModuleNotFoundError:
        return {}
    period = season if season > 1 else None
    seasonal = "add" if season > 1 else None

    def theta(values: np.ndarray) -> Any:
        return ThetaModel(values, period=period, deseasonalize=season > 1).fit().forecast(horizon)

    def ets(values: np.ndarray) -> Any:
        model = ExponentialSmoothing(
            values, trend="add", damped_trend=True, seasonal=seasonal, seasonal_periods=period,
            initialization_method="estimated",
        )  # fmt: skip
        return model.fit().forecast(horizon)

    found = {}
    for name, make in (("theta", theta), ("ets", ets)):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of fits that do not converge
                found[name] = np.stack([np.stack([np.asarray(make(one)) for one in every.T], 1) for every in known])
        except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
            note(f"not compared with {name} of statsmodels: {error}")
    return {name: one for name, one in found.items() if np.isfinite(one).all()}
