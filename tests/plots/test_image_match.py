"""`plot_image_match`: lines end on the matched patches, in every reading order, and show how certain each match is."""

import numpy as np
import pytest
import torch

pytest.importorskip("matplotlib")

from udtw.errors import NonFiniteError, OptionError, ShapeError, VarianceError
from udtw.images.projection import token_order
from udtw.plots import plot_image_match, plot_match_pair
from udtw.plots.image_match import GAP, strongest_matches

from .figures import panels, render

GRID = (4, 6)
COUNT = 24
WIDE, TALL = np.zeros((40, 60, 3)), np.full((60, 30, 3), 0.5)
GENERATOR = np.random.default_rng(0)
PERMUTED = np.eye(COUNT)[GENERATOR.permutation(COUNT)] * GENERATOR.uniform(0.2, 1, (COUNT, 1))


def pair(image_y=WIDE, **options):
    given = {"image_x": WIDE, "image_y": image_y, "coupling": PERMUTED, "grid_x": GRID, "grid_y": GRID}
    return given | options


def lines(axes):
    (found,) = (one for one in axes.collections if one.get_gid() == "matches")
    return found


def ends(axes):
    """(K, 2, 2) ends of the lines; images are one unit high, the right one begins after the left one's width + GAP."""
    return np.array(lines(axes).get_segments())


def rings(axes):
    """(K, 2) rows and columns of the coupling that are marked."""
    (found,) = (one for one in axes.collections if one.get_gid() == "matches")
    return found.get_offsets()[:, ::-1].astype(int)


@pytest.mark.parametrize("order", ["raster", "snake", "hilbert"])
def test_lines_join_the_matched_patches(order):
    other = (2, 3)
    # Patch (3, 1) of the left image belongs to patch (0, 2) of the right one.
    left, right = token_order(order, GRID).tolist().index(3 * 6 + 1), token_order(order, other).tolist().index(2)
    coupling = np.zeros((COUNT, 6))
    coupling[left, right] = 0.9
    figure = plot_image_match(WIDE, TALL, torch.tensor(coupling), GRID, other, order=order)
    assert render(figure) > 3_000
    axes = panels(figure)
    start = 1.5 + GAP  # the left image is 1.5 wide, the right one 0.5
    wanted = [[1.5 / 6 * 1.5, 3.5 / 4], [start + 2.5 / 3 * 0.5, 0.5 / 2]]
    np.testing.assert_allclose(ends(axes["match0"]), [wanted])
    assert [one.get_extent() for one in axes["match0"].get_images()] == [[0, 1.5, 1, 0], [start, start + 0.5, 1, 0]]
    assert axes["match0"].get_aspect() == 1
    np.testing.assert_array_equal(rings(axes["coupling0"]), [[left, right]])
    np.testing.assert_array_equal(axes["coupling0"].get_images()[0].get_array(), coupling)
    assert (order in axes["coupling0"].get_xlabel()) == (order != "raster")


@pytest.mark.parametrize("n_matches", [0, 5, 24, 40])
def test_at_most_the_requested_number_of_lines_and_no_patch_twice(n_matches):
    axes = panels(plot_image_match(WIDE, WIDE, PERMUTED, GRID, GRID, n_matches=n_matches))
    cells = rings(axes["coupling0"])
    assert len(cells) == len(ends(axes["match0"])) == min(n_matches, COUNT)
    assert all(len(set(side)) == len(side) for side in cells.T)


def test_the_strongest_come_first_and_only_if_both_prefer_each_other():
    coupling = np.diag([1.0, 0.9, 0.2, 0.8, 0.7, 1.0])
    coupling[2, 3] = 0.75  # 2 prefers 3, but 3 prefers itself
    found = strongest_matches(coupling, (6, 1), (6, 1), 9)
    # Every path goes through the first and the last pair, which therefore come last.
    assert found.tolist() == [[1, 1], [3, 3], [4, 4], [0, 0], [5, 5]]


def test_nearly_equal_couplings_are_ranked_by_certainty():
    std = np.linspace(2, 1, COUNT)[:, None].repeat(COUNT, 1)
    coupling = np.eye(COUNT) - np.diag(np.linspace(0, 1e-4, COUNT))
    first = strongest_matches(coupling, (COUNT, 1), (COUNT, 1), 3, std=std)[:, 0]
    assert first.tolist() == [22, 20, 18], "neighbours on both sides wait"


