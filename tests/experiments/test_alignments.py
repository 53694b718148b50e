"""Pairs with known alignments: tiny files are read, truths are right, scores are exact, and a run is reported."""

import zipfile
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from experiments import Document, Unit
from experiments.alignments import comparison, cores, following, left_out, methods, notes, synthetic, vienna
from experiments.alignments.pairs import Estimate, Pair, pooled, score
from experiments.registry import experiment, units_of
from udtw.cli.app import app
from udtw.errors import DataError, OptionError

HEAD = "info(matchFileVersion,1.0.0).\ninfo(midiClockUnits,480).\ninfo(midiClockRate,500000).\n"
"""960 ticks per second."""
PITCHES = {60: "[C,n],4", 64: "[E,n],4", 67: "[G,n],4", 62: "[D,n],4"}


def line(name: str, beat: float, pitch: int, onset: int, length: int = 400) -> str:
    score = f"snote({name},{PITCHES[pitch]},1:1,0,1/4,{beat:.4f},{beat + 1:.4f},[v1,staff1])"
    return f"{score}-note(n{name},{pitch},{onset},{onset + length},80,0,0).\n"


def performance(tempo: float) -> str:
    """A scale of 24 notes, a chord at the end, a deletion and an insertion."""
    notes = "".join(
        line(f"s{i}", i, list(PITCHES)[(i * i) % 4], 240 + int(480 * tempo * i + 60 * np.sin(i))) for i in range(24)
    )
    end = 240 + int(480 * tempo * 24)
    chord = line("c1", 24, 60, end) + line("c2", 24, 64, end + 96)
    left_out = "snote(x1,[C,n],4,1:1,0,1/4,3.5000,4.0000,[v1,staff1])-deletion.\n"
    return HEAD + notes + chord + left_out + f"insertion-note(n99,67,{end + 200},{end + 300},60,0,0).\nsustain(0,6).\n"


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    (folder / "alignments" / "vienna4x22").mkdir(parents=True)
    with zipfile.ZipFile(folder / "alignments" / "vienna4x22" / "match.zip", "w") as files:
        for piece in vienna.PIECES:
            for pianist in vienna.PIANISTS:
                files.writestr(f"match/{piece}_p{pianist:02d}.match", performance(0.8 + 0.02 * pianist))
    write_cores(folder / "alignments" / "cores")
    return str(folder)


def write_cores(folder) -> None:
    """One core of 30 samples (one of them measured twice) whose depth in meters is a tenth of its age in kyr."""
    rng = np.random.default_rng(0)
    age = np.arange(0.0, 30.0)
    values = 4 + np.sin(age / 4)
    band = "depth lower_95 lower_68 median mean upper_68 upper_95\n"
    (folder / "stacks").mkdir(parents=True)
    (folder / "bigmacs").mkdir()
    rows = [f"{a} {v} 0.1" for a, v in zip(np.arange(60.0), 4 + np.sin(np.arange(60.0) / 4), strict=True)]
    (folder / "stacks" / "Prob-Stack.txt").write_text("Age mean sigma\n" + "\n".join(rows))
    for name in cores.CORES:
        (folder / "records" / name).mkdir(parents=True)
        samples = [f"{a / 10:.2f}\t{v + 0.05 * rng.standard_normal():.4f}" for a, v in zip(age, values, strict=True)]
        text = "\n".join(["depth\td18O", *samples[::-1], "2.90\t9.0"])
        (folder / "records" / name / "d18O_data.txt").write_text(text)
        ages = [f"{a / 10} {a - 2} {a - 1} {a} {a} {a + 1} {a + 2}" for a in age]
        (folder / "bigmacs" / f"{name}-ages.txt").write_text(band + "\n".join(ages))
        dated = [f"{a / 10} {a - 1} {a - 0.5} {a} {a} {a + 0.5} {a + 1}" for a in (5.5, 12.0, 40.0)]
        (folder / "bigmacs" / f"{name}-c14-ages.txt").write_text(band + "\n".join(dated))


