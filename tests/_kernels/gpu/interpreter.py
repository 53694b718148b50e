"""Triton's interpreter as a test bench: small tiles, poisoned memory, a log of every address, noise in the last bits.

Programs run one after another there and lanes in lock-step, so a kernel that depends on the order of warps or programs
would pass. `watched` therefore logs every address of a launch.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from triton.runtime import interpreter

from udtw._kernels.gpu import launch, tiles

Builder: Any = interpreter.InterpreterBuilder


def quicken() -> None:
    """Do not set up the language anew for every call of one kernel function by another, nor check each integer."""
    slow = interpreter.InterpretedFunction.__call__

    def call(self, *args, **options):
        own = self.fn.__module__.startswith("udtw.")
        return self.rewrite()(*args, **options) if own else slow(self, *args, **options)

    interpreter.InterpretedFunction.__call__ = call
    interpreter.interpreter_builder.options = replace(interpreter.interpreter_builder.options, sanitize_overflow=False)


def poisoned(like: torch.Tensor, *shape: int, dtype: torch.dtype | None = None) -> torch.Tensor:
    """Scratch memory full of NaN, or of powers that no kernel writes."""
    dtype = dtype or like.dtype
    return torch.full(shape, float("nan") if dtype.is_floating_point else -77, dtype=dtype)


@contextmanager
def tiling(rows_per_lane: int, lanes: int, width: int) -> Iterator[None]:
    """Small tiles, so that small problems have several, in poisoned memory."""
    before = tiles.tiles_for, launch.scratch
    tiles.tiles_for = lambda count, rows, columns, most=4: tiles.Tiles(
        count, rows, columns, rows_per_lane, lanes, width
    )
    launch.scratch = poisoned
    try:
        yield
    finally:
        tiles.tiles_for, launch.scratch = before


class Race(AssertionError):
    """Two accesses of one launch whose order matters, or an address outside of the launch's tensors."""


@dataclass
class Log:
    """Addresses of one launch."""

    read: list[np.ndarray] = field(default_factory=list)
    written: list[np.ndarray] = field(default_factory=list)
    spans: list[tuple[int, int]] = field(default_factory=list)
    launches: int = 0

    def addresses(self, pointers: Any, mask: Any) -> np.ndarray:
        where, active = np.broadcast_arrays(pointers.data, mask.data)
        found = where[active.astype(bool)].ravel().astype(np.int64)
        lows, highs = np.array(self.spans).T
        outside = ~((found[:, None] >= lows) & (found[:, None] < highs)).any(1)
        if outside.any():
            raise Race(f"{outside.sum()} address(es) outside of every tensor of the launch")
        return found

    def check(self, name: str) -> None:
        nothing = np.zeros(0, np.int64)
        read, written = (np.concatenate(part or [nothing]) for part in (self.read, self.written))
        if np.unique(written).size != written.size:
            raise Race(f"addresses written twice in one launch of {name}")
        if np.intersect1d(read, written).size:
            raise Race(f"addresses read and written in one launch of {name}")
        self.launches += 1


@contextmanager
def watched() -> Iterator[Log]:
    """Raise `Race` if a launch reads and writes one address, writes one twice, or leaves its tensors."""
    load, store = Builder.create_masked_load, Builder.create_masked_store
    call = interpreter.GridExecutor.__call__
    log = Log()

    def new_load(self, pointers, mask, *rest):
        log.read.append(np.unique(log.addresses(pointers, mask)))
        return load(self, pointers, mask, *rest)

    def new_store(self, pointers, value, mask, *rest):
        log.written.append(log.addresses(pointers, mask))
        return store(self, pointers, value, mask, *rest)

    def new_call(self, *args, **options):
        log.read, log.written = [], []
        tensors = [a for a in (*args, *options.values()) if isinstance(a, torch.Tensor) and a.numel()]
        log.spans = [(a.data_ptr(), a.data_ptr() + a.numel() * a.element_size()) for a in tensors if a.is_contiguous()]
        result = call(self, *args, **options)
        log.check(self.fn.__name__)
        return result

    Builder.create_masked_load, Builder.create_masked_store = new_load, new_store
    interpreter.GridExecutor.__call__ = new_call
    try:
        yield log
    finally:
        Builder.create_masked_load, Builder.create_masked_store = load, store
        interpreter.GridExecutor.__call__ = call


@contextmanager
def noisy(ulps: int, seed: int = 0) -> Iterator[None]:
    """Random errors of some last places in float32 exp2, log, log2 and division, as GPUs may make them."""
    rng = np.random.default_rng(seed)
    names = ("create_exp2", "create_log", "create_log2", "create_fdiv")
    before = {name: getattr(Builder, name) for name in names}

    def with_noise(exact):
        def inexact(self, *args):
            result = exact(self, *args)
            if result.data.dtype == np.float32:
                off = rng.integers(-ulps, ulps + 1, result.data.shape).astype(np.float32) * np.float32(2**-23)
                result.data = (result.data * (1 + off)).astype(np.float32)
            return result

        return inexact

    for name, exact in before.items():
        setattr(Builder, name, with_noise(exact))
    try:
        yield
    finally:
        for name, exact in before.items():
            setattr(Builder, name, exact)
