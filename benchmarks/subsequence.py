"""Search of a query of 128 steps in a stream of 1,000,000, against dtaidistance. `python -m benchmarks.subsequence`.

Both find the ten best matches, in float64 and with the same penalty; they must agree before a time is printed. Each
run is a forked child of this process, so that its peak memory is its own (Linux only). dtaidistance keeps the whole
table of 1 GB.
"""

import argparse
import json
import os
import re
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.machine import use_cores

PENALTY = 0.1
"""As dtaidistance takes it; it adds the square of this to the squared differences."""
MATCHES = 10

Span = tuple[int, int]
Search = Callable[[], tuple[float, list[Span]]]
"""Seconds until the end costs were known, and the best matches."""


def data(steps: int, seed: int = 0) -> tuple[Any, Any]:
    """Generate a smooth query, and noise with twenty copies of it, stretched by up to a third and ever noisier."""
    import numpy as np

    rng = np.random.default_rng(seed)
    query = np.convolve(rng.standard_normal(128 + 15), np.hanning(16), "valid")
    query = (query - query.mean()) / query.std()
    stream = rng.standard_normal(steps)
    for number, begin in enumerate(np.linspace(0, steps - 256, 20).astype(int)):
        length = int(128 * rng.uniform(0.75, 1.33))
        copy = np.interp(np.linspace(0, 127, length), np.arange(128), query)
        stream[begin : begin + length] = copy + (0.02 + 0.02 * number) * rng.standard_normal(length)
    return query, stream


def ours(query: Any, stream: Any, posterior: bool) -> Search:
    from udtw._kernels.cpu.stream import StreamSweep
    from udtw.timeseries import SubsequenceSearch
    from udtw.timeseries.subsequence import Candidates, best_disjoint

    def run() -> tuple[float, list[Span]]:
        import numpy as np

        begin = time.perf_counter()
        if posterior:
            found = SubsequenceSearch(query, warp_penalty=PENALTY**2).search(stream, MATCHES)
            return time.perf_counter() - begin, [(match.begin, match.end) for match in found]
        sweep = StreamSweep(query[:, None], PENALTY**2)
        energies, starts = map(np.concatenate, zip(sweep.update(stream[:, None]), sweep.rest(), strict=True))
        costs_known = time.perf_counter() - begin
        chosen = best_disjoint([Candidates(energies, starts)], MATCHES)
        return costs_known, [(first, last) for _, first, last, _ in chosen]

    return run


def dtaidistance(query: Any, stream: Any) -> Search:
    from dtaidistance.subsequence.dtw import SubsequenceAlignment

    def run() -> tuple[float, list[Span]]:
        begin = time.perf_counter()
        alignment = SubsequenceAlignment(query, stream, penalty=PENALTY, use_c=True)
        alignment.align_fast()
        costs_known = time.perf_counter() - begin
        spans = [match.segment for match in alignment.kbest_matches_fast(k=MATCHES)]
        return costs_known, [(int(first), int(last)) for first, last in spans]

    return run


def measure(search: Search) -> dict[str, Any]:
    """Seconds and the growth of resident memory of one search, in a child of this process."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts from what is resident now
        before = _peak()
        begin = time.perf_counter()
        costs_known, spans = search()
        seconds = time.perf_counter() - begin
        answer = {"costs": costs_known, "all": seconds, "bytes": _peak() - before, "spans": spans}
        os.write(writer, json.dumps(answer).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as answer_file:
        text = answer_file.read()
    os.waitpid(child, 0)
    return json.loads(text)


def _peak() -> int:
    [found] = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found) * 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1_000_000, help="length of the stream")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each, in turns; the median is shown")
    options = parser.parse_args()
    use_cores()
    query, stream = data(options.steps)
    contenders = {
        "udtw, matches only": ours(query, stream, posterior=False),
        "udtw, with posteriors": ours(query, stream, posterior=True),
        "dtaidistance (C)": dtaidistance(query, stream),
    }
    short = stream[:1000]
    for warm_up in (ours(query, short, False), ours(query, short, True)):
        warm_up()  # compile before the fork
    runs = [{name: measure(call) for name, call in contenders.items()} for _ in range(options.repeats)]
    spans = {name: sorted(map(tuple, run["spans"])) for name, run in runs[0].items()}
    if len({str(found) for found in spans.values()}) > 1:
        raise SystemExit(f"The matches differ, so no times are shown: {spans}")
    print(
        f"query of {len(query)} steps in {len(stream):,}, {MATCHES} matches, median of {options.repeats} runs in turns"
    )
    for name in contenders:
        costs, total = (statistics.median(run[name][part] for run in runs) for part in ("costs", "all"))
        mebibytes = max(run[name]["bytes"] for run in runs) / 2**20
        print(f"{name:22s} end costs {costs:7.3f} s, with matches {total:7.3f} s, peak {mebibytes:6,.0f} MiB")
    plain, peer = "udtw, matches only", "dtaidistance (C)"
    for part, words in (("costs", "end costs"), ("all", "with matches")):
        ratios = [run[peer][part] / run[plain][part] for run in runs]
        print(f"ratio, {words}: {statistics.median(ratios):.0f} (from {min(ratios):.0f} to {max(ratios):.0f})")


if __name__ == "__main__":
    main()