def test_a_match_file_gives_seconds_and_matched_notes():
    notes = vienna.parse_match(performance(1.0))
    assert len(notes.onset) == 24 + 2 + 1  # the deletion has no note, the insertion has one
    assert notes.onset[0] == pytest.approx(0.25)
    assert notes.velocity[0] == pytest.approx(80 / 127)
    assert notes.matched["s3"][0] == 3.0
    assert "x1" not in notes.matched
    assert len(notes.matched) == 26


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD + "snote(a,[C,n],4,1:1,0,1/4,0.0,1.0,[v1])-note(n0,60,0,9).\n", "line 4"),
        (HEAD + "what is this\n", "line 4"),
        (HEAD + 2 * line("s1", 0, 60, 240), "matched twice"),
        (HEAD, "no performed notes"),
        (line("s1", 0, 60, 240), "midiClockRate"),
    ],
)
def test_a_damaged_match_file_is_refused(text, message):
    with pytest.raises(DataError, match=message):
        vienna.parse_match(text)


def test_energy_is_that_of_decaying_notes_in_their_pitch_class():
    notes = vienna.parse_match(HEAD + line("s1", 0, 60, 240, 960) + line("s2", 1, 64, 1200, 960))
    energy = vienna.frame_energy(notes, 50)
    total = energy.sum(0) / 50
    decay = np.exp(-1 / vienna.DECAY)
    expected = (80 / 127) ** 2 * (vienna.DECAY * (1 - decay) + vienna.RELEASE * decay)
    assert total[0] == pytest.approx(expected, rel=1e-3)
    assert np.flatnonzero(total).tolist() == [0, 4]
    assert energy[:49, 4].max() == 0  # frame 50 is centered at the second onset
    assert energy[50, 4] > 0


def test_features_are_of_unit_length_and_in_decibels(data_dir):
    notes = vienna.load_performance(vienna.PIECES[0], 3, data_dir)
    chroma, loudness = (vienna.features(notes, 24, feature) for feature in vienna.FEATURES)
    assert chroma.shape == (len(loudness), 12)
    size = np.linalg.norm(chroma, axis=1)
    assert size.max() < 1
    assert np.median(size) > 0.99
    louder = vienna.Performance(notes.pitch, 2 * notes.velocity, notes.onset, notes.release, notes.matched)
    assert vienna.features(louder, 24, "loudness") == pytest.approx(loudness + 20 * np.log10(2))
    with pytest.raises(OptionError, match="chroma, loudness"):
        vienna.features(notes, 24, "mfcc")


def test_true_positions_are_those_of_the_matched_notes(data_dir):
    pair = vienna.pair(vienna.PIECES[1], (1, 9), 50, "chroma", data_dir)
    x, y = (vienna.load_performance(vienna.PIECES[1], pianist, data_dir) for pianist in (1, 9))
    at = np.flatnonzero(np.isfinite(pair.truth))
    assert len(pair.truth) == len(pair.x)
    assert pair.step == 20
    assert (np.diff(pair.truth[at]) > 0).all()
    assert pair.truth[0] == 0  # the first onsets
    fifth = [one.onset[one.matched["s5"][1]] - one.onset.min() for one in (x, y)]
    assert pair.truth[round(50 * fifth[0])] == pytest.approx(50 * fifth[1], abs=1)
    # The chord stands at the mean of its onsets.
    chord = [np.mean([one.onset[one.matched[c][1]] for c in ("c1", "c2")]) - one.onset.min() for one in (x, y)]
    assert at[-1] <= 50 * chord[0] <= at[-1] + 1
    same = vienna.pair(vienna.PIECES[1], (4, 4), 50, "chroma", data_dir)
    at = np.flatnonzero(np.isfinite(same.truth))
    assert same.truth[at] == pytest.approx(at)


def test_pairs_of_pianists_are_drawn_by_the_seed(data_dir):
    first, again, other = ([p.name for p in vienna.draw_pairs(4, 8, "loudness", s, data_dir)] for s in (0, 0, 1))
    assert first == again != other
    assert [name.split()[0] for name in first] == list(vienna.PIECES)


