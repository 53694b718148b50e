"""The required table: each case measures one group of rows and says what they must reach.

A case returns its rows and its raw measurements. Where several rows share a peer, they share its timing too.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import udtw
from benchmarks import fresh, peers
from benchmarks.data import Batch, variances, walks
from benchmarks.machine import CORES
from benchmarks.rows import AtMostTimes, Below, Faster, Row
from benchmarks.timing import FULL, QUICK, Call, Effort, Timing, fastest, interleave


@dataclass(frozen=True)
class Setting:
    """How the run was asked to measure."""

    quick: bool
    seed: int

    @property
    def effort(self) -> Effort:
        return QUICK if self.quick else FULL


@dataclass(frozen=True)
class Found:
    """A case's result."""

    rows: list[Row]
    raw: dict[str, Any]


def raw(timings: dict[str, Timing]) -> dict[str, Any]:
    """Convert timings for JSON."""
    return {name: asdict(t) | {"median": t.median, "best": t.best} for name, t in timings.items()}


def training(count: int, length: int, bound_tslearn: float, bound_plain: float) -> Callable[[Setting], Found]:
    """Time the paper's training step (forward + backward, d=1, γ=1) against tslearn's soft-DTW loss and plain torch."""

    def case(setting: Setting) -> Found:
        batch = Batch.make(count, length, setting.seed)
        (tables, by_tables), (skewed, by_skewed) = (peers.train_plain_best(batch, v) for v in peers.PLAIN_VARIANTS)
        contenders = {
            peers.OURS: peers.train_ours(batch, "precision"),
            peers.TSLEARN: peers.train_tslearn(batch),
            tables: by_tables,
            skewed: by_skewed,
        }
        t = interleave(contenders, setting.effort)
        work = f"uDTW forward + backward, {count} × {length} × {length}"
        ours = t[peers.OURS]
        rows: list[Row] = [
            Faster(work, ours, t[peers.TSLEARN], "soft-DTW, tslearn", bound_tslearn),
            Faster(work, ours, t[tables], tables, bound_plain),
            Faster(work, ours, t[skewed], skewed, None),
        ]
        return Found(rows, raw(t))

    return case


def likelihood_training(count: int, length: int, bound: float) -> Callable[[Setting], Found]:
    """Time a training step of the likelihood (free energy, d=1, γ=1) against tslearn's soft-DTW loss."""

    def case(setting: Setting) -> Found:
        batch = Batch.make(count, length, setting.seed)
        contenders = {
            peers.OURS: peers.train_ours(batch, "likelihood"),
            peers.TSLEARN: peers.train_tslearn(batch),
        }
        t = interleave(contenders, setting.effort)
        work = f"likelihood forward + backward, {count} × {length} × {length}"
        return Found([Faster(work, t[peers.OURS], t[peers.TSLEARN], "soft-DTW, tslearn", bound)], raw(t))

    return case


def prior(setting: Setting) -> Found:
    """Time what the options of the prior add to a training step of the likelihood, 64 × 128 × 128."""
    batch = Batch.make(64, 128, setting.seed)
    options: dict[str, tuple[dict[str, Any], float]] = {
        "without": ({}, 1.0),
        f"ω = {peers.WARP_PENALTY:g}": ({"warp_penalty": peers.WARP_PENALTY}, 1.1),
        f"ω = {peers.TWO_PENALTIES}": ({"warp_penalty": peers.TWO_PENALTIES}, 1.05),
        f"relaxed ends {peers.RELAX}": ({"relax": peers.RELAX}, 1.1),
        "gaps": ({"gap_penalty": 2.0, "gap_opening": 1.0}, 2.5),
    }
    without, *names = options
    steps = {name: peers.train_ours(batch, "likelihood", **given) for name, (given, _) in options.items()}
    t = interleave(steps, setting.effort)
    work = "likelihood forward + backward, 64 × 128 × 128, "
    return Found(
        [AtMostTimes(work + name, t[name], t[without], "udtw, without", options[name][1]) for name in names], raw(t)
    )


