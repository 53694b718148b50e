"""Generated actions: reproducible, different between classes, similar within one, with the bursts the mask says."""

import numpy as np
import pytest

from tests.skeleton.datasets.clips import same
from udtw import dtw
from udtw.errors import OptionError
from udtw.skeleton.datasets import load_skeletons, make_actions
from udtw.skeleton.datasets.stick_figure import ACTIONS, actions
from udtw.skeleton.datasets.synthetic import Sensor

CLEAN = Sensor(noise=0.0, bursts=0.0)


def test_shapes_lengths_and_labels():
    skeletons = make_actions(18, 3, random_state=1)
    assert len(skeletons) == 54
    assert np.bincount(skeletons.labels).tolist() == [3] * 18
    assert skeletons.graph == "kinect20"
    assert len(set(skeletons.names)) == 54
    lengths = [len(clip) for clip in skeletons]
    assert min(lengths) >= 30
    assert max(lengths) <= 90
    assert len(set(lengths)) > 10
    assert all(clip.frames.shape[1:] == (1, 20, 3) for clip in skeletons)
    assert set(skeletons.subjects.tolist()) <= set(range(1, 9))


def test_the_seed_decides_everything():
    one, other = make_actions(6, 2, random_state=3), make_actions(6, 2, random_state=3)
    assert all(same(a, b) for a, b in zip(one, other, strict=True))
    assert not same(one[0], make_actions(6, 2, random_state=4)[0])


def test_a_clip_does_not_depend_on_how_many_are_made():
    few, more = make_actions(3, 1), make_actions(14, 4)
    by_name = dict(zip(more.names, more, strict=True))
    assert all(same(clip, by_name[clip.name]) for clip in few)


def test_classes_are_closer_to_themselves_than_to_others():
    skeletons = make_actions(16, 2, sensor=CLEAN, style=0.3)
    series = [
        (clip.frames[:, 0] - clip.frames[:, 0, 3:4]).reshape(len(clip), -1).astype(np.float64) for clip in skeletons
    ]
    for label in range(16):
        query = series[16 + label]
        assert int(np.argmin([dtw(query, series[other]) for other in range(16)])) == label


def test_without_style_clips_of_a_class_differ_only_in_speed_and_place():
    one, other = make_actions(1, 2, sensor=CLEAN, style=0)
    start = [clip.frames[0, 0] - clip.frames[0, 0, 3] for clip in (one, other)]
    np.testing.assert_allclose(*start, atol=1e-6)
    assert len(one) != len(other)


def test_bursts_are_where_the_mask_says():
    sensor = Sensor(noise=0.0, bursts=2.0, missing=0.5)
    noisy, masks = make_actions(4, 10, sensor=sensor, return_unreliable=True)
    clean = make_actions(4, 10, sensor=CLEAN)
    assert any(mask.any() for mask in masks)
    assert any(np.isnan(clip.frames).any() for clip in noisy)
    for one, other, mask in zip(noisy, clean, masks, strict=True):
        assert np.array_equal(one.frames[:, 0][~mask], other.frames[:, 0][~mask])
        assert not (one.frames[:, 0][mask] == other.frames[:, 0][mask]).any()


def test_any_number_of_actions_can_be_generated():
    named, more = actions(12), actions(60, seed=5)
    assert len(ACTIONS) >= 12
    assert tuple(named) == tuple(ACTIONS)[:12]
    assert len(more) == len(set(more.values())) == 60
    assert actions(30, seed=5)["invented 25"] == more["invented 25"]


def test_it_is_loaded_by_name_without_data():
    assert load_skeletons("synthetic").name == "synthetic"


@pytest.mark.parametrize(("args", "said"), [((0, 1), "n_classes"), ((1, 0), "n_clips")])
def test_impossible_sizes_are_refused(args, said):
    with pytest.raises(OptionError, match=said):
        make_actions(*args)
    with pytest.raises(OptionError, match="style"):
        make_actions(1, 1, style=float("nan"))
    with pytest.raises(OptionError, match="bursts of the sensor"):
        Sensor(bursts=-1)
