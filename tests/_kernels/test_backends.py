"""Every kind of problem once, with fixed numbers: quick, and chosen so that a small fault anywhere shows.

`test_against_enumeration` searches wider; `hardening.mutation` runs these first.
"""

import os
from typing import Any

import numpy as np
import pytest
import torch
from torch.autograd import forward_ad

import udtw
from tests._kernels.cpu.test_memory import GuardedScratch
from tests.problems import Case, make_case
from udtw._engine.align import _paths
from udtw._engine.problem import DEVIATION, LOG_VARIANCE, ONE, Problem
from udtw._kernels import backends
from udtw._kernels.base import Backend
from udtw._kernels.cpu import launch, work_queue
from udtw._kernels.cpu.backend import can_fuse
from udtw._kernels.reference import gaps, portable
from udtw._kernels.reference.torch_backends import TorchBackend
from udtw.errors import BackendError

USUAL: dict[str, Any] = {
    "count": 3, "rows": 5, "columns": 4, "dim": 1, "gamma": 0.7, "uncertainty": "steps", "band": None, "ragged": False,
    "given_cost": False,
}  # fmt: skip
LIKELIHOOD: dict[str, Any] = {"weighting": "likelihood"}
PROBLEMS: dict[str, dict[str, Any]] = {
    "usual": {},
    "usual, ragged": {"ragged": True, "rows": 4, "columns": 6},
    "usual, banded": {"band": 1, "rows": 6},
    "usual, masked": {"band": "mask"},
    "two features": {"dim": 2, "uncertainty": "x", "ragged": True},
    "no variance": {"dim": 3, "uncertainty": "none", "columns": 6},
    "joint variance": {"uncertainty": "joint", "dim": 2, "ragged": True},
    "many features": {"dim": 20, "rows": 4},
    "cost": {"given_cost": True, "uncertainty": "none", "ragged": True},
    "cost with variances": {"given_cost": True, "band": "masks"},
    "cost with joint variance, itakura": {"given_cost": True, "uncertainty": "joint", "band": "itakura", "rows": 6},
    "sharp": {"gamma": 0.05, "ragged": True},
    "one column": {"columns": 1, "dim": 2},
    "one pair, banded": {"count": 1, "band": 1, "columns": 6},
    "one row": {"rows": 1, "dim": 4, "uncertainty": "x"},
    "fraction": {"band": 0.4, "ragged": True, "rows": 6, "columns": 6},
    "more than a pack": {"count": 17, "rows": 3},
    "likelihood": LIKELIHOOD,
    "likelihood, warped, ragged": LIKELIHOOD | {"warp_penalty": 0.6, "ragged": True, "rows": 6},
    "likelihood, relaxed": LIKELIHOOD | {"relax": "both", "rows": 4},
    "likelihood, relaxed, a pack": LIKELIHOOD | {"relax": (1.0, 0.4, 0.7, 1.0), "count": 17, "rows": 3},
    "likelihood, features, masked": LIKELIHOOD | {"uncertainty": "features", "dim": 2, "band": "masks"},
    "likelihood, joint, relaxed": LIKELIHOOD | {"uncertainty": "joint", "dim": 2, "relax": "y", "rows": 3},
    "precision, warped, relaxed": {"warp_penalty": -0.3, "relax": (0.5, 0.5, 0.5, 0.5), "rows": 4, "band": 1},
    "certain, relaxed": {"uncertainty": "none", "relax": "x", "columns": 3},
}


def backend(name: str) -> Backend:
    return backends.choose(name, torch.zeros(1))


def asked_for(x, y, weighting="precision", **options) -> Problem:
    assert weighting == "precision"
    return _paths(x, y, weighting=weighting, **options)._problem


def problem(name: str) -> Case:
    return make_case(seed=sum(map(ord, name)), **(USUAL | PROBLEMS[name]))