def soft_pairs(setting: Setting) -> Found:
    """Time all 100 × 100 pairs of series of length 128: soft-DTW, and uDTW with variances, against aeon's soft-DTW."""
    series = walks(100, 128, setting.seed)[:, :, 0]
    var_x, var_y = variances(100, 128, setting.seed + 1), variances(100, 128, setting.seed + 2)
    name, aeon = peers.soft_pairs_aeon(series)
    contenders = {
        "udtw soft_dtw": peers.soft_pairs_ours(series),
        "udtw udtw": peers.uncertain_pairs_ours(series, var_x, var_y),
        name: aeon,
    }
    t = interleave(contenders, setting.effort, warm_up=False)  # all have run while being verified and chosen
    peer_name = f"soft-DTW, {name}"
    rows: list[Row] = [
        Faster("soft-DTW, all pairs of 100 series of 128", t["udtw soft_dtw"], t[name], peer_name, 15),
        Faster("uDTW d² and Ω, all pairs of 100 series of 128", t["udtw udtw"], t[name], peer_name, 10),
    ]
    return Found(rows, raw(t) | {"pairs computed by each": 100 * 100})


def free_energy_pairs(setting: Setting) -> Found:
    """Time all 100 × 100 free energies of series of length 128 with variances against aeon's soft-DTW."""
    series = walks(100, 128, setting.seed)[:, :, 0]
    var_x, var_y = variances(100, 128, setting.seed + 1), variances(100, 128, setting.seed + 2)
    name, aeon = peers.soft_pairs_aeon(series)
    t = interleave({peers.OURS: peers.free_energy_pairs_ours(series, var_x, var_y), name: aeon}, setting.effort)
    work = "likelihood free energy, all pairs of 100 series of 128"
    rows: list[Row] = [Faster(work, t[peers.OURS], t[name], f"soft-DTW, {name}", 15)]
    return Found(rows, raw(t) | {"pairs computed by each": 100 * 100})


def adtw_pairs(setting: Setting) -> Found:
    """Time the symmetric ADTW matrix of 100 series of length 128 against aeon's; both halve the work."""
    series = walks(100, 128, setting.seed)[:, :, 0]
    t = interleave({peers.OURS: peers.adtw_pairs_ours(series)} | peers.adtw_pairs_aeon(series), setting.effort)
    best = min((name for name in t if name != peers.OURS), key=lambda name: t[name].median)
    work = f"ADTW, ω = {peers.WARP_PENALTY:g}, all pairs of 100 series of 128 (one triangle)"
    return Found([Faster(work, t[peers.OURS], t[best], best, 6)], raw(t))


def dtw_pairs(setting: Setting) -> Found:
    """Time the symmetric DTW matrix of 100 series of length 128 against the fastest peer; all halve the work."""
    series = walks(100, 128, setting.seed)[:, :, 0]
    t = interleave({peers.OURS: peers.dtw_pairs_ours(series)} | peers.dtw_pairs_peers(series), setting.effort)
    best = min((name for name in t if name != peers.OURS), key=lambda name: t[name].median)
    work = "DTW, all pairs of 100 series of 128 (one triangle)"
    return Found([Faster(work, t[peers.OURS], t[best], f"{best} (the fastest)", 3)], raw(t))


def banded_dtw_pairs(setting: Setting) -> Found:
    """Time the symmetric DTW matrix within a band of radius 13 against the fastest peer; all halve the work."""
    series = walks(100, 128, setting.seed)[:, :, 0]
    contenders = {peers.OURS: peers.dtw_pairs_ours(series, peers.RADIUS)} | peers.dtw_pairs_peers(series, peers.RADIUS)
    t = interleave(contenders, setting.effort)
    best = min((name for name in t if name != peers.OURS), key=lambda name: t[name].median)
    work = "DTW, 10 % band, all pairs of 100 series of 128 (one triangle)"
    return Found([Faster(work, t[peers.OURS], t[best], f"{best} (the fastest)", 3)], raw(t))


