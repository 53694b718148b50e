"""``udtw doctor``: what is installed, what works here, and where files are kept."""

import importlib.metadata
import os
import platform
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

import udtw
from udtw._io.joblib_tasks import available_cores
from udtw._kernels.backends import BACKENDS, choose, self_check
from udtw.cli import options
from udtw.cli.output import error_line, messages, show
from udtw.data.folder import CACHE_VARIABLE, ENVIRONMENT_VARIABLE, cache_root
from udtw.errors import BackendError

PACKAGES = ("numpy", "numba", "triton")
EVERYWHERE = ("numba", "portable")
"""Backends that work on every machine, if nothing is broken."""
ENUMERATION = "enumeration"
"""Backend that lists all paths: far too slow for the problem of the check."""
FOR_DEVELOPERS = ("bench", "dev", "docs", "harden", "test")
REQUIREMENT = re.compile(r"([\w.-]+)(?:\[([\w,-]+)\])?.*extra == ['\"]([\w-]+)['\"]")
WarmUp = Annotated[bool, typer.Option("--warm-up", help="First compile all kernels (some minutes, once).")]


def doctor(warm_up: WarmUp = False, json: options.Json = False) -> None:
    """Report versions, devices, backends and their checks, threads, folders of caches, and optional packages.

    On every device, each backend solves a small problem and is compared with the plain-torch reference, values and
    gradients. The exit code is 1 if something that should work does not.

    Examples:

    - `udtw doctor`

    - `udtw doctor --warm-up`

    - `udtw doctor --json | jq .checks`
    """
    if warm_up:
        with messages().status("compiling …") as status:
            for name, use in kernel_uses():
                status.update(f"compiling the kernels of {name} …")
                use()
    with messages().status("checking backends; the first time their kernels are compiled, which takes a minute …"):
        report = examine()
    problems = report["problems"]
    if json:
        show("", report, True)
    else:
        rows: dict[str, Any] = {}
        for group, values in report.items():
            if isinstance(values, dict):
                rows |= {f"{group}: {name}": _in_words(value) for name, value in values.items()}
            elif group != "problems":
                rows[group] = values
        show("udtw doctor", rows | {"problems": len(problems)}, False)
    for problem in problems:
        error_line(problem)
    if problems:
        raise typer.Exit(1)


def kernel_uses() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield calls that compile the kernels of the CPU, in float32 and float64, and what each is for."""
    for dtype in (torch.float32, torch.float64):
        x, y, var_x, var_y = (torch.linspace(1, 2, 6, dtype=dtype).requires_grad_() for _ in range(4))
        values, tokens = x.detach().numpy(), x.detach()[:, None]
        yield "short pairs", partial(udtw.dtw, values, values)
        yield "dtw", partial(udtw.dtw, x, y)
        yield "align, without gradients", partial(udtw.align, values, values)
        yield "align and its gradients", partial(_differentiated, x, y, var_x, var_y)
        yield "samples", udtw.align(values, values).paths.sample
        yield "gaps", partial(_differentiated, x, y, gap_penalty=1.0)
        yield "sets", partial(udtw.align, tokens, tokens, order="set")


def _differentiated(*series: torch.Tensor, **options: Any) -> None:
    udtw.align(*series, **options).loss.backward()


def examine() -> dict[str, Any]:
    """Return everything that `doctor` prints; ``problems`` is what should work and does not, in sentences."""
    backends = {name: reason or "available" for name, reason in udtw.available_backends().items()}
    checks = check_backends()
    caches = {"kernels": _kernel_cache(), "downloads": _download_cache()}
    problems = [f"The backend {name} is not available: {backends[name]}." for name in EVERYWHERE
                if backends[name] != "available"]  # fmt: skip
    problems += [f"The check of {name} failed: {result}." for name, result in checks.items() if result != "passed"]
    problems += [
        f"The cache folder {cache['folder']} ({name}) is not writable; set {cache['variable']} to one that is."
        for name, cache in caches.items()
        if cache["folder"] is not None and not cache["writable"]
    ]
    return {
        "udtw": udtw.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "torch": torch.__version__,
        **{name: _version(name) or "not installed" for name in PACKAGES},
        "devices": {
            device: torch.cuda.get_device_name(device) if device.startswith("cuda") else platform.machine()
            for device in _devices()
        },
        "backends": backends,
        "checks": checks,
        "threads": {"cores": available_cores(), "torch": torch.get_num_threads()},
        "caches": caches,
        "data folder": os.environ.get(ENVIRONMENT_VARIABLE),
        "extras": check_extras(),
        "problems": problems,
    }


def check_backends() -> dict[str, str]:
    """Compare every backend with the reference on every device that it fits; "passed", or what differs."""
    results = {}
    for device in _devices():
        for name in BACKENDS:
            try:
                choose(name, torch.zeros(1, device=device))
            except BackendError:
                continue  # not for this device, or not available
            if name != ENUMERATION:
                results[f"{name} on {device}"] = self_check(device, name) or "passed"
    return results


def check_extras() -> dict[str, str]:
    """Return each optional extra of the package, with "installed" or the packages that are missing."""
    try:
        requirements = importlib.metadata.requires("udtw") or []
    except importlib.metadata.PackageNotFoundError:  # a source tree on the path
        return {}
    packages: dict[str, set[str]] = {}
    nested: dict[str, set[str]] = {}
    for name, extras, extra in (match.groups() for match in map(REQUIREMENT.match, requirements) if match):
        packages.setdefault(extra, set())
        if name == "udtw":
            nested.setdefault(extra, set()).update(extras.split(","))
        else:
            packages[extra].add(name)

    def all_of(extra: str) -> set[str]:
        return packages[extra].union(*(all_of(other) for other in nested.get(extra, ())))

    missing = {
        extra: sorted(name for name in all_of(extra) if _version(name) is None)
        for extra in packages
        if extra not in FOR_DEVELOPERS
    }
    return {extra: f"missing: {', '.join(names)}" if names else "installed" for extra, names in missing.items()}


def _devices() -> list[str]:
    devices = ["cpu", *(f"cuda:{number}" for number in range(torch.cuda.device_count()))]
    return [*devices, "mps"] if torch.backends.mps.is_available() else devices


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _kernel_cache() -> dict[str, Any]:
    """Return the folder in which Numba keeps the compiled kernels."""
    try:
        from udtw._kernels.cpu.launch import usable
    except Exception:  # reported as the reason why the backend is not available
        return {"folder": None, "variable": "NUMBA_CACHE_DIR"}
    return _folder(Path(usable.stats.cache_path), "NUMBA_CACHE_DIR")


def _download_cache() -> dict[str, Any]:
    """Return the folder in which archives are unpacked."""
    try:
        return _folder(cache_root(), CACHE_VARIABLE)
    except ImportError:
        return {"folder": None, "variable": CACHE_VARIABLE}


def _folder(path: Path, variable: str) -> dict[str, Any]:
    there = next(folder for folder in (path, *path.parents) if folder.exists())
    return {"folder": str(path), "variable": variable, "writable": os.access(there, os.W_OK | os.X_OK)}


def _in_words(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if value["folder"] is None:
        return "none"
    return f"{value['folder']} ({'writable' if value['writable'] else 'not writable'}; {value['variable']})"
