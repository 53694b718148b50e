"""What must hold between answers, whatever the options: on problems in which every option meets every other.

`make test` takes a sample, `make fuzz` ``UDTW_CASES`` problems for every relation, 10,000 by default.
"""

import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import chain, pairwise

import numpy as np
import pytest
import torch
from scipy import stats

import udtw
from tests.random_options import SERIES, Problem, random_problem
from udtw._engine.likelihood import MAX_DIRECT_DIM

CASES = int(os.environ.get("UDTW_CASES", "10000"))
ROUNDING = {"rtol": 1e-9, "atol": 1e-9}
LEVELS = (0.3, 0.5, 0.8, 0.95)
DRAWS = 200
CHANCE = 1e-9
"""Probability with which correct samples of one problem are refused."""


def gradients_of(value: torch.Tensor, leaves: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    """Return gradients in all leaves, zero in those that the value does not depend on."""
    return list(torch.autograd.grad(value, list(leaves), materialize_grads=True))


def check_exchange(problem: Problem) -> None:
    """x against y is y against x."""
    problem = replace(problem, options={name: one for name, one in problem.options.items() if name != "anchors"})
    one, other = problem.align(), problem.exchanged().align()
    torch.testing.assert_close(other.loss, one.loss, **ROUNDING)
    torch.testing.assert_close(other.coupling.mT, one.coupling, **ROUNDING)
    mine, theirs = one.matches(of="y"), other.matches(of="x")
    torch.testing.assert_close(mine.matched, theirs.matched, **ROUNDING, equal_nan=True)
    torch.testing.assert_close(mine.expected, theirs.expected, rtol=1e-6, atol=1e-6, equal_nan=True)


def check_reversal(problem: Problem) -> None:
    """Both series backwards have the same alignment, backwards."""
    if problem.order == "grid" and problem.padded:
        return  # a part of a grid, read backwards, is another part
    one, other = problem.align(), problem.reversed().align()
    torch.testing.assert_close(other.loss, one.loss, **ROUNDING)
    for b, (n, m) in enumerate(problem.lengths.T.tolist()):
        torch.testing.assert_close(other.coupling[b, :n, :m].flip(0, 1), one.coupling[b, :n, :m], **ROUNDING)


def check_padding(problem: Problem) -> None:
    """What lies behind the lengths changes nothing, be it as large as can be."""
    if problem.order == "grid":
        return  # a grid has as many tokens as its shape says
    one, more = problem.align(), problem.with_padding(3, 1e150).align()
    rows, columns = one.coupling.shape[1:]
    torch.testing.assert_close(more.loss, one.loss, **ROUNDING)
    torch.testing.assert_close(more.coupling[:, :rows, :columns], one.coupling, **ROUNDING)
    assert not more.coupling[:, rows:].any()
    assert not more.coupling[:, :, columns:].any()
    assert (more.matches().index[:, rows:] == -1).all()


def check_units(problem: Problem) -> None:
    """Other units of the series change no alignment; with variances they add to the loss, else they multiply it."""
    one, twice, four = problem.align(), *(problem.in_other_units(factor).align() for factor in (8.0, 64.0))
    torch.testing.assert_close(twice.coupling, one.coupling, rtol=1e-8, atol=1e-8)
    if problem.uncertain and one.weighting == "likelihood":
        torch.testing.assert_close(four.loss - twice.loss, twice.loss - one.loss, rtol=1e-7, atol=1e-7)
    elif not problem.uncertain:
        torch.testing.assert_close(twice.loss, 64 * one.loss, rtol=1e-8, atol=1e-8)


def compiled(a: udtw.Alignment, problem: Problem) -> bool:
    """Whether no part of the answer is left to operations of torch, whose sums may depend on the shape of a batch."""
    product = problem.tensors["x"].shape[2] > MAX_DIRECT_DIM
    return a.paths._backend.name == "numba" and "anchors" not in problem.options and not product


def assert_same(found: Iterable[torch.Tensor], expected: Iterable[torch.Tensor], exact: bool) -> None:
    for one, other in zip((one.detach() for one in found), (one.detach() for one in expected), strict=True):
        assert torch.equal(one, other) or not exact
        torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-11 * max(1.0, float(other.abs().max())))


