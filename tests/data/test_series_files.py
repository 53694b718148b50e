"""Series in users' files: which columns are used, what is the time, and what is said about it."""

import gzip
import io
import json
import tracemalloc

import numpy as np
import pandas
import pytest

from udtw.data.series_files import match_tables, read_series, read_series_table
from udtw.data.table import ReadOptions
from udtw.data.table_cells import next_times
from udtw.data.table_files import read_table
from udtw.errors import DataError, NonFiniteError, OptionError, ShapeError, UdtwError


def series(text, name="a.csv", **options):
    content = text if isinstance(text, bytes) else text.encode()
    return read_series(name, ReadOptions(**options), content=content)


def table(text, name="a.csv", **options):
    return read_series_table(name, ReadOptions(**options), labels=True, content=text.encode())


def written(write):
    buffer = io.BytesIO()
    write(buffer)
    return buffer.getvalue()


@pytest.mark.parametrize(
    "text",
    [
        "1,2\n3,4\n",
        "left,right\n1,2\n3,4",
        "\ufeffleft,right\r\n1,2\r\n\r\n3,4\r\n",
        '# made by hand\n"left","right"\n1,2\n3,4\n',
        "1;2\n3;4\n",
        "1\t2\n3\t4\n",
        "1 2\n  3   4\n",
        "1|2\n3|4",
        "a,b,\n1,2,\n3,4,\n",
        "1.0e0, +2\n3 , 4.\n",
    ],
)
def test_a_row_is_a_step_and_a_column_a_feature(text):
    np.testing.assert_array_equal(series(text).values, [[1, 2], [3, 4]])


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ("1;2;3;4", {}, [1, 2, 3, 4]),
        ("a,b\n1,9\n2,9\n", {"columns": ("a",)}, [1, 2]),
        ("a,b\n1,9\n2,9\n", {"columns": ("1",)}, [1, 2]),
        ("a;b\n1,5;x\n2,25;y\n", {"decimal": ","}, [1.5, 2.25]),
        ("a;b\n1.234,5;x\n2,25;y\n", {"decimal": ","}, [1234.5, 2.25]),
        ("a;b\n1 234,5;x\n-2;y\n", {"decimal": ","}, [1234.5, -2]),
        ('v,w\n"1,200.5",x\n"12",y\n', {}, [1200.5, 12]),
        ('v,w\n"1,234,567",x\n12,y\n', {}, [1234567, 12]),
        ("v;w\n1'200.5;x\n7;y\n", {}, [1200.5, 7]),
        ("v;w\n1,200;x\n7;y\n", {"decimal": "."}, [1200, 7]),
        ("v\n\u22121\n2\n", {}, [-1, 2]),
        ("1,2,3\n", {"transpose": True}, [1, 2, 3]),
        ("x,1,2,3\n", {"transpose": True}, [1, 2, 3]),
        ("v\n1\n\n\n2\n", {}, [1, 2]),
        ("v\n1\nNA\n3\n", {"missing": "omit"}, [1, 3]),
        ("v\n1\nNA\n3\n", {"missing": "interpolate"}, [1, 2, 3]),
        ("time,v\n0,1\n1,\n4,5\n", {"missing": "interpolate"}, [1, 2, 5]),
        ("v\n\n1\n#N/A\n5\nnull\n", {"missing": "interpolate"}, [1, 3, 5, 5]),
    ],
)
def test_values_of_one_feature(text, options, expected):
    np.testing.assert_array_equal(series(text, **options).values[:, 0], expected)


@pytest.mark.parametrize(
    ("text", "name", "first"),
    [
        (",temp\n0,5\n1,7\n2,6\n", "1", "0"),
        ("timestamp,temp\n2024-01-01 10:00,5\n2024-01-01 11:00,7\n", "timestamp", "2024-01-01 10:00"),
        ("1700000000,5\n1700000060,7\n1700000120,6\n", "1", "1700000000"),
        ("1700000000123;5\n1700000060456;7\n1700000120001;6\n", "1", "1700000000123"),
        ("temp,date\n5,03/04/2024\n7,15/04/2024\n", "date", "03/04/2024"),
        ("12:00:01,5\n12:00:02,7\n", "1", "12:00:01"),
        ("t,temp\n0.0,5\n0.7,7\n0.9,5\n", "t", "0.0"),
        ("0 5\n1 7\n2 6\n3 6\n", "1", "0"),
        ("\n".join(f"{0.25 * i},{i % 3}" for i in range(9)), "1", "0.0"),
        ("# seconds,temp\n3,5\n4,7\n9,6\n", "seconds", "3"),
    ],
)
def test_the_time_is_recognised_and_said(text, name, first):
    found = series(text)
    assert found.values.shape[1] == 1
    assert found.time_name == name
    assert found.time_text[0] == first
    assert (np.diff(found.time) > 0).all()
    assert f"time column {name}" in found.notes[-1]