def test_missing_files_are_named(tmp_path):
    with pytest.raises(DataError, match=r"vienna4x22/match\.zip"):
        vienna.load_performance(vienna.PIECES[0], 1, tmp_path)
    with pytest.raises(DataError, match="Prob-Stack"):
        cores.load_core(cores.CORES[0], tmp_path)
    with pytest.raises(OptionError, match="pianist 1 to 22"):
        vienna.load_performance(vienna.PIECES[0], 23, tmp_path)
    (tmp_path / "match.zip").write_bytes(b"no zip")
    with pytest.raises(DataError, match="damaged"):
        vienna.load_performance(vienna.PIECES[0], 1, tmp_path)


def test_a_core_is_sorted_and_has_dated_depths(data_dir):
    core = cores.load_core("SU81-18", data_dir)
    assert core.depth == pytest.approx(np.arange(30) / 10)
    assert core.x[-1] == pytest.approx((4 + np.sin(29 / 4) + 9) / 2, abs=0.2)  # replicates are averaged
    assert core.age.tolist() == np.arange(30).tolist()  # to the published age of the lowest sample
    assert core.sigma == pytest.approx(0.1)
    at, truth, error = core.checks()
    assert at == pytest.approx([5.5, 12])  # the third lies below the core
    assert truth == pytest.approx([5.5, 12])
    assert error == pytest.approx(0.5)
    finer = cores.load_core("SU81-18", data_dir, spacing=0.05, step=0.5, until=40)
    assert (len(finer.x), len(finer.y), finer.age[-1]) == (59, 81, 40)
    assert finer.checks().truth == pytest.approx([11, 24])
    assert finer.checks().error == pytest.approx(1.0)


def test_a_damaged_table_is_refused(data_dir, tmp_path):
    path = tmp_path / "table.txt"
    path.write_text("depth d18O\n1 2\n2 x\n")
    with pytest.raises(DataError, match="table of numbers"):
        cores.read_numbers(path, 2)
    path.write_text("depth d18O\n1\n2\n")
    with pytest.raises(DataError, match="at least 2 columns"):
        cores.read_numbers(path, 2)
    with pytest.raises(OptionError, match="SU81-18"):
        cores.load_core("other", data_dir)


@pytest.mark.parametrize("regime", [one for one in synthetic.REGIMES if one != "lag 20"])
def test_generated_pairs_are_warped_copies_that_one_thing_spoils(regime):
    pair = synthetic.pair(regime, 1.0, [3, 1])
    assert pair.x.shape == pair.y.shape == pair.truth.shape == (synthetic.STEPS,)
    assert pair.truth[[0, -1]] == pytest.approx([0, synthetic.STEPS - 1])
    assert (np.diff(pair.truth) > 0).all()
    assert np.array_equal(pair.x, synthetic.pair(regime, 1.0, [3, 1]).x)
    weak, strong = (np.mean([off(synthetic.pair(regime, s, [3, i])) for i in range(10)]) for s in (0.5, 1.5))
    if regime != "noiseless":
        assert strong > 1.1 * weak
    same = synthetic.pair("white 0.1", 1.0, [3, 1])
    assert regime == "noiseless" or np.array_equal(pair.truth, same.truth)


def off(pair: Pair) -> float:
    """Root mean square of the difference between x and y at the true positions."""
    return float(np.sqrt(np.mean((pair.x - np.interp(pair.truth, np.arange(len(pair.y)), pair.y)) ** 2)))


def test_a_lag_has_no_partner_at_one_end():
    pair = synthetic.pair("lag 20", 1.0, 5)
    inside = np.isfinite(pair.truth)
    assert inside.tolist() == [True] * 80 + [False] * 20
    assert pair.truth[:80].tolist() == list(range(20, 100))
    assert np.std(pair.x[:80] - pair.y[20:]) == pytest.approx(np.sqrt(2) * synthetic.NOISE, rel=0.3)
    assert synthetic.pair("lag 20", 1.5, 5).truth[0] == 30
    with pytest.raises(OptionError, match="strength"):
        synthetic.pair("lag 20", 4.0)
    with pytest.raises(OptionError, match="bursts"):
        synthetic.pair("what")