def close(found: torch.Tensor, expected: torch.Tensor, tolerance: float = 1e-9) -> bool:
    scale = max(1.0, float(expected.detach().abs().max()))
    return bool(torch.isfinite(found).all()) and float((found - expected).detach().abs().max()) <= tolerance * scale


def check(case: Case, oracle: str, quantities: dict, **options: Any) -> None:
    """All quantities and their gradients in everything, weighted differently for each pair."""
    mine, leaves = case.align("numba", **options)
    truth, true_leaves = case.align(oracle, **options)
    for name, quantity in quantities.items():
        found, expected = quantity(mine), quantity(truth)
        assert close(found, expected), name
        weights = torch.linspace(0.5, 2, found.numel(), dtype=torch.float64).reshape(found.shape)
        grads = torch.autograd.grad((weights * found).sum(), leaves.values(), retain_graph=True, allow_unused=True)
        true = torch.autograd.grad(
            (weights * expected).sum(), true_leaves.values(), retain_graph=True, allow_unused=True
        )
        for leaf, grad, known in zip(leaves, grads, true, strict=True):
            if known is not None and grad is not None:
                assert close(grad, known, 1e-8), f"{name} in {leaf}"


PRICES = ("gamma", "beta", "warp_penalty")
SUMS = {"loss": lambda a: a.loss, "distance": lambda a: a.distance, "regularizer": lambda a: 0 * a.loss + a.regularizer}
PATHS = {"coupling": lambda a: a.coupling, "soft_min": lambda a: a.paths.soft_min, "entropy": lambda a: a.paths.entropy}


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_usual_loss(name):
    check(problem(name), "enumeration", SUMS, fixed=PRICES, lam=0.0)


@pytest.mark.parametrize("name", PROBLEMS)
def test_all_terms_with_a_gradient_in_gamma(name):
    check(problem(name), "enumeration", SUMS, normalize="path" if name == "usual" else None)


@pytest.mark.parametrize("name", PROBLEMS)
def test_paths(name):
    case = problem(name)
    check(case, "enumeration", PATHS)
    mine, truth = case.align("numba")[0], case.align("enumeration")[0]
    field = torch.linspace(-1, 2, mine.cost.numel(), dtype=torch.float64).reshape(mine.cost.shape)
    for found, known in zip(mine.paths.expect(field, field**2), truth.paths.expect(field, field**2), strict=True):
        assert close(found, known)
    assert all(torch.equal(a, b) for a, b in zip(mine.paths.mode(), truth.paths.mode(), strict=True))
    for a in (mine, case.align("portable")[0]):
        values, cells = a.paths._backend.least_cells(a.paths._for_kernels)
        found = [sorted(cells[1:, cells[0] == b].T.tolist()) for b in range(len(values))]
        assert found == [path.tolist() for path in truth.paths.mode()]
        assert close(values, truth.paths._backend.least_cost(truth.paths._for_kernels)[0])
    drawn = mine.paths.sample(3, generator=1)
    assert close(mine.paths.log_prob(drawn), truth.paths.log_prob(drawn), 1e-7)


@pytest.mark.parametrize(
    "name",
    [
        "usual, ragged", "usual, masked", "joint variance", "cost", "two features", "likelihood, relaxed",
        "likelihood, warped, ragged", "likelihood, features, masked", "precision, warped, relaxed",
    ],
)  # fmt: skip
def test_dtw_and_its_gradient(name):
    case = problem(name)
    options = {k: v for k, v in case.options.items() if k not in ("beta", "lam")}
    both = []
    for one in ("numba", "portable"):
        leaves = {k: v.clone().requires_grad_() for k, v in case.tensors.items() if k != "gamma"}
        arguments = {"x": None, "y": None, **leaves, **options}
        value = udtw.dtw(**arguments, backend=one)
        with torch.no_grad():
            assert torch.allclose(udtw.dtw(**arguments, backend=one), value)
        weights = torch.arange(1, 1 + len(value))
        both.append([value, *torch.autograd.grad((value * weights).sum(), leaves.values(), allow_unused=True)])
    assert all(a is b is None or close(a, b) for a, b in zip(*both, strict=True))


