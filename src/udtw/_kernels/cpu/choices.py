"""Both ways of choosing partners without an order, pair by pair: free energies, and what their gradients need.

The cells of a pair stay in the cache. Of the product of its sequences the kernel makes scores, and writes over it with
which weight each cell counts in the gradient; the products around it are those of a library.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numba import njit
from torch import Tensor

from udtw._kernels.cpu.rows import INNER
from udtw._kernels.cpu.simd import (
    exp2_fraction,
    fma,
    fnma,
    get,
    halved,
    lanes,
    load,
    log,
    maximum,
    minimum,
    most_halvings,
    nearest,
    put,
    splat,
    store,
)
from udtw._kernels.cpu.threads import compiling, scratch, share
from udtw._kernels.cpu.work_queue import OK, OUTER, begin_work, end_work, go_on, new_queue

ROWS = 9
"""Rows of numbers for each column in the scratch memory, beside the tables of all cells."""
TABLES = 3


@njit(**INNER)
def power(w, x):
    """``2**−x`` for x ≥ 0; what was halved too often counts as zero."""
    x = minimum(x, splat(w, most_halvings(w)))
    whole = nearest(x)
    return exp2_fraction(whole - x) * halved(whole)


@njit(**INNER)
def largest(w, at):
    best = get(w, at)
    for lane in range(1, lanes(w)):
        best = max(best, get(w, at + lane))
    return best


@njit(**INNER)
def total(w, at):
    found = np.float64(0)
    for lane in range(lanes(w)):
        found += get(w, at + lane)
    return found


@njit(**OUTER)
def scratch_size(w, columns, rows):
    """Return the numbers of scratch memory that a pair takes."""
    width = (columns + lanes(w) - 1) // lanes(w) * lanes(w)
    return TABLES * rows * width + ROWS * width + 8 * lanes(w)


@njit(**OUTER)
def choose_partners(
    queue, end, cells, shape, never, product, norms, halves, beta, gamma, places, lengths, w, values, sums, sigmas,
    prices, by_place,
):  # fmt: skip
    """Write free energies and, if ``sums`` have a size, weights over the ``cells``, and sums of them.

    ``never`` is the score of a cell that does not exist. ``cells`` are products x·y if ``product``, or base costs.
    ``norms``, ``halves`` (½σ²), ``sums`` and ``sigmas`` hold what belongs to x (B, N) and to y (B, M). ``prices`` are
    means (2, B) of energy and of log Σ, for the gradients in γ and β.
    """
    rows, columns = shape
    width = (columns + lanes(w) - 1) // lanes(w) * lanes(w)
    scores, costs, inverses = 0, rows * width, 2 * rows * width
    norm = TABLES * rows * width
    half, best, column_sum, visits, base_sum, sigma_sum, single = (
        norm + width, norm + 2 * width, norm + 3 * width, norm + 4 * width, norm + 5 * width, norm + 6 * width,
        norm + 7 * width,
    )  # fmt: skip
    uncertain, priced, displaced, back = halves[0].size > 0, beta.size > 0, places.size > 0, sums[0].size > 0
    zero = splat(w, w.dtype.type(0))
    nothing = w.dtype.type(0)
    first, stop = begin_work(queue, 1, end)
    while first < end:
        b = first
        n, m = lengths[0, b], lengths[1, b]
        used = (m + lanes(w) - 1) // lanes(w) * lanes(w)
        scale = -1 / (gamma[b] * np.log(2))
        factor = splat(w, w.dtype.type(scale))
        weight = splat(w, w.dtype.type(beta[b] if priced else 0))
        for j in range(0, used):
            inside = j < m
            put(w, norm + j, norms[1][b, j] if inside and product else w.dtype.type(0))
            put(w, half + j, halves[1][b, j] if inside and uncertain else w.dtype.type(1))
            put(w, best + j, never)
            put(w, column_sum + j, w.dtype.type(0))
            put(w, base_sum + j, w.dtype.type(0))
            put(w, sigma_sum + j, w.dtype.type(0))
        # The scores −E/γ in bits.
        for i in range(n):
            cell, row = (b * rows + i) * columns, i * width
            place = (b if places.shape[0] > 1 else 0) * rows * columns + i * columns
            own_norm = splat(w, norms[0][b, i] if product else w.dtype.type(0))
            own_half = splat(w, halves[0][b, i] if uncertain else w.dtype.type(0))
            for j in range(0, used, lanes(w)):
                cost = load(cells, cell + j)
                if product:
                    cost = fnma(cost, splat(w, w.dtype.type(2)), own_norm + load(w, norm + j))
                    cost = maximum(zero, cost)  # in this order NaN stays
                energy = cost
                if uncertain:
                    sigma = own_half + load(w, half + j)
                    inverse = splat(w, w.dtype.type(1)) / sigma
                    cost = cost * inverse
                    energy = fma(weight, log(sigma), cost) if priced else cost
                    store(w, costs + row + j, cost)
                    store(w, inverses + row + j, inverse)
                if displaced:
                    energy = energy + load(places, place + j)
                store(w, scores + row + j, energy * factor)
            for j in range(m, used):
                put(w, scores + row + j, never)
                put(w, costs + row + j, w.dtype.type(0))
                put(w, inverses + row + j, w.dtype.type(0))
            for j in range(0, used, lanes(w)):
                store(w, best + j, maximum(load(w, scores + row + j), load(w, best + j)))
        bits, alarm = np.float64(0), zero
        # Every step of y chooses.
        for i in range(n):
            row = i * width
            for j in range(0, used, lanes(w)):
                score = load(w, scores + row + j)
                alarm = fma(score, zero, alarm)
                store(w, column_sum + j, load(w, column_sum + j) + power(w, load(w, best + j) - score))
        for j in range(m):
            bits += get(w, best + j) + np.log2(np.float64(get(w, column_sum + j)))
            put(w, column_sum + j, w.dtype.type(1) / get(w, column_sum + j))
        for j in range(m, used):
            put(w, column_sum + j, w.dtype.type(0))
        # Every step of x chooses.
        energies, logarithms = zero, zero
        for i in range(n):
            cell, row = (b * rows + i) * columns, i * width
            most = splat(w, never)
            for j in range(0, used, lanes(w)):
                most = maximum(load(w, scores + row + j), most)
            store(w, single, most)
            peak = largest(w, single)
            shares = zero
            for j in range(0, used, lanes(w)):
                share = power(w, splat(w, peak) - load(w, scores + row + j))
                store(w, visits + j, share)
                shares = shares + share
            for j in range(m, used):  # cells that do not exist count as if halved very often, not as zero
                put(w, visits + j, w.dtype.type(0))
            store(w, single, shares)
            row_sum = total(w, single)
            bits += peak + np.log2(row_sum)
            if not back:
                continue
            portion = splat(w, w.dtype.type(1 / row_sum))
            base_total, sigma_total = zero, zero
            for j in range(0, used, lanes(w)):
                score = load(w, scores + row + j)
                other = power(w, load(w, best + j) - score) * load(w, column_sum + j)
                visit = fma(load(w, visits + j), portion, other)
                energies = fma(visit, score, energies)
                base = visit
                if uncertain:
                    base = visit * load(w, inverses + row + j)
                    if priced:
                        by_sigma = base * (weight - load(w, costs + row + j))
                    else:
                        by_sigma = zero - base * load(w, costs + row + j)
                    sigma_total = sigma_total + by_sigma
                    store(w, sigma_sum + j, load(w, sigma_sum + j) + by_sigma)
                    if prices.size > 0:
                        sigma = splat(w, halves[0][b, i]) + load(w, half + j)
                        logarithms = fma(visit, log(sigma), logarithms)
                base_total = base_total + base
                store(w, base_sum + j, load(w, base_sum + j) + base)
                # A whole vector may reach into the next row, which is written later, or into the next pair.
                if j + lanes(w) <= m:
                    store(cells, cell + j, zero - base)
                    if by_place.size > 0:
                        store(by_place, cell + j, splat(w, w.dtype.type(0.5)) * visit)
                else:
                    store(w, single, zero - base)
                    store(w, visits + j, visit)
                    for k in range(j, m):
                        put(cells, cell + k, get(w, single + k - j))
                        if by_place.size > 0:
                            put(by_place, cell + k, w.dtype.type(0.5) * get(w, visits + k))
            store(w, single, base_total)
            sums[0][b, i] = total(w, single)
            if uncertain:
                store(w, single, sigma_total)
                sigmas[0][b, i] = 0.25 * total(w, single)
        store(w, single, alarm)
        values[b] = -0.5 * gamma[b] * np.log(2) * bits + total(w, single)
        if back:
            for j in range(m):
                sums[1][b, j] = get(w, base_sum + j)
                if uncertain:
                    sigmas[1][b, j] = 0.25 * get(w, sigma_sum + j)
            for i in range(rows):
                cell = (b * rows + i) * columns
                for j in range(m if i < n else 0, columns):
                    put(cells, cell + j, nothing)
                    if by_place.size > 0:
                        put(by_place, cell + j, nothing)
            if prices.size > 0:
                store(w, single, energies)
                prices[0, b] = 0.5 * total(w, single) / scale
                store(w, single, logarithms)
                prices[1, b] = 0.5 * total(w, single)
        first, stop = go_on(queue, b + 1, stop, 1, end)
    return end_work(queue, end, OK)


def choose_all(
    cells: Tensor,
    product: bool,
    norms: Sequence[Tensor],
    halves: Sequence[Tensor],
    beta: Tensor | None,
    gamma: Tensor,
    places: Tensor | None,
    lengths: Tensor,
    values: Tensor,
    sums: Sequence[Tensor],
    sigmas: Sequence[Tensor],
    prices: Tensor,
    by_place: Tensor | None,
) -> None:
    """Run `choose_partners` on as many threads as torch uses."""
    dtype = cells.numpy().dtype
    count, rows, columns = cells.shape

    def arrays(*tensors: Tensor) -> tuple[np.ndarray, ...]:
        return tuple(np.require(one.detach().numpy(), requirements=["C", "W"]) for one in tensors)

    none = torch.empty((0, 0, 0), dtype=cells.dtype)
    of_beta = np.zeros(0) if beta is None else beta.detach().double().numpy()
    rest = (
        arrays(*norms), arrays(*halves), np.ascontiguousarray(of_beta), gamma.detach().double().numpy().copy(),
        *arrays(none if places is None else places), np.ascontiguousarray(lengths.numpy()),
    )  # fmt: skip
    out = (*arrays(values), arrays(*sums), arrays(*sigmas), *arrays(prices, none if by_place is None else by_place))
    (flat,) = arrays(cells)
    never = dtype.type(-np.finfo(dtype).max / 8)

    def task(queue: np.ndarray, end: int) -> None:
        w = scratch("choices", scratch_size(np.zeros(0, dtype), columns, rows), dtype)
        choose_partners(queue, end, flat, (rows, columns), never, product, *rest, w, *out)

    if dtype not in _compiled:
        with compiling():
            task(new_queue(0), 0)
        _compiled.add(dtype)
    share(task, 0, count, min(torch.get_num_threads(), count) - 1)


_compiled: set[np.dtype] = set()