def test_lines_do_not_overlap_while_there_are_others():
    found = strongest_matches(np.eye(100), (10, 10), (10, 10), 10)
    assert sorted(found[:, 0] // 10) == list(range(10)), "one per row"
    assert len(strongest_matches(np.eye(100), (10, 10), (10, 10), 30)) == 30


def test_certain_matches_are_blue():
    var_x, var_y = np.linspace(0.3, 2, COUNT) ** 2, np.linspace(0.5, 1.5, COUNT) ** 2
    axes = panels(plot_image_match(WIDE, WIDE, PERMUTED, GRID, GRID, var_x=var_x, var_y=torch.tensor(var_y)))
    rows, columns = rings(axes["coupling0"]).T
    std = np.sqrt((var_x[rows] + var_y[columns]) / 2)
    found = lines(axes["match0"])
    np.testing.assert_allclose(found.get_array(), std)
    red, _, blue, _ = found.to_rgba(found.get_array()).T
    assert (np.diff((red - blue)[np.argsort(std)]) >= 0).all(), "nearly equal σ may share one of 256 colors"
    assert (red - blue)[std.argmin()] < 0 < (red - blue)[std.argmax()]
    assert found.norm.vmin == pytest.approx(np.sqrt((0.3**2 + 0.5**2) / 2)), "the least of all matches, drawn or not"
    assert found.norm.vmax == pytest.approx(1 / found.norm.vmin), "1 is in the middle"
    np.testing.assert_allclose(axes["coupling0"].collections[0].get_edgecolors(), found.to_rgba(std))


def test_without_variances_colours_are_the_coupling():
    axes = panels(plot_image_match(WIDE, WIDE, PERMUTED, GRID, GRID))
    rows, columns = rings(axes["coupling0"]).T
    np.testing.assert_allclose(lines(axes["match0"]).get_array(), PERMUTED[rows, columns])


def test_a_pair_is_drawn_in_two_rows_on_one_scale():
    ones = np.ones(COUNT)
    figure = plot_match_pair(
        pair(TALL, var_x=ones, var_y=ones, title="same class"),
        pair(var_x=4 * ones, var_y=4 * ones, order="snake", title="other class"),
        n_matches=7,
    )
    assert render(figure) > 5_000
    axes = panels(figure)
    norms = [lines(axes[f"match{i}"]).norm for i in (0, 1)]
    assert [(norm.vmin, norm.vmax) for norm in norms] == [(0.5, 2)] * 2
    assert [len(ends(axes[f"match{i}"])) for i in (0, 1)] == [7, 7]
    assert [axes[f"match{i}"].get_title() for i in (0, 1)] == ["same class", "other class"]
    assert axes["match0"].get_position().y0 > axes["match1"].get_position().y1
    for one in (axes["coupling0"], axes["coupling1"]):
        assert one.bbox.width == pytest.approx(one.bbox.height, rel=0.1)
    boxes = {name: one.get_tightbbox() for name, one in axes.items() if name}
    for name, below in (("coupling1", "coupling_bar"), ("coupling0", "coupling1"), ("match0", "match1")):
        assert boxes[name].y0 > boxes[below].y1, f"{name} must not lie on {below}"
    assert max(box.y1 for box in boxes.values()) <= figure.bbox.y1


@pytest.mark.parametrize(
    ("error", "message", "options"),
    [
        (ShapeError, r"coupling must have shape \(24, 24\)", {"coupling": np.eye(20)}),
        (NonFiniteError, "coupling", {"coupling": np.full((COUNT, COUNT), np.nan)}),
        (OptionError, "or neither", {"var_x": np.ones(COUNT)}),
        (ShapeError, r"var_y must have shape \(24,\)", {"var_x": np.ones(COUNT), "var_y": np.ones(3)}),
        (VarianceError, "var_x must be positive", {"var_x": np.zeros(COUNT), "var_y": np.ones(COUNT)}),
        (OptionError, "order must be one of", {"order": "spiral"}),
        (OptionError, "n_matches", {"n_matches": -1}),
        (OptionError, "path_power", {"path_power": 0}),
    ],
)
def test_wrong_input_is_named(error, message, options):
    with pytest.raises(error, match=message):
        plot_image_match(**pair(**options))


def test_a_pair_has_variances_on_both_sides_or_none():
    with pytest.raises(OptionError, match="both pairs"):
        plot_match_pair(pair(), pair(var_x=np.ones(COUNT), var_y=np.ones(COUNT)))
