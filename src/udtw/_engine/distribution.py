"""`PathDistribution`: the Gibbs distribution over monotone alignment paths of a cost matrix."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from udtw._engine import inputs, prior
from udtw._engine.inputs import ArrayLike, Form
from udtw._engine.lazy import lazy
from udtw._engine.path_sampling import matches_of, unmatched_energy, walk_back, walk_choices, with_unmatched
from udtw._engine.problem import ONE, WARPS, Problem, make_problem
from udtw._kernels import memory_estimate
from udtw._kernels.backends import choose
from udtw._kernels.base import Backend
from udtw.errors import LengthError, OptionError, PathError, ShapeError


class PathDistribution:
    """``π(Π) = exp(−E(Π)/γ) / Z`` over the paths Π from the first to the last cell of ``cost``.

    The energy of a path is the cost of its cells, ``⟨Π, C⟩``, plus ω for each non-diagonal step; with gaps plus δ for
    each step without a partner and κ for each run of them.

    A path moves by (1, 0), (0, 1) or (1, 1). Everything is exact and, except `mode` and `sample`, differentiable in
    ``cost``, in the fields and in ``gamma`` (if it is a tensor).

    Parameters
    ----------
    cost : (B, N, M) or (N, M)
        Torch tensor or NumPy array; results come back in the same form, without the batch axis for one matrix.
    gamma : float or tensor
        Temperature, one number or one per pair.
    lengths : None, tuple ``(lengths_x, lengths_y)`` of ints or (B,) arrays, or an array (B, 2)
        True sizes of padded matrices; what lies outside is never read.
    band : None, int, float, "itakura" or boolean mask
        Which cells a path may use, see `udtw._engine.prior`.
    backend : "auto", "numba", "portable" or "enumeration"
    warp_penalty : float, tensor or tuple of two
        ω, one number or one per pair; may be negative. If a tensor, gradients are propagated to it,
        ``∂ soft_min/∂ω = E[warps]``. A tuple ``(ω_x, ω_y)`` prices staying in x, the step (0, 1), and staying in y,
        the step (1, 0).
    relax : None, "x", "y", "both" or four counts
        Steps that may stay unmatched at x begin, x end, y begin and y end: a path then starts anywhere in the first
        rows of the first column or in the first columns of the first row, and ends likewise. "y" lets x lie anywhere
        inside y.
    gap_penalty, gap_opening : float or tensor, optional
        δ and κ, not negative, one number or one per pair: steps may then stay unmatched inside, see `udtw.align`. A
        path lists its matches [i, j] and its unmatched steps, [i, -1] of x before [-1, j] of y.
    anchors : list of (i, j, sd), optional
        Tie points: step i of x belongs to step j of y, give or take sd steps; None or 0 is exact, see `udtw.align`.

    Examples
    --------
    >>> import torch
    >>> from udtw import PathDistribution
    >>> paths = PathDistribution(torch.zeros(3, 3))  # all 13 paths are equally likely
    >>> round(paths.entropy.exp().item(), 3), round(paths.coupling[1, 1].item(), 3)
    (13.0, 0.692)
    >>> paths.mode().tolist()
    [[0, 0], [1, 1], [2, 2]]
    """

    def __init__(  # noqa: PLR0913 (options of the prior)
        self,
        cost: ArrayLike,
        gamma: float | Tensor = 1.0,
        lengths: Any = None,
        band: Any = None,
        backend: str = "auto",
        *,
        warp_penalty: Any = 0.0,
        relax: Any = None,
        gap_penalty: Any = None,
        gap_opening: Any = 0.0,
        anchors: Any = None,
    ):
        tensor, single = inputs.read_matrix("cost", cost)
        self._form = Form(numpy=not isinstance(cost, Tensor), single=single)
        self._problem = make_problem(
            {"cost": tensor}, gamma, _both_lengths(lengths, tensor.shape[0]), band=band, warp_penalty=warp_penalty,
            relax=relax, gap_penalty=gap_penalty, gap_opening=gap_opening, anchors=anchors,
        )  # fmt: skip
        self._backend = choose(backend, tensor, self._problem.prior)

    @classmethod
    def _of(cls, problem: Problem, form: Form, backend: Backend) -> "PathDistribution":
        """Build from validated parts; a matrix of the cells is made only if a method needs it."""
        self = cls.__new__(cls)
        self._form, self._backend, self._problem = form, backend, problem
        return self

    def __repr__(self) -> str:
        count, rows, columns = self._problem.shape
        return f"PathDistribution({count} pair(s) of {rows} × {columns} steps, backend={self._backend.name!r})"

    @property
    def shape(self) -> tuple[int, int, int]:
        """The padded sizes (B, N, M)."""
        return self._problem.shape

    @property
    def lengths(self) -> list[tuple[int, int]]:
        """The true sizes (n, m) of each of the B pairs."""
        return [(int(n), int(m)) for n, m in self._problem.lengths.T.tolist()]

    @property
    def single(self) -> bool:
        """Whether results have no batch axis, since one pair was given."""
        return self._form.single

    @property
    def relaxed(self) -> bool:
        """Whether steps may stay unmatched, at an end or inside."""
        return self._problem.prior.relax is not None or self._problem.prior.gaps

    @lazy
    def _for_kernels(self) -> Problem:
        """Return the problem with D made once if there are many features."""
        if self._problem.prior.order != "path":
            return self._problem
        if self._problem.x is not None and not self._problem.few_features:
            memory_estimate.refuse_cost_matrix(self._problem)
        return self._problem.with_cost_of_many_features()

    @lazy
    def _energy(self) -> Tensor:
        """(B, N, M): what each cell costs a path."""
        memory_estimate.refuse_cost_matrix(self._problem)
        return self._problem.energy()

    def _mean(self, which: int) -> Tensor:
        """(B,): the expectation of a built-in field of `udtw._engine.problem`."""
        return self._backend.sums(self._for_kernels, [which])[:, 1]

    @lazy
    def soft_min(self) -> Any:
        """``F = −γ log Z``, (B,): the free energy, the soft minimum of the energies of all paths."""
        return self._form.restore(self._free_energy)

    @lazy
    def _free_energy(self) -> Tensor:
        return self._backend.free_energy(self._for_kernels)

    def _least_energy(self) -> Tensor:
        """Return the least energy of a path, (B,): classical DTW if there are no variances."""
        return self._backend.dtw(self._for_kernels)

    @lazy
    def warps(self) -> Any:
        """E[number of non-diagonal steps], (B,)."""
        return self._form.restore(self._mean(WARPS))

    @lazy
    def length(self) -> Any:
        """E[number of cells of the path], (B,)."""
        return self._form.restore(self._mean(ONE))

    @lazy
    def coupling(self) -> Any:
        """``π* = E[Π]``, (B, N, M): the probability that the path visits each cell."""
        return self._form.restore(self._coupling)

    @lazy
    def _coupling(self) -> Tensor:
        return self._backend.coupling(self._for_kernels)

    @lazy
    def starts(self) -> Any:
        """(B, N, M): the probability that the path starts in each cell; one in the first unless ends are relaxed.

        With gaps, that its first match is there.
        """
        came, _ = self._transitions
        visited = self._coupling.detach()
        if self._problem.prior.gaps:
            return self._form.restore(came[3] * visited)
        return self._form.restore(torch.where(self._borders[0], came[prior.CORNER] * visited, 0))

    @lazy
    def ends(self) -> Any:
        """(B, N, M): the probability that the path ends in each cell."""
        return self._form.restore(self._transitions[1])

    @lazy
    def _transitions(self) -> tuple[Tensor, Tensor]:
        return self._backend.transitions(self._for_kernels)

    @lazy
    def entropy(self) -> Any:
        """``H = (E[energy] − soft_min)/γ`` in nats, (B,): 0 for one certain path.

        The difference is taken in float64, where it does not cancel.
        """
        narrow, problem = self._problem.main.dtype, self._for_kernels.to(torch.float64)
        free, mean = self._backend.energies(problem)
        return self._form.restore(((mean - free) / problem.gamma).to(narrow))

    def expect(self, *fields: ArrayLike) -> Any:
        """``E[F] = Σ_mn π*_mn F_mn``, (B,), for each field F (B, N, M); a tuple if there are several.

        One forward sweep computes all of them; the coupling is never formed.
        """
        if not fields:
            raise ShapeError("expect() needs at least one field of the cost's shape.")
        tensors = []
        for number, field in enumerate(fields):
            tensor, _ = inputs.read_matrix(f"field {number}", field)
            shape = self._problem.shape
            if tensor.shape[1:] != shape[1:] or tensor.shape[0] not in (1, shape[0]):
                raise ShapeError(f"field {number} must have the cost's shape {shape}; got {tuple(tensor.shape)}.")
            tensors.append(tensor.to(self._problem.main).expand(shape))
        means = self._backend.expectations(self._for_kernels, tensors).unbind(1)
        results = tuple(self._form.restore(mean) for mean in means)
        return results[0] if len(results) == 1 else results

    def mode(self) -> Any:
        """Return the most probable (least-cost) path.

        An integer array (L, 2) for one pair, a list of B of them for a batch.

        Ties go to the diagonal step, then to the step along x.
        """
        self._refuse_without_paths()
        if self._problem.prior.gaps:
            pair, *cells = self._backend.least_cells(self._for_kernels)[1]
            matches = torch.stack(cells, 1).cpu()
            every = [self._with_gaps(b, matches[pair.cpu() == b]) for b in range(self._problem.shape[0])]
            return every[0] if self._form.single else every
        _, last, choice = self._backend.least_cost(self._for_kernels, with_choice=True)
        paths = [self._form_path(path) for path in walk_choices(choice, last)]
        return paths[0] if self._form.single else paths

    def _refuse_without_paths(self) -> None:
        order = self._problem.prior.order
        if order != "path":
            raise OptionError(
                f"order={order!r} has no paths: steps choose their partners one by one. Use coupling or matches()."
            )

    @property
    def mode_coupling(self) -> Any:
        """(B, N, M): one in the cells of the most probable path, zero elsewhere; the coupling for γ → 0."""
        return self._form.restore(self._backend.least_path(self._for_kernels))

    def sample(self, k: int = 1, generator: torch.Generator | int | None = None) -> list:
        """``k`` independent paths per pair, exactly from π.

        A list of k integer arrays (L, 2) for one pair, a list of B such lists for a batch. ``generator`` is a
        `torch.Generator` or an int seed.
        """
        self._refuse_without_paths()
        if k < 1:
            raise LengthError(f"sample() draws at least one path; got k={k}.")
        if isinstance(generator, int):
            generator = torch.Generator().manual_seed(generator)
        if self._problem.prior.gaps:
            sets = self._backend.sample_matches(self._for_kernels, k, generator)
            drawn = [[self._with_gaps(b, matches) for matches in each] for b, each in enumerate(sets)]
        else:
            transitions, ends = self._transitions
            drawn = [[self._form_path(path) for path in paths] for paths in walk_back(transitions, ends, k, generator)]
        return drawn[0] if self._form.single else drawn

    def log_prob(self, path: Any) -> Any:
        """``log π(Π)``: of one path (L, 2), or of (nested) lists of paths as `mode` and `sample` return them.

        A path that leaves the band has probability zero, so −inf.
        """
        self._refuse_without_paths()
        if self._form.single:
            return self._form.restore(self._log_prob(0, path)[None])
        if len(path) != self._problem.shape[0]:
            raise PathError(
                f"log_prob() needs one path, or one list of paths, for each of {self._problem.shape[0]} pairs."
            )
        return self._form.restore(torch.stack([self._log_prob(b, item) for b, item in enumerate(path)]))

    def _log_prob(self, b: int, path: Any) -> Tensor:
        if isinstance(path, list | tuple) and len(path) and np.ndim(path[0]) == 2:
            return torch.stack([self._log_prob(b, item) for item in path])
        prior, gaps = self._problem.prior, self._problem.prior.gaps
        cells = self._checked_matches(b, path) if gaps else self._checked_path(b, path)
        i, j = cells.unbind(1)
        allowed = self._admissible[b, i, j].all()
        energy = self._energy[b, i, j].sum() + self._problem.constant_energy()[b]
        if prior.ties is not None:
            nats = prior.ties[b if len(prior.ties) > 1 else 0]
            energy = energy + self._problem.gamma[b] * nats[i, j].clamp_min(0).sum()
            allowed = allowed & (nats[i, j].isneginf().sum() == nats.isneginf().sum())
        if prior.warp_penalty is not None:
            moves = cells.diff(dim=0)
            stays = (moves.sum(1) == 1)[:, None] & (moves == 1)  # (1, 0) stays in y, (0, 1) in x
            energy = energy + (prior.step_prices(self._problem.gamma)[:, b] * stays.sum(0)).sum()
        if gaps:
            energy = energy + unmatched_energy(prior, b, cells, self._problem.lengths[:, b])
        value = (self._free_energy[b] - energy) / self._problem.gamma[b]
        return torch.where(allowed, value, -torch.inf)

    @lazy
    def _admissible(self) -> Tensor:
        return prior.admissible(self._problem.prior.band, self._problem.lengths, *self._problem.shape[1:])

    @lazy
    def _borders(self) -> tuple[Tensor, Tensor]:
        return prior.starts_and_ends(self._problem.prior.relax, self._problem.lengths, *self._problem.shape[1:])

    def _checked_path(self, b: int, path: Any) -> Tensor:
        cells = inputs.read_path("A path", path).cpu()
        n, m = self._problem.lengths[:, b].tolist()
        inside = bool(((cells >= 0) & (cells < torch.tensor([n, m]))).all())
        starts, ends = self._borders
        if not inside or not (starts[b, *cells[0].tolist()] and ends[b, *cells[-1].tolist()]):
            relaxed = "" if self._problem.prior.relax is None else ", or from and to where relax allows it"
            raise PathError(
                f"A path of pair {b} goes from [0, 0] to [{n - 1}, {m - 1}]{relaxed}; got {cells[0].tolist()} to "
                f"{cells[-1].tolist()}."
            )
        return cells.to(self._problem.main.device)

    def _checked_matches(self, b: int, path: Any) -> Tensor:
        """Return the matches (L, 2) of a path with gaps, without its unmatched steps."""
        cells = torch.as_tensor(path).detach().cpu()
        lengths = self._problem.lengths[:, b].tolist()
        whole = cells.ndim == 2 and cells.shape[1] == 2 and not cells.is_floating_point()
        matches = matches_of(cells.long(), *lengths) if whole else None
        if matches is None:
            raise PathError(
                f"A path of pair {b} with gaps lists matches [i, j], i < {lengths[0]} and j < {lengths[1]}, each of "
                "which goes on in both series or repeats a step of one; alone, or with all unmatched steps, [i, -1] "
                "before [-1, j]."
            )
        return matches.to(self._problem.main.device)

    def _with_gaps(self, b: int, matches: Tensor) -> Any:
        return self._form_path(with_unmatched(matches, *self._problem.lengths[:, b].tolist()))

    def _form_path(self, path: Tensor) -> Any:
        return path.numpy() if self._form.numpy else path


def _both_lengths(lengths: Any, count: int) -> tuple[Any, Any]:
    """(lengths_x, lengths_y) from a tuple of two, or from an array (B, 2)."""
    if lengths is None:
        return None, None
    if isinstance(lengths, tuple):
        if len(lengths) != 2:
            raise LengthError(f"lengths must be a tuple (lengths_x, lengths_y); got {len(lengths)} items.")
        return lengths
    table = lengths if isinstance(lengths, Tensor) else np.asarray(lengths)
    if table.ndim == 1 and count == 1:
        table = table[None]
    if table.ndim != 2 or tuple(table.shape) != (count, 2):
        raise LengthError(
            f"lengths must be a tuple (lengths_x, lengths_y) or an array of shape ({count}, 2); got shape "
            f"{tuple(table.shape)}."
        )
    return table[:, 0], table[:, 1]