@pytest.mark.parametrize("text", ["1\n2\n3\n4\n", "depth,temp\n0.5,5\n0.7,7\n0.9,5\n", "a,b\n5,1\n7,2\n6,3\n"])
def test_a_measurement_is_no_time(text):
    found = series(text)
    assert found.time is None
    assert found.values.shape[1] == text.splitlines()[0].count(",") + 1


def test_what_is_left_out_is_said():
    text = "date,index,station,temp,spare\n2024-01-01,0,A,5,\n2024-01-02,1,A,6,\n2024-01-03,2,B,5,\n"
    found = series(text)
    assert found.names == ["temp"]
    [note] = found.notes
    assert note.startswith("using column temp; time column date; left out ")
    assert "index (an index)" in note
    assert "station (no numbers)" in note
    assert series(text, columns=("index", "temp")).names == ["index", "temp"]


def test_omitted_steps_keep_their_numbers():
    found = series("v,w\n1,1\n,2\n3,3\n", missing="omit")
    assert found.steps.tolist() == [0, 2]
    assert "left out 1 of 3 steps" in found.notes[-1]


FRAME = pandas.DataFrame({"when": pandas.date_range("2024-01-01", periods=4, freq="h"), "v": [1.0, 2.0, np.nan, 4.0]})


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.parquet", written(FRAME.to_parquet)),
        ("a.parquet", written(FRAME.set_index("when").to_parquet)),
        ("a.xlsx", written(lambda file: FRAME.to_excel(file, index=False))),
        ("a.xlsx", written(FRAME.to_excel)),
        ("a.csv.gz", gzip.compress(FRAME.to_csv().encode(), mtime=0)),
        ("a.json", FRAME.to_json(orient="records", date_format="iso").encode()),
        ("a.json", b'{"v": [1, 2, null, 4], "when": ["2024-01-01", "2024-01-02", "2024-01-03", "2024-01-04"]}'),
        ("a.npz", written(lambda file: np.savez(file, when=np.arange(4) + 2.5, v=FRAME["v"].to_numpy()))),
    ],
)
def test_formats_with_a_time(name, content):
    options = {"time_column": "when"} if name.endswith("z") else {}
    found = series(content, name, missing="interpolate", **options)
    np.testing.assert_allclose(found.values[:, 0], [1, 2, 3, 4])
    assert found.time_name == "when"


def test_arrays():
    assert series(written(lambda file: np.save(file, np.arange(3))), "a.npy").values.tolist() == [[0], [1], [2]]
    several = written(lambda file: np.savez(file, a=np.ones((3, 2)), b=np.ones(4)))
    with pytest.raises(DataError, match=r"several arrays \(a \(3, 2\), b \(4,\)\)"):
        series(several, "a.npz")
    assert series(several, "a.npz", columns=("a",)).values.shape == (3, 2)
    assert series(b"[[1, 2], [3, 4]]", "a.json").values.tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("text", "lengths", "labels"),
    [
        ("y,0,1,2\ncat,1,2,3\ndog,2,3,\n", [3, 2], ["cat", "dog"]),
        ("label,a,b\n1,2,3\n2.0,3,4\n", [2, 2], ["1", "2"]),
        (",0,1,2\n0,5,6,7\n1,5,6,7\n2,5,6,8\n", [3, 3, 3], None),
        ("1,2,3\n4,5\n", [3, 2], None),
        ("[[1, 2, 3], [4, 5]]", [3, 2], None),
        ('[["y", 0, 1, 2], ["cat", 1, 2, 3], ["dog", 2, 3, 4]]', [3, 3], ["cat", "dog"]),
    ],
)
def test_wide_tables(text, lengths, labels):
    found = table(text)
    assert [len(one.values) for one in found.series] == lengths
    assert (None if found.labels is None else found.labels.tolist()) == labels


def test_a_row_of_values_is_no_header_in_a_spreadsheet_either():
    content = written(
        lambda file: pandas.DataFrame([["cat", 1.5], ["dog", 2.5]]).to_excel(file, index=False, header=False)
    )
    with pytest.raises(DataError, match="line 1: value 1 is 'cat'"):
        series(content, "a.xlsx")


