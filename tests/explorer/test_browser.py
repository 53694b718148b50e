"""The page in a real browser: headless Chromium, driven by Selenium; it must not contact any other machine."""

import json

import numpy as np
import pytest

pytest.importorskip("selenium")
pytest.importorskip("PIL")

from PIL import Image
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.explorer.browser import PATIENCE, TABS

pytestmark = pytest.mark.timeout(3 * PATIENCE)


def test_the_page_loads_nothing_from_other_machines(page, browser, url):
    for tab in TABS:
        page.open_tab(tab)
    sent = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    urls = [one["params"]["request"]["url"] for one in sent if one["method"] == "Network.requestWillBeSent"]
    assert len(urls) > 10
    assert [one for one in urls if not one.startswith((url, "data:", "blob:"))] == []


@pytest.mark.parametrize("tab", TABS)
def test_every_tab_draws_its_figures(page, browser, tab):
    page.open_tab(tab)
    graphs = browser.find_elements(By.CSS_SELECTOR, f"#{tab}-page .js-plotly-plot")
    assert len(graphs) == (1 if tab == "series" else 2)
    for graph in graphs:
        assert graph.size["width"] > 600
        assert graph.find_elements(
            By.CSS_SELECTOR, ".trace, .heatmaplayer image, .imagelayer image, .layer-below image"
        )
    if tab == "series":
        panels = browser.find_elements(By.CSS_SELECTOR, "#series-comparison img")
        assert [int(one.get_attribute("naturalWidth")) for one in panels] == [64] * 4
    call = "udtw.match(" if tab == "series" else "udtw.align("
    assert call in page.find(f"#{tab}-code").get_attribute("textContent")
    assert "cloud" not in page.find(f"#{tab}-page").get_attribute("innerHTML").lower()


def set_gamma_by_hand(page):
    """Leave the default, which finds γ and β from the pair."""
    page.changed("series-entropy", lambda: page.choose("series-variance", "known"))


def test_keys_and_mouse_move_gamma_and_the_numbers_follow(page, browser):
    set_gamma_by_hand(page)
    first = page.text("series-entropy")
    by_key = page.changed("series-entropy", lambda: page.press("series-gamma", Keys.ARROW_RIGHT))
    page.until(lambda: page.text("series-gamma-shown") == "4.5")
    thumb = page.find("#series-gamma [role=slider]")
    drag = ActionChains(browser).click_and_hold(thumb)
    for _ in range(8):
        drag.move_by_offset(8, 0)
    by_mouse = page.changed("series-entropy", drag.release().perform)
    assert float(first) < float(by_key) < float(by_mouse)


def test_after_a_quick_drag_the_last_value_is_shown(page):
    set_gamma_by_hand(page)
    first = page.text("series-entropy")
    page.changed("series-entropy", lambda: page.press("series-gamma", *[Keys.ARROW_RIGHT] * 12))
    page.press("series-gamma", *[Keys.ARROW_LEFT] * 12)
    page.until(lambda: page.text("series-entropy") == first)
    page.settle()
    assert page.text("series-entropy") == first
    page.until(lambda: page.text("series-gamma-shown") == "4")


def test_beta_band_and_noise_change_the_right_numbers(page):
    set_gamma_by_hand(page)
    distance = page.text("series-distance")
    page.changed("series-loss", lambda: page.press("series-beta", Keys.HOME))
    assert page.text("series-distance") != distance  # a path that pays nothing for uncertainty is another one
    loss, distance = (float(page.text(f"series-{name}").replace("−", "-")) for name in ("loss", "distance"))
    assert loss < distance  # the free energy at β = 0
    page.changed("series-distance", lambda: page.press("series-band", Keys.HOME))
    page.changed("series-regularizer", lambda: page.press("series-noise", Keys.END))


def test_an_image_is_uploaded_and_a_broken_one_is_explained(page, tmp_path):
    page.open_tab("images")
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (40, 60, 3), np.uint8)).save(tmp_path / "mine.png")
    page.changed("images-distance", lambda: page.upload("images-x-upload", tmp_path / "mine.png"))
    page.until(lambda: page.text("images-x-upload-name") == "mine.png: 60 × 40 pixels")
    (tmp_path / "broken.png").write_bytes(b"not a picture")
    shown = page.changed("images-message", lambda: page.upload("images-y-upload", tmp_path / "broken.png"))
    assert "broken.png is damaged" in shown


def test_another_set_begins_with_its_first_series(page):
    page.find("#series-x-set").click()
    page.changed("series-distance", page.named(".dash-dropdown-option", "Control charts, 60").click)
    assert page.text("series-message") == ""
    assert "No. 1" in page.text("series-x-item")
    assert "needs equal lengths" in page.find("#series-comparison").get_attribute("textContent")


@pytest.mark.parametrize(("tab", "name"), [("series", "alignment"), ("images", "images"), ("skeletons", "skeletons")])
def test_picture_and_script_are_downloaded(page, downloads, tab, name):
    page.open_tab(tab)
    for button, file in (("picture", f"{name}.png"), ("script", f"{name}.py")):
        page.find(f"#{tab}-{button}").click()
        page.until((downloads / file).is_file)
    with Image.open(downloads / f"{name}.png") as picture:
        assert min(picture.size) > 300
    compile((downloads / f"{name}.py").read_text(), name, "exec")


def test_the_clip_plays_and_pauses(page):
    page.open_tab("skeletons")
    page.find("#skeletons-play").click()
    before = page.text("skeletons-frame-shown")
    page.until(lambda: page.text("skeletons-frame-shown") != before)
    page.find("#skeletons-play").click()
    page.until(lambda: page.text("skeletons-play") == "Play")
    page.settle()
