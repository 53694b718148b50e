"""Numbers and lanes: Z as mantissa and whole exponent, states of cells, and the shift from lane to lane.

``Z = weight · 2^−power`` with weight in [1, 2) and power an int32. A state is (weight, power) or, where means are
wanted, (weight, power, excess, mean): the mean energy of the paths to a cell is ``(θ·power + excess)/scale``.
"""

import math

import triton
import triton.language as tl

FAR = tl.constexpr(1 << 30)
"""Power of a cell that no path reaches."""
LIMIT = tl.constexpr(1 << 28)
"""Powers of this size or larger are an overflow, which lasts: no later cell comes back from it."""
LN2 = tl.constexpr(math.log(2))
BLOCKED_32 = tl.constexpr(3.4028234663852886e38)
BLOCKED_64 = tl.constexpr(1.7976931348623157e308)


@triton.jit
def two_to_minus(k, F64: tl.constexpr):
    """2^−k for int32 k ≥ 0, exactly; 0 where it would be subnormal."""
    if F64:
        return ((1023 - tl.minimum(k, 1023)).to(tl.int64) << 52).to(tl.float64, bitcast=True)
    else:
        return ((127 - tl.minimum(k, 127)) << 23).to(tl.float32, bitcast=True)


@triton.jit
def split(v, F64: tl.constexpr):
    """v > 0, not subnormal, as weight in [1, 2) and int32 exponent."""
    if F64:
        bits = v.to(tl.int64, bitcast=True)
        weight = ((bits & 0xFFFFFFFFFFFFF) | 0x3FF0000000000000).to(tl.float64, bitcast=True)
        return weight, ((bits >> 52) - 1023).to(tl.int32)
    else:
        bits = v.to(tl.int32, bitcast=True)
        weight = ((bits & 0x7FFFFF) | 0x3F800000).to(tl.float32, bitcast=True)
        return weight, (bits >> 23) - 127


@triton.jit
def is_blocked(cost, F64: tl.constexpr):
    """Whether the energy marks a cell that no path may use: the largest finite number."""
    if F64:
        return cost == BLOCKED_64
    else:
        return cost == BLOCKED_32


@triton.jit
def from_above(v, lane, first):
    """Lane l gets what lane l − 1 holds; lane 0 gets ``first``."""
    return tl.where(lane == 0, first, tl.gather(v, tl.maximum(lane - 1, 0), 0))


@triton.jit
def from_below(v, lane, last, LANES: tl.constexpr):
    """Lane l gets what lane l + 1 holds; the last lane gets ``last``."""
    return tl.where(lane == LANES - 1, last, tl.gather(v, tl.minimum(lane + 1, LANES - 1), 0))


@triton.jit
def nowhere(one, MEANS: tl.constexpr):
    """Return the state of cells that no path reaches."""
    far = tl.full(one.shape, FAR, tl.int32)
    if MEANS:
        return one, far, one * 0, one * 0
    else:
        return one, far


@triton.jit
def choose(condition, first, second, MEANS: tl.constexpr):
    """Return the first state where the condition holds, else the second."""
    weight, power = tl.where(condition, first[0], second[0]), tl.where(condition, first[1], second[1])
    if MEANS:
        return weight, power, tl.where(condition, first[2], second[2]), tl.where(condition, first[3], second[3])
    else:
        return weight, power


@triton.jit
def state_from_above(state, lane, first, MEANS: tl.constexpr):
    """`from_above` of a state."""
    weight, power = from_above(state[0], lane, first[0]), from_above(state[1], lane, first[1])
    if MEANS:
        return weight, power, from_above(state[2], lane, first[2]), from_above(state[3], lane, first[3])
    else:
        return weight, power


@triton.jit
def load_state(values, powers, at, ok, MEANS: tl.constexpr):
    """Return the state kept at place ``at`` of ``values`` (.., 3) and ``powers``; `nowhere` where not ``ok``."""
    weight = tl.load(values + at * 3, mask=ok, other=1.0)
    power = tl.load(powers + at, mask=ok, other=FAR)
    if MEANS:
        excess = tl.load(values + at * 3 + 1, mask=ok, other=0.0)
        return weight, power, excess, tl.load(values + at * 3 + 2, mask=ok, other=0.0)
    else:
        return weight, power


@triton.jit
def store_state(values, powers, at, ok, state, MEANS: tl.constexpr):
    """Keep the state at place ``at``, where ``ok``."""
    tl.store(values + at * 3, state[0], mask=ok)
    tl.store(powers + at, state[1], mask=ok)
    if MEANS:
        tl.store(values + at * 3 + 1, state[2], mask=ok)
        tl.store(values + at * 3 + 2, state[3], mask=ok)
