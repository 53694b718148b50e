"""Files as people really have them: the right numbers, or one line that says what to do."""

import gzip
import io
from types import SimpleNamespace

import numpy as np
import pandas
import pytest

pytest.importorskip("typer")

import udtw
from tests.cli.helpers import fails, run_json
from udtw._engine.metrics import METRICS
from udtw.cli import output
from udtw.data.series_files import ReadOptions, read_series
from udtw.data.table_cells import next_times

CLEAN = "1200.5\n3\n-2.25\n7\n"


@pytest.fixture(autouse=True)
def largest_gap():
    """A metric without paths, so that a command is reading and a subtraction."""
    udtw.register_metric("largest_gap", lambda x, y, *, scale=1.0: scale * (x - y).abs().amax((1, 2)))
    yield
    del METRICS["largest_gap"]


def binary(write):
    buffer = io.BytesIO()
    write(buffer)
    return buffer.getvalue()


FRAME = pandas.DataFrame({"v": [1200.5, 3, -2.25, 7]})
STAMPS = [f"2024-01-0{day} 08:00" for day in (1, 2, 3, 4)]

READ_RIGHT = [
    ("quotes.csv", '"v"\n"1,200.5"\n"3"\n"-2.25"\n"7"\n', []),
    ("thousands.csv", 'v,w\n"1,200.5",a\n3,a\n-2.25,a\n7,b\n', []),
    ("comma.csv", "v;w\n1200,5;a\n3;a\n-2,25;a\n7;b\n", ["--decimal", ","]),
    ("comma_thousands.csv", "v;w\n1.200,5;a\n3;a\n-2,25;a\n7;b\n", ["--decimal", ","]),
    ("one_comma.csv", "1200,5\n3\n-2,25\n7\n", ["--decimal", ","]),
    ("bom.csv", "\ufeffv\n1200.5\n3\n-2.25\n7\n", []),
    ("utf16.txt", "v\tw\n1200.5\ta\n3\ta\n-2.25\ta\n7\tb\n".encode("utf-16"), []),
    ("crlf.csv", "v\r\n1200.5\r\n3\r\n-2.25\r\n7\r\n", []),
    ("mac.csv", "v\r1200.5\r3\r-2.25\r7\r", []),
    ("blank_lines.csv", "\n\nv\n1200.5\n\n3\n-2.25\n7\n\n\n", []),
    ("comments.csv", "# made by a logger\n# 2024\nv\n1200.5\n3\n-2.25\n7\n", []),
    ("index.csv", ",v\n0,1200.5\n1,3\n2,-2.25\n3,7\n", []),
    ("pandas.csv", FRAME.to_csv(), []),
    ("times.csv", "time,v\n" + "".join(f"{t},{v}\n" for t, v in zip(STAMPS, FRAME["v"], strict=True)), []),
    ("unix.csv", "".join(f"{1.7e9 + 60 * i:.0f},{v}\n" for i, v in enumerate(FRAME["v"])), []),
    ("time_last.csv", "v,date\n" + "".join(f"{v},{t}\n" for t, v in zip(STAMPS, FRAME["v"], strict=True)), []),
    ("text_column.csv", "station,v\nA,1200.5\nA,3\nB,-2.25\nB,7\n", []),
    ("row.csv", "1200.5,3,-2.25,7\n", []),
    ("row.txt", "1200.5 3 -2.25 7", []),
    ("row_header.csv", "t0,t1,t2,t3\n1200.5,3,-2.25,7\n", []),
    ("transposed.csv", "v,1200.5,3,-2.25,7\nw,1,1,1,1\n", ["--transpose", "--columns", "v"]),
    ("chosen.csv", "a,b,v\n9,9,1200.5\n8,8,3\n9,9,-2.25\n8,8,7\n", ["--columns", "v"]),
    ("number.csv", "9;1200.5\n8;3\n9;-2.25\n8;7\n", ["--columns", "2"]),
    ("trailing.csv", "v,\n1200.5,\n3,\n-2.25,\n7,\n", []),
    ("spaces.csv", " v ,w\n 1200.5 ,a\n3 ,a\n -2.25,a\n7,b\n", []),
    ("minus.csv", "v\n1200.5\n3\n\u22122.25\n7\n", []),
    ("exponent.csv", "v\n1.2005e3\n3.0E0\n-225e-2\n7.\n", []),
    ("missing.csv", "v\n1200.5\nNA\n3\n-2.25\n\nnan\n7\n", ["--missing", "omit"]),
    ("missing_rows.csv", "v,w\n1200.5,1\n,1\n3,1\n-2.25,1\n7,1\n", ["--missing", "omit", "--columns", "v"]),
    ("pipe.txt", "v|w\n1200.5|a\n3|a\n-2.25|a\n7|b\n", []),
    ("years.csv", "y,2020,2021,2022,2023\nsales,1200.5,3,-2.25,7\n", []),
    ("a.csv.gz", gzip.compress(CLEAN.encode(), mtime=0), []),
    ("a.parquet", binary(FRAME.to_parquet), []),
    ("a.xlsx", binary(lambda file: FRAME.to_excel(file, index=False)), []),
    ("index.xlsx", binary(FRAME.to_excel), []),
    ("list.json", "[1200.5, 3, -2.25, 7]", []),
    ("records.json", FRAME.to_json(orient="records"), []),
    ("columns.json", '{"v": [1200.5, 3, -2.25, 7], "name": ["a", "b", "c", "d"]}', []),
    ("a.npy", binary(lambda file: np.save(file, FRAME["v"].to_numpy())), []),
    ("a.npz", binary(lambda file: np.savez(file, v=FRAME["v"].to_numpy())), []),
    ("no_ending", CLEAN, []),
    ("excel_separator.csv", "sep=;\nv;w\n1200.5;a\n3;a\n-2.25;a\n7;b\n", []),
    ("compact_dates.csv", "date,v\n20240130,1200.5\n20240131,3\n20240201,-2.25\n20240202,7\n", []),
    ("quarters.csv", "q,v\n2024-Q1,1200.5\n2024-Q2,3\n2024-Q3,-2.25\n2024-Q4,7\n", []),
    ("noon.csv", "when,v\n11:58 AM,1200.5\n11:59 AM,3\n12:00 PM,-2.25\n12:01 PM,7\n", []),
    ("midnight.csv", "when,v\n23:58,1200.5\n23:59,3\n00:00,-2.25\n00:01,7\n", []),
    ("date_and_time.csv", "date,time,v\n" + "".join(f"2024-01-01,10:0{i},{v}\n" for i, v in enumerate(FRAME["v"])), []),
    ("date_and_time.txt", "".join(f"2024-01-01 10:0{i} {v}\n" for i, v in enumerate(FRAME["v"])), []),
    ("same_time.csv", "time,v\n1,1200.5\n1,3\n2,-2.25\n3,7\n", []),
    ("missing_time.csv", "time,v\n1,1200.5\n,3\n2,-2.25\n3,7\n", []),
    ("zeit.csv", "Zeit;Wert\n0,0;1200,5\n0,1;3\n0,2;-2,25\n0,3;7\n", ["--decimal", ","]),
    ("frame.json", FRAME.to_json(), []),
    ("series.json", FRAME["v"].to_json(), []),
    ("split.json", FRAME.to_json(orient="split"), []),
    ("lines.json", FRAME.to_json(orient="records", lines=True), []),
    ("lines.jsonl", FRAME.to_json(orient="records", lines=True), []),
]


