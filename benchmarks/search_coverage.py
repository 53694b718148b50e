"""How often the intervals of a search hold the true begin and end: ``python -m benchmarks.search_coverage``.

Each stream has 1000 steps and one warped copy (0.8 to 1.25 times as long) of a smooth query of 60 steps; with
"window" the copy has another gain and offset, and the stream drifts. Both have white noise.
"""

import argparse
import time

import numpy as np

from udtw.timeseries import SubsequenceSearch

STEPS, QUERY, LEVEL = 1000, 60, 0.9
NOISES = (0.0, 0.05, 0.15, 0.3)


def smooth(rng: np.random.Generator, steps: int, width: float = 5.0) -> np.ndarray:
    """Return a smooth random series with standard deviation 1."""
    kernel = np.exp(-0.5 * (np.arange(-15, 16) / width) ** 2)
    values = np.convolve(rng.standard_normal(steps + 30), kernel, "valid")
    return (values - values.mean()) / values.std()


def simulate(seed: int, noise: float, scaled: bool) -> tuple[np.ndarray, np.ndarray, int, int]:
    """Return a query, a stream, and the first and last step of the copy of the query in the stream."""
    rng = np.random.default_rng(seed)
    query, stream = smooth(rng, QUERY), smooth(rng, STEPS)
    length, begin = round(QUERY * rng.uniform(0.8, 1.25)), int(rng.integers(150, 750))
    grid = np.linspace(0, 1, length)
    bends = ((0.05, 2), (0.02, 4))
    warped = grid + sum(size * rng.uniform(-1, 1) * np.sin(times * np.pi * grid) for size, times in bends)
    copy = np.interp((QUERY - 1) * warped, np.arange(QUERY), query)
    stream[begin : begin + length] = copy
    stream = stream + noise * rng.standard_normal(STEPS)
    if scaled:
        stream = (1 + 0.5 * np.sin(np.arange(STEPS) / 200)) * stream * 7 + np.arange(STEPS) / 100 + 100
    return query + noise * rng.standard_normal(QUERY), stream, begin, begin + length - 1


def main() -> None:
    """Print the share of copies found, the coverage of begin and end, and the mean widths of their intervals."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=50)
    streams = parser.parse_args().streams
    for mode in (None, "window"):
        for noise in NOISES:
            found, began = 0, time.perf_counter()
            held: list[list[bool]] = []
            widths: list[float] = []
            inside: list[bool] = []
            for seed in range(streams):
                query, stream, begin, end = simulate(seed, noise, mode == "window")
                [match] = SubsequenceSearch(query, normalize=mode).search(stream, k=1, level=LEVEL)
                intervals = match.begin_interval, match.end_interval
                own = zip((match.begin, match.end), intervals, strict=True)
                inside += [low <= at <= high for at, (low, high) in own]
                if 2 * (min(end, match.end) - max(begin, match.begin)) < end - begin:
                    continue
                found += 1
                truth = zip((begin, end), intervals, strict=True)
                held.append([low <= at <= high for at, (low, high) in truth])
                widths += [np.ptp(one) + 1 for one in intervals]
            seconds = (time.perf_counter() - began) / streams
            begins, ends = np.mean(held, axis=0)
            print(
                f"normalize={mode!s:6} noise {noise:4}: found {found / streams:.2f}, begin held {begins:.3f}, end held "
                f"{ends:.3f}, mean width {np.mean(widths):.1f}, hits inside {np.mean(inside):.2f}, {seconds:.2f} s"
            )


if __name__ == "__main__":
    main()
