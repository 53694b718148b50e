import numpy as np
import pytest

from udtw.errors import LengthError, OptionError
from udtw.skeleton.blocks import block_spans, block_starts, cut_blocks


@pytest.mark.parametrize(
    ("frames", "size", "stride", "starts"),
    [
        (20, 8, 4, [0, 4, 8, 12]),
        (21, 8, 4, [0, 4, 8, 12, 13]),
        (8, 8, 4, [0]),
        (9, 8, 4, [0, 1]),
        (3, 8, 4, [0]),
        (5, 1, 2, [0, 2, 4]),
        (10, 4, 20, [0, 6]),
    ],
)
def test_the_last_block_ends_with_the_clip(frames, size, stride, starts):
    assert block_starts(frames, size, stride).tolist() == starts


def test_blocks_hold_consecutive_frames_and_short_clips_repeat_their_last():
    frames = np.arange(10)[:, None, None, None] * np.ones((1, 1, 2, 3))
    blocks = cut_blocks(frames, 4, 3)
    assert blocks[:, :, 0, 0, 0].tolist() == [[0, 1, 2, 3], [3, 4, 5, 6], [6, 7, 8, 9]]
    assert cut_blocks(frames[:2], 4, 3)[:, :, 0, 0, 0].tolist() == [[0, 1, 1, 1]]


def test_spans_stay_within_the_clip():
    assert block_spans(10, 4, 4).tolist() == [[0, 4], [4, 8], [6, 10]]
    assert block_spans(3, 4, 4).tolist() == [[0, 3]]


def test_nonsense_is_refused():
    with pytest.raises(OptionError, match="at least one frame"):
        block_starts(5, 0, 1)
    with pytest.raises(LengthError, match="without frames"):
        block_starts(0, 4, 2)