@pytest.mark.parametrize(("name", "content", "words"), READ_RIGHT, ids=[one[0] for one in READ_RIGHT])
def test_the_right_numbers(tmp_path, name, content, words):
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    clean = FRAME.to_numpy().T if "--transpose" in words else FRAME.to_numpy()
    np.save(tmp_path / "clean.npy", np.column_stack([clean, clean]) if "2" in words else clean)
    said = run_json("align", tmp_path / name, tmp_path / "clean.npy", "--metric", "largest_gap", *words)
    assert said["steps"] == [4, 4]
    assert said["features"] == 1
    assert said["distance"] == 0


REFUSED = [
    ("empty.csv", "", [], "is empty"),
    ("blank.csv", "  \n\n", [], "is empty"),
    ("header.csv", "time,value\n", [], "holds no numbers"),
    ("comments.csv", "# nothing\n", [], "holds no numbers"),
    ("err.csv", "ERR\n1\n2\n3\n", [], "err.csv, line 1: value 1 is 'ERR', not a number"),
    ("errs.csv", "ERR,ERR\nERR,2\n3,4\n", [], "errs.csv, line 1"),
    ("err_below.csv", "v\n1\nERR\n3\n", [], "err_below.csv, line 3: column 'v' is 'ERR'"),
    ("excel_error.csv", "v\n1\n#DIV/0!\n3\n", [], "line 3: column 'v' is '#DIV/0!'"),
    ("units.csv", "temp,hum\n°C,%\n1,2\n3,4\n", [], "A header has at most one line"),
    ("title.csv", "Report of March\ntime,temp\n1,2\n2,3\n", [], "line 1: 1 name(s), but the next line has 2"),
    ("narrow_header.csv", "a,b\n1,2,3\n4,5,6\n", [], "2 name(s), but the next line has 3 value(s)"),
    ("short.csv", "1,2\n3\n4,5\n", [], "short.csv, line 2: 1 value(s), but line 1 has 2"),
    ("long_row.csv", "a,b\n1,2\n3,4,5\n", [], "line 2: 2 value(s), but line 3 has 3"),
    ("word.csv", "1,two\n3,4\n", [], "word.csv, line 1: value 2 is 'two'"),
    ("dollar.csv", "v,w\n1,$5\n2,$6\n3,7\n", [], "column 'w' is '$5'"),
    ("all_dollars.csv", "v,w\n1,$5\n2,$6\n3,$7\n", [], "column 'w' is '$5'"),
    ("percent.csv", "v,w\n1,5%\n2,6\n", [], "column 'w' is '5%'"),
    ("comma.csv", "v;w\n1,5;2\n3,25;4\n", [], "use --decimal ','"),
    ("comma_one.csv", "v\n1,5\n2,7\n", [], "Decimal commas need --decimal ','"),
    ("doubtful.csv", "v;w\n1,200;2\n3,400;4\n", [], "--decimal ',' or --decimal '.'"),
    ("point.csv", "v;w\n1.5;2\n3.25;4\n", ["--decimal", ","], "column 'v' is '1.5'"),
    ("decimal.csv", "1\n2\n", ["--decimal", "x"], "--decimal must be a point or a comma"),
    ("quote.csv", 'v,w\n1,"2\n3,4\n', [], "quote.csv, line 2: a quote is opened and not closed"),
    ("missing.csv", "v,w\n1,2\n3,\n5,6\n", [], "missing.csv, line 3: w is empty or missing"),
    ("all_missing.csv", "v,w\n,2\n3,\n", ["--missing", "omit"], "--missing omit leaves none"),
    ("nothing_there.csv", "v,w\n,2\n,3\n", ["--columns", "v", "--missing", "interpolate"], "no value to interpolate"),
    ("policy.csv", "1\n2\n", ["--missing", "drop"], "--missing"),
    ("inf.csv", "v\n1\ninf\n3\n", ["--missing", "omit"], "not a finite number"),
    ("backwards.csv", "date,v\n2024-01-03,1\n2024-01-02,2\n2024-01-01,3\n", [], "line 3: the time goes back"),
    ("no_time.csv", "when,v\nsoon,1\nlater,2\n", ["--time-column", "when"], "neither a time nor a number"),
    ("unknown.csv", "a,b\n1,2\n3,4\n", ["--columns", "c"], "--columns c: "),
    ("unnamed.csv", "1,2\n3,4\n", ["--columns", "5"], "numbered from 1"),
    ("twice.csv", "a,a\n1,2\n3,4\n", ["--columns", "a"], "2 columns of that name"),
    ("repeated.csv", "a,b\n1,2\n3,4\n", ["--columns", "a,a"], "names a column twice"),
    ("both_roles.csv", "a,b\n1,2\n3,4\n", ["--columns", "a,b", "--time-column", "a"], "another role"),
    ("latin1.csv", "température\n1\n2\n".encode("latin-1"), [], "CSV UTF-8"),
    ("picture.csv", b"\x89PNG\r\n\x1a\n\0\0\0", [], "not a text file"),
    ("old.xls", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", [], "Save it as .xlsx"),
    ("damaged.xlsx", b"PK\x03\x04 not really", [], "damaged archive"),
    ("damaged.parquet", b"PAR1 not really", [], "cannot be read as Parquet"),
    ("damaged.csv.gz", gzip.compress(b"1\n2\n", mtime=0)[:-6], [], "damaged gzip"),
    ("damaged.npy", b"\x93NUMPY\x01\x00\x02", [], "not a .npy file"),
    (
        "objects.npy",
        binary(lambda file: np.save(file, np.array([{}], object), allow_pickle=True)),
        [],
        "not a .npy file",
    ),
    ("cube.npy", binary(lambda file: np.save(file, np.zeros((2, 2, 2)))), [], "shape (2, 2, 2)"),
    ("words.npy", binary(lambda file: np.save(file, np.array(["a"]))), [], "real numbers"),
    ("nan.npy", binary(lambda file: np.save(file, np.array([1.0, np.nan]))), [], "--missing omit"),
    ("two.npz", binary(lambda file: np.savez(file, a=np.ones(3), b=np.ones((2, 2)))), [], "several arrays"),
    ("broken.json", '{"v": [1, 2', [], "is not JSON"),
    ("scalar.json", "3", [], "instead of a list"),
    ("mixed.json", "[1, [2]]", [], "mixes rows"),
    ("uneven.json", '{"a": [1, 2], "b": [1]}', [], "columns of different lengths"),
    ("twice.json", '{"a": [1], "a": [2]}', [], "duplicate key 'a'"),
    ("text.json", '["a", "b"]', [], "holds no numbers"),
    ("split.json", '{"columns": 3, "index": [0, 1], "data": 4}', [], "not one of columns"),
    ("uneven_split.json", '{"columns": ["a"], "index": [0, 1], "data": [[1], [2, 3]]}', [], "different lengths"),
    ("falling_year.csv", "year,v\n2021,1\n2020,2\n2019,3\n", [], "line 3: the time goes back"),
    ("shuffled.csv", "time,v\n3,1\n1,2\n2,3\n", [], "if it is a measurement, --columns"),
    ("named_row.csv", "a,1,2,3,4\n", [], "value 1 is 'a', not a number"),
]


@pytest.mark.parametrize(("name", "content", "words", "said"), REFUSED, ids=[one[0] for one in REFUSED])
def test_one_line_that_says_what_to_do(tmp_path, name, content, words, said):
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    usage = "--columns" in words or "--decimal" in words[:1] or "drop" in words
    code = 2 if usage and "interpolate" not in words and name != "point.csv" else 1
    message = fails(code, "align", tmp_path / name, tmp_path / name, *words)
    assert said in message
    assert "(unexpected" not in message
    assert name in message or words


def test_what_is_not_a_file(tmp_path):
    assert "no such file" in fails(1, "align", tmp_path / "a.csv", tmp_path / "a.csv")
    assert "is a folder" in fails(1, "align", tmp_path, tmp_path)
    assert "Only one of the two" in fails(2, "align", "-", "-")


def test_standard_input(tmp_path):
    from typer.testing import CliRunner

    from udtw.cli import app

    (tmp_path / "clean.csv").write_text(CLEAN)
    words = ["align", "-", str(tmp_path / "clean.csv"), "--metric", "largest_gap", "--json"]
    done = CliRunner().invoke(app, words, input=b"time,v\n1,1200.5\n2,3\n3,-2.25\n4,7\n")
    assert done.exit_code == 0, done.output
    assert '"distance": 0.0' in done.stdout
    assert "standard input: using column v; time column time" in done.stderr


def test_columns_are_matched_by_name(tmp_path):
    (tmp_path / "a.csv").write_text("temp,hum\n1,9\n2,8\n3,9\n")
    (tmp_path / "b.csv").write_text("hum,temp\n9,1\n8,2\n9,3\n")
    said = run_json("align", tmp_path / "a.csv", tmp_path / "b.csv", "--metric", "largest_gap")
    assert said["distance"] == 0
    assert said["columns"] == ["temp", "hum"]


@pytest.mark.parametrize(
    ("text", "steps", "said"),
    [
        ("0,1,2\n0.5,1.5,2.5\n1.5,2,3\n", 2, "the first row, 0, 1, …, is read as names of columns"),
        ("2019,2020,2021\n5.5,6,8\n1,2.5,4\n", 2, "the first row, 2019, 2020, …, is read as names of columns"),
        ("0,1\n0.5,0.8\n0.7,0.6\n", 3, "the first row, 0, 1, is read as values; delete it if it names the columns"),
        ("0,1,2\n3,4,5\n", 2, "is read as values"),
        ("1,2,3\n4,5,6\n", 2, None),
    ],
)
def test_a_first_row_that_counts_columns_is_never_taken_silently(text, steps, said):
    found = read_series("a.csv", ReadOptions(), text.encode())
    assert len(found.values) == steps
    assert (said is None) == ("first row" not in str(found.notes))
    assert said is None or said in str(found.notes)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("date,v\n20240130,1\n20240131,2\n20240201,3\n", [0, 86400, 2 * 86400]),
        ("when,v\n11:59 PM,1\n12:00 am,2\n12:01 AM,3\n", [86340, 86400, 86460]),
        ("date,clock,v\n2024-01-01,23:59,1\n2024-01-02,00:01,2\n2024-01-02,00:02,3\n", [0, 120, 180]),
    ],
)
def test_times_are_seconds(text, seconds):
    assert read_series("a.csv", ReadOptions(), text.encode()).time.tolist() == seconds