def test_long_tables():
    text = "id,t,v,w,y\na,0,1,9,u\nb,0,5,9,w\na,1,2,9,u\nb,1,6,9,w\nb,2,,9,w\n"
    found = table(text, id_column="id", missing="omit")
    assert found.ids == ["a", "b"]
    assert found.labels.tolist() == ["u", "w"]
    assert found.series[0].values.tolist() == [[1, 9], [2, 9]]
    assert found.series[1].time_text == ["0", "1"]
    assert "left out 1 steps" in found.notes[-1]
    assert table(text, id_column="id", columns=("w",)).series[1].values.tolist() == [[9], [9], [9]]


@pytest.mark.parametrize(
    ("text", "options", "error", "said"),
    [
        ("v\n1\n2\n", {}, UdtwError, "--id-column"),
        ("kind,a,b\nx,2,3\ny,3,4\n", {}, DataError, "'kind' holds no numbers"),
        ("y,a,b\n,2,3\nu,3,4\n", {}, DataError, "line 2: the label"),
        ("y,a,b\nu,,\nw,3,4\n", {}, UdtwError, "line 2: the series is empty"),
        ("y,a,b,c\nu,1,,2\nw,3,4,5\n", {}, NonFiniteError, "line 2: column 'b'"),
        ("id,t,v,y\na,0,1,u\na,1,2,w\n", {"id_column": "id"}, DataError, "labels u, w"),
        ("id,t,v\na,1,1\na,0,2\n", {"id_column": "id", "time_column": "t"}, DataError, "goes back"),
        ("id,t,v\na,0,1\n,1,2\n", {"id_column": "id"}, DataError, "line 3: the id"),
        ("id,v\na,1\na,2\n", {"id_column": "name"}, OptionError, "its columns are id, v"),
        ("a,b\n1,2\n", {"time_column": "a"}, OptionError, "--time-column belongs"),
    ],
)
def test_tables_that_are_refused(text, options, error, said):
    with pytest.raises(error) as caught:
        table(text, **options)
    assert said in str(caught.value)


MEASURED = "".join(f"{10 * step},{step % 3}\n" for step in range(10))
DAYS = [f"2024-05-{day:02d}" for day in range(1, 11)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("t,v\n3,1\n1,2\n2,3\n", "the time goes back"),
        ("height,v\n" + MEASURED, "--time-column height, or --columns height,v"),
        ("begin,end,v\n" + "".join(f"{one},{one},1\n" for one in DAYS), "each of the columns begin, end can be"),
        ("day,v\n" + "".join(f"{one},1\n" for one in DAYS) + "Total,10\n", "line 12: column 'day' is 'Total'"),
        ("month,v\nJan,1\nFeb,2\nMar,3\nTotal,6\n", "line 5: column 'month' is 'Total': a row of totals"),
        ("t,v\n" + "".join(f"{step * 3 % 10 / 10},1\n" for step in range(10)), "the time goes back"),
        ("depth,v\n" + "".join(f"{90 - 10 * step},1\n" for step in range(10)), "the time goes back"),
        ("v,when\n" + "".join(f"1,{1700000000 + 60 * (step * 3 % 10)}\n" for step in range(10)), "the time goes back"),
        ("v,when\n1,20240103\n2,20240101\n3,20240102\n4,20240105\n", "the time goes back"),
    ],
)
def test_a_time_axis_is_never_guessed_wrong(text, said):
    with pytest.raises(DataError) as caught:
        series(text)
    assert said in str(caught.value)


def test_a_time_axis_leaves_an_evenly_spaced_measurement_alone():
    text = "height,time,v\n" + "".join(f"{10 * step},{2 * step},{step % 3}\n" for step in range(10))
    assert series(text).names == ["height", "v"]
    assert series("height,v\n" + MEASURED, columns=("height", "v")).names == ["height", "v"]
    assert series("height,v\n" + MEASURED, time_column="height").names == ["v"]


def test_dates_that_pandas_writes_as_numbers_are_the_time():
    frame = FRAME.assign(v=[1.0, 2.0, 3.0, 4.0]).rename(columns={"when": "date"})
    epochs = {str(row): 1704067200000 + 3600000 * row for row in range(4)}  # the default of `to_json`
    for name in ("date", "reading"):
        text = json.dumps({**json.loads(frame[["v"]].to_json()), name: epochs})
        found = series(text, "a.json")
        assert (found.names, found.time_name) == (["v"], name)
        assert np.diff(found.time).tolist() == [3.6e6] * 3


