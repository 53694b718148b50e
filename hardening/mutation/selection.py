"""Which modules are mutated, which tests must notice, and what is not worth mutating."""

from dataclasses import dataclass

PERFORMANCE = {
    "SERIAL_CELLS": "when a second thread pays; results have the same bits with any number of threads",
    "ROUND_CELLS": "how often the user can interrupt",
    "PACK_CELLS": "how many pairs are interleaved; results have the same bits",
    "LOOKS": "how long a thread looks before it sleeps",
    "PAUSE": "how long it then sleeps",
    "MOMENT": "how long another thread is given to end",
    "TABLE_CELLS": "when tables are made piece by piece; the memory tests set it themselves",
    "BLOCK_CELLS": "how much work a block of pairwise holds; results have the same bits",
    "MATRIX_BYTES": "how many cost matrices are in flight",
    "PAIR_BYTES": "a measured estimate",
    "MAX_DIRECT_DIM": "where the matrix product becomes faster than the direct sum; both are tested",
    "LINE": "alignment of scratch memory with cache lines",
    "NUMBA": "measured estimates of memory, checked by benchmarks.memory",
    "PORTABLE": "as NUMBA",
    "PER_FIELD": "as NUMBA",
    "SMALL_CELLS": "below which no memory is estimated",
    "UNCHECKED_BYTES": "below which an estimate of memory is compared with nothing",
    "INNER": "options of the compiler",
    "OUTER": "options of the compiler",
    "MAX_CELLS": "the size up to which the oracle lists paths",
}
"""Names whose values are hints about speed or memory, with the reason why a change of them is no fault."""

ENUMERATION = "tests/kernels/test_against_enumeration.py"
FACTS, DISTRIBUTION = "tests/test_facts.py", "tests/test_distribution.py"
DISTANCES = ("tests/test_align.py", "tests/test_bad_input.py")
OPERATORS = tuple(f"tests/kernels/cpu/test_{part}.py" for part in ("operators", "autograd", "vmap"))
BANDS, PAIRWISE = "tests/test_prior.py", "tests/test_pairwise.py"
SPECIFIED, SERIES = "tests/kernels/test_engine_details.py", "tests/test_series.py"
BLOCKS, MEMORY = "tests/test_pairwise_blocks.py", "tests/test_memory.py"
NEVER = "torch_compile or frequencies or mean_surprise or opcheck or small_blocks or portable-options"
"""Tests that take long as plain Python, and say nothing about a mutant that others do not say sooner."""


@dataclass(frozen=True)
class Selection:
    """Test files in the order in which they are run, and tests of them that are left out."""

    tests: tuple[str, ...]
    without: str = NEVER
    compiled: bool = False

    def arguments(self) -> list[str]:
        return [*self.tests, "-k", f"not ({self.without})"]


_KERNEL = Selection((SPECIFIED, ENUMERATION, *DISTANCES, DISTRIBUTION), f"{NEVER} or portable or extreme")
_TORCH = Selection((SPECIFIED, ENUMERATION, *DISTANCES, DISTRIBUTION, MEMORY), f"{NEVER} or extreme")
_FRONT = Selection((*DISTANCES, DISTRIBUTION, SPECIFIED, *OPERATORS), f"{NEVER} or extreme or gradcheck or derivatives")
DERIVATIVES = "gradcheck or derivatives or portable"
_OPERATORS = Selection((SPECIFIED, ENUMERATION, *OPERATORS), f"{NEVER} or {DERIVATIVES}")
_PAIRS = Selection((SERIES, BLOCKS, PAIRWISE))

MODULES = {
    "udtw.likelihood": _FRONT,
    "udtw.align": _FRONT,
    "udtw.distribution": _FRONT,
    "udtw.prepare": _FRONT,
    "udtw.inputs": _FRONT,
    "udtw.pairwise": _PAIRS,
    "udtw.pairwise_blocks": _PAIRS,
    "udtw.series": _PAIRS,
    "udtw.prior": Selection((BANDS, ENUMERATION)),
    "udtw.kernels.cpu.launch": _OPERATORS,
    "udtw.kernels.cpu.backward": _KERNEL,
    "udtw.kernels.cpu.forward": _KERNEL,
    "udtw.kernels.cpu.gradient_rows": _KERNEL,
    "udtw.kernels.cpu.hard": _KERNEL,
    "udtw.kernels.cpu.layout": _KERNEL,
    "udtw.kernels.cpu.pack": _KERNEL,
    "udtw.kernels.cpu.work_queue": _KERNEL,
    "udtw.kernels.cpu.rows": _KERNEL,
    "udtw.kernels.backends": _TORCH,
    "udtw.kernels.reference.enumeration": _TORCH,
    "udtw.kernels.memory_estimate": Selection(("tests/kernels/test_memory_estimate.py", MEMORY)),
    "udtw.kernels.reference.torch_backends": _TORCH,
    "udtw.kernels.cpu.autograd": _OPERATORS,
    "udtw.kernels.cpu.operators": _OPERATORS,
    "udtw.kernels.cpu.vmap": Selection(OPERATORS, f"{NEVER} or {DERIVATIVES}"),
    "udtw.kernels.reference.portable": Selection((ENUMERATION, FACTS, DISTRIBUTION), f"{NEVER} or numba"),
    "udtw.kernels.problem": _TORCH,
    "udtw.kernels.cpu.simd": Selection(("tests/kernels/cpu/test_simd.py",), compiled=True),
    "udtw.kernels.cpu.threads": Selection(("tests/kernels/cpu/test_threads.py",), "bits or hang"),
    "udtw.memory": Selection((MEMORY,), "huge"),
}