def test_smooth_series_and_autoregressive_noise_have_the_stated_size():
    rng = np.random.default_rng(1)
    series = np.stack([synthetic.smooth_series(rng) for _ in range(400)])
    assert series.std() == pytest.approx(1, abs=0.05)
    noise = synthetic.autoregressive(rng, 0.9, 0.3, 50_000)
    assert noise.std() == pytest.approx(0.3, rel=0.05)
    assert np.corrcoef(noise[1:], noise[:-1])[0, 1] == pytest.approx(0.9, abs=0.02)


def test_unrelated_pairs_have_no_truth(data_dir):
    pairs = list(synthetic.unrelated_pairs(8, 0, data_dir))
    assert [pair.name for pair in pairs] == list(synthetic.UNRELATED) * 2
    for pair in pairs:
        assert np.isnan(pair.truth).all()
        assert len(pair.checks().at) == 0
        assert np.isfinite(pair.x).all()
    assert len({pair.x.tobytes() for pair in pairs}) == 8
    with pytest.raises(OptionError, match="random walks"):
        synthetic.unrelated_pair("twins")


def test_scores_count_half_a_step_and_steps_without_estimate():
    truth = np.array([0.0, 1.4, np.nan, 3.6, 4.0])
    pair = Pair("test", np.zeros(5), np.zeros(5), truth, step=10)
    expected = np.array([0.0, 1.0, 2.0, 3.0, np.nan])
    low, high = np.array([0.0, 1, 2, 2, np.nan]), np.array([0.0, 1, 2, 3, np.nan])
    checks = score(pair, Estimate(expected, {0.9: (low, high)}))
    assert [one["coverage"]["0.9"] for one in checks] == [1, 1, 0, 0]
    assert [one["error"] for one in checks[:3]] == pytest.approx([0, 4, 6])
    assert np.isnan(checks[3]["error"])
    total = pooled(checks)
    assert total["coverage"]["0.9"] == 0.5
    assert total["error"] == pytest.approx(10 / 3)
    assert total["width"] == pytest.approx(10 * (1 + 1 + 2) / 3)


def test_errors_of_the_truth_are_added_in_quadrature(data_dir):
    core = cores.load_core("SU81-18", data_dir)
    age = np.arange(30.0)
    bands = {0.9: (age + 1.5, age + 2.5)}  # widened by half a step: 1 to 3 kyr above the truth
    checks = score(core, Estimate(age + 2, bands))
    reach = np.hypot(1.0, 1.6449 * 0.5)  # of 90 %, by one standard error of 0.5 kyr
    assert reach < 2
    assert [one["coverage"]["0.9"] for one in checks] == [0, 0]
    checks = score(core, Estimate(age + 1.25, {0.9: (age + 0.75, age + 1.75)}))
    assert [one["coverage"]["0.9"] for one in checks] == [1, 1]  # 1.25 < 1.294
    assert [one["error"] for one in checks] == pytest.approx([1.25, 1.25])


def test_published_bands_hold_the_published_ages(data_dir):
    core = cores.load_core("SU81-18", data_dir)
    estimate = methods.bigmacs(core)[methods.ONLY]
    low, high = estimate.bands[0.95]
    assert low - 0.5 == pytest.approx(core.age - 2)  # 95 % as published, and no half step wider
    assert high + 0.5 == pytest.approx(core.age + 2)
    with pytest.raises(OptionError, match="cores only"):
        methods.bigmacs(synthetic.pair("spikes"))


@pytest.mark.parametrize("method", ["align (estimated noise)", "DTW", "soft-DTW"])
def test_rivals_find_an_easy_alignment(method):
    pair = synthetic.pair("noiseless", 0.5, 1)
    estimates = methods.METHODS[method](pair)
    best = min((pooled(score(pair, one)) for one in estimates.values()), key=lambda one: one["error"])
    assert best["error"] < 0.6
    if method != "DTW":
        assert best["coverage"]["0.9"] > 0.9
        levels = [best["coverage"][str(level)] for level in methods.LEVELS]
        assert levels == sorted(levels)
    assert set(estimates) == ({f"{gamma:g}" for gamma in methods.GAMMAS} if method == "soft-DTW" else {methods.ONLY})