@pytest.mark.parametrize("relax", [None, "both", (0.3, 0.6, 0.0, 1.0)])
@pytest.mark.parametrize("kind", ["usual", "cost", "likelihood", "likelihood, warped, ragged"])
def test_more_pairs_than_a_pack_and_more_diagonals_than_a_table(monkeypatch, kind, relax):
    """Packs of up to 16 pairs; tables of 32 diagonals at a time, with states saved in between."""
    monkeypatch.setattr(launch, "TABLE_CELLS", 1)
    sizes = {"count": 17, "rows": 24, "columns": 21, "ragged": kind == "cost", "gamma": 0.5, "relax": relax}
    case = make_case(seed=5, **(USUAL | PROBLEMS[kind] | sizes))
    chosen = {"loss": SUMS["loss"], "coupling": PATHS["coupling"]}
    check(case, "portable", chosen, fixed=PRICES, lam=0.0)


@pytest.mark.parametrize("lengths", [([5, 1, 5], [4, 4, 4]), ([5, 5, 5], [4, 4, 1]), ([1, 5, 3], [4, 4, 2])])
def test_pairs_of_a_pack_that_end_sooner_than_others(lengths):
    options = dict(zip(("lengths_x", "lengths_y"), map(torch.tensor, lengths), strict=True))
    for name in ("usual", "no variance"):
        check(problem(name), "enumeration", SUMS | PATHS, fixed=("gamma",), lam=0.0, **options)


@pytest.mark.parametrize("name", ["numba", "enumeration"])
def test_the_uncertainty_of_a_certain_problem_is_none(name):
    asked = asked_for(torch.rand(2, 4, 1), torch.rand(2, 3, 1))
    uncertain, length = backend(name).sums(asked, [LOG_VARIANCE, DEVIATION, ONE]).split((3, 1), 1)
    assert not uncertain[:, 1:].any()
    assert (length > 4).all()


@pytest.mark.parametrize(
    ("count", "n_threads", "round_cells", "rounds", "helpers"),
    [
        (64, 4, 10**9, [(0, 64)], 3),
        (40, 2, 1, [(0, 32), (32, 40)], 1),  # a pack of 16 for either thread
        (100, 1, 64 * 70, [(0, 64), (64, 100)], 0),  # whole packs of 32
        (3, 8, 10**9, [(0, 3)], 2),  # no more threads than packs
    ],
)
def test_work_is_done_in_rounds(monkeypatch, count, n_threads, round_cells, rounds, helpers):
    shared = []

    def note(task, begin, end, helpers):
        shared.append((begin, end, helpers))
        return work_queue.new_queue(end)

    monkeypatch.setattr(launch, "SERIAL_CELLS", 0)
    monkeypatch.setattr(launch, "ROUND_CELLS", round_cells)
    monkeypatch.setattr(launch, "share", note)
    series, ones = np.zeros((count, 8, 1)), np.ones(count)
    launch.sums(launch.make_pairs(gamma=ones, length=np.full((2, count), 8), x=series, y=series), [], n_threads)
    assert shared == [(begin, end, helpers) for begin, end in rounds]


@pytest.mark.parametrize(
    ("rows", "columns", "size"),
    [(8, 8, 32), (32, 20, 32), (20, 33, 16), (64, 64, 16), (65, 3, 8), (200, 200, 8), (300, 300, 4), (4096, 4096, 1)],
)
def test_the_shorter_pairs_are_the_more_are_interleaved(rows, columns, size):
    assert launch.pack_for(rows, columns) == size


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_values_and_gradients_in_either_precision(dtype):
    case = problem("usual")
    found, leaves = case.align("numba", dtype, fixed=("gamma",), lam=0.0)
    truth, known = case.align("enumeration", torch.float64, fixed=("gamma",), lam=0.0)
    assert found.loss.dtype == dtype
    tolerance = 1e-5 if dtype == torch.float32 else 1e-12
    assert close(found.loss.double(), truth.loss, tolerance)
    for mine, true in zip(
        torch.autograd.grad(found.loss.mean(), leaves.values()),
        torch.autograd.grad(truth.loss.mean(), known.values()),
        strict=True,
    ):
        assert close(mine.double(), true, tolerance)


