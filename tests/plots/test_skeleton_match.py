"""`plot_match`: the model's own couplings, distances and σ, with the clips on the margins."""

import dataclasses

import numpy as np
import pytest
import torch

pytest.importorskip("matplotlib")

import udtw
from udtw.errors import DataError, LengthError, OptionError, ShapeError
from udtw.fewshot.comparators import weighted_distances
from udtw.plots import plot_match
from udtw.skeleton import ActionRecognizer, Recipe
from udtw.skeleton.datasets import make_actions

from .clips import drawn
from .figures import panels, render

ACTIONS = make_actions(3, 2, random_state=0)
QUERY, SAME, OTHER = ACTIONS[0], ACTIONS[3], ACTIONS[1]
SMALL = Recipe(dim=16, joint_dim=8, width=32, depth=1, heads=2, stride=8, gamma=0.3, beta=0.5)


def recognizer(**changes):
    return ActionRecognizer(dataclasses.replace(SMALL, **changes), ACTIONS.graph)


@pytest.fixture(scope="module")
def model():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    made = recognizer()
    with torch.no_grad():  # an untrained SigmaNet gives every block nearly the same σ
        for weights in made.model.sigma.parameters():
            weights.mul_(5)
    yield made
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def axes(model):
    figure = plot_match(QUERY, [SAME, OTHER], model, classes=ACTIONS.classes)
    assert render(figure) > 5_000
    return panels(figure)


def tokens(model, clip):
    place = ACTIONS.names.index(clip.name)
    return model.tokens(ACTIONS.subset([place]))


def as_number(value):
    return float(value.detach()) if isinstance(value, torch.Tensor) else value


def test_couplings_are_those_of_the_model(model, axes):
    x = tokens(model, QUERY)
    learned = {name: as_number(value) for name, value in model.model.comparator.params().items()}
    for i, support in enumerate((SAME, OTHER)):
        y = tokens(model, support)
        found = udtw.align(
            None,
            None,
            x.variance,
            y.variance,
            cost=weighted_distances(x.features, y.features, x.weight, y.weight),
            **{name: learned[name] for name in ("gamma", "beta", "weighting", "warp_penalty")},
        )
        matrix = axes[f"coupling{i}"]
        image = np.asarray(matrix.get_images()[0].get_array())
        np.testing.assert_allclose(image, found.coupling[0], atol=1e-5)
        np.testing.assert_array_equal(matrix.lines[-1].get_xydata()[:, ::-1], found.paths.mode()[0])
        assert matrix.get_images()[0].norm.gamma == 0.1
        with torch.no_grad():
            value = float(model.model.comparator(x, y).distance)
        assert f"divergence = {value:.3g}".replace("-", "−") in axes[f"support{i}"].get_title()


def test_titles_say_which_pair_is_matched(axes):
    assert axes["support0"].get_title().startswith(f"same class: {ACTIONS.classes[0]}")
    assert axes["support1"].get_title().startswith(f"other class: {ACTIONS.classes[1]}")
    assert ACTIONS.classes[0] in axes["query"].get_ylabel()


def test_margins_show_sigma_and_line_up_with_the_matrix(model, axes):
    for name, clip in (("query", QUERY), ("support0", SAME), ("support1", OTHER)):
        image = axes[f"{name}_std"].get_images()[0]
        values = np.asarray(image.get_array()).ravel()
        np.testing.assert_allclose(values, tokens(model, clip).std[0], rtol=1e-5)
        assert image.norm.vmin <= values.min() < values.max() <= image.norm.vmax
    for i in (0, 1):
        matrix = axes[f"coupling{i}"]
        rows, columns = matrix.get_images()[0].get_array().shape
        for strip in (axes[f"support{i}"], axes[f"support{i}_std"]):
            assert strip.get_xlim() == matrix.get_xlim() == (-0.5, columns - 0.5)
            box, wanted = strip.get_position(), matrix.get_position()
            assert (box.x0, box.x1) == pytest.approx((wanted.x0, wanted.x1))
        for strip in (axes["query"], axes["query_std"]):
            assert strip.get_ylim() == matrix.get_ylim() == (rows - 0.5, -0.5)
            box, wanted = strip.get_position(), matrix.get_position()
            assert (box.y0, box.y1) == pytest.approx((wanted.y0, wanted.y1))


def test_stick_figures_are_next_to_their_blocks_in_the_same_colours(model, axes):
    for name, most, axis in (("query", 5, 1), ("support0", 7, 0), ("support1", 7, 0)):
        image = axes[f"{name}_std"].get_images()[0]
        values = np.asarray(image.get_array()).ravel()
        figures = drawn(axes[name])
        assert len(figures) == min(most, len(values))
        places = [one.get_offsets()[0][axis] for one in figures.values()]
        assert np.all(np.diff(places) > 0)
        for (frame, _), place, one in zip(figures, places, figures.values(), strict=True):
            wanted = image.cmap(image.norm(values[round(place)]))
            np.testing.assert_allclose(one.get_colors()[0], wanted)
            assert abs(frame - (8 * place + 3.5)) <= 8  # the last block may lie closer to the others


def test_a_model_without_uncertainty_has_neither_sigma_nor_regulariser():
    axes = panels(plot_match(QUERY, [SAME], recognizer(metric="soft_dtw")))
    assert not axes["query_std"].get_images()
    title = axes["support0"].get_title()
    assert "free energy" in title
    assert "Ω" not in title
    assert SAME.name in title


def test_model_and_clips_are_not_changed(model):
    model.model.train()
    before = QUERY.frames.copy()
    plot_match(QUERY, [SAME], model)
    np.testing.assert_array_equal(QUERY.frames, before)
    assert model.model.training
    assert all(part.training for part in model.model.modules())
    model.model.eval()


def test_wrong_input_is_named(model):
    with pytest.raises(LengthError, match="at least one"):
        plot_match(QUERY, [], model)
    with pytest.raises(OptionError, match="path_power"):
        plot_match(QUERY, [SAME], model, path_power=2)
    with pytest.raises(OptionError, match="'protonet' has no coupling"):
        plot_match(QUERY, [SAME], recognizer(metric="protonet"))
    with pytest.raises((DataError, ShapeError), match="20"):
        plot_match(dataclasses.replace(QUERY, frames=QUERY.frames[:, :, :9]), [SAME], model)
