"""The site builds without a warning, shows every public name, and needs nothing from the network."""

import importlib
import os
import re
import subprocess
import sys
import zlib
from html.parser import HTMLParser

import pytest

from tests.docs.pages import ROOT, blocks

pytest.importorskip("mkdocs")
pytest.importorskip("latex2mathml")
pytest.importorskip("matplotlib")

MODULES = [
    "udtw",
    "udtw.data",
    "udtw.fewshot",
    "udtw.images",
    "udtw.interop",
    "udtw.nn",
    "udtw.plots",
    "udtw.skeleton",
    "udtw.timeseries",
]
IN_NAVIGATION = re.findall(r": ([\w/-]+)\.md$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
CHECKED_BY_AXE = {"index", "gallery", "api/core", "mathematics", "classification", "tasks/command-line", "recipes"}
HEROES = ("dtw", "soft_dtw", "udtw")
PLOTS = [name for name in importlib.import_module("udtw.plots").__all__ if name.startswith("plot_")]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Build the site as `make docs` does, and fail on any warning: ``--quiet`` would hide those of plugins."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    warnings = [line for line in (done.stdout + done.stderr).splitlines() if line.startswith(("WARNING", "ERROR"))]
    assert not warnings, "\n".join(warnings)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def documented(site):
    """Name → kind of everything in the inventory of the API pages."""
    compressed = (site / "objects.inv").read_bytes().split(b"\n", 4)[4]
    rows = [line.split(" ") for line in zlib.decompress(compressed).decode().splitlines()]
    return {name: kind for name, kind, *_ in rows}


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_is_on_an_api_page(module, documented):
    public = importlib.import_module(module)
    for name in public.__all__:
        item = getattr(public, name)
        defined = f"{getattr(item, '__module__', module)}.{getattr(item, '__qualname__', name)}"
        kinds = {documented.get(f"{module}.{name}"), documented.get(defined)}
        assert kinds & {"py:function", "py:class", "py:attribute", "py:data"}, (
            f"{module}.{name} is on no page of docs/api"
        )


def test_each_parameter_is_shown_with_its_own_default(site):
    """Also where several share a line of the docstring, as var_x and var_y, x and y of align do."""
    page = (site / "api/core.html").read_text(encoding="utf-8")
    table = page[page.index('id="udtw.align"') : page.index('id="udtw.Alignment"')]
    rows = [re.findall(r"<code>(.*?)</code>", row) for row in table.split("<tr")]
    shown = {cells[0]: cells[-1] for cells in rows if cells}
    assert (shown["beta"], shown["lengths_y"]) == ("1.0", "None")


class Fetched(HTMLParser):
    """Addresses that a browser fetches by itself: scripts, styles, images, frames, fonts."""

    def __init__(self):
        super().__init__()
        self.addresses = []

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        if tag in {"script", "img", "iframe", "source", "video", "audio", "embed"} and values.get("src"):
            self.addresses.append(values["src"])
        if tag == "link" and "canonical" not in (values.get("rel") or ""):
            self.addresses.append(values.get("href") or "")


def test_no_page_fetches_anything_from_elsewhere(site):
    for page in site.rglob("*.html"):
        parser = Fetched()
        parser.feed(page.read_text(encoding="utf-8"))
        assert parser.addresses
        foreign = [address for address in parser.addresses if re.match(r"(https?:)?//", address)]
        assert not foreign, f"{page.relative_to(site)} fetches {foreign}"
    for style in site.rglob("*.css"):
        assert not re.search(r"url\(\s*['\"]?(https?:)?//", style.read_text(encoding="utf-8")), style


def test_formulas_are_drawn_when_the_site_is_built(site):
    page = (site / "mathematics.html").read_text(encoding="utf-8")
    assert page.count("<math") > 20
    for built in site.rglob("*.html"):
        text = built.read_text(encoding="utf-8")
        assert "arithmatex" not in text, f"{built.relative_to(site)} holds a formula as text"
        assert "<merror" not in text


@pytest.mark.parametrize("name", PLOTS)
def test_every_plot_function_has_its_picture_and_its_code_in_the_gallery(site, name):
    page = (site / "gallery.html").read_text(encoding="utf-8")
    assert f'id="{name}"' in page
    assert page.count(f'src="pictures/{name}-') == 2
    light, dark = ((site / f"pictures/{name}-{theme}.svg").read_text(encoding="utf-8") for theme in ("light", "dark"))
    assert light.startswith("<?xml")
    assert "#1f2933" in light
    assert "#d9dee6" in dark
    assert "#1f2933" not in dark


def test_the_home_page_starts_with_the_typical_pair_by_three_methods(site):
    page = (site / "index.html").read_text(encoding="utf-8")
    shown = re.findall(r'<img[^>]*src="([^"]*)"', page[page.index("<h1") :])
    expected = [f"pictures/hero_{name}-{theme}.svg#only-{theme}" for name in HEROES for theme in ("light", "dark")]
    assert shown[:6] == expected


def test_there_are_five_tabs(site):
    page = (site / "tutorial.html").read_text(encoding="utf-8")
    assert page.count('class="md-tabs__link"') == 5


def test_the_code_of_the_gallery_is_short():
    for block in blocks(ROOT / "docs" / "gallery.md"):
        assert len([line for line in block.code.splitlines() if line.strip()]) <= 13, block.where


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    pytest.importorskip("selenium")
    browser = importlib.import_module("tests.explorer.browser")
    if not (browser.CHROMIUM and browser.DRIVER):
        pytest.skip("Chromium and chromedriver are not installed (packages chromium, chromium-driver)")
    driver = browser.start(tmp_path_factory.mktemp("downloads"))
    yield driver
    driver.quit()


def test_the_search_works_from_disk(site, browser):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    browser.get((site / "index.html").as_uri())
    browser.find_element(By.CSS_SELECTOR, ".md-search__input").send_keys("calibration")
    WebDriverWait(browser, 60).until(lambda _: browser.find_elements(By.CSS_SELECTOR, ".md-search-result__item"))
    links = browser.find_elements(By.CSS_SELECTOR, ".md-search-result__link")
    assert any("calibration.html" in link.get_attribute("href") for link in links)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 1024, 390])
