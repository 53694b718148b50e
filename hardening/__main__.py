"""``python -m hardening``: mutate files, kill processes, and write tables of what happened."""

import argparse
import signal
import sys
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

RESULTS = Path("hardening/results")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m hardening", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    fuzz = commands.add_parser("fuzz", help="mutated files for every parser")
    fuzz.add_argument("--parser", nargs="+", default=["all"], metavar="NAME", help="names, or all")
    fuzz.add_argument("--count", type=int, default=100_000, help="inputs for each parser")
    fuzz.add_argument("--seed", type=int, default=0)
    fuzz.add_argument("--out", type=Path, default=RESULTS, help="folder for the results; a stopped run goes on there")
    kill = commands.add_parser("kill", help="SIGKILL during experiments and trainings")
    kill.add_argument("--count", type=int, default=500, help="kills in all")
    kill.add_argument("--scene", nargs="+", metavar="WORD", help="only scenes whose name contains one of these words")
    kill.add_argument("--seed", type=int, default=0)
    kill.add_argument("--out", type=Path, default=RESULTS)
    commands.add_parser("list", help="names of the parsers")
    table = commands.add_parser("table", help="the results so far, as Markdown")
    table.add_argument("--out", type=Path, default=RESULTS)
    return parser.parse_args()


def _fuzz(arguments: argparse.Namespace, console: Console) -> int:
    from hardening.fuzz import fuzz
    from hardening.parsers import parsers

    known = parsers()
    wanted = list(known) if "all" in arguments.parser else arguments.parser
    unknown = sorted(set(wanted) - set(known))
    if unknown:
        console.print(f"There is no parser {', '.join(unknown)}; there are {', '.join(known)}.")
        return 2
    findings = 0
    columns = (
        TextColumn("{task.description:18}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(), TimeRemainingColumn(),
    )  # fmt: skip
    # Refreshed by hand: a thread of rich's would be half copied into every forked worker.
    with Progress(*columns, console=console, auto_refresh=False) as progress:
        for name in wanted:
            task = progress.add_task(name, total=arguments.count, note="")

            def tick(tally, task=task) -> None:
                note = f"{len(tally.findings)} findings" if tally.findings else ""
                progress.update(task, completed=tally.done, note=note)
                progress.refresh()

            tally = fuzz(known[name], arguments.count, arguments.seed, arguments.out / f"{name}.json", tick)
            tick(tally)
            findings += len(tally.findings)
            for what, found in tally.findings.items():
                console.print(f"{name}: {found['count']} × {what} (first: input {found['index']})", markup=False)
    return 1 if findings else 0


def _kill(arguments: argparse.Namespace, console: Console) -> int:
    import json
    import tempfile

    from hardening.kills import as_json, kill
    from hardening.scenes import scenes
    from udtw.data.atomic import write_atomically

    tallies = []
    with tempfile.TemporaryDirectory(prefix="udtw-kill-data-") as data:
        chosen = [
            scene
            for scene in scenes(Path(data))
            if not arguments.scene or any(word in scene.name for word in arguments.scene)
        ]
        total = sum(scene.share for scene in chosen)
        with Progress(console=console, auto_refresh=False) as progress:
            for scene in chosen:
                count = max(1, -(-arguments.count * scene.share // total))
                task = progress.add_task(scene.name, total=count)

                def tick(task=task) -> None:
                    progress.advance(task)
                    progress.refresh()

                tallies.append(kill(scene, count, arguments.seed, tick))
                for finding in tallies[-1].findings:
                    console.print(f"{scene.name}: {finding}", markup=False)
                arguments.out.mkdir(parents=True, exist_ok=True)
                write_atomically(arguments.out / "kills.json", json.dumps(as_json(tallies), indent=1).encode())
    return 1 if any(tally.findings for tally in tallies) else 0


def main() -> int:
    arguments = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that children are ended too
    console = Console(width=None if sys.stdout.isatty() else 150)
    if arguments.command == "list":
        from hardening.parsers import parsers

        for name, parser in parsers().items():
            console.print(f"{name:20} {parser.reads}", markup=False, highlight=False)
        return 0
    if arguments.command == "table":
        from hardening.report import fuzz_table, kill_table

        print(fuzz_table(arguments.out))
        if (arguments.out / "kills.json").exists():
            print(f"\n{kill_table(arguments.out)}")
        return 0
    return _kill(arguments, console) if arguments.command == "kill" else _fuzz(arguments, console)


if __name__ == "__main__":
    sys.exit(main())