def test_counters_and_measurements_are_not_dates():
    counter = "v,bytes\n" + "".join(f"{step % 3},{10**9 + 12345 * step**2}\n" for step in range(10))
    assert series(counter).names == ["v", "bytes"]
    years = "v,count\n" + "".join(f"{step % 3},{20000000 + 31 * step**2}\n" for step in range(10))
    assert series(years).names == ["v", "count"]


def test_a_time_of_whole_numbers_with_a_repeat_is_the_time():
    found = series("t,v\n" + "".join(f"{step - (step > 3)},{step % 3}\n" for step in range(12)))
    assert (found.names, found.time_name) == (["v"], "t")
    assert "1 step(s) repeat the time of the step before, the first is 3" in found.notes


@pytest.mark.parametrize(
    ("stamps", "said"),
    [
        ([*DAYS[:4], *DAYS[5:]], "1 step(s) are missing from the time axis, the first after 2024-05-04"),
        ([*DAYS[:4], *DAYS[3:]], "1 step(s) repeat the time of the step before, the first is 2024-05-04"),
        ([one for one in DAYS if one[-2:] not in ("04", "05")], None),  # a weekend
        (["2024-01", "2024-02", "2024-03", "2024-04", "2024-05"], None),
    ],
)
def test_an_irregular_time_axis_is_said(stamps, said):
    found = series("date,v\n" + "".join(f"{one},1\n" for one in stamps))
    assert (said in found.notes) if said else len(found.notes) == 1


def test_an_irregular_time_axis_of_a_long_table_is_said():
    rows = [f"{name},{day},1" for name, lost in (("a", 0), ("b", 4), ("c", 6)) for day in DAYS if day != DAYS[lost]]
    found = table("id,day,v\n" + "\n".join(rows), id_column="id")
    assert found.notes[-1] == (
        "series b: 1 step(s) are missing from the time axis, the first after 2024-05-04; and 1 more such notes"
    )


@pytest.mark.parametrize(
    ("stamps", "following"),
    [
        (["2024-05-28 22:00+02:00", "2024-05-28 23:00+02:00", "2024-05-29 00:00+02:00"], "2024-05-29 01:00+02:00"),
        (["2024-05-28T22:00:00Z", "2024-05-28T23:00:00Z", "2024-05-29T00:00:00Z"], "2024-05-29T01:00:00Z"),
        (["2019Q2", "2019Q3", "2019Q4"], "2020Q1"),
        (["2019-10", "2019-11", "2019-12"], "2020-01"),
        (["2024-01-01", "2024-02-01", "2024-04-01", "2024-05-01"], "2024-06-01"),
        (["2024-01-31", "2024-02-29", "2024-03-31"], "2024-04-30"),
        (["29.05.2024 10:00", "29.05.2024 10:30", "29.05.2024 11:00"], "29.05.2024 11:30"),
        (["2024-05-28", "2024-05-29", "2024-05-29", "2024-05-30"], "2024-05-31"),
        (["2024-05-28 22:00:00+02", "2024-05-28 23:00:00+02", "2024-05-29 00:00:00+02"], "2024-05-29 01:00:00+02"),
        (["2024-05-28T22:00:00.000Z", "2024-05-28T23:00:00.000Z"] * 2, None),
        (
            ["2024-05-28T22:00:00.250Z", "2024-05-28T22:00:00.500Z", "2024-05-28T22:00:00.750Z"],
            "2024-05-28T22:00:01.000Z",
        ),
        (["Oct 2019", "Nov 2019", "Dec 2019"], "Jan 2020"),
        (["2019/10", "2019/11", "2019/12"], "2020/01"),
        (["29.05.24", "30.05.24", "31.05.24"], "01.06.24"),
        (["5/29/2024 9:05", "5/30/2024 9:05", "5/31/2024 9:05"], "6/1/2024 9:05"),
        (["20/04/2024", "28/04/2024", "06/05/2024"], "14/05/2024"),
        (["05/31/2024 10:00 AM", "05/31/2024 11:00 AM", "05/31/2024 12:00 PM"], "05/31/2024 01:00 PM"),
        (["23:58", "23:59", "00:00"], "00:01"),
        (["9:05:10", "9:05:20", "9:05:30"], "9:05:40"),
        (["46:00", "47:00", "48:00"], None),  # elapsed hours
        (["1714867200000", "1714867260000", "1714867320000"], "1714867380000"),
        (["1714867200000000123", "1714867200000000223", "1714867200000000323"], "1714867200000000423"),
    ],
)
def test_a_time_axis_goes_on_as_it_is_written(stamps, following):
    assert (next_times(stamps, 2) or [None])[0] == following