def test_match_is_judged_with_its_verdict_and_stated_coverage():
    pair = synthetic.pair("white 0.1", 1.0, 1)
    estimate = methods.match(pair)[methods.ONLY]
    assert estimate.verdict in comparison.VERDICTS
    assert 0 < estimate.stated <= 1
    assert sorted(estimate.bands) == list(methods.MATCH_LEVELS)
    assert pooled(score(pair, estimate))["coverage"]["0.9"] > 0.6


def test_names_of_methods_can_be_listed_on_the_command_line():
    assert not any("," in name for name in methods.METHODS)
    assert {comparison.OURS, *(name for part in comparison.RIVALS.values() for name in part)} == set(methods.METHODS)


def test_packages_that_are_absent_have_no_units(monkeypatch):
    monkeypatch.setattr(comparison, "available", lambda method: method not in methods.PEERS)
    units = comparison.units(datasets=None, seeds=[0, 1], quick=False, data_dir=None)
    assert len(set(units)) == len(units)
    assert {unit.method for unit in units}.isdisjoint(methods.PEERS)
    assert sum(unit.dataset == "cores" and unit.method == "DTW" for unit in units) == len(cores.CORES)
    assert sum(unit.dataset == "unrelated" for unit in units) == 2 * len(synthetic.UNRELATED)
    assert sum(unit.options["pairs"] for unit in units if unit.dataset == "unrelated") == 200
    monkeypatch.setattr(comparison, "available", lambda method: True)
    peers = [u for u in comparison.units(datasets=["synthetic"], seeds=[0, 1], quick=False, data_dir=None)
             if u.method == "fdasrsf"]  # fmt: skip
    assert {(u.seed, u.options["strength"], u.options["pairs"]) for u in peers} == {(0, 1.0, 2)}


def test_pairs_is_refused_by_other_experiments():
    about: dict[str, Any] = {"backbones": None, "per_class": None, "datasets": None, "quick": True, "data_dir": None}
    units = units_of(experiment("alignments"), pairs=3, seeds=[0], **about)
    assert {unit.options["pairs"] for unit in units if unit.dataset == "synthetic"} <= {2, 3}
    with pytest.raises(OptionError, match="--pairs"):
        units_of(experiment("calibration"), pairs=3, seeds=[0], **about)
    with pytest.raises(OptionError, match="at least 1"):
        comparison.units(datasets=None, seeds=[0], quick=False, data_dir=None, pairs=0)


def test_the_parameter_is_chosen_on_the_other_half():
    def scores(*errors: float) -> list[dict[str, Any]]:
        return [{"error": error} for error in errors]

    by = {"1": scores(1, 5, 1, 5), "2": scores(4, 2, 4, 2)}
    # On the odd pairs "2" is best and is used for the even ones, and the other way around.
    assert [one["error"] for one in comparison.at_best(by)] == [4, 4, 5, 5]
    assert comparison.at_best({"1": scores(3), "2": scores(2)}) == scores(2)
    assert comparison.at_best(by, {"1": scores(1), "2": scores(2)}) == by["1"]
    assert comparison.at_best({"1": scores(np.nan, 1), "2": scores(2, 2)})[1] == {"error": 2}


def result_of(coverage: float, verdict: str | None = None, n: int = 2) -> dict[str, Any]:
    levels = {str(level): coverage for level in methods.LEVELS}
    one = {"error": 1.0, "width": 2.0, "coverage": levels, "verdict": verdict, "stated": 0.9 if verdict else None}
    return {"scores": {methods.ONLY: [one] * n}, "seconds": 0.1}


