"""`plot_clip`: stick figures over time in their proportions, σ below them on the same axis, in the same colours."""

import subprocess
import sys

import numpy as np
import pytest
import torch

pytest.importorskip("matplotlib")

from udtw.errors import OptionError, ShapeError, VarianceError
from udtw.plots import plot_clip
from udtw.skeleton import from_edges, graph
from udtw.skeleton.blocks import block_spans

from .clips import bones_on_screen, drawn, walk
from .figures import panels, render

KINECT = graph("kinect20")
STD = np.array([0.6, 1.9, 0.9, 1.2])


def redness(color):
    red, _, blue, _ = color
    return red - blue


def test_figures_are_evenly_spaced_over_the_clip():
    figure = plot_clip(walk(40), KINECT, n_poses=8)
    axes = panels(figure)
    assert set(axes) == {"film"}
    found = drawn(axes["film"])
    assert len(found) == 8
    places = np.array([one.get_offsets()[0][0] for one in found.values()])
    np.testing.assert_allclose(places, 2 + 5 * np.arange(8))
    for (frame, _), place in zip(found, places, strict=True):
        assert abs(frame - place) <= 0.5
    assert axes["film"].get_xlim() == (-0.5, 39.5)
    assert all(len(one.get_segments()) == len(KINECT.edges) for one in found.values())
    assert render(figure) > 5_000


def test_all_frames_of_a_short_clip_are_drawn():
    assert [frame for frame, _ in drawn(panels(plot_clip(walk(3), "kinect20"))["film"])] == [0, 1, 2]


@pytest.mark.parametrize("figsize", [(7, 2.5), (3, 4)])
def test_bodies_keep_their_proportions_and_their_slots(figsize):
    frames = walk(20)
    figure = plot_clip(frames, KINECT, n_poses=5, figsize=figsize)
    render(figure)
    axes = panels(figure)["film"]
    for (frame, person), one in drawn(axes).items():
        wanted = np.array([frames[frame, person, list(edge), :2] for edge in KINECT.edges])
        on_screen = bones_on_screen(axes, one)
        scale = np.ptp(on_screen[..., 1]) / np.ptp(wanted[..., 1])
        np.testing.assert_allclose(on_screen - on_screen[0, 0], scale * (wanted - wanted[0, 0]), rtol=1e-3, atol=1e-3)
        assert np.ptp(on_screen[..., 0]) <= axes.bbox.width / 5
        assert np.ptp(on_screen[..., 1]) <= axes.bbox.height


def test_missing_joints_are_not_drawn():
    frames = walk(10)
    frames[5, 0, 7] = np.nan  # the left hand, at the end of one bone
    frames[6] = np.inf
    found = drawn(panels(plot_clip(frames, KINECT, n_poses=10))["film"])
    assert len(found[4, 0].get_segments()) == len(KINECT.edges)
    assert len(found[5, 0].get_segments()) == len(KINECT.edges) - 1
    assert not np.isnan(found[5, 0].get_segments()).any()
    assert (6, 0) not in found
    render(plot_clip(np.full_like(frames, np.nan), KINECT))


def test_a_missing_torso_does_not_move_the_person_away():
    frames = walk(10)
    frames[5, 0, KINECT.centre] = np.nan
    found = drawn(panels(plot_clip(frames, KINECT, n_poses=10))["film"])
    across = np.concatenate(found[5, 0].get_segments())[:, 0]
    assert np.abs(across).max() < 2.5


def test_two_people_keep_their_places():
    frames = walk(12, people=2)
    frames[:6, 1] = np.nan
    figure = plot_clip(frames, KINECT, n_poses=4)
    found = drawn(panels(figure)["film"])
    assert sorted(person for _, person in found) == [0, 0, 0, 0, 1, 1]
    (frame, _) = max(found)
    first, second = (np.concatenate(found[frame, person].get_segments())[:, 0] for person in (0, 1))
    shown = second.mean() - first.mean()
    mine, theirs = (frames[frame, person, np.array(KINECT.edges), 0].mean() for person in (0, 1))
    assert shown == pytest.approx(theirs - mine, rel=1e-4)
    assert found[frame, 1].get_linewidth()[0] < found[frame, 0].get_linewidth()[0]
    render(figure)


def test_y_counts_down_in_pictures_and_up_in_space():
    layout = from_edges([(0, 1)], 2)
    flat = np.array([[[0.0, 0.0], [0.0, 1.0]]])  # the second joint is below the first in a picture

    def rises(**options):
        (bones,) = drawn(panels(plot_clip(options.pop("frames", flat), layout, **options))["film"]).values()
        (a, b) = bones.get_segments()[0]
        return b[1] > a[1]

    assert not rises()
    assert rises(y_up=True)
    assert rises(frames=np.concatenate([flat, np.zeros((1, 2, 1))], -1))


