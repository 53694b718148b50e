"""Confidence becomes variances: of positions, of joints inside a block, of tokens, and of the alignment."""

import warnings

import numpy as np
import pytest
import torch

from udtw.errors import OptionError
from udtw.fewshot import FewShotModel
from udtw.skeleton import ActionRecognizer, Recipe, SkeletonEncoder, SkeletonSource, graph
from udtw.skeleton.confidence import (
    MOST_MOTION,
    misread_confidence,
    motion,
    plausible_confidence,
    position_variance,
    repaired,
)
from udtw.skeleton.datasets import Faults, SkeletonSet, make_actions
from udtw.skeleton.datasets.clip import Clip
from udtw.skeleton.datasets.synthetic import Sensor

CLEAN = make_actions(n_classes=4, n_clips=3, sensor=Sensor(noise=0.0, bursts=0.0))


def test_the_variance_falls_as_the_confidence_grows():
    found = position_variance(np.linspace(0, 1, 20))
    assert (np.diff(found) < 0).all()
    assert found[-1] == 0


def exact(confidence, frames):
    """Posterior mean and variance of a random walk by solving the normal equations."""
    n = len(frames)
    step = np.diff(np.eye(n), axis=0)
    precision = 1 / np.maximum(position_variance(confidence), 1e-9)
    matrix = step.T @ step + np.diag(precision) + 1e-12 * np.eye(n)
    return np.linalg.solve(matrix, precision[:, None] * frames), np.diag(np.linalg.inv(matrix))


def test_repair_is_the_posterior_of_a_random_walk():
    rng = np.random.default_rng(0)
    frames = rng.standard_normal((12, 1, 3, 2)).cumsum(0)
    confidence = rng.uniform(0.1, 1, (12, 1, 3))
    confidence[4:8, 0, 0] = 0
    confidence[0, 0, 1] = 1
    positions, variance = repaired(frames, confidence)
    for joint in range(3):
        mean, var = exact(confidence[:, 0, joint], frames[:, 0, joint])
        np.testing.assert_allclose(positions[:, 0, joint], mean, rtol=2e-2, atol=2e-2)
        np.testing.assert_allclose(variance[:, 0, joint], var, rtol=2e-2, atol=1e-6)


def test_sure_positions_stay_and_missing_ones_are_interpolated():
    frames = np.arange(6, dtype=np.float32).reshape(6, 1, 1, 1).repeat(2, 2)
    assert repaired(frames, np.ones((6, 1, 2)))[0] is frames
    broken = frames.copy()
    broken[2:4, 0, 0], broken[:, 0, 1] = np.nan, np.nan
    positions, variance = repaired(broken, np.ones((6, 1, 2)))
    np.testing.assert_allclose(positions[:, 0, 0], frames[:, 0, 0], atol=1e-5)
    np.testing.assert_allclose(variance[:, 0, 0], [0, 0, 2 / 3, 2 / 3, 0, 0], atol=1e-6)
    assert np.isnan(positions[:, 0, 1]).all()


def test_motion_is_that_of_sure_frames():
    frames = np.zeros((5, 1, 2, 3))
    frames[:, 0, 0] = 0.05 * np.arange(5)[:, None]
    frames[2, 0, 1] = 100
    sure = np.ones((5, 1, 2))
    sure[2, 0, 1] = 0
    assert motion(frames, sure)[0, 0] > 0.8 * 0.05**2
    assert motion(frames, sure)[0, 1] < 0.3 * 0.05**2
    assert motion(frames, np.ones((5, 1, 2)))[0, 1] == np.float32(MOST_MOTION), "what no person does is a fault"


def test_stuck_and_jittering_joints_are_found_without_a_stated_confidence():
    rng = np.random.default_rng(0)
    pose = rng.standard_normal((1, 1, 10, 3))
    frames = (
        pose + 0.05 * np.sin(np.linspace(0, 6, 40))[:, None, None, None] * rng.standard_normal(pose.shape)
    ).astype(np.float32)
    np.testing.assert_array_equal(plausible_confidence(frames), 1)
    frames[10:25, 0, 3] = pose[0, 0, 5]
    frames[20:35, 0, 8] += rng.standard_normal((15, 3))
    frames[30:, 0, 1] += 1  # one jump is no jitter
    before = frames.copy()
    found = plausible_confidence(frames)[:, 0]
    np.testing.assert_array_equal(frames, before)
    assert (found[10:25, 3] == 0).all()
    assert (found[21:34, 8] < 0.5).all()
    others = np.ones((40, 10), bool)
    others[9:26, 3] = others[18:37, 8] = False
    np.testing.assert_array_equal(found[others], 1)