def test_the_report_has_a_table_for_each_part_and_leaves_smaller_runs_out(tmp_path):
    row = {"regime": "spikes", "strength": 1.0}
    other = {"regime": "bursts", "strength": 1.0}
    results = [
        (Unit("alignments", "synthetic", "udtw.match", 0, row | {"pairs": 2}), result_of(0.8, "good")),
        (Unit("alignments", "synthetic", "udtw.match", 0, row | {"pairs": 1}), result_of(0.1, "good", 1)),
        (Unit("alignments", "synthetic", "udtw.match", 0, other | {"pairs": 2}), result_of(0.6, "none")),
        (Unit("alignments", "synthetic", "DTW", 0, row | {"pairs": 2}),
         {"scores": {methods.ONLY: [{"error": 3.0, "width": np.nan, "coverage": {}}] * 2}}),
        (Unit("alignments", "unrelated", "udtw.match", 0, {"kind": "random walks", "pairs": 2}),
         {"scores": {methods.ONLY: [{"verdict": "weak"}, {"verdict": "none"}]}}),
    ]  # fmt: skip
    document = Document("alignments")
    comparison.report(results, document)
    text = document.write(tmp_path).with_suffix(".md").read_text()
    assert "| spikes × 1 | 2 | 80.0 ± 0.0 | 80 | 90.0 | 2 | 0.0 | 1.00 ± 0.00 | 3.00 ± 0.00 |" in text
    assert "| bursts × 1 | 2 | 60.0 ± 0.0 | 60 | 90.0 | 2 | 100.0 | 1.00 ± 0.00 | – |" in text
    assert "| all | 4 | 70.0" in text
    assert "| random walks | 2 | 0.0 | 50.0 | 50.0 |" in text
    assert (tmp_path / "figure-01.png").stat().st_size > 5000


def test_curves_stand_at_the_levels_that_all_methods_have():
    def scores(coverage: float, levels: tuple[float, ...]) -> list[dict[str, Any]]:
        return [{"coverage": {str(level): coverage for level in levels}}]

    ours = {"spikes": scores(0.9, methods.MATCH_LEVELS), "bursts": scores(0.5, methods.MATCH_LEVELS)}
    table = {
        comparison.OURS: ours | {"all": ours["spikes"] + ours["bursts"]},
        "soft-DTW": {"all": scores(0.8, methods.LEVELS)},
        "DTW": {"all": [{"error": 1.0}]},
    }
    levels, curves = comparison._curves(table, ["spikes", "bursts"])
    assert levels == list(methods.MATCH_LEVELS)
    assert curves == {
        "udtw.match": [0.7, 0.7],
        "soft-DTW": [0.8, 0.8],
        "udtw.match, lowest row: bursts": [0.5, 0.5],
    }


def test_the_command_computes_resumes_and_reports(data_dir, tmp_path, one_thread):
    command = ["reproduce", "alignments", "--data-dir", data_dir, "--out", str(tmp_path), "--parts", "cores,vienna"]
    command += ["--pairs", "1", "--seeds", "0", "--methods", "DTW,BIGMACS"]
    for count in ("18 computed, 0 finished before", "0 computed, 18 finished before"):
        outcome = CliRunner().invoke(app, command)
        assert outcome.exit_code == 0, outcome.output
        assert count in outcome.stderr
    text = (tmp_path / "alignments" / "report.md").read_text()
    assert "Piano performances" in text
    assert "SU81-18" in text
    assert "chroma, 50 per s" in text


def test_pairs_with_stretches_say_which_steps_have_no_partner():
    missing, in_x, in_y = left_out.pair_with_stretches("missing", 0.2, 0)
    assert len(missing.x) == 80
    assert in_x.all()
    assert in_y.sum() < 100
    gone = np.flatnonzero(~in_y)
    assert not ((missing.truth > gone[0]) & (missing.truth < gone[-1])).any()
    inserted, in_x, in_y = left_out.pair_with_stretches("inserted", 0.2, 0)
    assert len(inserted.x) == 120
    assert (~in_x).sum() == 20
    assert in_y.all()
    both, in_x, in_y = left_out.pair_with_stretches("both", 0.2, 0)
    assert len(both.x) == 100
    assert not in_x.all()
    assert not in_y.all()
    with pytest.raises(OptionError, match="missing, inserted"):
        left_out.pair_with_stretches("else", 0.2)