def test_uncertainty_lies_below_on_the_same_axis():
    figure = plot_clip(walk(40), KINECT, std=STD, n_poses=8)
    render(figure)
    axes = panels(figure)
    assert set(axes) == {"film", "std"}
    lines = next(one for one in axes["std"].collections if hasattr(one, "get_segments"))
    segments = np.array(lines.get_segments())
    np.testing.assert_allclose(segments[:, :, 1], STD[:, None].repeat(2, 1))
    np.testing.assert_allclose(segments[:, :, 0], [(-0.5, 9.5), (9.5, 19.5), (19.5, 29.5), (29.5, 39.5)])
    assert axes["film"].get_xlim() == axes["std"].get_xlim() == (-0.5, 39.5)
    above, below = axes["film"].get_position(), axes["std"].get_position()
    assert (above.x0, above.x1) == pytest.approx((below.x0, below.x1))
    low, high = axes["std"].get_ylim()
    assert low < STD.min() < STD.max() < high


def test_colours_go_from_blue_to_red_with_the_uncertainty():
    axes = panels(plot_clip(walk(40), KINECT, std=STD, n_poses=8))
    lines = next(one for one in axes["std"].collections if hasattr(one, "get_segments"))
    strip = [redness(color) for color in lines.get_colors()]
    assert np.argsort(strip).tolist() == np.argsort(STD).tolist()
    assert min(strip) < 0 < max(strip)
    figures = [redness(one.get_colors()[0]) for one in drawn(axes["film"]).values()]
    np.testing.assert_allclose(figures, np.repeat(strip, 2))


def test_a_common_range_makes_pictures_comparable():
    def reds(std, **options):
        axes = panels(plot_clip(walk(40), KINECT, std=std, **options))["film"]
        return [redness(one.get_colors()[0]) for one in drawn(axes).values()]

    assert max(reds(STD, std_range=(0.5, 20))) < 0
    assert np.ptp(reds([1.0, 1.0001])) < 0.05, "a difference of nothing must not look like one"


def test_overlapping_blocks_meet_halfway():
    spans = block_spans(30, 8, 4)
    axes = panels(plot_clip(walk(30), KINECT, spans, np.linspace(1, 2, len(spans))))["std"]
    segments = np.array(next(one for one in axes.collections if hasattr(one, "get_segments")).get_segments())
    np.testing.assert_allclose(segments[1:, 0, 0], segments[:-1, 1, 0])
    assert segments[0, :, 0].tolist() == [-0.5, 5.5]
    assert segments[-1, 1, 0] == 29.5


def test_inputs_stay_as_they_were_in_any_form():
    frames = walk(12, people=2)
    frames[3, 0, 2] = np.inf
    frames.flags.writeable = False
    std = torch.tensor(STD, requires_grad=True)
    before = frames.copy()
    one = drawn(panels(plot_clip(frames, KINECT, std=std))["film"])
    np.testing.assert_array_equal(frames, before)
    other = drawn(panels(plot_clip(torch.tensor(before, dtype=torch.float16), KINECT, std=STD.tolist()))["film"])
    assert one.keys() == other.keys()
    single = drawn(panels(plot_clip(frames[:, 0], KINECT))["film"])
    assert all(person == 0 for _, person in single)


@pytest.mark.parametrize(
    ("error", "message", "options"),
    [
        (ShapeError, r"\(T, 20, C\).*got \(5, 3\)", {"frames": np.zeros((5, 3))}),
        (ShapeError, "20 joints", {"frames": np.zeros((5, 19, 3))}),
        (ShapeError, "coordinates", {"frames": np.zeros((5, 20, 4))}),
        (OptionError, "n_poses", {"n_poses": 0}),
        (OptionError, "graph must be one of", {"graph": "octopus"}),
        (ShapeError, "std must have shape", {"std": np.ones((2, 2))}),
        (VarianceError, "positive", {"std": [1.0, np.nan]}),
        (OptionError, "std_range", {"std": [1.0, 2.0], "std_range": (2, 1)}),
        (ShapeError, r"blocks must have shape \(2, 2\)", {"std": [1.0, 2.0], "blocks": [[0, 5]]}),
        (ShapeError, "within the 10 frames", {"std": [1.0, 2.0], "blocks": [[0, 5], [5, 11]]}),
        (ShapeError, "must be ordered", {"std": [1.0, 2.0], "blocks": [[5, 10], [0, 5]]}),
    ],
)
def test_wrong_input_is_named(error, message, options):
    with pytest.raises(error, match=message):
        plot_clip(**({"frames": walk(10), "graph": KINECT} | options))


def test_needs_only_matplotlib_and_leaves_pyplot_alone():
    code = """
import io, sys, numpy as np
for extra in ("scipy", "safetensors", "aeon", "rich"):
    sys.modules[extra] = None  # the extra "plots" installs only matplotlib
from udtw.plots import plot_clip
plot_clip(np.random.rand(9, 20, 3), "kinect20", std=[1, 2]).savefig(io.BytesIO(), format="png")
assert "matplotlib.pyplot" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