def check_batches(problem: Problem) -> None:
    """Every pair has the same bits alone as in its batch: values, matches and gradients."""
    leaves = problem.leaves()
    together = problem.align(leaves)
    names = [name for name in SERIES if name in leaves]
    grads = gradients_of(together.loss.sum(), [leaves[name] for name in names])
    matches = together.matches()
    for b in range(len(together.loss)):
        own = problem.pair(b).leaves()
        alone = problem.pair(b).align(own)
        found = gradients_of(alone.loss.sum(), [own[name] for name in names])
        exact = compiled(alone, problem)
        expected = (together.loss[b], together.coupling[b], *(grad[b] for grad in grads))
        assert_same((alone.loss[0], alone.coupling[0], *(grad[0] for grad in found)), expected, exact)
        at = alone.matches()
        names_of = ("matched", "probability", "expected", *(("index", "low", "high") if exact else ()))
        for name in names_of:
            mine, theirs = getattr(at, name)[0], getattr(matches, name)[b]
            assert torch.equal(mine.nan_to_num(-1), theirs.nan_to_num(-1)) or not exact
            torch.testing.assert_close(mine, theirs, rtol=1e-6, atol=1e-6, equal_nan=True)


def check_threads(problem: Problem) -> None:
    """Any number of threads gives the same bits, and so do NumPy arrays."""
    before, results = torch.get_num_threads(), []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            leaves = problem.leaves()
            a = problem.align(leaves)
            results.append([a.loss, a.coupling, *gradients_of(a.loss.sum(), leaves.values())])
    finally:
        torch.set_num_threads(before)
    assert_same(*results, compiled(a, problem))
    arrays = {name: one.numpy() if name in SERIES else float(one) for name, one in problem.tensors.items()}
    assert np.array_equal(problem.align(arrays).loss, problem.align().loss.numpy())


def check_intervals(problem: Problem) -> None:
    """Intervals of a higher level hold those of a lower one, and the expected partner lies among the partners."""
    a = problem.align()
    for of, steps in (("x", problem.lengths[1]), ("y", problem.lengths[0])):
        found = [a.matches(level, of=of) for level in LEVELS]
        for narrow, wide in pairwise(found):
            assert (wide.low <= narrow.low).all()
            assert (wide.high >= narrow.high).all()
        at = found[-1]
        real = at.index >= 0
        last = torch.tensor(steps)[:, None].expand_as(real)
        assert ((at.low <= at.high) & (at.index < last) & (at.high < last))[real].all()
        # What is known of a step that hardly ever has a partner is a quotient of small numbers.
        rounding = 1e-15 / at.matched + 1e-9
        assert ((at.expected >= -rounding) & (at.expected <= last - 1 + rounding))[real].all()
        assert ((at.probability > 0) & (at.probability <= 1 + rounding))[real].all()


def check_sums(problem: Problem) -> None:
    """Sums of the coupling: lengths of paths, numbers of warps, unmatched steps."""
    a = problem.align()
    coupling = a.coupling
    assert (coupling >= -1e-12).all()
    free = problem.gaps or problem.options.get("relax") is not None
    for b, (n, m) in enumerate(problem.lengths.T.tolist()):
        assert not coupling[b, n:].any()
        assert not coupling[b, :, m:].any()
        for of, axis, length in (("x", 1, n), ("y", 0, m)):
            matched = a.matches(of=of).matched[b]
            rows = coupling[b].sum(axis)
            assert matched[length:].isnan().all()
            if problem.order == "path":
                assert (matched[:length] <= rows[:length] + 1e-9).all()
            if not free:
                torch.testing.assert_close(matched[:length], torch.ones(length, dtype=torch.float64), **ROUNDING)
        if problem.order != "path":
            assert float(coupling[b].sum()) == pytest.approx((n + m) / 2, rel=1e-9)
        elif not free:
            assert float(2 * coupling[b].sum()) == pytest.approx(n + m + float(a.warps[b]), rel=1e-9)
            assert float(coupling[b, 0, 0]) == pytest.approx(1, rel=1e-9)
            assert float(coupling[b, n - 1, m - 1]) == pytest.approx(1, rel=1e-9)
    if problem.order == "path":
        torch.testing.assert_close(a.paths.length, coupling.sum((1, 2)), **ROUNDING)
        if not problem.gaps:
            both = torch.stack([a.paths.starts.sum((1, 2)), a.paths.ends.sum((1, 2))])
            torch.testing.assert_close(both, torch.ones_like(both), **ROUNDING)