def test_people_who_stand_still_and_missing_joints_are_no_faults():
    still = np.zeros((20, 1, 5, 3), np.float32) + np.arange(5)[:, None]
    np.testing.assert_array_equal(plausible_confidence(still), 1)
    moving = still + np.linspace(0, 1, 20, dtype=np.float32)[:, None, None, None]
    moving[4:9, 0, 2] = np.nan
    np.testing.assert_array_equal(plausible_confidence(moving), 1)
    for n_frames in (1, 2):
        assert plausible_confidence(moving[:n_frames]).shape == (n_frames, 1, 5)
    np.testing.assert_array_equal(plausible_confidence(np.full((6, 2, 5, 2), np.nan)), 1)


def test_a_joint_is_no_surer_than_the_sensor_and_the_motion_say():
    stuck = SkeletonSet.from_clips(
        CLEAN.name, CLEAN.graph, CLEAN.classes,
        [Clip(_stuck(clip.frames), clip.label, clip.name) for clip in CLEAN],
    )  # fmt: skip
    assert not source(stuck, "sensor").batch(np.arange(2))[3].any()
    assert source(stuck, "estimate").batch(np.arange(2))[3].any()
    stated = lost(CLEAN)
    for there, here in zip(*(source(stated, how).batch(np.arange(2)) for how in ("estimate", "sensor")), strict=True):
        torch.testing.assert_close(there, here)
    both = lost(stuck, joints=(5,), jump=5.0)
    seen = {how: source(both, how).batch(np.arange(2))[3].amax((0, 1, 2)) > 0 for how in ("sensor", "estimate")}
    assert [seen[how].nonzero().flatten().tolist() for how in seen] == [[5], [5, 7]]


def test_limbs_that_changed_sides_are_exchanged_back_before_anything_else():
    faulty = Faults(dropouts=0, jitters=0, swaps=1.0).of(CLEAN, 1, stated=False)
    every = np.arange(len(CLEAN))
    clean, raw, found = (
        source(one, how).batch(every)[0] for one, how in ((CLEAN, "ignore"), (faulty, "ignore"), (faulty, "estimate"))
    )
    assert (found - clean).square().mean() < 0.25 * (raw - clean).square().mean()


def _stuck(frames):
    frames = frames + np.linspace(0, 1, len(frames), dtype=np.float32)[:, None, None, None]
    frames[5:15, 0, 7] = frames[5, 0, 7] + 1
    return frames


def lost(skeletons, joints=(7, 6), when=slice(5, 20), confidence=0.0, jump=5.0):
    clips = []
    for clip in skeletons:
        frames, sure = clip.frames.copy(), clip.confidence.copy()
        frames[when, 0, list(joints)] += jump
        sure[when, 0, list(joints)] = confidence
        clips.append(Clip(frames, clip.label, clip.name, confidence=sure))
    return SkeletonSet.from_clips(skeletons.name, skeletons.graph, skeletons.classes, clips)


def source(skeletons, confidence="sensor"):
    return SkeletonSource(skeletons, skeletons.labels, graph(skeletons.graph), confidence=confidence)


def test_blocks_with_a_lost_limb_are_repaired_and_uncertain():
    every = np.arange(len(CLEAN))
    clean, faulty = source(CLEAN).batch(every), source(lost(CLEAN)).batch(every)
    raw = source(lost(CLEAN), "ignore").batch(every)
    assert len(raw) == 3
    assert clean[3].shape == clean[0].shape[:4]
    assert clean[3].abs().max() == 0
    assert torch.equal(clean[0], source(CLEAN, "ignore").batch(every)[0])
    assert (faulty[0] - clean[0]).square().mean() < 0.02 * (raw[0] - clean[0]).square().mean()
    seen = faulty[3][:, :, 0].amax((0, 1)) > 0
    assert seen.nonzero().flatten().tolist() == [6, 7]