def test_scores_of_left_out_steps_are_exact():
    truth = np.array([True, False, True, False, False])
    score = np.array([0.9, 0.8, 0.7, 0.1, 0.1])
    assert left_out.average_precision(score, truth) == pytest.approx(0.5 * 1 + 0.5 * 2 / 3)
    assert left_out.average_precision(np.ones(5), truth) == pytest.approx(0.4)
    assert left_out.f1_score(score, truth) == pytest.approx(2 * 2 / 5)
    assert left_out.least_brier_of_thresholds(score, truth) == pytest.approx(0.2)
    stated = np.array([0.05, 0.05, 0.95, 0.95])
    assert left_out.calibration_error(stated, np.array([0, 0, 1, 0])) == pytest.approx((0.1 + 0.9) / 4)


def test_onsets_without_a_partner_of_their_pitch_are_left_out():
    low, high = np.arange(0.0, 20.0, 2.0), np.arange(1.0, 20.0, 3.0)
    at_x, at_y = np.r_[low, high], np.r_[np.delete(low, 4), high] + 0.03
    of_x = [np.arange(10), np.arange(10, 17)]
    of_y = [np.arange(9), np.arange(9, 16)]
    matched, matched_y, partner = notes._align_pitches((at_x, at_y), (of_x, of_y), np.full(17, 0.05**2), 0.05)
    assert matched[4] < 0.01
    assert np.delete(matched, 4).min() > 0.95
    assert matched_y.min() > 0.95
    assert np.delete(partner - at_x, 4) == pytest.approx(0.03, abs=0.01)


def test_notes_of_two_performances_are_matched(data_dir):
    x, y = (vienna.load_performance(vienna.PIECES[0], pianist, data_dir) for pianist in (1, 20))
    found = notes.match_notes(x, y)
    assert found.matched.shape == (len(x.pitch),)
    assert ((found.matched >= 0) & (found.matched <= 1 + 1e-9)).all()
    assert set(found.costs) == {"chroma", "notes"}


def test_parts_with_unmatched_steps_are_reported(data_dir, monkeypatch, tmp_path):
    monkeypatch.setitem(left_out.ROWS, "stretches", left_out.ROWS["stretches"][:2])
    monkeypatch.setitem(left_out.ROWS, "notes", left_out.ROWS["notes"][:1])
    listed = comparison.units(datasets=["stretches", "notes"], seeds=[0], quick=True, data_dir=None, pairs=1)
    assert [unit.method for unit in listed] == [left_out.GAPS] * 2 + [left_out.WITHOUT] * 2 + [left_out.NOTES]
    document = Document("Left out")
    comparison.report([(unit, comparison.work(unit, data_dir)) for unit in listed], document)
    text = document.write(tmp_path).with_suffix(".md").read_text()
    assert "missing, inserted, both" in text
    assert "Chopin" in text
    assert "Piano performances" not in text


def test_streams_are_followed_and_reported(data_dir, monkeypatch, tmp_path):
    monkeypatch.setattr(following, "BEGINNING", 2.0)
    monkeypatch.setattr(following, "CYCLES", 2)
    listed = comparison.units(datasets=["follow"], seeds=[0], quick=True, data_dir=None, pairs=1)
    assert [unit.options["row"] for unit in listed] == list(following.ROWS)
    results = [(unit, comparison.work(unit, data_dir)) for unit in (listed[0], listed[-1])]
    (piano,), (machine,) = (result["scores"] for _, result in results)
    assert machine["steps"] == 200
    assert len(machine["errors"]) == len(machine["held"]) == 180  # the first 20 steps do not count
    assert np.median(piano["errors"]) < 200  # two frames
    assert np.median(machine["errors"]) < 200
    assert np.mean(machine["held"]) > 0.6
    document = Document("Following")
    comparison.report(results, document)
    text = document.write(tmp_path).with_suffix(".md").read_text()
    assert "| cycles of a machine | 1 | 180 |" in text
    assert "Coverage: share of true positions" not in text
