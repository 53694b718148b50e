"""Mutation testing by cosmic-ray: ``python -m hardening.mutation --since COMMIT``, or ``--sample 500 --seed 0``.

cosmic-ray 8.7 changes one place of a file and runs the tests that `TESTS` names for it, or else the tests beside it. It
works in a copy of the repository, in which the compiled kernels stay from run to run. For mutants of the engine kernels
run as plain Python (`hardening.plain_kernels`); `udtw._kernels.cpu.simd` is compiled.

Not used: mutmut 3.8 leaves out decorated functions, which all kernels are (0 mutants of rows.py and of forward.py).
"""

import argparse
import ast
import hashlib
import math
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cosmic_ray.commands import init
from cosmic_ray.mutating import mutate_and_test
from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import MutationSpec, TestOutcome, WorkerOutcome, WorkItem, WorkResult

from udtw._io.progress import progress_bar

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "hardening/results/mutation"
SECONDS = 240
"""For the tests of one mutant; an endless loop is noticed by this."""

PERFORMANCE = {
    "SERIAL_CELLS": "when a second thread pays; results have the same bits with any number of threads",
    "ROUND_CELLS": "how often the user can interrupt",
    "PACK_CELLS": "how many pairs are interleaved; results have the same bits",
    "CHECKS": "how long a thread polls before it sleeps",
    "PAUSE": "how long it then sleeps",
    "MOMENT": "how long another thread is given to end",
    "TABLE_CELLS": "when tables are made in pieces; the memory tests set it themselves",
    "BLOCK_CELLS": "how much work a block of pairwise holds; results have the same bits",
    "MATRIX_BYTES": "how many cost matrices are in flight",
    "PAIR_BYTES": "a measured estimate",
    "MAX_DIRECT_DIM": "where the matrix product becomes faster than the direct sum; both are tested",
    "LINE": "alignment of scratch memory with cache lines",
    "GRIDS": "measured estimates of memory, checked by benchmarks.memory",
    "SKEWED_GRIDS": "as GRIDS",
    "GRIDS_PER_FIELD": "as GRIDS",
    "SMALL_CELLS": "below which no memory is estimated",
    "UNCHECKED_BYTES": "below which an estimate of memory is compared with nothing",
    "INNER": "options of the compiler",
    "OUTER": "options of the compiler",
    "MAX_CELLS": "the size up to which the enumeration lists paths",
}
"""Constants that are not mutated: they are hints about speed or memory."""

ENUMERATION = "tests/_kernels/test_against_enumeration.py"
BACKENDS = "tests/_kernels/test_backends.py"
MEMORY, DISTRIBUTION = "tests/_kernels/cpu/test_memory.py", "tests/_engine/test_distribution.py"
ALIGN = ("tests/cli/test_align.py", "tests/_engine/test_bad_input.py")
OPERATORS = tuple(f"tests/_kernels/cpu/test_{part}.py" for part in ("operators", "autograd", "vmap"))
SLOW = "torch_compile or frequencies or mean_surprise or opcheck or small_blocks or portable-options"
"""Tests that take long as plain Python and notice no mutant that others do not notice sooner."""


@dataclass(frozen=True)
class Tests:
    """Test files in the order in which they run, and tests that are left out."""

    files: tuple[str, ...]
    without: str = SLOW
    compiled: bool = False

    def command(self) -> str:
        environment = f"NUMBA_DISABLE_JIT={int(not self.compiled)} NUMBA_OPT=1 OMP_NUM_THREADS=1 PYTHONPATH=src:."
        options = "-x -q -p hardening.plain_kernels -p no:cacheprovider -p no:randomly --no-header"
        chosen = f"{' '.join(self.files)} -m 'not slow' -k 'not ({self.without})'"
        return f"env {environment} {sys.executable} -m pytest {options} {chosen}"


