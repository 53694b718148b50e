"""Classical DTW of one tile: the least path energies and, on request, from where each cell was reached."""

import triton
import triton.language as tl

from udtw._kernels.gpu.forward import sizes
from udtw._kernels.gpu.lanes import from_above, is_blocked


@triton.jit
def hard_tile(
    energy, warp, lengths, relax, out, ends, choice, flags, top, left,
    count, N, M, first, diagonal, strips, columns,
    R: tl.constexpr, LANES: tl.constexpr, T: tl.constexpr, TILED: tl.constexpr, F64: tl.constexpr,
    WARP: tl.constexpr, RELAXED: tl.constexpr, CHOICE: tl.constexpr,
):  # fmt: skip
    """Lanes as in `forward`; the state of a cell is one number, infinite where no path reaches it."""
    b = tl.program_id(0)
    strip = first + tl.program_id(1)
    tile = diagonal - strip
    n, m = sizes(lengths, count, b, N, M)
    width = tl.minimum(m - tile * T, T)
    if (strip * LANES * R >= n) | (width <= 0):
        return
    wide = b.to(tl.int64)
    lane = tl.arange(0, LANES)
    row = strip * LANES * R + lane * R
    zero = tl.zeros([LANES], tl.float64 if F64 else tl.float32)
    infinite = zero + float("inf")
    bad, penalty = zero, zero
    if WARP:
        penalty = zero + tl.load(warp + b)
        bad += penalty - penalty
    x_begin, x_end, y_begin, y_end = 0, 0, 0, 0
    if RELAXED:
        x_begin, x_end = tl.load(relax + b).to(tl.int32), tl.load(relax + count + b).to(tl.int32)
        y_begin, y_end = tl.load(relax + 2 * count + b).to(tl.int32), tl.load(relax + 3 * count + b).to(tl.int32)
    above = top + (wide * (strips + 1) + strip) * (M + 1) + tile * T + 1
    beside = left + (wide * (columns + 1) + tile) * (strips * LANES * R)
    state, rows = (), ()
    for r in tl.static_range(R):
        value = infinite
        if TILED:
            value = tl.load(beside + row + r, mask=(lane >= 0) & (tile > 0), other=float("inf"))
        state = state + (value,)
        rows = rows + (energy + (wide * N + tl.minimum(row + r, n - 1)) * M + tile * T,)
    corner = infinite
    if TILED:
        inner = (lane == 0) & (strip > 0) & (tile > 0)
        corner = tl.load(above + lane * 0 - 1, mask=inner, other=float("inf"))
    todo = width + LANES - 1 if TILED else m + (n - 1) // R
    for t in range(todo):
        column = tl.minimum(tl.maximum(t - lane, 0), width - 1)
        j = tile * T + t - lane
        active = (t >= lane) & (t < lane + width)
        first_up = float("inf")
        if TILED:
            first_up = tl.load(above + t, mask=(strip > 0) & (t < width), other=float("inf"))
        up = from_above(state[R - 1], lane, first_up)
        was_above, is_above, after = corner, up, ()
        for r in tl.static_range(R):
            old, i = state[r], row + r
            starts = (i == 0) & (j == 0)
            if RELAXED:
                starts = ((i == 0) & (j >= 0) & (j <= y_begin)) | ((j == 0) & (i <= x_begin))
            cost = tl.load(rows[r] + column)
            bad += cost - cost
            by_corner = tl.where(starts, 0.0, was_above)
            by_up, by_left = is_above + penalty, old + penalty
            best = tl.minimum(by_corner, tl.minimum(by_up, by_left))
            new = tl.where(is_blocked(cost, F64), float("inf"), best + cost)
            if CHOICE:
                way = tl.where(by_corner <= best, 0, tl.where(by_up <= best, 1, 2))
                tl.store(choice + (wide * N + i) * M + j, way.to(tl.uint8), mask=active & (i < n))
            if RELAXED:
                last_row, last_column = i == n - 1, (j == m - 1) & (i < n - 1)
                final = active & ((last_row & (j >= m - 1 - y_end)) | (last_column & (i >= n - 1 - x_end)))
                tl.store(ends + wide * (N + M) + tl.where(last_row, N + j, i), new, mask=final)
            if TILED:
                new = tl.where(active, new, old)
            after = after + (new,)
            was_above, is_above = old, new
        state, corner = after, up
        if TILED:
            tl.store(above + M + 1 + t - lane, state[R - 1], mask=(lane == LANES - 1) & active)
    tl.store(flags + (wide * strips + strip) * columns + tile, tl.sum(bad, 0))
    for r in tl.static_range(R):
        if TILED:
            tl.store(beside + strips * LANES * R + row + r, state[r], mask=lane >= 0)
        if not RELAXED:
            tl.store(out + b + lane * 0, state[r], mask=(row + r == n - 1) & (tile * T + width == m))
