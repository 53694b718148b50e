"""Many users, uploads and slow clients: ``python -m tests.explorer.load`` starts the explorer and prints figures.

Each user moves a slider once a second, if the answer to the last move has arrived by then, as the page does.
"""

import argparse
import http.client
import json
import os
import random
import re
import socket
import statistics
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.explorer.helpers import SERIES, data_url, request_body

PACE = 1.0
"""Seconds between the moves of a user."""


@dataclass
class Tally:
    """Seconds of each answer, and what was not an answer."""

    seconds: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def line(self, name: str) -> str:
        cuts = statistics.quantiles(self.seconds, n=100) if len(self.seconds) > 1 else [float("nan")] * 99
        return f"| {name} | {len(self.seconds)} | {len(self.errors)} | {cuts[49]:.2f} s | {cuts[94]:.2f} s |"


def upload_body(app: Any, content: bytes, name: str) -> dict[str, Any]:
    """What the page posts when a file is dropped on it."""
    [(output, one)] = [
        (key, one) for key, one in app.callback_map.items() if one["inputs"][0]["id"] == "series-files-file"
    ]
    parts = [part.rsplit(".", 1) for part in output.strip(".").split("...")]
    values = {"series-files-file": {"files": [{"contents": data_url(content), "name": name}]}, "series-decimal": ""}
    return {
        "output": output,
        "outputs": [{"id": component, "property": prop} for component, prop in parts],
        "inputs": [{**given, "value": values[given["id"]]} for given in one["inputs"]],
        "changedPropIds": ["series-files-file.data"],
    }


def ask(url: str, body: dict[str, Any], tally: Tally, lock: threading.Lock) -> None:
    where, begin = urlsplit(url), time.monotonic()
    connection = http.client.HTTPConnection(where.hostname, where.port, timeout=60)
    try:
        content = json.dumps(body)
        connection.request("POST", "/_dash-update-component", content, {"Content-Type": "application/json"})
        response = connection.getresponse()
        text = response.read().decode()
        message = json.loads(text)["response"].get("series-message", {}) if response.status == 200 else {}
        wrong = f"status {response.status}" if response.status != 200 else message.get("children", "")
    except (OSError, ValueError, KeyError, http.client.HTTPException) as error:
        wrong = f"{type(error).__name__}: {error}"
    finally:
        connection.close()
    with lock:
        tally.errors.append(wrong) if wrong else tally.seconds.append(time.monotonic() - begin)


def use(url: str, app: Any, users: int, seconds: float) -> Tally:
    """Let ``users`` move the slider of γ for so many seconds."""
    tally, lock, end = Tally(), threading.Lock(), time.monotonic() + seconds

    def user(number: int) -> None:
        rng = random.Random(number)
        time.sleep(rng.uniform(0, min(PACE, seconds)))
        while (begin := time.monotonic()) < end:
            ask(url, request_body(app, "series", SERIES | {"gamma": rng.uniform(-2, 1)}), tally, lock)
            time.sleep(max(0.0, begin + PACE - time.monotonic()))

    threads = [threading.Thread(target=user, args=(number,)) for number in range(users)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return tally


def upload(url: str, app: Any, count: int, steps: int = 2000) -> Tally:
    """Upload ``count`` different files, one after the other."""
    tally, lock = Tally(), threading.Lock()
    for number in range(count):
        content = "\n".join(str(number + step) for step in range(steps)).encode()
        ask(url, upload_body(app, content, f"{number}.csv"), tally, lock)
    return tally


def slow_clients(url: str, count: int) -> list[socket.socket]:
    """Open connections that never finish their request."""
    where = urlsplit(url)
    sockets = [socket.create_connection((where.hostname, where.port), timeout=10) for _ in range(count)]
    for one in sockets:
        one.sendall(b"POST /_dash-update-component HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n")
    return sockets


def memory(pid: int) -> int:
    """Resident MiB of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) // 1024


def main() -> None:
    from udtw.explorer import create_app

    parser = argparse.ArgumentParser(prog="python -m tests.explorer.load", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--users", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--uploads", type=int, default=300)
    parser.add_argument("--slow", type=int, default=50, help="connections that never finish their request")
    options = parser.parse_args()
    app, environment = create_app(), os.environ | {"PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-c", "from udtw.cli import main; main()", "explore", "--port", "0", "--no-browser"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        try:
            [url] = re.findall(r"http://127\.0\.0\.1:\d+/", next(line for line in process.stderr if "http://" in line))
            print(f"load of the machine before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
            sizes = [memory(process.pid)]
            print("| what | answers | errors | median | 95 % |\n|---|---:|---:|---:|---:|")
            tallies = {
                f"{options.users} users for {options.seconds:g} s": use(url, app, options.users, options.seconds)
            }
            sizes.append(memory(process.pid))
            tallies[f"{options.uploads} uploads"] = upload(url, app, options.uploads)
            sizes.append(memory(process.pid))
            held = slow_clients(url, options.slow)
            tallies[f"5 users beside {options.slow} slow clients, 10 s"] = use(url, app, 5, 10)
            for one in held:
                one.close()
            for name, tally in tallies.items():
                print(tally.line(name))
                print(*sorted(set(tally.errors)), sep="\n")
            print("resident MiB at the start, after the users, after the uploads:", *sizes)
        finally:
            process.kill()


if __name__ == "__main__":
    main()
