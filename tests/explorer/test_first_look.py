"""What a stranger meets in a real browser: the first example, own files, a phone, the keyboard alone, dark mode.

Pictures of all of it are kept in build/screenshots.
"""

import gzip
import re

import numpy as np
import pytest

import udtw

pytest.importorskip("selenium")
pytest.importorskip("pandas")

import pandas
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from tests.explorer.browser import AXE, DESKTOP, PATIENCE, PHONE, TABLET, TABS, axe_violations, emulate

pytestmark = pytest.mark.timeout(3 * PATIENCE)

COLOUR = re.compile(r"[\d.]+")


@pytest.fixture
def own_files(tmp_path):
    """Two series of a user."""
    rng = np.random.default_rng(0)
    time = np.linspace(0, 1, 80)
    x = np.sin(9 * time) + 0.1 * rng.standard_normal(80)
    x[30:38] += rng.standard_normal(8)
    y = np.sin(9 * time**1.3) + 0.1 * rng.standard_normal(80)
    for name, values in (("a", x), ("b", y)):
        (tmp_path / f"{name}.csv").write_text("\n".join(map(repr, values.tolist())))
    return tmp_path, x, y


def chosen(page, group):
    return page.find(f"#{group} input:checked").get_attribute("value")


METHODS = ("DTW", "soft-DTW", "uDTW")


def test_the_first_example_shows_match_lines_and_says_what_one_sees(page, url):
    page.open(url, advanced=False)
    page.until(lambda: all(re.fullmatch(r"\d+\.\d", page.text(f"series-mean-{name}")) for name in METHODS))
    plain, soft, uncertain = (page.text(f"series-mean-{name}") for name in METHODS)
    assert float(uncertain) < float(soft) < 0.6 * float(plain)
    assert [page.text(f"series-own-{name}") for name in METHODS] == ["this pair"] * 3
    assert not page.find(".advanced").get_attribute("open")
    assert chosen(page, "series-view") == "lines"
    assert chosen(page, "series-variance") == "match"
    assert page.text("series-verdict").startswith("Good match: ")
    titles = " ".join(one.text for one in page.all("#series-alignment .annotation-text"))
    assert f"DTW: {plain} steps off" in titles
    assert f"uDTW: {uncertain} steps off" in titles
    page.screenshot("first-look")


def test_the_matrix_is_the_second_view(page):
    page.choose("series-view", "matrix")
    page.until(lambda: len(page.all("#series-alignment .heatmaplayer image")) == 2)
    page.settle()
    assert page.text("series-key") == ""
    page.screenshot("matrix")


def test_nothing_is_added_to_own_files_and_sigma_is_estimated(page, own_files):
    folder, x, y = own_files
    page.press("series-noise", Keys.END)
    page.choose("series-variance", "known")
    page.settle()
    page.choose("series-source", "mine")
    assert "waiting" in page.changed("series-y-name", lambda: page.upload("series-files", folder / "a.csv"))
    page.until(lambda: "Waiting for a second file" in page.text("series-message"))
    assert float(page.find("#series-page .figure").value_of_css_property("opacity")) < 0.5, "stale results are dimmed"
    page.changed("series-y-name", lambda: page.upload("series-files", folder / "b.csv"))
    page.until(lambda: page.text("series-sentence").startswith("Nothing was added to a.csv and b.csv. "))
    page.settle()
    assert chosen(page, "series-variance") == "match"
    a = udtw.match(x, y).alignment
    assert float(page.text("series-distance")) == pytest.approx(float(a.distance), rel=1e-4)
    page.screenshot("own-files")


@pytest.mark.parametrize("kind", ["csv.gz", "parquet", "xlsx", "json", "npy"])
def test_files_that_the_command_line_reads_are_read(page, tmp_path, kind):
    path = tmp_path / f"mine.{kind}"
    frame = pandas.DataFrame({"value": np.sin(np.arange(30) / 4)})
    if kind == "csv.gz":
        path.write_bytes(gzip.compress(frame.to_csv(index=False).encode()))
    elif kind == "npy":
        np.save(path, frame["value"].to_numpy())
    else:
        {"parquet": frame.to_parquet, "xlsx": lambda to: frame.to_excel(to, index=False), "json": frame.to_json}[kind](
            path, **({"orient": "records"} if kind == "json" else {})
        )
    page.choose("series-source", "mine")
    assert "30 steps" in page.changed("series-x-name", lambda: page.upload("series-files", path, path))
    page.settle()
    assert page.text("series-message") == ""


