"""Features of single joints: what they start as, whose fault they show, and how far they can be trusted."""

import numpy as np
import pytest
import torch

from udtw.errors import OptionError
from udtw.fewshot import FewShotModel
from udtw.skeleton import ActionRecognizer, Recipe, SkeletonEncoder, SkeletonSource, graph
from udtw.skeleton.datasets import Faults, make_actions
from udtw.skeleton.datasets.synthetic import Sensor
from udtw.skeleton.encoder import JointFeatures, cosines

CLEAN = make_actions(n_classes=4, n_clips=3, sensor=Sensor(noise=0.0, bursts=0.0))
LAYOUT = graph(CLEAN.graph)
WHOLE = 8


def batch(skeletons=CLEAN, confidence="estimate"):
    source = SkeletonSource(skeletons, skeletons.labels, LAYOUT, confidence=confidence)
    return source.batch(np.arange(len(skeletons)))


def encoder(weighted=True):
    torch.manual_seed(0)
    sizes = {"dim": WHOLE, "joint_dim": 4, "width": 8, "depth": 0}
    return SkeletonEncoder(LAYOUT, **sizes, weighted=weighted, frequencies=3).eval()


def test_the_cosines_are_orthonormal_and_begin_with_the_mean():
    basis = cosines(8, 8)
    torch.testing.assert_close(basis @ basis.mT, torch.eye(8))
    torch.testing.assert_close(basis[0], torch.full((8,), 8**-0.5))
    torch.testing.assert_close(cosines(8, 3), basis[:3])


def test_features_start_as_positions_and_velocities_of_joints():
    frames = torch.zeros(1, 1, 1, 20, 8, 3)
    frames[0, 0, 0, 4, :, 1] = torch.arange(8.0)  # joint 4 moves along y
    features, weight = JointFeatures(20, 8, 3, frequencies=2)(frames.flatten(4), torch.ones(1, 1, 1, 20))
    assert (weight == 1).all()
    found = features.unflatten(2, (20, 2, 3))[0, 0].detach()
    assert found[4, :, 1].abs().min() > 0
    found[4, :, 1] = 0
    assert found.abs().max() < 1e-6


def test_without_faults_all_weights_are_one_and_weights_change_nothing():
    plain, weighted = encoder(weighted=False)(batch(confidence="ignore")), encoder()(batch())
    torch.testing.assert_close(weighted.features, plain.features)
    assert plain.weight is None
    assert (weighted.weight == 1).all()
    assert weighted.features.shape[2] == WHOLE + 20 * 3 * 3 == encoder().dim


def test_only_the_features_of_a_lost_limb_lose_their_weight():
    tokens = encoder()(batch(Faults(dropouts=2.0, jitters=0, swaps=0).of(CLEAN, 1)))
    weight = tokens.weight[tokens.inside].detach()
    joints = weight[:, WHOLE:].unflatten(1, (20, -1))
    assert (joints > 0).all()
    assert (joints.amax(1) == 1).all(), "no clip loses all joints"
    assert joints.min() < 0.2
    assert (joints == joints[..., :1]).all(), "one weight per joint"
    whole = weight[:, :WHOLE]
    assert (whole == whole[:, :1]).all()
    assert ((whole[:, 0] < 1) == (joints[..., 0] < 1).any(1)).all(), "the whole body has the mean variance"


def test_two_people_count_by_their_weights():
    made = JointFeatures(20, 8, 3)
    blocks = torch.randn(2, 3, 1, 20, 24)
    alone, _ = made(blocks, torch.ones(2, 3, 1, 20))
    both = torch.cat([blocks, blocks + 1], 2)
    weights = torch.ones(2, 3, 2, 20)
    weights[:, :, 1] = 1e-6
    features, weight = made(both, weights)
    torch.testing.assert_close(features, alone, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(weight, torch.full_like(weight, 0.5), rtol=1e-4, atol=1e-4)
    weights[:, :, 1] = 0  # absent
    assert (made(both, weights)[1] == 1).all()


def test_a_fault_of_one_joint_does_not_change_a_distance_if_its_variance_tells():
    blocks, lengths, people, variance = batch()
    moved, told = blocks.clone(), variance.clone()
    moved[0, :, 0, 7] += 5
    told[0, :, 0, 7] = 1e4
    model = FewShotModel(encoder(), "udtw", "cross_entropy", weighting="likelihood").eval()

    @torch.no_grad()
    def distances(blocks, variance):
        tokens = model.encode((blocks, lengths, people, variance))
        return model.comparator(tokens[:1], tokens[1:]).distance[0]

    clean, told, untold = distances(blocks, variance), distances(moved, told), distances(moved, variance)
    assert (told - clean).abs().max() < 0.1 * (untold - clean).abs().max()


def test_training_moves_the_map_the_gains_and_the_unit():
    made = encoder().train()
    faulty = Faults(dropouts=3.0).of(CLEAN, 0)
    model = FewShotModel(made, "udtw", "cross_entropy", weighting="likelihood")
    labels = torch.tensor(CLEAN.labels.tolist())
    order = np.argsort(np.arange(len(CLEAN)) % 3, kind="stable")  # the first clip of each class, then the others
    source = SkeletonSource(faulty, faulty.labels, LAYOUT, confidence="estimate")
    model(source.batch(order), labels[order[:4]], labels[order[4:]]).backward()
    for weight in (*made.joints.parameters(), made.log_unit, made.log_whole):
        assert weight.grad.abs().max() > 0
    unused = [name for name, weight in model.named_parameters() if weight.grad is None]
    assert not unused, "processes that train together wait for every gradient"


def test_short_blocks_have_fewer_frequencies():
    recipe = Recipe(block_size=2, dim=4, joint_dim=2, width=4, depth=0)
    assert ActionRecognizer(recipe, LAYOUT).model.encoder.dim == 4 + 20 * 2 * 3


def test_wrong_options_are_named():
    with pytest.raises(OptionError, match="frequencies must be from 1 to block_size=8"):
        JointFeatures(20, 8, 3, frequencies=9)