def test_pages_fit_every_screen_and_axe_finds_nothing(site, browser, width, theme):
    from tests.explorer.browser import AXE, SCREENSHOTS, axe_violations, emulate

    emulate(browser, (width, 1000), theme)
    browser.get((site / "index.html").as_uri())
    browser.execute_script("localStorage.clear()")  # the site keeps the theme of the first visit
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    for page in IN_NAVIGATION:
        browser.get((site / f"{page}.html").as_uri())
        assert browser.save_screenshot(str(SCREENSHOTS / f"site-{page.replace('/', '-')}-{width}-{theme}.png"))
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width, page
        if page in CHECKED_BY_AXE and AXE.is_file():  # `make browser` fetches it
            assert axe_violations(browser) == [], page


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_pictures_fit_the_theme(site, browser, theme):
    from selenium.webdriver.common.by import By

    from tests.explorer.browser import DESKTOP, emulate

    emulate(browser, DESKTOP, theme)
    browser.get((site / "index.html").as_uri())
    browser.execute_script("localStorage.clear()")  # the site keeps the theme of the first visit
    for page in ("index", "gallery"):
        browser.get((site / f"{page}.html").as_uri())
        images = browser.find_elements(By.CSS_SELECTOR, ".md-content img[src*='pictures/']")
        shown = {one.get_attribute("src").rpartition("#")[2] for one in images if one.is_displayed()}
        assert shown == {f"only-{theme}"}
        assert all(int(one.get_attribute("naturalWidth")) > 100 for one in images if one.is_displayed())
