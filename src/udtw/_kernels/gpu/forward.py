"""The forward sweep of one tile: Z, the means of the energy and of a field, and what the backward sweep needs.

A tile has LANES·R rows and T columns and belongs to one program of one warp. Lane l owns R rows; at step t it is at
column t − l, so that what it needs from the lane above was finished one step before. That is one shift per step by
`tl.gather`, which becomes a warp shuffle: no barrier, no shared memory, and no launch reads what it writes itself.
Pairs that fit one tile are one launch; else the tiles of one diagonal are one launch (`launch`).
"""

import triton
import triton.language as tl

from udtw._kernels.gpu.cells import cell, energy_of_pair, gibbs_scale, warp_price
from udtw._kernels.gpu.lanes import (
    FAR,
    LIMIT,
    LN2,
    choose,
    is_blocked,
    load_state,
    nowhere,
    state_from_above,
    store_state,
)


@triton.jit
def sizes(lengths, count, b, N, M):
    """Lengths of pair b, kept within the tensors."""
    n, m = tl.load(lengths + b).to(tl.int32), tl.load(lengths + count + b).to(tl.int32)
    return tl.minimum(tl.maximum(n, 1), N), tl.minimum(tl.maximum(m, 1), M)


@triton.jit
def features(at, DIM: tl.constexpr):
    """Return a tuple of the features at an address."""
    found = (tl.load(at),)
    for f in tl.static_range(1, DIM):
        found = found + (tl.load(at + f),)
    return found


@triton.jit
def _log_level(var_x, var_y, n, m, lane, zero, LANES: tl.constexpr):
    """``log r``: the mean log variance of the steps of x and that of y, averaged."""
    total_x, total_y = zero, zero
    for start in range(0, tl.maximum(n, m), LANES):
        i = start + lane
        total_x += tl.log(tl.load(var_x + i, mask=i < n, other=1.0))
        total_y += tl.log(tl.load(var_y + i, mask=i < m, other=1.0))
    return 0.5 * (tl.sum(total_x, 0) / n + tl.sum(total_y, 0) / m)


@triton.jit
def _energy_at(
    x, y, var_x, var_y, i, j, slope, kappa, DIM: tl.constexpr, UNCERTAIN: tl.constexpr, LIKELY: tl.constexpr
):  # fmt: skip
    """Return the energy of cell (i, j) of one pair of sequences."""
    variance_x, variance_y = 1.0, 1.0
    if UNCERTAIN:
        variance_x, variance_y = tl.load(var_x + i), tl.load(var_y + j)
    x_i, y_j = features(x + i * DIM, DIM), features(y + j * DIM, DIM)
    return energy_of_pair(x_i, y_j, variance_x, variance_y, slope, kappa, UNCERTAIN, LIKELY)[0]