BAD = {
    "words.csv": b"1\n2\nthree\n4\n",
    "empty.csv": b"",
    "blank.csv": b"\n\n\n",
    "picture.png": b"\x89PNG\r\n\x1a\n\0\0",
    "report.pdf": b"%PDF-1.7 \xff\xfe\x00",
    "old.xls": b"\xd0\xcf\x11\xe0" + bytes(600),
    "damaged.xlsx": b"PK\3\4 no workbook",
    "damaged.csv.gz": b"\x1f\x8b no gzip",
    "damaged.parquet": b"PAR1 no table",
    "flat.csv": b"5\n" * 30,
    "two.csv": b"1\n2\n",
    "missing.csv": b"1\n\nNA\n4\n5\n",
    "wide.csv": (b"1," * 40 + b"2\n") * 20,
    "long.csv": b"1\n" * 5000,
    "large.csv": b"1.23456789\n" * 300_000,
}


def test_every_bad_file_is_answered_by_name_and_answered_again(page, tmp_path):
    """The second time too, although nothing in the page has changed then."""
    page.choose("series-source", "mine")
    page.settle()
    (tmp_path / "good.csv").write_text("1\n2\n4\n")
    for name, content in BAD.items():
        (tmp_path / name).write_bytes(content)
        for _ in range(2):
            page.driver.execute_script("dash_clientside.set_props('series-message', {children: ''})")
            page.until(lambda: page.text("series-message") == "")
            page.upload("series-files", tmp_path / name, *([tmp_path / "good.csv"] if name == "flat.csv" else []))
            page.until(lambda: page.text("series-message") != "")
            assert name in page.text("series-message"), page.text("series-message")
            page.settle()
    page.screenshot("bad-file")


def test_several_files_at_once_are_answered(page, own_files):
    folder, *_ = own_files
    page.choose("series-source", "mine")
    page.settle()
    three = [folder / "a.csv", folder / "b.csv", folder / "a.csv"]
    assert page.changed("series-message", lambda: page.upload("series-files", *three)).endswith("files; got 3.")


def test_files_and_folders_that_are_dropped_are_answered(page, own_files, tmp_path):
    folder, *_ = own_files
    page.choose("series-source", "mine")
    page.settle()
    page.drop("series-files", folder / "a.csv", folder / "b.csv")
    page.until(lambda: "b.csv" in page.text("series-y-name"))  # the choice above may be answered first
    page.settle()
    for name in ("several", "none"):
        (tmp_path / name).mkdir()
    (tmp_path / "several" / "c.csv").write_text("1\n2\n4\n")
    for name in ("several", "none"):
        page.driver.execute_script("dash_clientside.set_props('series-message', {children: ''})")
        page.until(lambda: page.text("series-message") == "")
        page.drop("series-files", tmp_path / name)
        page.until(lambda: page.text("series-message") == "That is a folder. Choose one or two files.")
    shown = page.changed("series-message", lambda: page.drop("series-distance", folder / "a.csv"))
    assert shown == "Drop a file on one of the buttons that choose it."
    assert page.driver.current_url.startswith("http://127")  # the browser did not open what was dropped
    assert page.text("series-x-name").startswith("x: a.csv")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_on_a_phone_the_picture_comes_first(page, browser, url, theme):
    emulate(browser, PHONE, theme)
    page.open(url)
    for tab in TABS:
        page.open_tab(tab)
        width = browser.execute_script("return document.documentElement.scrollWidth")
        assert width <= PHONE[0], f"{tab} is {width} pixels wide"
        figure, settings = (page.find(f"#{tab}-page {one}").rect for one in (".figure", ".controls"))
        assert figure["y"] + 0.6 * figure["height"] < PHONE[1], "most of the picture is on the first screen"
        assert figure["y"] + figure["height"] < settings["y"]
        assert settings["width"] > 0.9 * PHONE[0]


