"""Which notes of one performance have no partner in another one, by `udtw.align` with gaps.

Each pitch is a sequence of onsets. The first performance is brought to the time of the second one by `udtw.match` of
their chroma; then onsets are aligned, pitch by pitch, and the time axis and the noise are fitted to what matches. All
of it comes from the pair itself: the share of notes without partners, too, of which the price of a gap follows.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import udtw
from experiments.alignments.vienna import Performance, features

RATE = 24
"""Frames per second of the chroma."""
ROUNDS = 8
NEAR, AROUND = 0.5, 1.0
"""Seconds over which matched notes correct the time axis, and over which their errors give its variance."""
FIRST_DEVIATION, LEAST_DEVIATION, LARGEST_ERROR = 0.3, 0.02, 0.5
FEW = 4
"""Notes by which a local variance is shrunk to that of the pair."""
SAFETY = 2.0
"""Factor of the standard deviation of errors: those that matched are the smaller ones."""
FIRST_SHARE, SHARES = 0.02, (0.002, 0.3)
"""Share of notes without partners at first, and its bounds."""
NO_REPETITION = 2000.0
"""Price of matching a note twice."""


class NoteMatches(NamedTuple):
    """For every note of the first performance: the probability that it has a partner, and costs without a model."""

    matched: NDArray
    costs: dict[str, NDArray]


def match_notes(x: Performance, y: Performance) -> NoteMatches:
    """Match the notes of two performances of a piece, each of which may have notes that the other one lacks."""
    at_y, at_x = y.onset - y.onset.min(), times_in(x, y)
    pitches = np.intersect1d(x.pitch, y.pitch)
    of_x, of_y = ([_in_order(one.pitch == pitch, one.onset) for pitch in pitches] for one in (x, y))
    variance, share = np.full(len(at_x), FIRST_DEVIATION**2), FIRST_SHARE
    costs = {"chroma": _distances(at_x, at_y, of_x, of_y)}
    for round_number in range(ROUNDS):
        matched, matched_y, partner = _align_pitches((at_x, at_y), (of_x, of_y), variance, share)
        if round_number == ROUNDS - 1:
            break
        weight = np.where(matched > 0.5, matched, 0.0)
        errors = np.where(weight > 0, partner - at_x, 0.0)
        near = _weights_of_others(at_x, NEAR, weight)
        at_x = at_x + near @ errors / (near.sum(1) + 0.3)
        squares = np.where(weight > 0, np.minimum(partner - at_x, LARGEST_ERROR) ** 2, 0.0)
        typical = (weight * squares.clip(max=0.09)).sum() / max(weight.sum(), 1e-9)
        around = _weights_of_others(at_x, AROUND, weight)
        variance = SAFETY**2 * (around @ squares.clip(max=0.25) + FEW * typical) / (around.sum(1) + FEW)
        variance = np.maximum(variance, LEAST_DEVIATION**2)
        left_out = (1 - matched).sum() + (1 - matched_y).sum()
        share = float(np.clip((left_out + 1) / (len(matched) + len(matched_y) + 2), *SHARES))
    return NoteMatches(matched, costs | {"notes": _distances(at_x, at_y, of_x, of_y)})


def times_in(x: Performance, y: Performance) -> NDArray:
    """Return the time in y, in seconds, of every note of x."""
    chroma = features(x, RATE), features(y, RATE)
    seconds, _ = udtw.match(*chroma).warp(np.arange(len(chroma[1])) / RATE)
    known = np.isfinite(seconds)
    return np.interp(x.onset - x.onset.min(), np.flatnonzero(known) / RATE, seconds[known])


def _in_order(chosen: NDArray, onset: NDArray) -> NDArray:
    places = np.flatnonzero(chosen)
    return places[np.argsort(onset[places], kind="stable")]


def _weights_of_others(at: NDArray, width: float, weight: NDArray) -> NDArray:
    kernel = np.exp(-0.5 * ((at[:, None] - at) / width) ** 2) * weight
    np.fill_diagonal(kernel, 0)
    return kernel


def _distances(at_x: NDArray, at_y: NDArray, of_x: list[NDArray], of_y: list[NDArray]) -> NDArray:
    """Return the seconds from every note of x to the next note of its pitch in y."""
    found = np.full(len(at_x), np.inf)
    for own, others in zip(of_x, of_y, strict=True):
        found[own] = np.abs(at_x[own][:, None] - at_y[others]).min(1)
    return found


def _align_pitches(
    at: tuple[NDArray, NDArray], of: tuple[list[NDArray], list[NDArray]], variance: NDArray, share: float
) -> tuple[NDArray, NDArray, NDArray]:
    """Return the probability of having a partner for notes of x and y, and the expected partner's time of those of x.

    A match has the density of a Gaussian error and the probability ``1 − share``, two notes without partners have the
    ``share`` each, and the second one the density of the notes of its pitch.
    """
    counts = [np.array([len(places) for places in side]) for side in of]
    longest = [int(count.max()) for count in counts]
    padded_x, padded_y = (np.zeros((len(counts[0]), one, 1)) for one in longest)
    variances = np.ones(padded_x.shape[:2])
    for k, (own, others) in enumerate(zip(*of, strict=True)):
        padded_x[k, : len(own), 0], padded_y[k, : len(others), 0] = at[0][own], at[1][others]
        variances[k, : len(own)] = variance[own]
    level = np.exp([np.log(variance[own]).mean() for own in of[0]])
    density = (counts[0] + counts[1]) / 2 / max(float(at[1].max()), 1.0)
    match, alone = (1 - share) / np.sqrt(2 * np.pi * level), share**2 * density
    penalty = 0.5 * np.log(match / alone).clip(0.5)  # nats of each of two notes
    # γ = 4 is the Gaussian of the difference, whose variance is that of x alone; β = 2 is its whole logarithm.
    found = udtw.align(
        padded_x, padded_y, variances, 1e-6, gamma=4.0, beta=2.0, gap_penalty=4.0 * penalty,
        warp_penalty=NO_REPETITION, lengths_x=counts[0], lengths_y=counts[1],
    )  # fmt: skip
    matched, matched_y, partner = np.zeros(len(at[0])), np.zeros(len(at[1])), np.full(len(at[0]), np.nan)
    for k, (own, others) in enumerate(zip(*of, strict=True)):
        shares = found.coupling[k, : len(own), : len(others)]
        matched[own], matched_y[others] = shares.sum(1), shares.sum(0)
        partner[own] = shares @ at[1][others] / (shares.sum(1) + 1e-12)
    return matched, matched_y, partner
