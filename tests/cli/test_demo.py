"""`udtw demo`: the whole job at a small size, and a report that needs nothing else."""

import importlib
import re

import pytest

pytest.importorskip("typer")
pytest.importorskip("sklearn")
pytest.importorskip("matplotlib")

from experiments import published
from tests.cli.helpers import run_ok
from udtw._engine.metrics import METRICS
from udtw.demo.common import Comparison
from udtw.demo.run import check_folder


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """The folder of a report, and what the command prints."""
    out = tmp_path_factory.mktemp("demo") / "new" / "out"
    return out, run_ok("demo", "--quick", "--out", out).stdout


@pytest.fixture
def browser(tmp_path):
    pytest.importorskip("selenium")
    browser = importlib.import_module("tests.explorer.browser")
    if not (browser.CHROMIUM and browser.DRIVER):
        pytest.skip("Chromium and chromedriver are not installed (packages chromium, chromium-driver)")
    driver = browser.start(tmp_path)
    yield driver
    driver.quit()


def test_demo_prints_tables_and_leaves_a_report(demo):
    out, shown = demo
    assert f"Open {out / 'report.html'}" in shown
    check_folder(out)  # a folder of its own, which may be written again
    page = (out / "report.html").read_text()
    for heading in ("Align", "Average", "Classify", "Forecast", "Recognize", "Tell apart"):
        assert f"<h2>{heading}</h2>" in page
    for metric in published.UCR:
        assert f"<td>{METRICS[metric].label}</td>" in page
        assert METRICS[metric].label in shown
    assert page.count("<img") == len(list(out.glob("figure-*.png"))) == 6, "one picture for each task"
    first = page[page.index("<main>") : page.index("</table>")]
    assert "<h1>Where uncertainty pays, and where it does not</h1>" in first
    assert len(re.findall(r"<td>(?:pays|does not pay|no clear difference)</td>", first)) == first.count("<tr>") - 1 == 8
    assert "<code>udtw align a.csv b.csv" in page
    assert "(s)" not in page


@pytest.mark.parametrize(
    ("rival", "own", "verdict"),
    [
        ([5.0, 6.0], [2.0, 1.0], "pays"),
        ([2.0, 1.0], [5.0, 6.0], "does not pay"),
        ([5.0, 6.0], [4.0, 7.0], "no clear difference"),
        ([5.0, 6.0], [4.99, 5.99], "no clear difference"),
    ],
)
def test_the_verdict_is_that_of_every_seed(rival, own, verdict):
    values = {"DTW": [9.0, 9.0], "sDTW": rival, "helped": [0.0, 0.0], "uDTW": own}
    lower = Comparison("align", "steps", values, lower=True, apart=("helped",)).row()
    assert (lower[3].split(":")[0], lower[1]) == ("sDTW", verdict)
    higher = Comparison(
        "align", "steps", {name: [-one for one in some] for name, some in values.items()}, apart=("helped",)
    )
    assert higher.row()[1] == verdict


def test_the_report_fits_every_screen_and_axe_finds_nothing(demo, browser):
    from tests.explorer.browser import AXE, SCREENSHOTS, axe_violations, emulate

    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    table = "const one = document.querySelector('.table'); return one.scrollWidth - one.clientWidth"
    for theme in ("light", "dark"):
        for width in (1440, 1024, 390):
            emulate(browser, (width, 1000), theme)
            browser.get((demo[0] / "report.html").as_uri())
            assert browser.save_screenshot(str(SCREENSHOTS / f"demo-{width}-{theme}.png"))
            assert browser.execute_script("return document.documentElement.scrollWidth") <= width
            assert browser.execute_script(table) <= 0, "the caveats of the first table can be seen"
            if AXE.is_file():  # `make browser` fetches it
                assert axe_violations(browser) == []
