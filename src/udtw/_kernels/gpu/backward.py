"""The backward sweep of one tile: π, the adjoint W of the means, and gradients.

Lanes as in `forward`, columns from the last to the first. What a cell sends to its predecessors, (π, W) times the
shares that the forward sweep kept, moves up by one shift per step. Of sequences no N × M gradient is made: those in x
stay with the lane that owns the row, those in y travel upwards with their column and are stored by the first lane.
"""

import triton
import triton.language as tl

from udtw._kernels.gpu.forward import features, sizes
from udtw._kernels.gpu.lanes import from_below


@triton.jit
def _shares(at, MEANS: tl.constexpr, LANES: tl.constexpr):
    if MEANS:
        return tl.load(at), tl.load(at + LANES), tl.load(at + 2 * LANES), tl.load(at + 3 * LANES)
    else:
        return tl.load(at), tl.load(at + LANES)


@triton.jit
def _pair(at, ok, zero, MEANS: tl.constexpr):
    """(π, W) kept at an address; zeros where not ``ok``."""
    if MEANS:
        return tl.load(at, mask=ok, other=0.0), tl.load(at + 1, mask=ok, other=0.0)
    else:
        return tl.load(at, mask=ok, other=0.0), zero


@triton.jit
def _put_pair(at, ok, pair, MEANS: tl.constexpr):
    tl.store(at, pair[0], mask=ok)
    if MEANS:
        tl.store(at + 1, pair[1], mask=ok)


@triton.jit
def _pair_from_below(pair, lane, last, zero, MEANS: tl.constexpr, LANES: tl.constexpr):
    if MEANS:
        return from_below(pair[0], lane, last[0], LANES), from_below(pair[1], lane, last[1], LANES)
    else:
        return from_below(pair[0], lane, last[0], LANES), zero


@triton.jit
def _sent(share, part, pi, w, MEANS: tl.constexpr):
    """Return what goes to a predecessor: its share of (π, W), less ``part``·π of W."""
    if MEANS:
        return share * pi, share * w - part * pi
    else:
        return share * pi, w