def check_samples(problem: Problem) -> None:
    """Cells are visited as often as the coupling says (χ² of each cell), and every path as likely as it states."""
    if problem.order != "path":
        return
    a = problem.align()
    paths = a.paths.sample(DRAWS, generator=problem.seed)
    counts = torch.zeros_like(a.coupling)
    for b, drawn in enumerate(paths):
        for path in drawn:
            cells = torch.as_tensor(path)
            cells = cells[(cells >= 0).all(1)]
            counts[b, cells[:, 0], cells[:, 1]] += 1
    share = a.coupling.clamp(0, 1).numpy()
    certain = (share < 1e-12) | (share > 1 - 1e-9)
    assert (counts.numpy() == DRAWS * share.round())[certain].all()
    # Exact tails of the binomial, which the χ² of a cell approaches for large counts.
    low, high = (tail(np.where(certain, 0, counts), DRAWS, share) for tail in (stats.binom.cdf, _at_least))
    assert (np.minimum(low, high)[~certain] > CHANCE / counts.numel()).all()
    spread = DRAWS * share * (1 - share)
    large = spread > 10
    chi_square = (counts.numpy() - DRAWS * share)[large] ** 2 / spread[large]
    assert (stats.chi2.sf(chi_square, 1) > CHANCE / max(large.sum(), 1)).all()
    known = a.paths.log_prob([drawn[:3] for drawn in paths])
    assert ((known <= 1e-9) & known.isfinite()).all()
    assert (a.paths.log_prob(a.paths.mode()) >= known.max(1).values - 1e-9).all()


def _at_least(count: np.ndarray, draws: int, share: np.ndarray) -> np.ndarray:
    return stats.binom.sf(count - 1, draws, share)


def check_free_energy(problem: Problem) -> None:
    """``F = E − γH`` where E is the energy of the paths by derivatives, and H that of the paths' own probabilities."""
    leaves = {name: one for name, one in problem.leaves().items() if name in ("gamma", *SERIES)}
    a = problem.align({**problem.tensors, **leaves})
    [by_gamma] = torch.autograd.grad(a.free_energy.sum(), leaves["gamma"], retain_graph=True)
    entropy, gamma = a.paths.entropy.detach(), problem.tensors["gamma"]
    if "anchors" not in problem.options:  # soft ties cost γ times their nats
        torch.testing.assert_close(by_gamma, -entropy.sum(), rtol=1e-7, atol=1e-7)
    assert (entropy >= -1e-9).all()
    if problem.order == "path":
        drawn = a.paths.sample(2, generator=0)
        values = a.paths.log_prob(drawn).detach()
        for b, pair in enumerate(drawn):
            for k, path in enumerate(pair):
                # log p = (F − E(path))/γ, where E is what an alignment that admits this path alone has.
                if not problem.gaps and "anchors" not in problem.options and problem.options.get("relax") is None:
                    mask = torch.zeros(a.coupling.shape[1:], dtype=torch.bool)
                    cells = torch.as_tensor(path)
                    mask[cells[:, 0], cells[:, 1]] = True
                    alone = problem.pair(b).with_options(band=mask).align()
                    if int(alone.paths.length.round()) == len(cells) and float(alone.paths.entropy) < 1e-9:
                        energy = alone.free_energy[0]
                        expected = (a.free_energy[b] - energy) / gamma
                        torch.testing.assert_close(values[b, k], expected.detach(), rtol=1e-8, atol=1e-8)


