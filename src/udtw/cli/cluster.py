"""``--dask``: run the work of a command on a Dask cluster."""

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
    """Use the workers of the cluster at ``address`` as joblib's; without an address do nothing."""
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