@triton.jit
def backward_tile(
    x, y, var_x, var_y, beta, amount, by_energy, by_field, lengths, relax, table, ends,
    grad_energy, coupling, grad_x, grad_y, grad_var_x, grad_var_y, totals, under_buffer, right_buffer,
    count, N, M, first, diagonal, strips, columns,
    R: tl.constexpr, LANES: tl.constexpr, T: tl.constexpr, TILED: tl.constexpr, F64: tl.constexpr,
    DIM: tl.constexpr, UNCERTAIN: tl.constexpr, LIKELY: tl.constexpr, WARP: tl.constexpr, RELAXED: tl.constexpr,
    MEANS: tl.constexpr, GRAD: tl.constexpr, COUPLING: tl.constexpr,
):  # fmt: skip
    FUSED: tl.constexpr = DIM > 0
    KEPT: tl.constexpr = 4 if MEANS else 2
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
    factor = tl.load(amount + b)
    gain, gain_field, slope = 1.0, 0.0, 0.0
    if MEANS:
        gain, gain_field = tl.load(by_energy + b), tl.load(by_field + b)
    if LIKELY:
        slope = tl.load(beta + b)
    x_end, y_end = 0, 0
    if RELAXED:
        x_end, y_end = tl.load(relax + count + b).to(tl.int32), tl.load(relax + 3 * count + b).to(tl.int32)
    steps = T + LANES - 1
    table_at = table + (wide * tl.num_programs(1) + tl.program_id(1)) * steps * (R * KEPT * LANES) + lane
    # What the strip below hands up, by column, and the tile to the right hands back, by row: (π, W) straight, (π, W) to
    # the corner.
    under = under_buffer + ((wide * (strips + 1) + strip + 1) * (M + 1) + tile * T) * 4
    over = under_buffer + ((wide * (strips + 1) + strip) * (M + 1) + tile * T) * 4
    beside = right_buffer + ((wide * (columns + 1) + tile + 1) * (strips * LANES * R)) * 4
    before = right_buffer + ((wide * (columns + 1) + tile) * (strips * LANES * R)) * 4
    more_right, more_below = (tile + 1) * T < m, (strip + 1) * LANES * R < n
    back, diag = (), ()
    for r in tl.static_range(R):
        if TILED:
            from_right, known = beside + (row + r) * 4, more_right & (row + r < n)
            back = back + (_pair(from_right, known, zero, MEANS),)
            diag = diag + (_pair(from_right + 2, known, zero, MEANS),)
        else:
            back, diag = back + ((zero, zero),), diag + ((zero, zero),)
    rows_x, rows_var, sums_x, sums_var = (), (), (), ()
    if FUSED:
        y_at, var_y_at = y + (wide * M + tile * T) * DIM, var_y + wide * M + tile * T
        for r in tl.static_range(R):
            held = wide * N + tl.minimum(row + r, n - 1)
            rows_x = rows_x + (features(x + held * DIM, DIM),)
            rows_var = rows_var + (tl.load(var_x + held) if UNCERTAIN else zero,)
            none = (zero,)
            for f in tl.static_range(1, DIM):
                none = none + (zero,)
            sums_x, sums_var = sums_x + (none,), sums_var + (zero,)
    sums_y = (zero,)
    for f in tl.static_range(1, DIM):
        sums_y = sums_y + (zero,)
    sum_var_y = zero
    warps, warps_w, visits, logs = zero, zero, zero, zero
    rise, waiting = (zero, zero), (zero, zero)
    todo = width + LANES - 1 if TILED else m + (n - 1) // R
    soon = ()
    for r in tl.static_range(R):
        soon = soon + (_shares(table_at + ((todo - 1) * R + r) * (KEPT * LANES), MEANS, LANES),)
    for back_t in range(todo):
        t = todo - 1 - back_t
        kept, soon = soon, ()
        for r in tl.static_range(R):
            soon = soon + (_shares(table_at + (tl.maximum(t - 1, 0) * R + r) * (KEPT * LANES), MEANS, LANES),)
        active = (t >= lane) & (t < lane + width)
        j = tile * T + t - lane
        last_up, last_diag = (0.0, 0.0), (0.0, 0.0)
        if TILED:
            place = t - (LANES - 1)
            has_below = more_below & (place >= 0) & (place < width)
            low = under + place * 4
            last_up = _pair(low, has_below, 0.0, MEANS)
            last_diag = _pair(low + 6, has_below & (tile * T + place + 1 < m), 0.0, MEANS)
        up = _pair_from_below(rise, lane, last_up, zero, MEANS, LANES)
        corner = (tl.where(lane == LANES - 1, last_diag[0], waiting[0]), zero)
        if MEANS:
            corner = (corner[0], tl.where(lane == LANES - 1, last_diag[1], waiting[1]))
        waiting = _pair_from_below(diag[0], lane, (0.0, 0.0), zero, MEANS, LANES)
        here_y, here_var = (zero,), zero
        if FUSED:
            column = tl.minimum(tl.maximum(t - lane, 0), width - 1)
            here_y = features(y_at + column * DIM, DIM)
            here_var = tl.load(var_y_at + column) if UNCERTAIN else zero
            moved = (from_below(sums_y[0], lane, 0.0, LANES),)
            for f in tl.static_range(1, DIM):
                moved = moved + (from_below(sums_y[f], lane, 0.0, LANES),)
            sums_y = moved
            if UNCERTAIN:
                sum_var_y = from_below(sum_var_y, lane, 0.0, LANES)
        new_back, new_diag, new_x, new_var = (), (), (), ()
        for r in tl.static_range(R - 1, -1, -1):
            i = row + r
            inside = active & (i < n)
            # A cell that no path reaches gets nothing, and sends nothing on. What comes from above is added last: it
            # is what the next row waits for.
            reached = kept[r][0] >= 0
            qu, ql = tl.where(reached, kept[r][0], 0.0), tl.where(reached, kept[r][1], 0.0)
            qd = tl.where(reached, tl.maximum(1.0 - qu - ql, 0.0), 0.0)
            pi, w = back[r][0] + corner[0], zero
            if MEANS:
                w = back[r][1] + corner[1]
            if RELAXED:
                last_row, last_column = i == n - 1, (j == m - 1) & (i < n - 1)
                final = inside & ((last_row & (j >= m - 1 - y_end)) | (last_column & (i >= n - 1 - x_end)))
                end_at = ends + (wide * (N + M) + tl.where(last_row, j, M + i)) * 2
                pi += tl.load(end_at, mask=final, other=0.0)
                if MEANS:
                    w -= tl.load(end_at + 1, mask=final, other=0.0)
            else:
                pi += tl.where(inside & (i == n - 1) & (j == m - 1), 1.0, 0.0)
            pi += up[0]
            pu, pl = zero, zero
            if MEANS:
                w += up[1]
                pu, pl = tl.where(reached, kept[r][2], 0.0), tl.where(reached, kept[r][3], 0.0)
            corner = diag[r]
            up, here_back = _sent(qu, pu, pi, w, MEANS), _sent(ql, pl, pi, w, MEANS)
            here_diag = _sent(qd, -(pu + pl), pi, w, MEANS)
            if WARP:
                warps += tl.where(inside, up[0] + here_back[0], 0.0)
                if MEANS:
                    warps_w += tl.where(inside, up[1] + here_back[1], 0.0)
            if LIKELY:
                visits += tl.where(inside, pi, 0.0)
            grad = factor * (w + gain * pi)
            if GRAD and not FUSED:
                tl.store(grad_energy + (wide * N + i) * M + j, grad, mask=inside)
            if COUPLING:
                tl.store(coupling + (wide * N + i) * M + j, tl.minimum(pi, 1.0), mask=inside)
            if GRAD and FUSED:
                grad = tl.where(inside, grad, 0.0)
                by_log = grad * slope
                if MEANS:
                    by_log = tl.where(inside, factor * gain_field * pi, 0.0)
                weight = 2.0 * grad
                distance = zero
                if UNCERTAIN:
                    inverse = 2.0 / (rows_var[r] + here_var)
                    weight = weight * inverse
                grads_row, grads_y = (), ()
                for f in tl.static_range(DIM):
                    gap = rows_x[r][f] - here_y[f]
                    distance += gap * gap
                    grads_row = grads_row + (sums_x[r][f] + weight * gap,)
                    grads_y = grads_y + (sums_y[f] - weight * gap,)
                sums_y = grads_y
                new_x = (grads_row,) + new_x
                if UNCERTAIN:
                    by_variance = 0.5 * inverse * (by_log - grad * distance * inverse)
                    new_var = (sums_var[r] + by_variance,) + new_var
                    sum_var_y += by_variance
                    if LIKELY:
                        logs += tl.where(inside, pi * tl.log(0.5 * (rows_var[r] + here_var)), 0.0)
            if TILED:
                here_back = (tl.where(active, here_back[0], back[r][0]), tl.where(active, here_back[1], back[r][1]))
                here_diag = (tl.where(active, here_diag[0], diag[r][0]), tl.where(active, here_diag[1], diag[r][1]))
            new_back, new_diag = (here_back,) + new_back, (here_diag,) + new_diag
        back, diag, rise = new_back, new_diag, up
        if GRAD and FUSED:
            sums_x = new_x
            first_lane, y_place = active & (lane == 0), (wide * strips + strip) * M + j
            for f in tl.static_range(DIM):
                tl.store(grad_y + y_place * DIM + f, sums_y[f], mask=first_lane)
            if UNCERTAIN:
                sums_var = new_var
                tl.store(grad_var_y + y_place, sum_var_y, mask=first_lane)
        if TILED:
            high, is_first = over + (t - lane) * 4, active & (lane == 0)
            _put_pair(high, is_first, rise, MEANS)
            _put_pair(high + 2, is_first, diag[0], MEANS)
    if TILED:
        for r in tl.static_range(R):
            to_left = before + (row + r) * 4
            _put_pair(to_left, row + r < n, back[r], MEANS)
            _put_pair(to_left + 2, row + r < n, diag[r], MEANS)
    if GRAD and FUSED:
        for r in tl.static_range(R):
            x_place = (wide * columns + tile) * N + row + r
            for f in tl.static_range(DIM):
                tl.store(grad_x + x_place * DIM + f, sums_x[r][f], mask=row + r < n)
            if UNCERTAIN:
                tl.store(grad_var_x + x_place, sums_var[r], mask=row + r < n)
    total_at = totals + ((wide * strips + strip) * columns + tile) * 4
    tl.store(total_at, tl.sum(warps, 0))
    tl.store(total_at + 1, tl.sum(warps_w, 0))
    tl.store(total_at + 2, tl.sum(visits, 0))
    tl.store(total_at + 3, tl.sum(logs, 0))