def luminance(css):
    channels = [float(one) / 255 for one in COLOUR.findall(css)[:3]]
    linear = [one / 12.92 if one <= 0.03928 else ((one + 0.055) / 1.055) ** 2.4 for one in channels]
    return sum(weight * one for weight, one in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def paper_of(page):
    """The colour behind the first figure."""
    return page.find("#series-alignment .main-svg").value_of_css_property("background-color")


GROUND = """
let e = arguments[0];
while (e && ["rgba(0, 0, 0, 0)", "transparent"].includes(getComputedStyle(e).backgroundColor)) { e = e.parentElement; }
return [getComputedStyle(arguments[0]).color, getComputedStyle(e || document.body).backgroundColor];
"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_texts_can_be_read_in_both_themes(page, browser, url, theme):
    emulate(browser, DESKTOP, theme)
    page.open(url)
    page.until(lambda: bool(page.all("#series-alignment .bg, #series-alignment .main-svg")))
    ground = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert (luminance(ground) < 0.1) == (theme == "dark")
    assert (luminance(paper_of(page)) < 0.1) == (theme == "dark")
    texts = ".sentence, .caption, .card-name, .card-value, h1, h2, #tabs .tab, button.plain, .key span, .control label"
    for one in page.all(texts):
        colours = browser.execute_script(GROUND, one)
        assert not one.text or contrast(*colours) >= 4.5, (one.text, colours)


def test_the_theme_follows_the_system_while_the_page_is_open(page, browser):
    emulate(browser, DESKTOP, "dark")
    page.until(lambda: luminance(paper_of(page)) < 0.1)
    page.settle()


FOCUSED = """
const e = document.activeElement, s = getComputedStyle(e), r = e.getBoundingClientRect();
const near = e.closest('[id]');
return {id: near ? near.id : '', tag: e.tagName, ring: s.outlineStyle !== 'none' || s.boxShadow !== 'none', top: r.top};
"""


def test_it_can_be_used_by_the_keyboard_alone(page, browser):
    """Every stop has a ring; tabs, view, sliders and radio buttons follow the keys."""
    seen = []
    for _ in range(40):
        ActionChains(browser).send_keys(Keys.TAB).perform()
        seen.append(browser.execute_script(FOCUSED))
    assert all(one["ring"] for one in seen if one["tag"] != "BODY"), [one for one in seen if not one["ring"]]
    names = " ".join(one["id"] for one in seen)
    for part in ("series-view", "series-set", "series-variance", "series-break", "series-gamma", "series-noise"):
        assert part in names
    assert names.index("series-view") < names.index("series-set") < names.index("series-picture")
    page.find("#series-view input:checked").send_keys(Keys.ARROW_RIGHT)
    page.until(lambda: chosen(page, "series-view") == "matrix")
    page.find("#tabs input:checked").send_keys(Keys.ARROW_RIGHT)
    page.until(lambda: page.find("#images-page").is_displayed())
    page.settle()


def test_everything_that_takes_the_focus_has_a_role_and_a_name(page, browser):
    browser.execute_cdp_cmd("Accessibility.enable", {})
    for tab in TABS:
        page.open_tab(tab)
        nodes = browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
        focusable = []
        for node in nodes:
            properties = {one["name"]: one["value"].get("value") for one in node.get("properties", [])}
            if properties.get("focusable") and not node.get("ignored"):
                focusable.append((node["role"]["value"], node.get("name", {}).get("value", "")))
        nameless = [one for one in focusable if one[0] != "RootWebArea" and not one[1].strip()]
        assert not nameless, f"{tab}: {nameless}"
        roles = {role for role, _ in focusable}
        assert {"slider", "button", "radio"} <= roles, roles
        landmarks = {node["role"]["value"] for node in nodes if not node.get("ignored")}
        assert {"banner", "main", "radiogroup", "status"} <= landmarks, landmarks
    browser.execute_cdp_cmd("Accessibility.disable", {})


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, TABLET, PHONE], ids=["desktop", "tablet", "phone"])
def test_axe_finds_nothing_on_any_tab(page, browser, url, size, theme):
    emulate(browser, size, theme)
    page.open(url)
    for tab in TABS:
        page.open_tab(tab)
        page.screenshot(f"{tab}-{size[0]}-{theme}")
        assert browser.execute_script("return document.documentElement.scrollWidth") <= size[0], tab
        if AXE.is_file():  # `make browser` fetches it
            assert axe_violations(browser) == [], tab


def test_dragging_over_the_series_breaks_the_sensor(page, browser):
    figure = page.find("#series-alignment .nsewdrag")
    drag = ActionChains(browser).move_to_element_with_offset(figure, -100, 0).click_and_hold()
    page.changed("series-own-DTW", drag.move_by_offset(150, 0).release().perform)
    assert page.text("series-noise-shown") == "3"
    first, last = (float(one) for one in page.text("series-stretch-shown").removesuffix(" %").split(" – "))
    assert 10 < first < 50 < last < 90
    page.changed("series-own-DTW", page.find("#series-repair").click)
    assert page.text("series-noise-shown") == "0"


def test_sliders_announce_their_values(page):
    thumb = page.find("#series-gamma [role=slider]")
    page.until(lambda: thumb.get_attribute("aria-valuetext") == "4")
    assert page.find(f"#{thumb.get_attribute('aria-labelledby')}").text == "temperature γ"
