"""NTU RGB+D: parsing, which bodies are people, and only named errors from damaged files."""

import random
import tracemalloc
from collections import Counter

import numpy as np
import pytest

from tests.skeleton.datasets.clips import outcome
from tests.skeleton.datasets.ntu_files import lying, mutate, ntu_text, seen, small_files, standing
from udtw.errors import DataError, UdtwError
from udtw.skeleton.datasets import load_skeletons
from udtw.skeleton.datasets.clip import Clip
from udtw.skeleton.datasets.ntu import CLASSES, MAX_BYTES, parse, read_skeleton

NAME = "S001C002P003R002A059"


@pytest.fixture
def read(tmp_path):
    """Frames of a file with the given text."""
    path = tmp_path / f"{NAME}.skeleton"

    def write_and_read(text):
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_skeleton(path)[0]

    return write_and_read


def test_one_person(read):
    joints = standing(5)
    frames = read(ntu_text(5, {"72057594037931101": seen(joints)}))
    assert frames.shape == (5, 1, 25, 3)
    assert frames.dtype == np.float32
    np.testing.assert_array_equal(frames[:, 0], joints.astype(np.float32))


def test_states_of_tracking_are_confidences(tmp_path):
    path = tmp_path / f"{NAME}.skeleton"
    lines = ntu_text(2, {"1": seen(standing(2))}).split("\n")
    lines[4] = lines[4][:-1] + "0"  # first joint of the first frame: not tracked
    lines[5] = lines[5][:-1] + "1"  # second: inferred
    lines[6] = "0 0 0 " + lines[6].split(" ", 3)[3]  # third: at the camera
    path.write_text("\n".join(lines))
    frames, confidence = read_skeleton(path)
    assert confidence.shape == (2, 1, 25)
    assert confidence[0, 0, :4].tolist() == [0, 0.5, 0, 1]
    assert confidence[1].min() == 1
    assert np.isfinite(frames[0, 0, :2]).all()
    path.write_text("\n".join(lines).replace("-0.1 1\n", "-0.1 7\n"))
    with pytest.raises(DataError, match=r"line 6: found '7' where the state of tracking belongs"):
        read_skeleton(path)


def test_two_people_the_one_with_more_motion_first(read):
    calm, lively = standing(20, 1, moves=0.01), standing(16, 2, moves=0.3)
    frames = read(ntu_text(20, {"1": seen(calm), "2": seen(lively, 3)}))
    assert frames.shape == (20, 2, 25, 3)
    np.testing.assert_array_equal(frames[3:19, 0], lively.astype(np.float32))
    np.testing.assert_array_equal(frames[:, 1], calm.astype(np.float32))
    assert np.isnan(frames[:3, 0]).all()
    assert np.isnan(frames[19:, 0]).all()


def test_false_detections_are_left_out(read):
    person = standing(20, 1, moves=0.01)
    ghosts = {"wide": seen(lying(20)), "short": seen(standing(11, 3, moves=1.0), 2)}
    frames = read(ntu_text(20, {**ghosts, "person": seen(person)}))
    assert frames.shape == (20, 1, 25, 3)
    np.testing.assert_array_equal(frames[:, 0], person.astype(np.float32))


def test_of_three_people_the_two_with_most_motion_stay(read):
    people = {str(i): seen(standing(15, i, moves=0.1 * i)) for i in (1, 2, 3)}
    frames = read(ntu_text(15, people))
    np.testing.assert_array_equal(frames[:, 0], standing(15, 3, moves=0.1 * 3).astype(np.float32))
    np.testing.assert_array_equal(frames[:, 1], standing(15, 2, moves=0.2).astype(np.float32))


@pytest.mark.parametrize("bodies", [{"1": seen(lying(20))}, {"1": seen(standing(3))}])
def test_the_only_body_is_kept_in_any_shape(read, bodies):
    assert read(ntu_text(20, bodies)).shape == (len(bodies["1"]), 1, 25, 3)


def test_frames_without_a_person_are_dropped(read):
    joints = standing(30)
    where = [*range(4, 16), *range(20, 25)]
    frames = read(ntu_text(30, {"1": {i: joints[i] for i in where}}))
    np.testing.assert_array_equal(frames[:, 0], joints[where].astype(np.float32))


def test_missing_joints(read):
    joints = standing(4)
    joints[1, 3], joints[2, 4, 1], joints[3, 5, 2] = 0, np.nan, -np.inf
    frames = read(ntu_text(4, {"1": seen(joints)}))
    assert np.argwhere(np.isnan(frames).all(-1))[:, [0, 2]].tolist() == [[1, 3], [2, 4], [3, 5]]
    assert np.isnan(frames).sum() == 9


def test_unused_values_may_be_anything(read):
    text = ntu_text(2, {"1": seen(standing(2))}).replace("277.4 191.8", "-Infinity NaN").replace("\n", " \r\n")
    assert read(text).shape == (2, 1, 25, 3)


WHOLE = ntu_text(13, {"1": seen(standing(13)), "2": seen(standing(13, 1))})
LINES = WHOLE.split("\n")


