"""``--dask``: hand the work of a command to a Dask cluster."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from udtw.cli.output import note

Dask = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Scheduler of a Dask cluster, as in `tcp://10.0.0.1:8786`, whose workers do the work. They need udtw, and "
        "must see the data and the folder of results at the same paths.",
    ),
]
CONNECT_SECONDS = 10


@contextmanager
def cluster(address: str | None) -> Iterator[None]:
    """Inside it joblib's workers are those of the cluster at ``address``; without one nothing changes."""
    if address is None:
        yield
        return
    from udtw.errors import WorkerError

    try:
        import joblib
        from distributed import Client
    except ModuleNotFoundError as error:
        raise ImportError("--dask needs Dask; install it with: pip install 'udtw[distributed]'") from error
    try:
        client = Client(address, timeout=CONNECT_SECONDS)
    except (OSError, ValueError) as error:
        raise WorkerError(
            f"No Dask scheduler answers at {address}: {error}. Start one with `dask scheduler`, and workers with "
            "`dask worker ADDRESS --nthreads 1`."
        ) from error
    with client:
        workers = client.scheduler_info()["workers"]
        note(f"Dask: {len(workers)} workers at {address}")
        with joblib.parallel_config("dask", client=client):
            yield
