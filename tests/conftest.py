"""Shared set-up: one kernel cache per state of the kernel sources, since Numba only watches the file of the caller."""

import hashlib
import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def _kernel_fingerprint() -> str:
    sources = sorted((ROOT / "src/udtw/_kernels/cpu").glob("*.py"))
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]


if "PYTEST_XDIST_WORKER" in os.environ:
    # There is a test process for each core; threads beside them would only wait for each other.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("NUMBA_CACHE_DIR", str(ROOT / ".numba-cache" / _kernel_fingerprint()))


@pytest.fixture(scope="session", autouse=True)
def cache_folder(tmp_path_factory):
    """Archives are unpacked here, and not into the cache of the user who runs the tests."""
    os.environ["UDTW_CACHE"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture
def one_thread():
    """For models so small that a second torch thread would only wait for the first."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def pytest_collection_modifyitems(items):
    """Try a browser test a second time if the browser did not answer in time, as happens on a busy machine."""
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.flaky(reruns=1, only_rerun=["TimeoutException", "TimeoutError"]))