def with_line(number, text):
    return "\n".join([*LINES[: number - 1], text, *LINES[number:]])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("\n \n", "is empty"),
        (with_line(1, "999999999"), "line 1: found '999999999' where the number of frames belongs.*up to 10000"),
        (with_line(1, "14"), "the file ends where the number of bodies in frame 14 should follow"),
        (with_line(1, "12"), "line 662: found '2' after the last of 12 frames"),
        (with_line(1, "-3"), "line 1: found '-3' where the number of frames"),
        (with_line(2, "1000000"), "line 2: found '1000000' where the number of bodies in frame 1 belongs"),
        (with_line(3, "1 2 3"), "line 3: found 3 values where the 10 of a body belong"),
        (with_line(4, "20"), "line 4: found '20' joints instead of 25"),
        (with_line(30, LINES[2]), "line 30: found body '1' for the second time in frame 1"),
        (with_line(7, "0.1 0.2 0.3"), "line 7: found 3 values where the 12 of a joint belong"),
        (with_line(7, "a b c 4 5 6 7 8 9 10 11 12"), "line 7: found 'a b c' where x, y and z belong"),
        (WHOLE[:-500], "the file ends where the joints of frame 13 should follow"),
        (b"\xff\xfe\x00" + WHOLE.encode(), r"line 1: found '.xff.xfe"),
        ("2\n0\n0\n", "no body in any of its 2 frames.*published list"),
        ("0\n", "no body in any of its 0 frames"),
    ],
)
def test_damage_is_named_with_its_line(read, text, said):
    with pytest.raises(DataError, match=rf"(?s){NAME}\.skeleton.*{said}"):
        read(text)


def test_a_file_larger_than_any_recording_is_not_read(read):
    with pytest.raises(DataError, match="more than a file of this set"):
        read(b"1\n" * (MAX_BYTES // 2 + 1))


def test_a_count_does_not_decide_how_much_memory_is_used():
    tracemalloc.start()
    for text in (with_line(1, "10000"), with_line(2, "6"), "10000\n" + "0\n" * 50, with_line(4, "999999999")):
        assert isinstance(outcome(parse, text.encode(), "x"), UdtwError)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * 2**20


def survive(path, count, seed):
    rng = random.Random(seed)
    files = small_files()
    outcomes = Counter()
    for _ in range(count):
        path.write_bytes(mutate(rng.choice(files), rng))
        result = outcome(read_skeleton, path)
        if isinstance(result, UdtwError):
            assert path.name in str(result)
            assert any(word in str(result) for word in (", line ", "is empty", "no body in any"))
        else:
            assert not np.isinf(result[0]).any()
            result = outcome(Clip.of, result, 0, path.name)
            assert isinstance(result, Clip) or "no joint is tracked" in str(result)
        outcomes[type(result).__name__] += 1
    assert set(outcomes) == {"Clip", "DataError"}
    assert min(outcomes.values()) > count / 50


def test_a_thousand_mutated_files(tmp_path):
    survive(tmp_path / f"{NAME}.skeleton", 1000, seed=0)


def write_samples(folder, names):
    for i, name in enumerate(names):
        place = folder / ("a" if i % 2 else "b")
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{name}.skeleton").write_text(ntu_text(2 + i, {"1": seen(standing(2 + i))}))


SAMPLES = ["S001C001P001R001A001", "S001C003P008R001A001", "S017C002P020R002A060", "S018C003P008R001A061"]


def test_a_folder_of_files_serves_both_sets(tmp_path):
    write_samples(tmp_path, SAMPLES)
    (tmp_path / "S001C001P001R001A002.txt").write_text("no skeleton")
    sixty, all_of_them = (load_skeletons(name, tmp_path) for name in ("ntu60", "ntu120"))
    assert sixty.names == tuple(SAMPLES[:3])
    assert all_of_them.names == tuple(SAMPLES)
    assert (len(sixty.classes), len(all_of_them.classes)) == (60, 120)
    assert all_of_them.labels.tolist() == [0, 0, 59, 60]
    assert all_of_them.subjects.tolist() == [1, 8, 20, 8]
    assert all_of_them.cameras.tolist() == [1, 3, 2, 3]
    assert all_of_them.graph == "ntu25"
    assert [len(clip) for clip in all_of_them] == [2, 3, 4, 5]


def test_samples_of_a_list_are_left_out(tmp_path):
    write_samples(tmp_path, SAMPLES)
    listed = tmp_path / "missing.txt"
    listed.write_text(f"The samples with missing skeletons:\n\n{SAMPLES[2]}\n{SAMPLES[0]}.skeleton\r\n")
    skeletons = load_skeletons("ntu60", tmp_path, ignore=listed)
    assert skeletons.names == (SAMPLES[1],)
    assert [one.name for one in skeletons.skipped] == [SAMPLES[0], SAMPLES[2]]
    assert "missing.txt" in skeletons.skipped[0].reason
    listed.write_text("nothing")
    with pytest.raises(DataError, match=r"missing.txt names no samples"):
        load_skeletons("ntu60", tmp_path, ignore=listed)
    with pytest.raises(DataError, match="cannot be read"):
        load_skeletons("ntu60", tmp_path, ignore=tmp_path / "none.txt")


def test_a_folder_without_them_says_what_was_expected(tmp_path):
    with pytest.raises(DataError, match=r"expected files such as S001C001P001R001A001.skeleton"):
        load_skeletons("ntu120", tmp_path)


def test_names_of_the_classes():
    assert len(set(CLASSES)) == 120
    assert [CLASSES[i - 1] for i in (1, 43, 60, 61, 120)] == [
        "drink water",
        "falling",
        "walking apart from each other",
        "put on headphone",
        "finger-guessing game (playing rock-paper-scissors)",
    ]
