"""``python -m hardening.mutation --sample 500 --seed 0``: mutate the engine, run tests, report what survived."""

import argparse
import json
import math
import os
import random
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"  # before torch: children are forked, and threads do not survive a fork

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from hardening.mutation.child import ROOT, file_of
from hardening.mutation.mutants import Mutant, mutants_of
from hardening.mutation.selection import MODULES, PERFORMANCE
from hardening.mutation.server import Server

EQUIVALENT = Path(__file__).with_name("equivalent.json")
LIMIT = 60.0
"""Seconds of processor time of a mutant's tests; an endless loop is noticed by this."""


def all_mutants(modules: list[str]) -> list[Mutant]:
    ignored = frozenset(PERFORMANCE)
    return [mutant for module in modules for mutant in mutants_of(module, file_of(module).read_text(), ignored)]


def sampled(mutants: list[Mutant], count: int | None, seed: int) -> list[Mutant]:
    """``count`` of them, without replacement, each as likely: so every module has a share by its size."""
    if count is None or count >= len(mutants):
        return mutants
    return random.Random(seed).sample(mutants, count)


def interval(killed: int, total: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share."""
    if total == 0:
        return 0.0, 1.0
    z, share = 1.96, killed / total
    centre, width = share + z * z / (2 * total), z * math.sqrt(share * (1 - share) / total + z * z / (4 * total**2))
    return (centre - width) / (1 + z * z / total), (centre + width) / (1 + z * z / total)


def load(file: Path) -> dict[str, Any]:
    return json.loads(file.read_text()) if file.exists() else {}


def save(file: Path, results: dict[str, Any]) -> None:
    partial = file.with_suffix(".part")
    partial.write_text(json.dumps(results, indent=1, ensure_ascii=False))
    partial.replace(file)


def run(mutants: list[Mutant], out: Path, jobs: int) -> dict[str, Any]:
    """Results by mutant key; those already in ``out`` are not run again."""
    results = load(out)
    todo = [mutant for mutant in mutants if mutant.key not in results]
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns) as bar, ThreadPoolExecutor(jobs) as pool:
        task = bar.add_task("mutants", total=len(mutants), completed=len(mutants) - len(todo))
        futures = {pool.submit(_run_one, mutant): mutant for mutant in todo}
        for future in as_completed(futures):
            mutant = futures[future]
            failed = future.result()
            results[mutant.key] = {
                "module": mutant.module, "line": mutant.line, "kind": mutant.kind, "killed by": failed,
                "diff": mutant.diff(file_of(mutant.module).read_text()),
            }  # fmt: skip
            save(out, results)
            bar.advance(task)
            if not failed:
                bar.console.print(f"survived: {mutant.key} {mutant.module}:{mutant.line} {mutant.kind}")
                bar.console.print("\n".join(results[mutant.key]["diff"]), markup=False)
    return {mutant.key: results[mutant.key] for mutant in mutants}


def _run_one(mutant: Mutant) -> str:
    selection = MODULES[mutant.module]
    text = mutant.apply(file_of(mutant.module).read_text())
    return Server.of_thread(selection.compiled).failed_test(mutant.module, text, selection.arguments(), LIMIT)


def report(results: dict[str, Any], console: Console) -> int:
    """Print the score; the number of survivors that nobody has judged."""
    equivalent = load(EQUIVALENT)
    killed = sum(bool(result["killed by"]) for result in results.values())
    survivors = {key: result for key, result in results.items() if not result["killed by"]}
    judged = {key for key in survivors if key in equivalent}
    for name, total in (("of all", len(results)), ("of those not equivalent", len(results) - len(judged))):
        low, high = interval(killed, total)
        share = killed / max(total, 1)
        console.print(f"killed {killed} {name} {total}: {share:.1%}, 95 % interval {low:.1%} to {high:.1%}")
    open_ = [key for key in survivors if key not in judged]
    for key in open_:
        console.print(f"\n{key} {survivors[key]['module']}:{survivors[key]['line']} {survivors[key]['kind']}")
        console.print("\n".join(survivors[key]["diff"]), markup=False, highlight=False)
    return len(open_)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m hardening.mutation", description=__doc__)
    parser.add_argument("--module", action="append", choices=list(MODULES), help="only this module; may be repeated")
    parser.add_argument("--sample", type=int, help="so many mutants by chance (all by default)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=ROOT / "mutation.json", help="results; continued if it exists")
    parser.add_argument("--again", action="store_true", help="only the survivors of --out once more, after new tests")
    parser.add_argument("--check", action="store_true", help="only run the tests on what is not mutated")
    parser.add_argument("--least", type=float, default=0.9, help="share to be killed, of those not equivalent")
    options = parser.parse_args()
    console = Console()
    modules = options.module or list(MODULES)
    os.chdir(ROOT)
    if options.check:
        sys.exit(_check(modules, console))
    mutants = all_mutants(modules)
    chosen = sampled(mutants, options.sample, options.seed)
    console.print(f"{len(mutants)} mutants of {len(modules)} modules; {len(chosen)} chosen (seed {options.seed})")
    if options.again:
        before = load(options.out)
        chosen = [mutant for mutant in chosen if mutant.key in before]
        known = load(EQUIVALENT)
        save(options.out, {key: result for key, result in before.items() if result["killed by"] or key in known})
    results = run(chosen, options.out, options.jobs)
    report(results, console)
    equivalent = load(EQUIVALENT)
    counted = [r for key, r in results.items() if r["killed by"] or key not in equivalent]
    sys.exit(sum(bool(r["killed by"]) for r in counted) < options.least * len(counted))


def _check(modules: list[str], console: Console) -> int:
    """Whether all selected tests pass without a mutation, without which their failure would mean nothing."""
    wrong = 0
    for selection in {MODULES[module] for module in modules}:
        module = next(m for m in modules if MODULES[m] == selection)
        text = file_of(module).read_text()
        failed = Server.of_thread(selection.compiled).failed_test(module, text, selection.arguments(), LIMIT)
        console.print(f"{', '.join(m for m in modules if MODULES[m] == selection)}: {failed or 'green'}")
        wrong += bool(failed)
    return wrong


if __name__ == "__main__":
    main()