def encoder(**options):
    torch.manual_seed(0)
    return SkeletonEncoder(graph("kinect20"), dim=16, width=32, depth=0, weighted=True, **options).eval()


def test_without_variances_weights_change_nothing():
    torch.manual_seed(0)
    plain = SkeletonEncoder(graph("kinect20"), dim=16, width=32, depth=0).eval()
    batch = source(CLEAN).batch(np.arange(4))
    torch.testing.assert_close(encoder()(batch).features, plain(batch[:3]).features)


def test_a_joint_of_large_variance_is_read_from_its_neighbours():
    blocks, lengths, people, variance = source(CLEAN).batch(np.arange(4))
    moved = blocks.clone()
    moved[:, :, :, 7] += 5
    network = encoder()

    @torch.no_grad()
    def shift(v):
        return float(
            (network((moved, lengths, people, v)).features - network((blocks, lengths, people, v)).features).norm()
        )

    doubtful = variance.clone()
    doubtful[..., 7] = 1e6
    assert shift(doubtful) < 1e-3 * shift(variance)


def test_the_noise_of_a_token_is_the_mean_of_its_joints():
    blocks, lengths, people, variance = source(lost(CLEAN)).batch(np.arange(4))
    tokens = encoder()((blocks, lengths, people, variance))
    torch.testing.assert_close(tokens.noise, variance.mean(3)[:, :, 0])
    two = torch.cat([variance, torch.full_like(variance, 9.0)], 2)
    absent = torch.cat([people, torch.zeros_like(people)], 1)
    tokens = encoder()((torch.cat([blocks, blocks], 2), lengths, absent, two))
    torch.testing.assert_close(tokens.noise, variance.mean(3)[:, :, 0])


@pytest.mark.parametrize("weighting", ["likelihood", "precision"])
def test_noise_reaches_the_variance_of_the_alignment_without_training(weighting):
    torch.manual_seed(0)
    model = FewShotModel(encoder(), "udtw", "cross_entropy", weighting=weighting).eval()
    clean, faulty = (model.encode(source(one).batch(np.arange(4))) for one in (CLEAN, lost(CLEAN, when=slice(8, 20))))
    hit = faulty.noise > faulty.noise.max() / 2
    assert hit.any()
    assert (faulty.variance[hit] > clean.variance[hit]).all()
    torch.testing.assert_close(faulty.variance[:, 0], clean.variance[:, 0])


def test_recognition_survives_lost_limbs_if_the_confidence_tells():
    recipe = {"n_steps": 20, "dim": 16, "joint_dim": 8, "width": 16, "depth": 0, "n_way": 4, "n_query": 1}
    agree = {}
    for confidence in ("sensor", "ignore"):
        made = ActionRecognizer(Recipe(**recipe, confidence=confidence), CLEAN.graph).fit(CLEAN)
        clean, faulty = made.scores(CLEAN), made.scores(lost(CLEAN, joints=(4, 5, 6, 7)), CLEAN)
        agree[confidence] = np.corrcoef(clean.ravel(), faulty.ravel())[0, 1]
    assert agree["sensor"] > agree["ignore"]


def test_faults_are_stated_where_they_are():
    faults = Faults(dropouts=2.0, jitters=1.0, swaps=1.0)
    stated, silent = faults.of(CLEAN, 3), faults.of(CLEAN, 3, stated=False)
    changed = 0
    for clean, told, untold in zip(CLEAN, stated, silent, strict=True):
        np.testing.assert_array_equal(told.frames, untold.frames)
        assert (untold.confidence == 1).all()
        wrong = (told.frames != clean.frames).any(-1)
        assert (told.confidence[wrong] < 1).all()
        changed += int(wrong.sum())
    assert changed > 0
    assert {float(value) for clip in stated for value in np.unique(clip.confidence)} == {
        0.0,
        *np.float32([0.3, 0.5, 1]),
    }