_KERNEL = Tests((BACKENDS, ENUMERATION, *ALIGN, DISTRIBUTION), f"{SLOW} or portable or extreme")
_TORCH = Tests((BACKENDS, ENUMERATION, *ALIGN, DISTRIBUTION, MEMORY), f"{SLOW} or extreme")
_FRONT = Tests((*ALIGN, DISTRIBUTION, BACKENDS, *OPERATORS), f"{SLOW} or extreme or gradcheck or derivatives")
_OPERATORS = Tests((BACKENDS, ENUMERATION, *OPERATORS), f"{SLOW} or gradcheck or derivatives or portable")
_PAIRS = Tests(
    (
        "tests/_engine/test_inputs.py",
        "tests/_engine/test_pairwise_tables.py",
        "tests/_engine/test_pairwise.py",
        "tests/_engine/test_metrics.py",
    )
)
_FILES = Tests(
    ("tests/data/test_series_files.py", "tests/cli/test_files.py", "tests/cli/test_clumsy_files.py"), compiled=True
)
_GAPS = Tests(("tests/_engine/test_match_gaps.py",), compiled=True)
_GAP_KERNEL = Tests(("tests/_kernels/test_gaps.py",), f"{SLOW} or long_pairs or gradcheck or float32")
GPU = ("autograd", "backend", "backward", "cells", "forward", "lanes", "launch", "operators", "tiles")
_GPU = Tests(("tests/_kernels/gpu/test_interpreter.py",), compiled=True)

TESTS = {
    "_engine/align.py": _FRONT,
    "_engine/distribution.py": _FRONT,
    "_engine/inputs.py": _FRONT,
    "_engine/likelihood.py": _FRONT,
    "_engine/problem.py": _FRONT,
    "_engine/pairwise.py": _PAIRS,
    "_engine/pair_block.py": _PAIRS,
    "_engine/metrics.py": _PAIRS,
    "_engine/lower_bounds.py": Tests(("tests/timeseries/test_search.py",)),
    "_engine/prior.py": Tests(("tests/_engine/test_prior.py", ENUMERATION)),
    "_engine/matches.py": Tests(("tests/_engine/test_matches.py", "tests/_engine/test_labels.py"), compiled=True),
    "timeseries/matched_means.py": Tests(("tests/timeseries/test_kmeans.py",), compiled=True),
    "data/table_files.py": _FILES,
    "_engine/gap_evidence.py": _GAPS,
    "_engine/gap_prices.py": _GAPS,
    "_engine/ties.py": Tests(("tests/_kernels/test_ties.py", "tests/_engine/test_match_gaps.py"), compiled=True),
    "data/columns.py": _FILES,
    "_moved.py": Tests(("tests/test_package.py",), compiled=True),
    "_io/memory.py": Tests((MEMORY,), "huge"),
    "_kernels/backends.py": _TORCH,
    "_kernels/base.py": _TORCH,
    "_kernels/cpu/backend.py": _OPERATORS,
    "_kernels/memory_estimate.py": Tests(("tests/_kernels/test_memory_estimate.py", MEMORY)),
    "_kernels/reference/enumeration.py": _TORCH,
    "_kernels/reference/torch_backends.py": _TORCH,
    "_kernels/reference/portable.py": Tests(
        (ENUMERATION, "tests/_engine/test_facts.py", DISTRIBUTION), f"{SLOW} or numba"
    ),
    "_kernels/cpu/launch.py": _OPERATORS,
    "_kernels/cpu/autograd.py": _OPERATORS,
    "_kernels/cpu/operators.py": _OPERATORS,
    "_kernels/cpu/vmap.py": Tests(OPERATORS, _OPERATORS.without),
    "_kernels/cpu/backward.py": _KERNEL,
    "_kernels/cpu/forward.py": _KERNEL,
    "_kernels/cpu/ends.py": _KERNEL,
    "_kernels/cpu/gradient_rows.py": _KERNEL,
    "_kernels/cpu/hard.py": _KERNEL,
    "_kernels/cpu/layout.py": _KERNEL,
    "_kernels/cpu/pack.py": _KERNEL,
    "_kernels/cpu/rows.py": _KERNEL,
    "_kernels/cpu/work_queue.py": _KERNEL,
    "_kernels/cpu/choices.py": Tests(("tests/_kernels/test_unordered.py",)),
    "_kernels/cpu/follow.py": Tests(("tests/_engine/test_follower.py",)),
    "_kernels/cpu/gap_rows.py": _GAP_KERNEL,
    "_kernels/cpu/gap_sweep.py": _GAP_KERNEL,
    "_kernels/cpu/gaps.py": _GAP_KERNEL,
    **{f"_kernels/gpu/{part}.py": _GPU for part in GPU},
    "_kernels/cpu/simd.py": Tests(("tests/_kernels/cpu/test_simd.py",), compiled=True),
    "_kernels/cpu/threads.py": Tests(("tests/_kernels/cpu/test_threads.py",), "bits or hang"),
}
"""Files of ``src/udtw`` that are mutated, and the tests that have to notice."""