def check_derivatives(problem: Problem) -> None:
    """The gradient in all tensors at once, along a random direction, is that of finite differences."""
    leaves = problem.leaves()
    generator = torch.Generator().manual_seed(problem.seed)
    along = {name: torch.randn(one.shape, generator=generator, dtype=torch.float64) for name, one in leaves.items()}
    weight = torch.rand(problem.lengths.shape[1], generator=generator, dtype=torch.float64) + 0.5
    gradients = gradients_of((weight * problem.align(leaves).loss).sum(), leaves.values())
    slope = sum((g * v).sum() for g, v in zip(gradients, along.values(), strict=True))
    step = 1e-4 * min(1.0, float(problem.tensors["gamma"]), *(float(problem.tensors.get(name, 1)) for name in ENDS))

    def moved(part: float) -> torch.Tensor:
        shifted = {name: one + part * step * along[name] for name, one in problem.tensors.items()}
        return (weight * problem.align(shifted).loss).sum()

    near, far = (float(moved(k) - moved(-k)) / (2 * k * step) for k in (1.0, 2.0))
    scale = max(1.0, abs(near), *(float(g.abs().max()) for g in gradients))
    assert abs(float(slope) - (4 * near - far) / 3) < 1e-6 * scale


ENDS = ("gap_penalty", "gap_opening", "beta", "reach")
"""Leaves that must not become negative, nor change their sign."""

RELATIONS: dict[str, Callable[[Problem], None]] = {
    name.removeprefix("check_"): one for name, one in list(globals().items()) if name.startswith("check_")
}


def check(name: str, seeds: range) -> None:
    for seed in seeds:
        problem = random_problem(seed)
        try:
            RELATIONS[name](problem)
        except Exception as error:
            raise AssertionError(f"{name}, {problem}") from error