@triton.jit
def forward_tile(
    energy, x, y, var_x, var_y, field,
    gamma, beta, level, warp, by_energy, by_field, by_warp, lengths, relax,
    out, flags, table, shares, end_values, end_powers, top_values, top_powers, left_values, left_powers,
    count, N, M, stride_eb, stride_en, stride_fb, stride_fn, first, diagonal, strips, columns,
    R: tl.constexpr, LANES: tl.constexpr, T: tl.constexpr, TILED: tl.constexpr, F64: tl.constexpr,
    DIM: tl.constexpr, UNCERTAIN: tl.constexpr, LIKELY: tl.constexpr, WARP: tl.constexpr, RELAXED: tl.constexpr,
    MEANS: tl.constexpr, FIELD: tl.constexpr, KEEP: tl.constexpr, REPLAY: tl.constexpr, SHARES: tl.constexpr,
):  # fmt: skip
    FUSED: tl.constexpr = DIM > 0
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
    temperature = tl.load(gamma + b)
    scale = gibbs_scale(temperature)
    one = tl.full([LANES], 1.0, tl.float64 if F64 else tl.float32)
    bad = one * 0 + tl.where((temperature > 0) & (temperature < float("inf")), 0.0, float("nan"))
    theta, energy_gain, field_gain, step_gain = 0.0, 0.0, 0.0, 0.0
    slope, kappa = 0.0, 0.0
    x_begin, x_end, y_begin, y_end = 0, 0, 0, 0
    if RELAXED:
        x_begin, x_end = tl.load(relax + b).to(tl.int32), tl.load(relax + count + b).to(tl.int32)
        y_begin, y_end = tl.load(relax + 2 * count + b).to(tl.int32), tl.load(relax + 3 * count + b).to(tl.int32)
    row_at, column_at = wide * N, wide * M + tile * T
    if FUSED:
        x_at, y_at, var_x_at, var_y_at = x + row_at * DIM, y + column_at * DIM, var_x + row_at, var_y + column_at
        if LIKELY:
            slope = tl.load(beta + b)
            if TILED:
                kappa = -slope * tl.load(level + b)
            else:
                log_r = _log_level(var_x_at, var_y_at, n, m, lane, one * 0, LANES)
                kappa = -slope * log_r
                tl.store(level + b, log_r)
    energy_at = energy + wide * stride_eb + tile * T
    field_at = field + wide * stride_fb + tile * T
    if MEANS:
        energy_gain = tl.load(by_energy + b) * LN2
        field_gain = tl.load(by_field + b) * scale * LN2
        step_gain = tl.load(by_warp + b)
        along = temperature * 0
        for point in tl.static_range(1, 8, 2):
            if FUSED:
                along += _energy_at(
                    x_at, y + wide * M * DIM, var_x_at, var_y + wide * M, point * n // 8, point * m // 8, slope, kappa,
                    DIM, UNCERTAIN, LIKELY,
                )  # fmt: skip
            else:
                point_at = energy + wide * stride_eb + (point * n // 8).to(tl.int64) * stride_en + point * m // 8
                along += tl.minimum(tl.load(point_at), 1e30)
        # θ: whether costs outweigh the entropy of the paths, judged by four points of the diagonal.
        theta = tl.where(along > temperature * (4 * LN2), 1.0, 0.0).to(one.dtype)
    price = (1.0, 0, 0.0)
    if WARP:
        penalty = tl.load(warp + b)
        bad += (penalty - penalty) + tl.where(tl.abs(penalty * scale) < LIMIT / 2, 0.0, float("nan"))
        price = warp_price(penalty, scale, theta)
    steps = T + LANES - 1
    # In one tile, lanes before their first and past their last column compute on: no cell that counts sees it. The
    # sweep ends when the pair's last row has reached its last column.
    todo = width + LANES - 1 if TILED else m + (n - 1) // R
    KEPT: tl.constexpr = 4 if MEANS else 2
    if KEEP:
        table_at = table + (wide * tl.num_programs(1) + tl.program_id(1)) * steps * (R * KEPT * LANES) + lane
    above = (wide * (strips + 1) + strip) * (M + 1) + tile * T + 1  # states of the row above, by column
    beside = (wide * (columns + 1) + tile) * (strips * LANES * R)  # states of the column before, by row
    state, unreached = (), nowhere(one, MEANS)
    for r in tl.static_range(R):
        if TILED:
            state = state + (load_state(left_values, left_powers, beside + row + r, (lane >= 0) & (tile > 0), MEANS),)
        else:
            state = state + (unreached,)
    corner = unreached
    if TILED:
        corner = load_state(top_values, top_powers, above + lane * 0 - 1, (lane == 0) & (strip > 0) & (tile > 0), MEANS)
    # Where a path may start, its corner predecessor is outside of the grid and has Z = 1.
    zero_power = tl.zeros([LANES], tl.int32)
    outside = (one, zero_power, one * 0, one * 0) if MEANS else (one, zero_power)
    rows_x, rows_var, rows_energy, rows_field = (), (), (), ()
    for r in tl.static_range(R):
        held = tl.minimum(row + r, n - 1).to(tl.int64)
        if FUSED:
            rows_x = rows_x + (features(x_at + held * DIM, DIM),)
            if UNCERTAIN:
                variance = tl.load(var_x_at + held)
                bad += tl.where((variance > 0) & (variance < float("inf")), 0.0, float("nan"))
                rows_var = rows_var + (variance,)
            else:
                rows_var = rows_var + (one,)
        else:
            rows_energy = rows_energy + (energy_at + held * stride_en,)
            rows_field = rows_field + (field_at + held * stride_fn,)
    next_y, next_var, next_energy, next_field = (), one, (), ()
    column = tl.zeros([LANES], tl.int32)
    if FUSED:
        next_y = features(y_at + column * DIM, DIM)
        if UNCERTAIN:
            next_var = tl.load(var_y_at + column)
    else:
        for r in tl.static_range(R):
            next_energy = next_energy + (tl.load(rows_energy[r] + column),)
            if FIELD:
                next_field = next_field + (tl.load(rows_field[r] + column),)
    for t in range(todo):
        # Loads are one step ahead of their use.
        here_y, here_var, here_energy, here_field = next_y, next_var, next_energy, next_field
        column = tl.minimum(tl.maximum(t + 1 - lane, 0), width - 1)
        next_energy, next_field = (), ()
        if FUSED:
            next_y = features(y_at + column * DIM, DIM)
            if UNCERTAIN:
                next_var = tl.load(var_y_at + column)
                bad += tl.where((here_var > 0) & (here_var < float("inf")), 0.0, float("nan"))
        else:
            for r in tl.static_range(R):
                next_energy = next_energy + (tl.load(rows_energy[r] + column),)
                if FIELD:
                    next_field = next_field + (tl.load(rows_field[r] + column),)
        j = tile * T + t - lane
        active = (t >= lane) & (t < lane + width)
        first_up = (1.0, FAR, 0.0, 0.0) if MEANS else (1.0, FAR)
        if TILED:
            first_up = load_state(top_values, top_powers, above + t, (strip > 0) & (t < width), MEANS)
        up = state_from_above(state[R - 1], lane, first_up, MEANS)
        was_above, is_above, after = corner, up, ()
        for r in tl.static_range(R):
            old, i = state[r], row + r
            starts = (i == 0) & (j == 0)
            if RELAXED:
                starts = ((i == 0) & (j >= 0) & (j <= y_begin)) | ((j == 0) & (i <= x_begin))
            before = choose(starts, outside, was_above, MEANS)
            value = one * 0
            if FUSED:
                cost, value = energy_of_pair(rows_x[r], here_y, rows_var[r], here_var, slope, kappa, UNCERTAIN, LIKELY)
            else:
                cost = here_energy[r]
                if FIELD:
                    value = here_field[r]
                    bad += tl.where(is_blocked(cost, F64), 0.0, value - value)
            bad += cost - cost  # NaN unless finite
            new, qd, qu, ql, by_steps, by_means = cell(
                before, is_above, old, cost, value, scale, price, theta, step_gain, MEANS, WARP, FUSED, F64
            )
            if KEEP:
                # A share of −1 marks cells that no path reaches.
                place = table_at + (t * R + r) * (KEPT * LANES)
                tl.store(place, tl.where(new[1] >= LIMIT, -1.0, qu))
                tl.store(place + LANES, ql)
                if MEANS:
                    tl.store(place + 2 * LANES, qu * (energy_gain * by_steps[0] + field_gain * by_means[0]))
                    tl.store(place + 3 * LANES, ql * (energy_gain * by_steps[1] + field_gain * by_means[1]))
            if SHARES:
                here, inside = (wide * N + i) * M + j, active & (i < n)
                size = (wide * 0 + count) * N * M
                tl.store(shares + here, qd, mask=inside)
                tl.store(shares + size + here, qu, mask=inside)
                tl.store(shares + 2 * size + here, ql, mask=inside)
            if RELAXED and not REPLAY:
                last_row, last_column = i == n - 1, (j == m - 1) & (i < n - 1)
                ends = active & ((last_row & (j >= m - 1 - y_end)) | (last_column & (i >= n - 1 - x_end)))
                store_state(end_values, end_powers, wide * (N + M) + tl.where(last_row, j, M + i), ends, new, MEANS)
            if TILED:
                new = choose(active, new, old, MEANS)
            after = after + (new,)
            was_above, is_above = old, new
        state, corner = after, up
        if TILED and not REPLAY:
            last_active = (lane == LANES - 1) & active
            store_state(top_values, top_powers, above + M + 1 + t - lane, last_active, state[R - 1], MEANS)
    if not REPLAY:
        unusable = tl.sum(bad, 0)
        if TILED or RELAXED:
            tl.store(flags + (wide * strips + strip) * columns + tile, unusable)
        if RELAXED and MEANS:
            tl.store(out + b * 3, theta, mask=(strip == 0) & (tile == 0))
        for r in tl.static_range(R):
            s = state[r]
            if TILED:
                store_state(left_values, left_powers, beside + strips * LANES * R + row + r, lane >= 0, s, MEANS)
            if not RELAXED:
                result = out + b * 3 + lane * 0
                ends = (row + r == n - 1) & (tile * T + width == m)
                failed = unusable + tl.where((s[1] >= LIMIT) | (s[1] <= -LIMIT), float("nan"), 0.0)
                constant = -0.5 * kappa * (n + m)
                tl.store(result, (s[1] - tl.log2(s[0])) / scale + constant + failed, mask=ends)
                if MEANS:
                    tl.store(result + 1, (theta * s[1] + s[2]) / scale + failed, mask=ends)
                    tl.store(result + 2, s[3] + failed, mask=ends)
