"""Forecasts of real series beside simple ones, at five rolling origins: ``python -m benchmarks.forecasts``.

The series are those in aeon and statsmodels that are long enough, so that nothing is fetched. Each origin is a horizon
later than the one before; the last ends with the series.
"""

import argparse
import warnings
from collections.abc import Iterator

import numpy as np

from udtw.timeseries import SequenceForecaster

ORIGINS, LEVEL = 5, 0.9


def real_series() -> Iterator[tuple[str, np.ndarray, int, int]]:
    """Yield name, values, horizon and season of each series."""
    import statsmodels.api as sm
    from aeon.datasets import load_airline, load_lynx, load_PBS_dataset, load_solar

    def table(name: str) -> "object":
        return getattr(sm.datasets, name).load_pandas().data

    yield "airline (aeon)", np.asarray(load_airline(), float).ravel(), 12, 12
    yield "PBS (aeon)", np.asarray(load_PBS_dataset(), float).ravel(), 12, 12
    yield "solar (aeon)", np.asarray(load_solar(), float).ravel(), 24, 48
    yield "lynx (aeon)", np.asarray(load_lynx(), float).ravel(), 10, 10
    yield "elnino", table("elnino").iloc[:, 1:].to_numpy(float).ravel(), 12, 12  # type: ignore[attr-defined]
    monthly = table("co2").co2.interpolate().resample("MS").mean()  # type: ignore[attr-defined]
    yield "co2, monthly", monthly.to_numpy(float), 12, 12
    yield "sunspots", table("sunspots").SUNACTIVITY.to_numpy(float), 11, 11  # type: ignore[attr-defined]
    yield "real GDP", table("macrodata").realgdp.to_numpy(float), 8, 4  # type: ignore[attr-defined]
    yield "unemployment", table("macrodata").unemp.to_numpy(float), 8, 4  # type: ignore[attr-defined]
    yield "nile", table("nile").volume.to_numpy(float), 10, 1  # type: ignore[attr-defined]


def errors(values: np.ndarray, horizon: int, season: int, loss: str, found: bool) -> tuple[dict[str, float], float]:
    """Return the mean root mean square error of each forecast over the origins, and the coverage of the intervals."""
    from statsmodels.tsa.forecasting.theta import ThetaModel

    rows, inside = [], []
    for origin in range(ORIGINS):
        end = len(values) - horizon * (ORIGINS - origin)
        known, truth = values[:end], values[end : end + horizon]
        theta = ThetaModel(known, period=season if season > 1 else None, deseasonalize=season > 1).fit()
        forecaster = SequenceForecaster(loss, random_state=0).fit(
            known, horizon=horizon, season=None if found else season
        )
        low, high = forecaster.predict_interval(level=LEVEL)
        inside.append((low <= truth) & (truth <= high))
        forecasts = {
            "seasonal naive": known[-season:][np.arange(horizon) % season],
            "Theta": np.asarray(theta.forecast(horizon)),
            "udtw": forecaster.predict(),
        }
        rows.append({name: float(np.sqrt(np.square(one - truth).mean())) for name, one in forecasts.items()})
    return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}, float(np.mean(inside))


def main() -> None:
    """Print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--loss", default="auto")
    parser.add_argument("--found", action="store_true", help="Let the forecaster find the season.")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print("| series | steps | horizon | season | seasonal naive | Theta | udtw | to the better one | 90 % intervals |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    ratios = []
    for name, values, horizon, season in real_series():
        found, coverage = errors(values, horizon, season, options.loss, options.found)
        ratios.append(found["udtw"] / min(found["seasonal naive"], found["Theta"]))
        cells = " | ".join(f"{found[one]:.4g}" for one in ("seasonal naive", "Theta", "udtw"))
        print(
            f"| {name} | {len(values)} | {horizon} | {season} | {cells} | {ratios[-1]:.2f} | {coverage:.2f} |",
            flush=True,
        )
    print(f"\nNot worse than the better one: {sum(one <= 1 for one in ratios)} of {len(ratios)}.")


if __name__ == "__main__":
    main()
