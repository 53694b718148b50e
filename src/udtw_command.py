"""The console script ``udtw``. It stands outside the package, whose import takes a second for torch alone."""

import sys


def main() -> None:
    """Print the version at once if only that is asked for; otherwise run `udtw.cli`."""
    if sys.argv[1:] == ["--version"]:
        from importlib.metadata import version

        print(f"udtw {version('udtw')}")
        return
    from udtw.cli import main as run

    run()
