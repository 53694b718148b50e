"""Series to choose from: names that the browser sends are only looked up in the server's list."""

import numpy as np
import pytest

from tests.explorer.helpers import data_url
from udtw.errors import DataError, OptionError, UdtwError
from udtw.explorer.series_choices import GENERATED, SeriesChoices
from udtw.explorer.uploads import UPLOAD


@pytest.fixture
def archive(tmp_path):
    """Two small sets of the UCR archive, one of them with missing values, and a file that belongs to neither."""
    folder = tmp_path / "ucr"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for name, gap in (("Waves", False), ("Gaps", True)):
        for split in ("TRAIN", "TEST"):
            rows = [[str(label), *map(str, rng.standard_normal(12).round(4))] for label in (1, 2, 1)]
            if gap:
                rows[0][4] = "NaN"
            (folder / f"{name}_{split}.tsv").write_text("\n".join("\t".join(row) for row in rows))
    (tmp_path / "secret_TRAIN.tsv.bak").write_text("1\t2\t3\n")
    return tmp_path


def test_without_a_folder_there_are_generated_sets_and_uploads():
    assert list(SeriesChoices().sets) == ["warps", *GENERATED, UPLOAD]


def test_sets_of_the_archive_are_listed_and_read(archive):
    choices = SeriesChoices(archive)
    assert [name for name in choices.sets if name.startswith("ucr-")] == ["ucr-Gaps", "ucr-Waves"]
    assert choices.items("ucr-Waves") == ["No. 1: class 1", "No. 2: class 2", "No. 3: class 1"]
    chosen = choices.pick("ucr-Waves", 1)
    assert chosen.values.shape == (12, 1)
    assert chosen.code == "udtw.data.load_ucr('Waves').train.X[1]"
    assert str(archive) not in chosen.code + chosen.label


def test_a_series_with_missing_values_is_named(archive):
    with pytest.raises(DataError, match=r"Gaps.*missing values"):
        SeriesChoices(archive).pick("ucr-Gaps", 0)


@pytest.mark.parametrize("name", GENERATED)
def test_generated_series_have_the_right_names_and_lengths(name):
    choices = SeriesChoices()
    assert len(choices.pick(name, 0).values) == int(name.rpartition("-")[2])
    assert any(word in choices.items(name)[0] for word in GENERATED[name].classes)


@pytest.mark.parametrize(
    "name",
    ["../../etc/passwd", "/etc/passwd", "ucr-../../etc/passwd", "ucr-", "secret", "ucr-secret", "", None, 3,
     ["cbf-128"], "ucr-Waves\0", "ucr-Waves/../Waves"],
)  # fmt: skip
def test_names_that_are_not_on_the_list_are_refused(archive, name):
    choices = SeriesChoices(archive)
    for ask in (choices.items, lambda one: choices.pick(one, 0)):
        with pytest.raises(OptionError, match="must be one of"):
            ask(name)


@pytest.mark.parametrize("item", [-1, 12, 1.5, None, "0", True, [0], float("nan"), 1e99])
def test_numbers_that_are_not_on_the_list_are_refused(item):
    with pytest.raises(OptionError, match="The series must"):
        SeriesChoices().pick("cbf-128", item)


def test_an_upload_is_chosen_by_its_key():
    choices = SeriesChoices()
    with pytest.raises(DataError, match="Waiting for a second file"):
        choices.pick(UPLOAD, None)
    key, described = choices.upload(data_url(b"1\n2\n4\n"), "../mine.csv")
    assert described == "mine.csv: 3 steps"
    chosen = choices.pick(UPLOAD, None, key)
    np.testing.assert_array_equal(chosen.values, [[1], [2], [4]])
    with pytest.raises(UdtwError, match="Upload it again"):
        choices.pick(UPLOAD, None, "../mine.csv")
