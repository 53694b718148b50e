"""Mutation testing: change the engine in one small place, and see whether a test notices.

Mutants never reach the disk: they are handed to the import system of a forked child. There Numba compiles nothing, and
the vector intrinsics of `udtw.kernels.cpu.simd` are replaced by NumPy (`plain_simd`), so that a kernel is mutated,
imported and run as plain Python within a second or two. `simd` itself is mutated with compilation on.
"""
