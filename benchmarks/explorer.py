"""How long the explorer takes to answer at length 256. `python -m benchmarks.explorer`.

The series tab, all that it shows: alignment, paths, four distances, both figures, the script. First through Flask's
test client, from the request to the bytes of the answer; then, where Chromium is installed, in the browser, from the
moved slider to the first frame after the answer (drawn by this machine's processor: there is no graphics card).
"""

import argparse
import json
import os
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from udtw.explorer.app import bind, create_app, make_server, warm_up

TARGET_MS = 200
SLIDER = "#series-gamma [role=slider]"
SAID = {
    "x-set": "cbf-256",
    "x-item": 0,
    "y-set": "cbf-256",
    "y-item": 1,
    "beta": 1,
    "band": 100,
    "noise": 1,
    "stretch": [40, 60],
    "side": "x",
    "variance": "known",
    "scale": ["znormalize"],
    "paths": 20,
    "seed": 0,
    "view": "lines",
}


def request_body(app: Any, gamma: float) -> dict[str, Any]:
    """Return the request of the page when γ is dragged to 10^gamma."""
    [output] = [key for key, one in app.callback_map.items() if [i["id"] for i in one["inputs"]] == ["series-request"]]
    parts = [part.rsplit(".", 1) for part in output.strip(".").split("...")]
    values = {f"series-{name}.value": value for name, value in SAID.items()} | {
        "series-gamma.value": gamma,
        "theme.data": "light",
    }
    values |= {f"series-{side}-upload-key.data": None for side in "xy"}
    return {
        "output": output,
        "outputs": [{"id": component, "property": prop} for component, prop in parts],
        "inputs": [{"id": "series-request", "property": "data", "value": {"number": 1, "values": values}}],
        "changedPropIds": ["series-request.data"],
    }


def through_flask(app: Any, count: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Time ``count`` requests with γ from 0.001 to 100: wall and processor milliseconds, and the bytes of one."""
    client = app.server.test_client()
    times, busy, size = [], [], 0
    for gamma in np.linspace(-3, 2, count):
        body = request_body(app, float(gamma))
        begin, worked = time.perf_counter(), time.process_time()
        answer = client.post("/_dash-update-component", json=body)
        size = len(answer.data)
        times.append(1e3 * (time.perf_counter() - begin))
        busy.append(1e3 * (time.process_time() - worked))
        message = json.loads(answer.data)["response"]["series-message"]["children"]
        if answer.status_code != 200 or message:
            raise SystemExit(f"The answer is wrong, so nothing is timed: {answer.status_code} {message}")
    return np.array(times), np.array(busy), size


@contextmanager
def served(app: Any) -> Iterator[str]:
    listening = bind("127.0.0.1", 0)
    server = make_server(app, listening)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        listening.close()


def in_browser(app: Any, count: int) -> np.ndarray:
    """Time ``count`` moves of a slider, one after the other, until the answer is on the page, in milliseconds."""
    from selenium import webdriver
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import WebDriverWait

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1280,900"):
        options.add_argument(argument)
    with served(app) as url:
        driver = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
        try:
            driver.get(url)
            WebDriverWait(driver, 60).until(lambda d: d.find_elements(By.CSS_SELECTOR, SLIDER))
            for number in range(1, count + 4):
                _wait_for(driver, number)
                driver.find_element(By.CSS_SELECTOR, SLIDER).send_keys(Keys.ARROW_RIGHT)
            times = driver.execute_script("return window.udtwTimes.map(one => one.ms)")
        finally:
            driver.quit()
    return np.array(times[3:])  # the page was still loading


def _wait_for(driver: Any, answers: int, patience: float = 60) -> None:
    end = time.monotonic() + patience
    while driver.execute_script("return window.udtwTimes.length") < answers:
        if time.monotonic() > end:
            raise SystemExit(f"The page did not get answer {answers} in {patience:g} s.")
        time.sleep(0.02)


def report(what: str, times: np.ndarray) -> None:
    met = "meets" if np.median(times) < TARGET_MS else "misses"
    print(
        f"{what}: median {np.median(times):.0f} ms, worst {times.max():.0f} ms of {len(times)} ({met} {TARGET_MS} ms)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=50)
    count = parser.parse_args().requests
    load = os.getloadavg()[0]
    app = create_app(all_tabs=True)
    warm_up()
    through_flask(app, 3)
    print(f"length 256, 20 sampled paths, {os.cpu_count()} cores, load {load:.1f} by others at the start")
    times, busy, size = through_flask(app, count)
    report(f"request to answer ({size / 1e3:.0f} kB)", times)
    report("the same in processor time, whatever else runs here", busy)
    if shutil.which("chromium") and shutil.which("chromedriver"):
        report("slider to drawn figures", in_browser(app, count))
    else:
        print("Chromium is not installed: not measured in a browser")


if __name__ == "__main__":
    main()
