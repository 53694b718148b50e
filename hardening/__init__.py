"""Fuzzing of every parser (`hardening.fuzz`) and mutation testing of the engine (`hardening.mutation`)."""

import os

# Threads do not survive a fork, and a library that waits for its threads would hang in the child. Set before torch and
# NumPy are imported, since they read these variables only once.
for _variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[_variable] = "1"