def test_lines_above_the_table_and_other_encodings():
    text = "Station;M\u00fcnchen\nmade 2024\n\nt\u00e9mp;hum\n1;2\n3;4\n"
    found = series(text.encode("latin-1"), encoding="latin-1", skip_rows=3)
    assert (found.names, found.values.tolist()) == (["t\u00e9mp", "hum"], [[1, 2], [3, 4]])
    assert series(text.encode("utf-16-le"), encoding="utf-16-le", skip_rows=3).names == ["t\u00e9mp", "hum"]
    with pytest.raises(OptionError, match="--encoding klingon"):
        series(text.encode("latin-1"), encoding="klingon")
    with pytest.raises(DataError, match="below its first 99 line"):
        series(text, skip_rows=99)
    cells = pandas.DataFrame([["title", None], ["a", "b"], [1, 2], [3, 4]])
    sheet = written(lambda file: cells.to_excel(file, index=False, header=False))
    assert series(sheet, "a.xlsx", skip_rows=1).names == ["a", "b"]


WIDE = "patient_id,{}\n104,{}\n93,{}\n"


def wide(names):
    values = {f"t{step}": step for step in range(12)}
    rows = (",".join(str(values[name] + extra) for name in names) for extra in (0, 5))
    return WIDE.format(",".join(names), *rows)


def test_steps_are_ordered_by_their_number_and_other_columns_left_out():
    found = table(wide(sorted(f"t{step}" for step in range(12))))  # t0, t1, t10, t11, t2, …
    assert found.series[0].values[:, 0].tolist() == list(range(12))
    assert "left out patient_id (not a step); steps in the order t0, t1, t2, " in found.notes[-1]
    words = table("id,mon,tue,wed\n7,1,2,3\n9,4,5,6\n")
    assert [len(one) for one in words.series] == [3, 3]
    assert words.notes[-1].endswith("left out id (an id); steps mon, tue, wed")
    for form in ("v[{}]", "{}min", "t_{}_s"):
        names = [form.format(step) for step in (0, 1, 10, 2)]
        assert table(f"{','.join(names)}\n0,1,10,2\n").series[0].values[:, 0].tolist() == [0, 1, 2, 10]


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ("y,a0,a1,a2,b0,b1,b2\nu,1,2,3,4,5,6\n", {}, "can both be the steps"),
        (
            wide([f"t{step}" for step in range(12)]).replace("93,", "104,"),
            {"id_column": "patient_id"},
            "look like steps",
        ),
        (
            "id," + ",".join(DAYS) + "\n" + f"a{',1' * 10}\na{',2' * 10}\nb{',3' * 10}\n",
            {"id_column": "id"},
            "look like steps",
        ),
        (f"a{',1' * 10}\na{',2' * 10}\nb{',3' * 10}\n", {"id_column": "1"}, "look like steps"),
    ],
)
def test_tables_whose_steps_are_in_doubt(text, options, said):
    with pytest.raises(DataError) as caught:
        table(text, **options)
    assert said in str(caught.value)


def test_tables_are_matched_by_their_names():
    train = table("y,mon,tue,wed\nu,1,2,3\nw,4,5,6\n")
    new = match_tables(table("wed,mon,tue\n3,1,2\n"), "new.csv", train)
    assert new.series[0].values[:, 0].tolist() == [1, 2, 3]
    with pytest.raises(ShapeError, match=r"new\.csv has no column wed"):
        match_tables(table("sun,mon,tue\n3,1,2\n"), "new.csv", train)
    longer = match_tables(table("t0,t1,t2,t3\n1,2,3,4\n"), "new.csv", table("t0,t1,t2\n1,2,3\n"))
    assert len(longer.series[0]) == 4
    with pytest.raises(DataError, match=r"new\.csv has no column t1, a step in the training"):
        match_tables(table("t0,t2,t3\n1,2,3\n"), "new.csv", table("t0,t1,t2,t3\n1,2,3,4\n"))


def workbook(sheets: dict[str, list[list]]) -> bytes:
    buffer = io.BytesIO()
    with pandas.ExcelWriter(buffer) as writer:
        for name, rows in sheets.items():
            pandas.DataFrame(rows).to_excel(writer, sheet_name=name, index=False, header=False)
    return buffer.getvalue()