def beside(name: str) -> Tests:
    """Return the tests of a module: those of `TESTS`, its own test file, test files of its folder that import it, or
    else the tests of the modules that import it."""
    if name in TESTS:
        return TESTS[name]
    level, seen = [name], {name}
    while level:
        found = [file for one in level for file in _own_tests(one)]
        if found:
            return Tests(tuple(dict.fromkeys(found)), compiled=not name.startswith("_kernels/cpu/"))
        package = ROOT / "src/udtw"
        users = [str(file.relative_to(package)) for one in level for file in _importing(one, package)]
        level = [user for user in dict.fromkeys(users) if user not in seen and user != "__init__.py"]
        seen.update(level)
    raise SystemExit(f"No test imports {name}, nor what imports it. Name its tests in hardening.mutation.TESTS.")


def _own_tests(name: str) -> list[str]:
    if name in TESTS:
        return list(TESTS[name].files)
    module = Path(name)
    own = Path("tests") / module.parent / f"test_{module.stem}.py"
    if (ROOT / own).exists():
        return [str(own)]
    return [str(file.relative_to(ROOT)) for file in _importing(name, ROOT / "tests" / module.parent, "test_*.py")]


def _importing(name: str, folder: Path, files: str = "*.py") -> list[Path]:
    """Return the files of a folder that import a module, by its full name or from its package."""
    dotted = f"udtw.{name.removesuffix('.py').removesuffix('/__init__').replace('/', '.')}"
    package, _, last = dotted.rpartition(".")
    direct = rf"(?:from |import |import_module\(.){re.escape(dotted)}\b"
    pattern = re.compile(rf"{direct}|from {re.escape(package)} import (?:\([^)]*|[^(\n]*)\b{last}\b")
    return [file for file in sorted(folder.rglob(files)) if pattern.search(file.read_text())]


