"""The console script ``udtw``. It stands outside the package, whose import takes a second for torch alone."""

import atexit
import os
import signal
import sys
from types import FrameType


def main() -> None:
    """Print the version at once if only that is asked for; otherwise run `udtw.cli`. Ctrl-C is exit code 130."""
    if sys.argv[1:] == ["--version"]:
        from importlib.metadata import version

        print(f"udtw {version('udtw')}")
        return
    stopped = False

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal stopped
        stopped = True
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, stop)
    try:
        from udtw.cli import main as run

        run()
    except BaseException as error:
        code = error.code if isinstance(error, SystemExit) else None
        if not stopped or code == 0:
            raise
        if code != 130:  # libraries that are being loaded turn the interrupt into errors of their own
            print("error: stopped by Ctrl-C", file=sys.stderr)
        # An interrupt inside of `exec`, as of dataclasses, lets Python end by the signal instead of with the code.
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(130)


if __name__ == "__main__":
    main()
