"""The commands together, and what is the same for all of them: version, errors and exit codes."""

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import udtw
from udtw.cli.align import align
from udtw.cli.barycenter import barycenter
from udtw.cli.classify import classify
from udtw.cli.demo import demo
from udtw.cli.explore import explore
from udtw.cli.forecast import forecast
from udtw.cli.images import app as images
from udtw.cli.output import error_line
from udtw.cli.reproduce import report, reproduce
from udtw.cli.skeleton import app as skeleton
from udtw.errors import BandError, GammaError, OptionError, UdtwError

FAILURE, USAGE, INTERRUPTED = 1, 2, 130

# Typer carries click under a name that changed between its versions; its own public names do not.
UsageError: Any = typer.BadParameter.__base__
EXPECTED = (UdtwError, OSError, ImportError)


class Commands(TyperGroup):
    """Every error is one line on standard error and an exit code: 1 failure, 2 wrong usage, 130 Ctrl-C."""

    def make_context(self, info_name: Any, args: Any, parent: Any = None, **extra: Any) -> Any:
        if not args:
            return super().make_context(info_name, args, parent, **extra)  # shows the help
        try:
            return super().make_context(info_name, args, parent, **extra)
        except UsageError as error:
            raise _refused(error) from None

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            error_line("stopped by Ctrl-C")
            raise typer.Exit(INTERRUPTED) from None
        except UsageError as error:
            raise _refused(error) from None
        except (typer.Exit, typer.Abort):
            raise
        except Exception as error:
            if ctx.params.get("debug"):
                raise
            wrong_usage = isinstance(error, OptionError | GammaError | BandError)
            if isinstance(error, EXPECTED):
                error_line(str(error))
            else:
                error_line(f"{type(error).__name__}: {error} (not expected; `udtw --debug …` shows where)")
            raise typer.Exit(USAGE if wrong_usage else FAILURE) from None


def _refused(error: Any) -> typer.Exit:
    """Say what is wrong with the command line; to be raised."""
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
    """Uncertainty-DTW: align noisy sequences by a distribution over paths, and learn what can be trusted.

    Start with `udtw demo`: a few minutes, no data needed, and a report to look at.

    Data sets are files of the UCR archive in the folder given by `--data-dir` or the environment variable UDTW_DATA;
    `cbf` and `synthetic-control` are generated and need none. Results go to standard output, progress and errors to
    standard error, so that `--json` can be piped.
    """


for command in (demo, align, explore, barycenter, classify, forecast, reproduce, report):
    app.command()(command)
app.add_typer(skeleton)
app.add_typer(images)


def main() -> None:
    """The entry point of the console script."""
    app()
