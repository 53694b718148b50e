"""A network finds faults in the motion, and the recogniser uses what it finds."""

import dataclasses

import numpy as np
import pytest
import torch

from udtw.errors import OptionError
from udtw.skeleton import ActionRecognizer, ConfidenceNet, Recipe, SkeletonSource, from_edges, graph
from udtw.skeleton.datasets import Faults, Sensor, SkeletonSet, make_actions

pytestmark = pytest.mark.usefixtures("one_thread")
CLEAN = make_actions(n_classes=6, n_clips=8, sensor=Sensor(bursts=0.0), random_state=0)
RECIPE = Recipe(
    dim=8, joint_dim=4, width=8, depth=0, n_way=2, n_query=1, n_steps=2, confidence="estimate", fault_steps=3
)


@pytest.fixture(scope="module")
def net():
    torch.manual_seed(0)
    return ConfidenceNet(graph(CLEAN.graph)).fit(CLEAN.of_classes([0, 1, 2]), n_steps=60)


def test_faults_of_new_actions_are_found(net):
    novel = CLEAN.of_classes([3, 4, 5])
    faulty = Faults().of(novel, 1)
    wrong = np.concatenate([clip.confidence.ravel() < 1 for clip in faulty])
    found = np.concatenate([net.confidence(clip.frames).ravel() for clip in faulty])
    assert 0 <= found.min() <= found.max() <= 1
    assert found[wrong].mean() < 0.6
    assert found[~wrong].mean() > 0.9
    assert np.mean([net.confidence(clip.frames).mean() for clip in novel]) > 0.97


def test_people_and_short_clips():
    layout = from_edges([(0, 1), (1, 2)], 3)
    net = ConfidenceNet(layout, coordinates=2)
    for steps in (1, 2, 3, 30):
        frames = np.random.default_rng(0).standard_normal((steps, 2, 3, 2)).astype(np.float32)
        frames[0, 1] = np.nan
        found = net.confidence(frames)
        assert found.shape == (steps, 2, 3)
        assert np.isfinite(found).all()


def test_the_estimate_multiplies_what_the_sensor_says():
    actions = make_actions(n_classes=2, n_clips=2)
    with pytest.raises(OptionError, match="needs estimate="):
        SkeletonSource(actions, actions.labels, actions.graph, confidence="estimate")

    def half(frames):
        return np.full(frames.shape[:3], 0.5)

    seen = SkeletonSource(actions, actions.labels, actions.graph, confidence="estimate", estimate=half)
    stated = [dataclasses.replace(clip, confidence=0.5 * clip.confidence) for clip in actions]
    told = SkeletonSet.from_clips("told", actions.graph, actions.classes, stated)
    same = SkeletonSource(told, told.labels, told.graph, confidence="sensor")
    for mine, other in zip(seen.batch(np.arange(4)), same.batch(np.arange(4)), strict=True):
        torch.testing.assert_close(mine, other)


def test_a_recogniser_estimates_confidence_and_is_saved_with_its_network(tmp_path):
    path = tmp_path / "model.safetensors"
    train = Faults().of(CLEAN.of_classes([0, 1]), stated=False)
    found = ActionRecognizer(RECIPE, CLEAN.graph).fit(train, checkpoint_path=path)
    novel = Faults().of(CLEAN.of_classes([4, 5]), stated=False)
    scores = found.scores(novel)
    np.testing.assert_array_equal(ActionRecognizer.load(path).scores(novel), scores)
    found.save(tmp_path / "saved.safetensors")
    np.testing.assert_array_equal(ActionRecognizer.load(tmp_path / "saved.safetensors").scores(novel), scores)