def changed_since(commit: str) -> list[str]:
    """Return the modules that were changed since a commit, committed or not, without those that hold no code."""
    done = subprocess.run(
        ["git", "diff", "--name-only", "--diff-filter=d", commit, "--", "src/udtw/*.py"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise SystemExit(done.stderr.strip())
    names = [name.removeprefix("src/udtw/") for name in done.stdout.split()]
    return [name for name in names if Path(name).name not in ("__init__.py", "__main__.py")]


BINARY = "Add_Sub Sub_Add Mul_Div Div_Mul FloorDiv_Mul Mod_FloorDiv Pow_Mul BitAnd_BitOr BitOr_BitAnd LShift_RShift"
COMPARISON = "Lt_LtE LtE_Lt Gt_GtE GtE_Gt Eq_NotEq NotEq_Eq Is_IsNot IsNot_Is"
OTHERS = (
    "ReplaceUnaryOperator_Delete_.*|AddNot|ReplaceTrueWithFalse|ReplaceFalseWithTrue|ReplaceAndWithOr|ReplaceOrWithAnd|"
    "ReplaceBreakWithContinue|ReplaceContinueWithBreak|NumberReplacer|ZeroIterationForLoop"
)
OPERATOR = re.compile(
    f"core/(ReplaceBinaryOperator_({BINARY.replace(' ', '|')})|"
    f"ReplaceComparisonOperator_({COMPARISON.replace(' ', '|')})|{OTHERS})"
)
"""One replacement of each operator; most of the others only raise TypeError, and would flatter the score."""


def _unmutated(tree: ast.AST) -> Iterator[ast.AST]:
    """Return annotations, decorators, assertions, the text of messages, and the constants of `PERFORMANCE`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert | ast.JoinedStr):
            yield node
        elif isinstance(node, ast.Assign):
            if {target.id for target in node.targets if isinstance(target, ast.Name)} & set(PERFORMANCE):
                yield node
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield from node.decorator_list
        for name in ("annotation", "returns"):
            if getattr(node, name, None) is not None:
                yield getattr(node, name)


def is_wanted(mutation: MutationSpec, unmutated: list[ast.AST]) -> bool:
    """Return whether the operator is one of `OPERATOR` and the place is outside of ``unmutated``."""
    return bool(OPERATOR.fullmatch(mutation.operator_name)) and not any(
        (node.lineno, node.col_offset) <= mutation.start_pos < (node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]
        for node in unmutated
    )


def mutants(file: Path, db: WorkDB) -> list[WorkItem]:
    """Return the mutants of ``file`` in a fixed order, from the session ``db``, which is filled if it is empty."""
    if not db.num_work_items:
        init([file], db, {})
    unmutated = list(_unmutated(ast.parse(file.read_text())))
    items = [item for item in db.work_items if is_wanted(item.mutations[0], unmutated)]
    return sorted(
        items, key=lambda i: (i.mutations[0].start_pos, i.mutations[0].operator_name, i.mutations[0].occurrence)
    )


def interval(killed: int, total: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a proportion."""
    if total == 0:
        return 0.0, 1.0
    z, share = 1.96, killed / total
    center, width = share + z * z / (2 * total), z * math.sqrt(share * (1 - share) / total + z * z / (4 * total**2))
    return (center - width) / (1 + z * z / total), (center + width) / (1 + z * z / total)


def _checksum(name: str) -> str:
    return hashlib.sha256((Path("src/udtw") / name).read_bytes()).hexdigest()[:12]


def package(name: str) -> str:
    return name.partition("/")[0] if "/" in name else "udtw"


def drawn(chosen: list[tuple[str, WorkItem]], sample: int | None, seed: int) -> list[tuple[str, WorkItem]]:
    """Return that many mutants of each package, at random."""
    parts: dict[str, list[tuple[str, WorkItem]]] = {}
    for name, item in chosen:
        parts.setdefault(package(name), []).append((name, item))
    few = [
        part if sample is None or sample >= len(part) else random.Random(seed).sample(part, sample)
        for part in parts.values()
    ]
    return [one for part in few for one in part]


def run(names: list[str], sample: int | None, seed: int, out: Path, again: bool) -> dict[str, list[WorkResult]]:
    """Return results by file, reusing sessions in ``out``; survivors are run once more if ``again``."""
    out.mkdir(parents=True, exist_ok=True)
    sessions = {name: str(out / f"{name.replace('/', '.')}-{_checksum(name)}.sqlite") for name in names}
    chosen: list[tuple[str, WorkItem]] = []
    for name, session in sessions.items():
        with use_db(session) as db:
            chosen += [(name, item) for item in mutants(Path("src/udtw") / name, db)]
    print(f"{len(chosen)} mutants of {len(names)} files", flush=True)
    chosen = drawn(chosen, sample, seed)
    results: dict[str, list[WorkResult]] = {}
    with progress_bar("mutants", len(chosen), shown=sys.stderr.isatty()) as advance:
        for name, item in chosen:
            with use_db(sessions[name]) as db:
                known = dict(db.results)
                if item.job_id not in known or (again and known[item.job_id].test_outcome == TestOutcome.SURVIVED):
                    known[item.job_id] = mutate_and_test(item.mutations, beside(name).command(), SECONDS)
                    db.set_result(item.job_id, known[item.job_id])
            results.setdefault(name, []).append(known[item.job_id])
            if known[item.job_id].test_outcome == TestOutcome.SURVIVED:
                print(f"survived:\n{known[item.job_id].diff}\n", flush=True)
            advance()
    return results


def report(results: dict[str, list[WorkResult]]) -> float:
    """Print a table by file and by package; return the least share of killed mutants of a package."""
    print("| file | mutants | killed | share | 95 % interval |\n|---|---:|---:|---:|---|")
    packages: dict[str, list[WorkResult]] = {}
    for name, found in results.items():
        packages.setdefault(package(name), []).extend(found)
    least = 1.0
    for name, found in [*sorted(results.items()), *((f"all of {one}", part) for one, part in sorted(packages.items()))]:
        wrong = [result.output for result in found if result.worker_outcome != WorkerOutcome.NORMAL]
        if wrong:
            raise RuntimeError(f"{name}: cosmic-ray could not run a mutant: {wrong[0]}")
        killed = sum(result.test_outcome == TestOutcome.KILLED for result in found)
        share, (low, high) = killed / max(len(found), 1), interval(killed, len(found))
        print(f"| {name} | {len(found)} | {killed} | {share:.0%} | {low:.0%} to {high:.0%} |")
        least = min(least, share) if name.startswith("all of ") else least
    return least


def check(names: list[str]) -> int:
    """Count the test selections that fail on unchanged code, where a failure on a mutant would be meaningless."""
    from cosmic_ray.testing import run_tests

    failed = 0
    for tests in {beside(name): None for name in names}:
        outcome, output = run_tests(tests.command(), 8 * SECONDS)  # the first time kernels are compiled
        passed = outcome == TestOutcome.SURVIVED
        print(f"{', '.join(n for n in names if beside(n) == tests)}: {'passed' if passed else output}", flush=True)
        failed += not passed
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m hardening.mutation", description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--file", nargs="+", default=list(TESTS), metavar="FILE", help="modules, as in _engine/prior.py"
    )
    parser.add_argument("--since", metavar="COMMIT", help="the modules that were changed since this commit")
    parser.add_argument("--sample", type=int, help="this many mutants of each package, at random (default: all)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the sessions; continued if they exist")
    parser.add_argument("--again", action="store_true", help="run survivors of earlier sessions once more")
    parser.add_argument("--check", action="store_true", help="only run the tests on unchanged code")
    parser.add_argument(
        "--least", type=float, default=0.85, help="share to be killed in each package for exit status 0"
    )
    options = parser.parse_args()
    names = options.file if options.since is None else changed_since(options.since)
    if unknown := [name for name in names if not (ROOT / "src/udtw" / name).is_file()]:
        raise SystemExit(f"There is no module src/udtw/{unknown[0]}.")
    out = options.out.resolve()
    copy = out / "copy"
    for name in ("src", "tests", "hardening"):
        shutil.rmtree(copy / name, ignore_errors=True)
        ignored = shutil.ignore_patterns("__pycache__", "results", ".numba-cache")
        shutil.copytree(ROOT / name, copy / name, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", copy)
    os.chdir(copy)
    failed = check(names)  # a test that fails without a mutant would count as killing every one
    if failed or options.check:
        return failed
    return int(report(run(names, options.sample, options.seed, out, options.again)) < options.least)


if __name__ == "__main__":
    sys.exit(main())
