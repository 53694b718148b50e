import threading

import pytest

pytest.importorskip("dash")
pytest.importorskip("typer")

from tests.explorer.helpers import FIRST, IMAGES, SKELETONS, answer


@pytest.fixture(scope="session")
def app():
    from udtw.explorer import create_app

    return create_app(all_tabs=True)


@pytest.fixture(scope="session")
def warm(app):
    """Compile the kernels of the first view of every tab, which takes minutes on a busy machine."""
    for tab, values in (("series", FIRST), ("images", IMAGES), ("skeletons", SKELETONS)):
        answer(app, tab, values)


@pytest.fixture(scope="session")
def url(app, warm):
    from udtw.explorer.app import bind, make_server

    listening = bind("127.0.0.1", 0)
    server = make_server(app, listening)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.port}/"
    server.shutdown()
    thread.join()
    server.server_close()
    listening.close()


@pytest.fixture(scope="session")
def downloads(tmp_path_factory):
    return tmp_path_factory.mktemp("downloads")


@pytest.fixture(scope="session")
def browser(downloads):
    browser = pytest.importorskip("selenium") and pytest.importorskip("tests.explorer.browser")
    if not (browser.CHROMIUM and browser.DRIVER):
        pytest.skip("Chromium and chromedriver are not installed (packages chromium, chromium-driver)")
    driver = browser.start(downloads)
    yield driver
    driver.quit()


@pytest.fixture
def page(browser, url):
    """The page as a user opens it; afterwards the browser must not have complained."""
    from tests.explorer.browser import Page, emulate

    browser.get_log("browser")
    emulate(browser)
    page = Page(browser)
    page.open(url)
    yield page
    wrong = [entry["message"] for entry in browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]
    assert not wrong
