"""What a user sees and does in a real browser: headless Chromium, driven by Selenium."""

import os
import shutil
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
PATIENCE = 150  # seconds; below pytest's own limit, at which a worker of xdist would end
TABS = {"series": "Series", "images": "Images", "skeletons": "Skeletons"}
DESKTOP, TABLET, PHONE = (1440, 1000), (1024, 900), (390, 844)
SCREENSHOTS = Path(os.environ.get("UDTW_SCREENSHOTS", Path(__file__).parents[2] / "build" / "screenshots"))
"""Where the tests keep pictures of what they saw."""


def start(downloads):
    """A headless browser that saves what is downloaded."""
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1440,1000"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(
        options, webdriver.ChromeService(DRIVER)
    )  # with its path given, Selenium does not download a driver
    # Chromedriver's own limits are for idle machines: 30 s for axe, and 120 s for any command.
    driver.set_script_timeout(PATIENCE)
    driver.set_page_load_timeout(PATIENCE)
    driver.command_executor.client_config.timeout = PATIENCE
    # Without this, Chromium asks whether a downloaded script shall be kept, and waits for an answer.
    driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(downloads)})
    return driver


PENDING = """
const [store] = window.dash_stores || [];
if (!store || !window.udtwBusy || window.udtwBusy()) { return true; }
const {stored, completed, ...open} = store.getState().callbacks;
const drawn = Array.from(document.querySelectorAll(".dash-graph")).filter(one => one.offsetParent);
return Object.values(open).some(one => one.length) || drawn.some(one => !one.querySelector(".main-svg"))
  || Array.from(document.images).some(one => one.offsetParent && !one.complete);
"""
"""Whether the page has requests without an answer, figures that are not drawn yet, or images that are not decoded."""

AXE = Path(os.environ.get("UDTW_AXE", Path(__file__).parents[2] / "build/axe/node_modules/axe-core/axe.min.js"))
"""The accessibility checker that `make browser` fetches; never part of the package."""
RUN_AXE = """
const done = arguments[arguments.length - 1];
axe.run(document, {resultTypes: ["violations"]}).then(found => done(found.violations.map(
  one => one.id + ": " + one.nodes.map(node => node.html.slice(0, 150) + " " + node.failureSummary).join(" | "))));
"""


def axe_violations(driver):
    """Every violation that axe-core finds on the page as it is."""
    driver.execute_script(AXE.read_text(encoding="utf-8"))
    return driver.execute_async_script(RUN_AXE)


def emulate(driver, size=DESKTOP, theme="light"):
    """Take the size of a screen, and the theme that the user prefers."""
    width, height = size
    shape = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", shape)
    wanted = {"features": [{"name": "prefers-color-scheme", "value": theme}]}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", wanted)


BOX = """
const one = document.getElementById(arguments[0]);
one.scrollIntoView({block: "center", behavior: "instant"});
return one.getBoundingClientRect();
"""
"""Where an element is, after it was scrolled into view: the mouse cannot reach others."""


class Page:
    """The explorer in the browser."""

    def __init__(self, driver):
        self.driver = driver

    def open(self, url, *, advanced=True):
        """Open the page; ``advanced`` unfolds the controls that a newcomer does not see."""
        self.driver.get(url)
        self.until(lambda: self.all("#series-distance") and self.text("series-distance") not in ("", "–"))
        self.settle()
        if advanced:
            self.driver.execute_script("document.querySelectorAll('.advanced').forEach(one => { one.open = true; })")

    def find(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def text(self, name):
        return self.find(f"#{name}").text

    def named(self, selector, text):
        """The first element with that text, as soon as there is one."""
        return self.until(lambda: next((one for one in self.all(selector) if text in one.text), None))

    def until(self, true):
        return WebDriverWait(self.driver, PATIENCE, 0.05).until(lambda _: true())

    def open_tab(self, tab):
        self.named("#tabs .tab", TABS[tab]).click()
        self.until(lambda: self.text(f"{tab}-distance") not in ("", "–"))
        self.settle()

    def settle(self):
        """Wait until every request is answered and drawn."""
        self.until(lambda: not self.driver.execute_script(PENDING))

    def changed(self, name, act):
        """The text of ``name`` after ``act`` has changed it."""
        before = self.text(name)
        act()
        self.until(lambda: self.text(name) != before)
        self.settle()
        return self.text(name)

    def press(self, slider, *keys):
        self.find(f"#{slider} [role=slider]").send_keys(*keys)

    def upload(self, name, *paths):
        self.find(f"#{name} input[type=file]").send_keys("\n".join(map(str, paths)))

    def drop(self, name, *paths):
        """Let go of files or folders over ``name``, as from a file manager."""
        box = self.driver.execute_script(BOX, name)
        place = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}
        data = {"items": [], "files": [str(path) for path in paths], "dragOperationsMask": 1}
        for kind in ("dragEnter", "dragOver", "drop"):
            self.driver.execute_cdp_cmd("Input.dispatchDragEvent", {"type": kind, "data": data, **place})

    def choose(self, name, value):
        """Choose the option ``value`` of a group of radio buttons."""
        next(one for one in self.all(f"#{name} input") if one.get_attribute("value") == value).click()

    def screenshot(self, name):
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        assert self.driver.save_screenshot(str(SCREENSHOTS / f"{name}.png"))