def random_pair(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two series (N, d) and (M, d) of which the second is a warped and noisy copy, for `match` and `Follower`."""
    rng = np.random.default_rng(seed)
    steps, dim = rng.integers(20, 50, 2), int(rng.integers(1, 3))
    y = 0.5 * rng.standard_normal((steps[1], dim)).cumsum(0)
    places = np.sort(rng.uniform(0, steps[1] - 1, steps[0]))
    x = np.stack([np.interp(places, np.arange(steps[1]), column) for column in y.T], 1)
    return x + 0.2 * rng.standard_normal(x.shape), y


def match_levels(x: np.ndarray, y: np.ndarray) -> None:
    narrow, wide = udtw.match(x, y, level=0.5), udtw.match(x, y, level=0.9)
    assert narrow.trust.verdict == wide.trust.verdict
    both = (narrow.index >= 0) & (wide.index >= 0)
    assert (wide.low <= narrow.low)[both].all()
    assert (wide.high >= narrow.high)[both].all()


def match_batches(x: np.ndarray, y: np.ndarray) -> None:
    alone, other = udtw.match(x, y), udtw.match(x[::-1].copy(), y)
    together = udtw.match(np.stack([x, x[::-1]]), np.stack([y, y]))
    as_tensors = udtw.match(torch.from_numpy(x), torch.from_numpy(y))
    for name in ("index", "low", "high", "probability", "expected"):
        for one, same in ((alone, together[0]), (other, together[1]), (alone, as_tensors)):
            assert np.array_equal(getattr(one, name), np.asarray(getattr(same, name)), equal_nan=True)


def match_units(x: np.ndarray, y: np.ndarray) -> None:
    """Another gain of both, by powers of two so that nothing is rounded."""
    one, other = udtw.match(x, y), udtw.match(8 * x, 8 * y)
    assert one.trust.verdict == other.trust.verdict
    for name in ("low", "high", "expected"):
        np.testing.assert_allclose(getattr(other, name), getattr(one, name), atol=1e-6)


def follower_chunks(x: np.ndarray, y: np.ndarray) -> None:
    one, other = udtw.Follower(y, lag=3), udtw.Follower(y, lag=3)
    cuts = np.sort(np.random.default_rng(len(x)).integers(0, len(x), 3))
    for step in x:
        last = one.update(step)
    for chunk in np.split(x, cuts):
        found = other.update(chunk) if len(chunk) else None
    assert found == last
    assert np.array_equal(one.probability, other.probability)
    assert one.probability.sum() == pytest.approx(1, rel=1e-12)
    assert one.smoothed_probability.sum() == pytest.approx(1, rel=1e-12)


def follower_levels(x: np.ndarray, y: np.ndarray) -> None:
    followers = [udtw.Follower(y, level=level) for level in LEVELS]
    for step in x:
        for narrow, wide in pairwise([follower.update(step) for follower in followers]):
            assert narrow.expected == wide.expected
            assert wide.low <= narrow.low <= narrow.high <= wide.high


def follower_units(x: np.ndarray, y: np.ndarray) -> None:
    one, other = udtw.Follower(y), udtw.Follower(8 * y)
    one.update(x)
    other.update(8 * x)
    np.testing.assert_allclose(other.probability, one.probability, atol=1e-9)


def several(x: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
    """Four series of different lengths that belong together."""
    noise = np.random.default_rng(len(x)).standard_normal
    return [
        x,
        y,
        y[: len(y) - 3] + 0.2 * noise((len(y) - 3, y.shape[1])),
        x[2:] + 0.2 * noise((len(x) - 2, x.shape[1])),
    ]


def many_levels(x: np.ndarray, y: np.ndarray) -> None:
    narrow, wide = (udtw.match_many(several(x, y), level=level) for level in (0.5, 0.9))
    assert np.array_equal(narrow.positions, wide.positions, equal_nan=True)
    assert (wide.low <= narrow.low).all()
    assert (wide.high >= narrow.high).all()


def many_units(x: np.ndarray, y: np.ndarray) -> None:
    one, other = (udtw.match_many([factor * series for series in several(x, y)]) for factor in (1, 8))
    np.testing.assert_allclose(other.mean, 8 * one.mean, atol=1e-6)
    np.testing.assert_allclose(other.positions, one.positions, atol=1e-6)


def many_orders(x: np.ndarray, y: np.ndarray) -> None:
    """The order of the series decides nothing: sums over them are rounded in another order."""
    series, order = several(x, y), [2, 0, 3, 1]
    one, other = udtw.match_many(series), udtw.match_many([series[k] for k in order])
    assert order[other.medoid] == one.medoid
    np.testing.assert_allclose(other.mean, one.mean, atol=1e-6)
    np.testing.assert_allclose(other.positions, one.positions[order], atol=1e-6)


def many_inverses(x: np.ndarray, y: np.ndarray) -> None:
    """From one series to another, and back, is where one was."""
    joint = udtw.match_many(several(x, y), lag=False)
    there, back = joint.between(0, 1).expected, joint.between(1, 0).expected
    steps = np.arange(len(x))
    inner = (there > 0.5) & (there < len(y) - 1.5)
    flat = np.gradient(there) < 0.2  # several steps of one series at one step of the other one
    found = np.interp(there, np.arange(len(y)), back)
    assert np.abs(found - steps)[inner & ~flat].max(initial=0) < 2


OF_SERIES = (
    match_levels, match_batches, match_units, many_levels, many_units, many_orders, many_inverses,
    follower_chunks, follower_levels, follower_units,
)  # fmt: skip
"""Relations between answers about two series, or about several that are made of them."""


@pytest.mark.parametrize("relation", OF_SERIES, ids=lambda one: one.__name__)
def test_relations_of_matches_and_followers(relation, one_thread):
    for seed in range(2):
        relation(*random_pair(seed))


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("relation", OF_SERIES, ids=lambda one: one.__name__)
def test_relations_of_many_matches_and_followers(relation, one_thread):
    for seed in range(1000, 1000 + CASES // 50):
        relation(*random_pair(seed))


@pytest.mark.parametrize("name", RELATIONS)
def test_relations_hold_whatever_the_options(name, one_thread):
    check(name, range(30))


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", RELATIONS)
def test_relations_hold_on_many_problems(name, one_thread):
    check(name, range(1000, 1000 + CASES))


def test_every_option_occurs_in_the_sample():
    problems = [random_problem(seed) for seed in range(30)]
    seen = set(chain.from_iterable([*one.tensors, *one.options] for one in problems))
    assert seen >= {*SERIES, *ENDS, "gamma", "stay_x", "stay_y", "relax", "band", "anchors", "weighting"}
    assert {one.order for one in problems} == {"path", "set", "grid"}
