"""Shared set-up: one kernel cache per state of the kernel sources, since Numba only watches the file of the caller."""

import hashlib
import os
from pathlib import Path

ROOT = Path(__file__).parents[1]


def _kernel_fingerprint() -> str:
    sources = sorted((ROOT / "src/udtw/kernels").glob("*.py"))
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]


os.environ.setdefault("NUMBA_CACHE_DIR", str(ROOT / ".numba-cache" / _kernel_fingerprint()))
