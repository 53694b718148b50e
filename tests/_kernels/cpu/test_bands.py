"""Pairs with a band share packs, whatever their lengths: the same bits as alone, and nothing outside of the band."""

import numpy as np
import pytest
import torch

import udtw
from udtw._engine.prior import admissible, parse
from udtw._kernels.cpu import launch

COUNT, ROWS, COLUMNS = 9, 30, 41
CPU = torch.device("cpu")


def series(dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    drawn = np.random.default_rng(0)
    x, y = drawn.standard_normal((COUNT, ROWS)).cumsum(1), drawn.standard_normal((COUNT, COLUMNS)).cumsum(1)
    variances = (0.5 + drawn.random((COUNT, size)) for size in (ROWS, COLUMNS))
    return tuple(torch.tensor(one, dtype=dtype) for one in (x, y, *variances))


def lengths(ragged: bool) -> torch.Tensor:
    drawn = np.random.default_rng(1)
    low = (5, 5) if ragged else (ROWS, COLUMNS)
    return torch.tensor(np.stack([drawn.integers(low[0], ROWS + 1, COUNT), drawn.integers(low[1], COLUMNS + 1, COUNT)]))


def of_loss(x, y, var_x, var_y, **options):
    leaves = [one.clone().requires_grad_() for one in (x[..., None], y[..., None], var_x, var_y)]
    found = udtw.align(*leaves, **options)
    found.loss.sum().backward()
    return [found.loss.detach(), found.distance.detach(), *(leaf.grad for leaf in leaves)]


def of_dtw(x, y, var_x, var_y, **options):
    leaves = [one.clone().requires_grad_() for one in (x[..., None], y[..., None])]
    value = udtw.dtw(*leaves, **options)
    value.sum().backward()
    return [value.detach(), *(leaf.grad for leaf in leaves)]


def of_matches(x, y, var_x, var_y, **options):
    found = udtw.align(x[..., None], y[..., None], var_x, var_y, **options).matches()
    return [found.index, found.probability, found.expected, found.low, found.high]


def of_paths(x, y, var_x, var_y, **options):
    found = udtw.align(x[..., None], y[..., None], var_x, var_y, **options)
    return [found.coupling, found.paths.entropy]


QUESTIONS = {
    "likelihood": (of_loss, {}),
    "precision": (of_loss, {"weighting": "precision"}),
    "warps": (of_loss, {"warp_penalty": 0.1}),
    "path length": (of_loss, {"weighting": "precision", "normalize": "path"}),
    "relaxed": (of_loss, {"relax": (1, 1, 2, 2)}),
    "dtw": (of_dtw, {}),
    "matches": (of_matches, {}),
    "coupling": (of_paths, {}),
}


@pytest.mark.parametrize("ragged", [False, True], ids=["full", "ragged"])
@pytest.mark.parametrize("band", [3, 0.1, "itakura"])
@pytest.mark.parametrize("question", QUESTIONS)
def test_a_batch_has_the_bits_of_its_pairs(question, band, ragged):
    ask, options = QUESTIONS[question]
    pairs, both = series(torch.float32), lengths(ragged)

    def answers(part: slice) -> list[torch.Tensor]:
        of_x, of_y = both[:, part]
        return ask(*(one[part] for one in pairs), band=band, lengths_x=of_x, lengths_y=of_y, **options)

    together = answers(slice(None))
    alone = [answers(slice(b, b + 1)) for b in range(COUNT)]
    for number, found in enumerate(together):
        assert torch.allclose(found, torch.cat([one[number] for one in alone]), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("holes", [False, True])
def test_a_mask_is_swept_by_rows_and_agrees_with_the_reference(holes):
    x, y, var_x, var_y = series(torch.float64)
    mask = admissible(parse(4, 1, ROWS, COLUMNS, CPU), torch.tensor([[ROWS], [COLUMNS]]), ROWS, COLUMNS)
    if holes:
        inner = admissible(parse(1, 1, ROWS, COLUMNS, CPU), torch.tensor([[ROWS], [COLUMNS]]), ROWS, COLUMNS)
        mask &= inner | (torch.rand(mask.shape, generator=torch.Generator().manual_seed(0)) < 0.8)
    for question in ("likelihood", "precision", "matches", "coupling", "dtw"):
        ask, options = QUESTIONS[question]
        options = {**options, "band": mask}
        for found, expected in zip(
            ask(x, y, var_x, var_y, **options), ask(x, y, var_x, var_y, backend="portable", **options), strict=True
        ):
            assert torch.allclose(found, expected, rtol=1e-9, atol=1e-9, equal_nan=True), question


def test_the_rows_of_a_mask_contain_its_paths_and_no_dead_ends():
    mask = np.array([[1, 1, 0, 0, 1], [1, 0, 1, 0, 0], [0, 0, 1, 1, 0], [1, 0, 0, 1, 1]], bool)[None]
    band, blocked, holes = launch.band_of_mask(mask, np.array([[4], [5]]))
    assert (blocked, holes) == (-1, True)
    assert band[:, 0].tolist() == [[0, 0, 2, 3], [3, 3, 4, 5]]
    assert launch.band_of_mask(mask, np.array([[4], [3]]))[1] == 0
    full, blocked, holes = launch.band_of_mask(np.ones((1, 3, 2), bool), np.array([[3, 2], [2, 1]]))
    assert (blocked, holes) == (-1, False)
    assert full[1].tolist() == [[2, 2, 2], [1, 1, 0]]


def test_packs_of_narrow_bands_are_as_large_as_they_may_be():
    assert launch.pack_for(128, 128) == 8
    assert launch.pack_for(128, 128, 14) == 32
    assert launch.segment_for(8, 1000, 1000, 20) == 1999 > launch.segment_for(8, 1000, 1000)
