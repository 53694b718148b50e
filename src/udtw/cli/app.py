"""The command ``udtw`` with all its subcommands, and what they share: version, errors and exit codes."""

import importlib.util
import io
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import udtw
from udtw.cli import images as images_commands
from udtw.cli import skeleton as skeleton_commands
from udtw.cli.align import align
from udtw.cli.barycenter import barycenter
from udtw.cli.classify import classify
from udtw.cli.cluster import cluster
from udtw.cli.command import command
from udtw.cli.demo import demo, explore
from udtw.cli.doctor import doctor
from udtw.cli.follow import follow
from udtw.cli.forecast import forecast
from udtw.cli.output import error_line
from udtw.cli.predict import predict
from udtw.cli.search import search
from udtw.errors import BandError, DataError, GammaError, OptionError, UdtwError

FAILURE, USAGE, INTERRUPTED, UNREAD = 1, 2, 130, 141

# Click's UsageError by way of a public name of typer: typer bundles click, under a name that changed between versions.
UsageError: Any = typer.BadParameter.__base__
EXPECTED = (UdtwError, OSError, ImportError)
OTHER_NAMES = {
    "n_neighbors": "k",
    "n_clusters": "k",
    "n_jobs": "jobs",
    "nan_policy": "missing",
    "random_state": "seed",
    "window": "past",
}
"""Parameters whose options have another name."""


EXPERIMENTS = ("reproduce", "report")
"""Commands of the package ``experiments``, which only a clone of the repository has."""


def _has_experiments() -> bool:
    """Return whether the package ``experiments`` can be imported, after adding the clone of this file to the path."""
    root = Path(__file__).parents[3]
    if importlib.util.find_spec("experiments") is None and (root / "experiments" / "command.py").is_file():
        sys.path.append(str(root))
    return importlib.util.find_spec("experiments") is not None


class Commands(TyperGroup):
    """Prints every error as one line on standard error, with an exit code.

    1 failure, 2 wrong usage, 130 Ctrl-C, 141 if the reader of the output has left.
    """

    def make_context(self, info_name: Any, args: Any, parent: Any = None, **extra: Any) -> Any:
        if not args:
            return super().make_context(info_name, args, parent, **extra)  # shows the help
        try:
            return super().make_context(info_name, args, parent, **extra)
        except UsageError as error:
            raise _refused(error) from None

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command; those of the experiments, which need many packages, are imported when they are called."""
        if cmd_name not in EXPERIMENTS:
            return super().get_command(ctx, cmd_name)
        if not _has_experiments():
            raise DataError(
                "The experiments are part of the repository, not of the installed package. Clone the repository and "
                "run `udtw reproduce` or `python -m experiments` there."
            )
        from experiments.command import app as experiments

        return typer.main.get_group(experiments).get_command(ctx, cmd_name)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            error_line("stopped by Ctrl-C")
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:  # the reader of the output, such as `head`, has enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python complains when it ends
            raise typer.Exit(UNREAD) from None
        except UsageError as error:
            raise _refused(error) from None
        except (typer.Exit, typer.Abort):
            raise
        except Exception as error:
            if ctx.params.get("debug"):
                raise
            wrong_usage = isinstance(error, OptionError | GammaError | BandError)
            if isinstance(error, EXPECTED):
                error_line(_with_flag(error, ctx))
            else:
                error_line(f"{type(error).__name__}: {error} (unexpected; `udtw --debug …` shows where)")
            raise typer.Exit(USAGE if wrong_usage else FAILURE) from None


def _with_flag(error: Exception, ctx: Any) -> str:
    """Return the message with the flag of the command instead of the parameter's name in Python."""
    text, parameter = str(error), getattr(error, "parameter", None)
    if parameter is None or ctx.invoked_subcommand is None:
        return text
    flag = _flags(ctx.command.get_command(ctx, ctx.invoked_subcommand)).get(OTHER_NAMES.get(parameter, parameter))
    if flag is None or flag in text:
        return text
    assigned = f"{parameter}="
    return text.replace(assigned, f"{flag} ", 1) if assigned in text else text.replace(parameter, flag, 1)


def _flags(command: Any) -> dict[str, str]:
    """Return the names of the options of a command, or of those in a group, with their flags."""
    flags = {one.name: one.opts[0] for one in command.params if one.opts[0].startswith("--")}
    for member in getattr(command, "commands", {}).values():
        flags |= _flags(member)
    return flags


def _refused(error: Any) -> typer.Exit:
    """Print what is wrong with the command line; return the exit to be raised."""
    context = getattr(error, "ctx", None)
    hint = f" See: {context.command_path} --help" if context is not None else ""
    error_line(f"{error.format_message().rstrip('.')}.{hint}")
    return typer.Exit(USAGE)


app = typer.Typer(
    name="udtw",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="markdown",
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"udtw {udtw.__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Uncertainty-DTW: align noisy sequences by a distribution over paths, and learn the uncertainty of their steps.

    Start with `udtw demo`: it takes a few minutes, needs no data, and writes a report.

    With your own files: `udtw align a.csv b.csv`, `search`, `follow`, `classify`, `cluster`, `forecast`, `predict`;
    CSV, Excel, Parquet, JSON or NumPy. The columns and time axis used are reported on standard error.

    Data sets are files of the UCR archive in the folder given by `--data-dir` or the environment variable UDTW_DATA;
    `cbf` and `synthetic-control` are generated and need no files. Results go to standard output, progress and errors to
    standard error, so that the output of `--json` can be piped.

    In a clone of the repository, `udtw reproduce NAME` and `udtw report` run the experiments of the paper.
    """


skeleton = typer.Typer(name="skeleton", rich_markup_mode="markdown")
images = typer.Typer(name="images", rich_markup_mode="markdown")


@skeleton.callback(invoke_without_command=True)
def _skeleton(context: typer.Context) -> None:
    """Few-shot recognition of actions from skeletons: prepare a data set, train, eval, show, predict.

    Without any data: `udtw skeleton train synthetic --out model.safetensors`.
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@images.callback(invoke_without_command=True)
def _images(context: typer.Context) -> None:
    """Few-shot classification of images by their tokens: embed a data set, train, eval, show, predict.

    Without any data: `udtw images embed synthetic --out tokens --backbone patches`.
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


FEW_SHOT = ("train", "evaluate", "draw", "predict")
for group, functions in (
    (app, (demo, align, search, follow, explore, barycenter, classify, cluster, forecast, predict, doctor)),
    (skeleton, (skeleton_commands.prepare, *(getattr(skeleton_commands, one) for one in FEW_SHOT))),
    (images, (images_commands.embed, *(getattr(images_commands, one) for one in FEW_SHOT))),
):
    for function in functions:
        group.command({"evaluate": "eval", "draw": "show"}.get(function.__name__))(command(function))
app.add_typer(skeleton)
app.add_typer(images)


def main() -> None:
    """Run the command with the arguments of the process; the entry point of the console script.

    >>> import sys
    >>> from udtw.cli import main
    >>> sys.argv = ["udtw", "--version"]
    >>> main()  # doctest: +SKIP
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # γ and • are beyond the code pages of some terminals and pipes
            stream.reconfigure(errors="replace")
    app()
