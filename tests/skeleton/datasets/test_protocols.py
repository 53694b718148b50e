"""Protocols: disjoint classes by documented rules, and clear errors if clips are missing."""

import numpy as np
import pytest

from tests.skeleton.datasets.clips import clip
from udtw._io.items import Skipped
from udtw.errors import DataError, OptionError
from udtw.skeleton.datasets import SkeletonSet, make_actions, protocol
from udtw.skeleton.datasets.ntu import CLASSES as NTU_CLASSES
from udtw.skeleton.datasets.numbered_sets import UTD_MHAD
from udtw.skeleton.datasets.protocols import class_split

CLASSES = tuple(UTD_MHAD.actions.values())


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
    with pytest.raises(DataError, match=r"no clips of 1 class\(es\) of the protocol: 1 \(swipe left\)"):
        protocol(skeletons)


def ntu(n_classes, leave_out=()):
    """One other clip a class, and the exemplars."""
    names = [f"S002C001P001R001A{a:03d}" for a in range(1, n_classes + 1)]
    names += [f"S{1 if a < 60 else 18:03d}C003P008R001A{a:03d}" for a in range(1, n_classes + 1, 6)]
    clips = [clip(name, label=int(name[-3:]) - 1) for name in sorted(set(names) - set(leave_out))]
    return SkeletonSet.from_clips(f"ntu{n_classes}", "ntu25", NTU_CLASSES[:n_classes], clips)


@pytest.mark.parametrize(("n_classes", "n_novel"), [(60, 10), (120, 20)])
def test_ntu_one_shot(n_classes, n_novel):
    skeletons = ntu(n_classes)
    found = protocol(skeletons)
    assert assert_disjoint(skeletons, found) == [n_classes - n_novel, 0, n_novel]
    first = "001 007 013 019 025 031 037 043 049 055"
    second = "061 067 073 079 085 091 097 103 109 115"
    expected = [f"S001C003P008R001A{a}" for a in first.split()] + [f"S018C003P008R001A{a}" for a in second.split()]
    assert [skeletons.names[i] for i in found.exemplars] == expected[:n_novel]
    assert skeletons.labels[found.exemplars].tolist() == list(range(0, n_classes, 6))
    assert not set(found.exemplars.tolist()) & set(found.novel.tolist())
    assert len(found.novel) == n_novel


@pytest.mark.parametrize("n_train", [20, 40, 60, 80, 100])
def test_ntu_120_with_fewer_training_classes(n_train):
    skeletons = ntu(120)
    labels = sorted(set(skeletons.labels[protocol(skeletons, n_train=n_train).train].tolist()))
    assert labels == [label for label in range(120) if label % 6][:n_train]


def test_validation_classes_can_be_taken_from_training():
    skeletons = ntu(60)
    found = protocol(skeletons, n_train=40, n_validation=10)
    assert assert_disjoint(skeletons, found) == [40, 10, 10]
    assert skeletons.labels[found.validation].min() > skeletons.labels[found.train].max()
    for wrong in (0, 50):
        with pytest.raises(OptionError, match="n_validation"):
            protocol(skeletons, n_validation=wrong)
    with pytest.raises(OptionError, match="has 4 validation classes already"):
        protocol(one_clip_a_class("utd-mhad", CLASSES), n_validation=2)


def test_missing_exemplars_are_named():
    skeletons = ntu(60, leave_out=["S001C003P008R001A007", "S001C003P008R001A055"])
    with pytest.raises(
        DataError, match=r"2 of the 10 exemplars .* missing: S001C003P008R001A007, S001C003P008R001A055"
    ):
        protocol(skeletons)
    clips = list(skeletons)
    reason = [Skipped("S001C003P008R001A007", "x.skeleton, line 3: nonsense.")]
    skeletons = SkeletonSet.from_clips("ntu60", "ntu25", NTU_CLASSES[:60], clips, skipped=reason)
    with pytest.raises(DataError, match=r"A007 was skipped: x.skeleton, line 3"):
        protocol(skeletons)


def test_kinetics_trains_on_the_first_200_classes():
    skeletons = one_clip_a_class("kinetics", [f"class {i}" for i in range(400)], repeat=1)
    assert assert_disjoint(skeletons, protocol(skeletons)) == [200, 0, 200]
    assert protocol(skeletons).novel.min() == 200
    with pytest.raises(DataError, match="none is novel"):
        protocol(one_clip_a_class("kinetics-3d", "ab"))


def test_natops():
    skeletons = one_clip_a_class("natops", [str(i) for i in range(1, 7)])
    assert assert_disjoint(skeletons, protocol(skeletons)) == [3, 1, 2]
    assert class_split(skeletons).novel == (2, 5)