ROWS = [["a"], [1.0], [2.0], [None], [4.0]]


def test_the_first_sheet_with_cells_is_read():
    table = read_table("a.xlsx", ReadOptions(), workbook({"notes": [], "data": ROWS}))
    assert table.cells[0].tolist() == [1.0, 2.0, 4.0]  # a row without any cell is not one
    assert table.lines == [2, 3, 5]
    assert table.notes == []
    table = read_table("a.xlsx", ReadOptions(), workbook({"notes": [], "data": ROWS, "more": [[7.0], [8.0]]}))
    assert any("the first of 2 sheets, 'data'" in note for note in table.notes)
    with pytest.raises(DataError, match=r"a\.xlsx is empty"):
        read_table("a.xlsx", ReadOptions(), workbook({"notes": [], "data": [[None], [None]]}))


def test_sizes_after_unpacking_are_bounded(monkeypatch):
    text = b"v\n" + b"1\n" * 499
    zipped = gzip.compress(text)
    monkeypatch.setattr("udtw.data.table_files.MAX_UNPACKED", len(text))
    assert len(read_table("a.csv.gz", ReadOptions(), zipped).cells) == 499
    monkeypatch.setattr("udtw.data.table_files.MAX_UNPACKED", len(text) - 1)
    arrays, sheet = io.BytesIO(), workbook({"data": [[float(number)] for number in range(400)]})
    np.savez_compressed(arrays, a=np.zeros(400))
    for name, content in (("a.csv.gz", zipped), ("a.npz", arrays.getvalue()), ("a.xlsx", sheet)):
        with pytest.raises(DataError, match="bytes"):
            read_table(name, ReadOptions(), content)


def test_a_bomb_is_not_unpacked_further_than_its_bound(monkeypatch):
    monkeypatch.setattr("udtw.data.table_files.MAX_UNPACKED", 1000)
    bomb = gzip.compress(b"1\n" * 10_000_000)
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match="more than 1,000 bytes after unpacking"):
            read_table("a.csv.gz", ReadOptions(), bomb)
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


def test_what_a_table_says_of_lines_that_are_not_numbers():
    content = b"sep=|\na|b\n1|2\n# one\n3|4\n#N/A|5\n# two\n6|7\n"
    found = read_table("a.csv", ReadOptions(), content)
    assert found.separator == "|"
    assert found.names == ["a", "b"]
    assert found.cells[0].tolist() == ["1", "3", "#N/A", "6"]
    assert found.lines == [3, 5, 6, 8]
    assert "skipped 2 line(s) that begin with #, the first is line 4" in found.notes


def test_arrays_of_three_axes_stay_arrays():
    buffer = io.BytesIO()
    np.save(buffer, np.arange(24.0).reshape(2, 3, 4))
    assert read_table("a.npy", ReadOptions(), buffer.getvalue()).array.shape == (2, 3, 4)
    nested = np.arange(24.0).reshape(2, 3, 4).tolist()
    assert read_table("a.json", ReadOptions(), json.dumps(nested).encode()).array.shape == (2, 3, 4)


@pytest.mark.parametrize(
    ("value", "names", "column"),
    [
        ({"a": [1, 2], "b": [3, 4]}, ["a", "b"], [3, 4]),
        ({"0": 1.5, "1": None, "2": 4}, ["", "value"], [1.5, None, 4]),  # `Series.to_json`
        ({"v": {"0": 1, "1": 2}, "w": {"0": 3, "1": 4}}, ["", "v", "w"], [1, 2]),  # `DataFrame.to_json`
        ({"columns": ["v"], "index": [7, 8], "data": [[1], [2]]}, ["", "v"], [1, 2]),  # with orient="split"
    ],
)
def test_objects_of_columns_in_json(value, names, column):
    found = read_table("a.json", ReadOptions(), json.dumps(value).encode())
    assert found.names == names
    assert found.cells[1].tolist() == column


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"a": [1, 2], "b": [3]}, "columns of different lengths: a 2, b 1"),
        ({"columns": ["v", "w"], "index": [7], "data": [[1]]}, "different lengths"),
        ({"a": 1, "b": "x"}, "not one of columns"),
        ({}, "not one of columns"),
        ([], "instead of a list of values"),
        ([1, {"a": 2}], "mixes rows"),
        ([[[1, 2]], [[3]]], "lists inside of lists"),
    ],
)
def test_json_without_a_table_is_refused(value, said):
    with pytest.raises(DataError, match=said):
        read_table("a.json", ReadOptions(), json.dumps(value).encode())