def test_a_clip_has_the_same_faults_in_any_set():
    faults = Faults()
    np.testing.assert_array_equal(faults.of(CLEAN)[5].frames, faults.of(CLEAN.subset([5]))[0].frames)
    assert (faults.of(CLEAN, 0)[5].frames != faults.of(CLEAN, 1)[5].frames).any()


def test_swapped_limbs_change_sides():
    clip = Faults(dropouts=0, jitters=0, swaps=30, duration=(1.0, 1.0)).of(CLEAN)[0]
    moved = (clip.frames != CLEAN[0].frames).any(-1)[0, 0]
    names = {graph("kinect20").joints[j] for j in np.flatnonzero(moved)}
    assert names
    assert names == {name[:-2] + side for name in names for side in ("_l", "_r")}


def test_wrong_options_are_named():
    with pytest.raises(OptionError, match="Faults need numbers"):
        Faults(dropouts=-1)
    with pytest.raises(OptionError, match="Faults need numbers"):
        Faults(duration=(0.5, 0.2))
    with pytest.raises(OptionError, match="confidence must be one of"):
        source(CLEAN, "guess")
    with pytest.raises(OptionError, match="confidence must be one of"):
        Recipe(confidence="guess")


def with_confidence(actions, make):
    rng = np.random.default_rng(0)
    confidence = [make(rng, clip.frames.shape[:3]) for clip in actions]
    frames = [clip.frames for clip in actions]
    return SkeletonSet.from_arrays(frames, actions.labels, edges="kinect20", confidence=confidence)


def never_at_some_joints(rng, shape):
    found = np.ones(shape, np.float32)
    found[..., [2, 15]] = np.where(rng.random((*shape[:2], 2)) < 0.9, 0, 1)
    return found


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda rng, shape: rng.random(shape), "as plausible as trusted ones"),
        (lambda rng, shape: rng.random(shape) < 0.5, "as plausible as trusted ones"),
        (lambda rng, shape: np.broadcast_to(np.arange(20) != 4, shape), "joint 4 is doubted nearly always"),
        (never_at_some_joints, "joint 2 is doubted nearly always"),
    ],
    ids=["random numbers", "random bits", "a joint never", "joints hardly ever"],
)
def test_a_column_that_predicts_no_error_is_ignored_with_a_warning(make, reason):
    actions = make_actions(4, 5)
    wrong = with_confidence(actions, make)
    layout = graph("kinect20")
    with pytest.warns(UserWarning, match=f"{reason}.*confidence='sensor'"):
        source = SkeletonSource(wrong, wrong.labels, layout, confidence="estimate")
    plain = with_confidence(actions, lambda rng, shape: np.ones(shape))
    expected = SkeletonSource(plain, plain.labels, layout, confidence="estimate")
    for found, wanted in zip(source.batch(np.arange(20)), expected.batch(np.arange(20)), strict=True):
        torch.testing.assert_close(found, wanted)
    insisted = SkeletonSource(wrong, wrong.labels, layout, confidence="sensor")
    assert insisted.batch(np.arange(20))[3].max() > 0


def test_a_sensor_that_knows_its_faults_is_believed():
    for faults in (Faults(), Faults(dropouts=1, jitters=0, swaps=0), Faults(dropouts=0, jitters=1, swaps=0)):
        assert misread_confidence(faults.of(make_actions(4, 5, random_state=3))) is None
    assert misread_confidence(make_actions(3, 2)[:1]) is None


def test_a_recognizer_remembers_that_the_confidence_was_misread(tmp_path):
    actions = make_actions(6, 4)
    wrong = with_confidence(actions, lambda rng, shape: rng.random(shape))
    recipe = Recipe(n_steps=1, n_way=3, n_query=1, dim=8, joint_dim=4, width=8, depth=0)
    with pytest.warns(UserWarning, match="is ignored"):
        found = ActionRecognizer(recipe, "kinect20").fit(wrong)
    found.save(tmp_path / "m.safetensors")
    plain = with_confidence(actions, lambda rng, shape: np.ones(shape))
    again = ActionRecognizer.load(tmp_path / "m.safetensors")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(again.scores(wrong), again.scores(plain))
