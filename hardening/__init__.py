"""Attempts to break what udtw reads and writes: mutated files, and processes killed at any moment."""

import os

# Threads do not survive a fork, and a library that waits for its own waits for ever; so none may be started. Before
# torch and NumPy are imported, since they look here only once.
for _variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[_variable] = "1"
