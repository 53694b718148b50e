"""The third tab: clips have the right labels, and matching frames are found."""

import numpy as np
import pytest

from tests.explorer.helpers import SKELETONS
from udtw.errors import OptionError
from udtw.explorer.skeleton_tab import SkeletonTab


@pytest.fixture(scope="module")
def tab():
    return SkeletonTab()


def test_a_clip_matches_itself_frame_by_frame(tab):
    *_, result = tab.aligned(SKELETONS | {"y-item": 0, "gamma": -3})
    assert (result.coupling.argmax(1) == np.arange(len(result.x))).all()
    titles = [
        note["text"] for note in tab.update(SKELETONS | {"y-item": 0, "gamma": -3})["match"]["layout"]["annotations"]
    ]
    assert all(f"frame {result.frame}" in title for title in titles)


def test_every_item_is_the_clip_of_its_label(tab):
    for action in tab.choices.sets:
        for item, label in enumerate(tab.choices.items(action)):
            chosen = tab.choices.pick(action, item)
            assert tab.choices.clips.classes[chosen.clip.label] == action
            assert label.endswith(f"person {chosen.clip.subject}")


def test_known_variance_marks_the_frames_in_which_a_limb_was_lost(tab):
    values = SKELETONS | {"variance": "known"}
    x, _, _, result = tab.aligned(values)
    np.testing.assert_array_equal(result.var_x > 1, x.lost.any(1))


def test_the_frame_follows_the_slider(tab):
    for share, expected in ((0, 0), (100, -1)):
        *_, result = tab.aligned(SKELETONS | {"frame": share})
        assert result.frame == range(len(result.x))[expected]


@pytest.mark.parametrize("change", [{"x-set": "../x"}, {"x-item": 99}, {"frame": 101}, {"variance": None}], ids=str)
def test_values_outside_the_range_of_a_control_are_refused(tab, change):
    with pytest.raises(OptionError):
        tab.update(SKELETONS | change)
