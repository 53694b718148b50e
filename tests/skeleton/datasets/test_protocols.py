"""Protocols: disjoint classes by documented rules, and clear words when something is missing."""

import numpy as np
import pytest

from tests.skeleton.datasets.clips import clip
from udtw.errors import DataError, OptionError
from udtw.skeleton.datasets import SkeletonSet, class_split, make_actions, protocol
from udtw.skeleton.datasets.utd_mhad import CLASSES


def one_clip_a_class(name, classes, repeat=2):
    clips = [clip(f"{label} {i}", label=label) for i in range(repeat) for label in range(len(classes))]
    return SkeletonSet.from_clips(name, "toy4", classes, clips)


def assert_disjoint(skeletons, found):
    parts = [found.train, found.validation, found.novel]
    labels = [set(skeletons.labels[part].tolist()) for part in parts]
    assert sum(len(part) for part in parts) == len(np.unique(np.concatenate(parts)))
    assert len(set.union(*labels)) == sum(len(part) for part in labels)
    return [len(part) for part in labels]


def test_utd_mhad_is_split_by_the_last_digit_of_the_action():
    skeletons = one_clip_a_class("utd-mhad", CLASSES)
    split = class_split(skeletons)
    assert [label + 1 for label in split.novel] == [3, 6, 9, 13, 16, 19, 23, 26]
    assert [label + 1 for label in split.validation] == [8, 10, 18, 20]
    found = protocol(skeletons)
    assert assert_disjoint(skeletons, found) == [15, 4, 8]
    assert len(found.train) + len(found.validation) + len(found.novel) == len(skeletons)
    assert found.exemplars is None


def test_synthetic_actions_are_split_for_five_ways():
    skeletons = make_actions(12, 2)
    assert assert_disjoint(skeletons, protocol(skeletons)) == [5, 2, 5]


def test_fewer_training_classes_are_the_first_ones():
    skeletons = one_clip_a_class("utd-mhad", CLASSES)
    found = protocol(skeletons, n_train=3)
    assert sorted(set(skeletons.labels[found.train].tolist())) == [0, 1, 3]
    for count in (0, 16):
        with pytest.raises(OptionError, match="n_train must be from 1 to 15"):
            protocol(skeletons, n_train=count)


def test_an_unknown_set_needs_a_protocol_of_its_own():
    with pytest.raises(OptionError, match="no protocol for 'mine'"):
        protocol(one_clip_a_class("mine", "ab"))


def test_a_class_without_clips_is_named():
    skeletons = one_clip_a_class("utd-mhad", CLASSES).of_classes(range(1, 27))
    with pytest.raises(DataError, match=r"no clips of 1 class\(es\) of the protocol: swipe left"):
        protocol(skeletons)