def bands(setting: Setting) -> Found:
    """Time what a band of radius 13 leaves of the time of all pairs and of training steps without one."""
    series = walks(100, 128, setting.seed)[:, :, 0]
    own, batch = variances(100, 128, setting.seed + 1), Batch.make(64, 128, setting.seed)

    def pairs(metric: str, band: int | None, **options: Any) -> Call:
        return lambda: udtw.pairwise(series, metric=metric, band=band, n_jobs=CORES, **options)

    precision = {"var_x": own, "weighting": "precision"}
    works: dict[str, tuple[Callable[[int | None], Call], float]] = {
        "DTW, all pairs": (lambda band: pairs("dtw", band), 0.35),
        "soft-DTW, all pairs": (lambda band: pairs("soft_dtw", band), 0.35),
        "free energy, all pairs": (lambda band: pairs("udtw", band, var_x=own), 0.35),
        "d² + βΩ, all pairs": (lambda band: pairs("udtw", band, **precision), 0.35),
        "training step, likelihood": (lambda band: peers.train_ours(batch, "likelihood", band=band), 0.6),
        "training step, precision": (lambda band: peers.train_ours(batch, "precision", band=band), 0.6),
    }
    rows: list[Row] = []
    timings: dict[str, Timing] = {}
    for work, (call, bound) in works.items():
        t = interleave({"without": call(None), "with": call(peers.RADIUS)}, setting.effort)
        rows.append(AtMostTimes(f"{work}, 10 % band", t["with"], t["without"], "udtw, no band", bound))
        timings |= {f"{work}, {name} a band": timing for name, timing in t.items()}
    return Found(rows, raw(timings))


def one_pair(setting: Setting) -> Found:
    """Time `udtw.dtw` of one short pair of NumPy arrays, the way through Python included."""
    rows: list[Row] = []
    timings: dict[str, Timing] = {}
    for length, bound in ((50, 3.0), (128, 1.0)):
        t = interleave(peers.dtw_of_one(length, setting.seed), setting.effort)
        rows += [
            AtMostTimes(f"DTW, one pair of {length}", t[peers.OURS], t[name], name, bound)
            for name in t
            if name != peers.OURS
        ]
        timings |= {f"{name}, {length}": timing for name, timing in t.items()}
    return Found(rows, raw(timings))


def tokens(setting: Setting) -> Found:
    """Time a training step on image tokens against computing D and back-propagating through it alone."""
    batch = Batch.make(32, 196, setting.seed, dim=256)
    baseline = peers.tokens_baseline(batch)
    name = fastest(baseline)
    t = interleave({peers.OURS: peers.train_ours(batch, "precision"), name: baseline[name]}, setting.effort)
    work = "uDTW forward + backward, 32 × 196 × 196, d=256"
    return Found([AtMostTimes(work, t[peers.OURS], t[name], f"{name}, alone", 2)], raw(t))


def token_sets(setting: Setting) -> Found:
    """Time a training step on sets of tokens against the matrix product and its two gradients alone."""
    batch = Batch.make(75 * 5, 196, setting.seed, dim=256)
    product = "the matrix product and its two gradients"
    contenders = {
        peers.OURS: peers.train_ours(batch, "likelihood", order="set"),
        product: peers.product_baseline(batch),
    }
    t = interleave(contenders, setting.effort)
    work = "order='set' forward + backward, 375 × 196 × 196, d=256"
    return Found([AtMostTimes(work, t[peers.OURS], t[product], f"{product}, alone", 1.5)], raw(t))


def memory(setting: Setting) -> Found:
    """Measure the peak memory of one distance of length 4096 above a tiny pair, the worst of a few processes."""
    runs = [fresh.memory("ours", "forward", 4096) for _ in range(1 if setting.quick else 3)]
    worst = max(run["megabytes"] for run in runs)
    return Found([Below("distance only, one pair, N=M=4096: peak memory", worst, "MB", 64)], {"runs": runs})


def startup(setting: Setting) -> Found:
    """Time a fresh process with a warm kernel cache."""
    found = fresh.startup(3 if setting.quick else 11)
    rows: list[Row] = [
        Below("import udtw after import torch", found["median"]["import_udtw"], "s", 0.3),
        Below("first training step of a process", found["median"]["first_call"], "s", 1.5),
    ]
    return Found(rows, found)


CASES: dict[str, Callable[[Setting], Found]] = {
    "train-128": training(64, 128, 12, 50),
    "train-20": training(256, 20, 6, 50),
    "train-56": training(64, 56, 6, 50),
    "likelihood-128": likelihood_training(64, 128, 18),
    "likelihood-20": likelihood_training(256, 20, 8),
    "prior": prior,
    "pairs-soft": soft_pairs,
    "pairs-likelihood": free_energy_pairs,
    "pairs-dtw": dtw_pairs,
    "pairs-dtw-band": banded_dtw_pairs,
    "bands": bands,
    "one-pair": one_pair,
    "pairs-adtw": adtw_pairs,
    "memory": memory,
    "tokens": tokens,
    "token-sets": token_sets,
    "startup": startup,
}