@pytest.mark.parametrize("name", PROBLEMS)
def test_scratch_memory_is_as_large_as_was_asked_for(monkeypatch, name):
    guarded = GuardedScratch()
    monkeypatch.setattr(launch, "scratch", guarded)
    found, _ = problem(name).align("numba", fixed=("gamma",), lam=0.0)
    found.loss.sum().backward(retain_graph=True)
    found.coupling.sum().backward(retain_graph=True)
    with torch.no_grad():
        again, _ = problem(name).align("numba", normalize="path")
        case = problem(name)
        given = {"x": None, "y": None} | {k: v for k, v in case.tensors.items() if k != "gamma"}
        again.matches()
        udtw.dtw(**given, **{k: v for k, v in case.options.items() if k not in ("beta", "lam")})
        again.paths.expect(again.cost, again.cost)
        again.paths.mode()
        again.paths.sample(1, 0)
    assert guarded.intact()


@pytest.mark.parametrize(("count", "rows", "columns"), [(3, 70, 1), (3, 1, 70), (1, 4, 40)])
@pytest.mark.parametrize("uncertainty", ["steps", "joint"])
def test_narrow_problems_in_stretches_stay_inside_their_rows(monkeypatch, count, rows, columns, uncertainty):
    """Tables are as wide as the shorter sequence, rows as the longer one."""
    guarded = GuardedScratch()
    monkeypatch.setattr(launch, "scratch", guarded)
    monkeypatch.setattr(launch, "TABLE_CELLS", 1)
    sizes = {"count": count, "rows": rows, "columns": columns}
    case = make_case(seed=5, **(USUAL | sizes | {"uncertainty": uncertainty}))
    check(case, "portable", {"loss": SUMS["loss"], "coupling": PATHS["coupling"]}, fixed=("gamma",), lam=0.0)
    assert guarded.intact()


def test_the_kernels_are_chosen_for_floats_in_this_memory_only():
    choices = {torch.zeros(1): "numba", torch.zeros(1, device="meta"): "portable"}
    for tensor, name in choices.items():
        assert backends.choose("auto", tensor).name == name
    assert backends.choose("auto", torch.zeros(1, dtype=torch.float16)).name == "portable"


@pytest.mark.parametrize("name", ["usual", "usual, masked", "two features", "joint variance", "cost with variances"])
def test_transitions_of_any_kind_of_problem(name):
    case = problem(name)
    options = {k: v for k, v in case.options.items() if k not in ("beta", "lam")}
    asked = asked_for(**({"x": None, "y": None} | case.tensors | options))
    reached = backend("portable").coupling(asked) > 0
    (mine, ends), (truth, true_ends) = (backend(name).transitions(asked) for name in ("numba", "portable"))
    assert close(mine[:, reached], truth[:, reached])
    assert close(ends, true_ends)


def test_a_mean_cost_in_float32_keeps_its_digits_where_paths_outnumber_costs():
    """At a high temperature Z is a huge number of paths, beside which their mean cost would be lost in rounding."""
    case = make_case(seed=3, **(USUAL | {"rows": 30, "columns": 30, "count": 2, "gamma": 1e4}))
    found, truth = (case.align("numba", dtype)[0].distance.double() for dtype in (torch.float32, torch.float64))
    assert close(found / truth, torch.ones_like(truth), 1e-6)