def test_an_evenly_spaced_first_column_is_the_axis():
    text = "x,v\n" + "".join(f"{0.1 * step:.1f},{step % 3}\n" for step in range(10))
    found = read_series("a.csv", ReadOptions(), text.encode())
    assert found.names == ["v"]
    assert "time column x" in found.notes[0]


def test_many_columns_are_read_in_reasonable_time():
    text = ",".join(str(number) for number in range(3000))
    assert read_series("a.csv", ReadOptions(), text.encode()).values.shape == (3000, 1)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["classify", "mine.csv"], "--train mine.csv"),
        (["classify"], "--train and --test"),
        (["classify", "cbf", "--train", "a.csv"], "either the name of a data set"),
        (["classify", "--train", "a.csv"], "--test FILE"),
        (["classify", "--train", "a.csv", "--model", "knn"], "--classifier"),
        (["classify", "--train", "a.csv", "--test", "b.csv", "--out", "p.xls"], "--out p.xls"),
        (["forecast", "a.csv"], "--horizon must be the number of steps"),
        (["forecast", "a.csv", "--horizon", "0.4"], "--horizon must be the number of steps"),
        (["forecast", "a.csv", "--horizon", "2", "--level", "90"], "--level must lie between 0 and 1"),
        (["forecast", "cbf", "--out", "f.csv"], "--out belongs to files"),
        (["search", "a.csv", "a.csv", "--level", "2"], "--level must lie between"),
        (["search", "a.csv", "a.csv", "--k", "0"], "--k"),
        (["align", "a.csv", "a.csv", "--znormalize", "--sigma", "column"], "no longer fits"),
        (["align", "a.csv", "a.csv", "--band", "-1"], "--band -1 is a negative radius"),
        (["align", "a.csv", "a.csv", "--gamma", "0"], "use --metric dtw"),
        (["align", "a.csv", "a.csv", "--plot", "p.xyz"], "--plot p.xyz: a figure needs a name"),
        (["barycenter", "a.csv", "--plot", "p.xyz"], "--plot p.xyz: a figure needs a name"),
    ],
)
def test_wrong_usage_names_the_flag(tmp_path, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("a,b\n1,2\n3,4\n5,1\n")
    assert said in fails(2, *words)


LABELLED = "y,a,b,c,d,e\nup,1,2,3,4,6\ndown,6,4,3,2,1\nup,0,2,3,5,6\ndown,7,4,3,1,1\n"
STEPS = "id,time,v,y\n" + "".join(f"{one},{t},{t},up\n" for one in "pq" for t in range(5))


def test_series_of_another_length_are_classified(tmp_path):
    (tmp_path / "train.csv").write_text(LABELLED)
    (tmp_path / "test.csv").write_text("y,a,b,c\nup,1,3,7\ndown,9,3,1\n")
    words = ["classify", "--train", tmp_path / "train.csv", "--test", tmp_path / "test.csv", "--metric"]
    assert run_json(*words, "dtw")["accuracy"] == 1
    assert "--metric 'euclidean' compares step by step" in fails(1, *words, "euclidean")


def test_a_row_per_step_is_not_taken_for_a_row_per_series(tmp_path):
    (tmp_path / "train.csv").write_text(LABELLED)
    (tmp_path / "long.csv").write_text(STEPS)
    for words in (["classify", "--train", tmp_path / "train.csv", "--test"], ["cluster"]):
        assert "Name the series with --id-column" in fails(1, *words, tmp_path / "long.csv")


def test_the_time_of_a_long_table_is_never_a_feature(tmp_path):
    shuffled = STEPS.replace("p,0,0", "p,9,0")
    (tmp_path / "long.csv").write_text(shuffled)
    assert "the time of series 'p' goes back" in fails(1, "cluster", tmp_path / "long.csv", "--id-column", "id")


@pytest.mark.parametrize(
    ("cells", "following"),
    [
        (["Q2 2019", "Q3 2019", "Q4 2019"], ["Q1 2020", "Q2 2020"]),
        (["2019-Q3", "2019-Q4", "2020-Q1"], ["2020-Q2", "2020-Q3"]),
        (["2020-W51", "2020-W52", "2020-W53"], ["2021-W01", "2021-W02"]),
        (["2019W48", "2019W50", "2019W52"], ["2020W02", "2020W04"]),
    ],
)
def test_quarters_and_weeks_are_times_and_go_on_as_written(tmp_path, cells, following):
    file = tmp_path / "periods.csv"
    file.write_text("when,sales\n" + "".join(f"{cell},{3.5 - at}\n" for at, cell in enumerate(cells)))
    series = read_series(file)
    assert (series.time_name, series.names) == ("when", ["sales"])
    np.testing.assert_array_equal(np.diff(series.time) > 0, True)
    assert next_times(series.time_text, 2) == following


def test_a_row_of_totals_without_a_date_is_refused(tmp_path):
    file = tmp_path / "totals.csv"
    file.write_text("day,sales\n2024-01-01,3\n2024-01-02,4\n2024-01-03,5\n,12\n")
    said = fails(1, "align", file, file, "--metric", "dtw")
    assert "line 5: the time is empty in the last row" in said


def test_the_first_use_says_that_kernels_are_compiled(tmp_path, monkeypatch, capsys):
    stats = SimpleNamespace(cache_path=str(tmp_path))
    monkeypatch.setattr("udtw._kernels.cpu.launch.usable", SimpleNamespace(stats=stats))
    output.working("aligning …")
    assert "compiling kernels for this machine: about a minute, once" in capsys.readouterr().err
    (tmp_path / "forward.forward-1.py311.nbi").touch()
    output.working("aligning …")
    assert capsys.readouterr().err == ""