def test_a_gradient_is_made_ahead_where_one_in_other_than_gamma_is_likely():
    x, y, noise = (torch.rand(2, 3, 1).add(0.5).requires_grad_() for _ in range(3))
    certain = asked_for(x, y)
    uncertain = asked_for(x, y.detach(), var_x=noise[..., 0].detach())
    only_noise = asked_for(x.detach(), y.detach(), var_x=noise[..., 0])
    constant = asked_for(x.detach(), y.detach())
    warm = certain.replace(gamma=torch.ones(2, requires_grad=True))
    for asked in (certain, uncertain, only_noise):
        assert can_fuse(asked, 1.0)
    for asked in (constant, warm):
        assert not can_fuse(asked, 1.0)
    with torch.no_grad():
        assert not can_fuse(certain, 1.0)
    assert can_fuse(certain, 0.0)  # without variances beta has no say
    for beta in (1e-6, 1e6, -1e-6, -1e6):
        assert can_fuse(uncertain, beta)
    for beta in (0.0, 0.9e-6, 1.1e6, -0.9e-6, -1.1e6):
        assert not can_fuse(uncertain, beta)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # forking a threaded process is what is tested
def test_a_forked_child_gives_torch_one_thread():
    """Its OpenMP threads did not survive the fork."""
    assert backends.available_backends()["numba"] is None
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        child = os.fork()
        if child == 0:
            os._exit(torch.get_num_threads())
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


class Suspect(TorchBackend):
    """A backend that has to be checked before `backend="auto"` uses it; ``factor`` spoils its values."""

    needs_check, factor = True, 1.0

    def __init__(self):
        super().__init__("suspect", portable, gaps, all_pairs=False)

    def free_energy(self, problem):
        return super().free_energy(problem) * self.factor


class Broken(Suspect):
    def free_energy(self, problem):
        raise RuntimeError("no such instruction")


@pytest.fixture
def offered(monkeypatch):
    """Put a backend first in the table."""

    def offer(backend):
        monkeypatch.setattr(backends, "BACKENDS", {"suspect": "", **backends.BACKENDS})
        monkeypatch.setitem(backends._loaded, "suspect", backend)
        backends._checked.cache_clear()

    yield offer
    backends._checked.cache_clear()


def test_a_checked_backend_that_agrees_is_used(offered):
    offered(Suspect())
    with torch.no_grad():
        assert backends.choose("auto", torch.zeros(1)).name == "suspect"
    assert backends.self_check("cpu", "suspect") is None


@pytest.mark.parametrize(("backend", "told"), [(Suspect, "free energy differs by 0.05"), (Broken, "no such instruct")])
def test_a_backend_that_fails_its_check_is_not_used(offered, backend, told):
    spoilt = backend()
    spoilt.factor = 1.05
    offered(spoilt)
    with pytest.warns(RuntimeWarning, match=told) as caught:
        chosen = [backends.choose("auto", torch.zeros(1)).name for _ in range(2)]
    assert "suspect" not in chosen
    assert len(caught) == 1


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")  # torch's own forward mode
@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: udtw.align(x, y, x[..., 0].square() + 1, 1.0).loss,
        lambda x, y: udtw.align(x, y, weighting="precision").distance,
        lambda x, y: udtw.align(x, y, order="set").loss,
        udtw.soft_dtw_divergence,
        udtw.dtw,
    ],
    ids=["free energy", "expectation", "set", "divergence", "dtw"],
)
def test_derivatives_in_forward_mode_are_those_of_backward_mode(function):
    x, y, along = (torch.randn(2, n, 1, dtype=torch.float64) for n in (5, 6, 5))
    gradient = torch.func.grad(lambda x: function(x, y).sum())(x)
    with forward_ad.dual_level():
        dual = forward_ad.unpack_dual(function(forward_ad.make_dual(x, along), y)).tangent
    for found in (dual, torch.func.jvp(lambda x: function(x, y), (x,), (along,))[1]):
        torch.testing.assert_close(found.sum(), (gradient * along).sum())


def test_a_backend_without_forward_mode_refuses_it_by_name():
    x = torch.zeros(1, 3, 1)
    with pytest.raises(BackendError, match=r"'numba'.*forward mode \(jvp\)"):
        torch.func.jvp(lambda x: udtw.align(x, x, backend="numba").loss, (x,), (x,))
