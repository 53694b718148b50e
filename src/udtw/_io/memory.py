"""Free memory: raise `SizeError` before an allocation fails or the process is killed."""

import os
from pathlib import Path

from udtw.errors import OptionError, SizeError

UNCHECKED_BYTES = 256 * 2**20
"""Smaller requests are not checked: asking the system takes longer than a small alignment."""
VARIABLE = "UDTW_MEMORY_GIB"
"""Environment variable: GiB that udtw may use, in place of the free memory that the system reports."""

_PROC, _CGROUP = Path("/proc"), Path("/sys/fs/cgroup")
_VERSION_2 = ("memory.max", "memory.current", "inactive_file")
_VERSION_1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def refuse_if_too_large(needed: int, what: str, advice: str) -> None:
    """Raise `SizeError` if ``needed`` bytes are more than are free; its message has ``what`` and ``advice``."""
    if needed < UNCHECKED_BYTES:
        return
    free = free_bytes()
    if free is not None and needed > free:
        raise SizeError(
            f"{what} would take about {needed / 2**30:,.1f} GiB of memory; {free / 2**30:,.1f} GiB are free. {advice} "
            f"(If you know better, set {VARIABLE} to what may be used.)"
        )


def free_bytes() -> int | None:
    """Return the bytes that may still be allocated; None if unknown.

    They are free on the machine, and below the limits of the control groups and of the process (``ulimit -v``).
    """
    chosen = os.environ.get(VARIABLE)
    if chosen is not None:
        return _gibibytes(chosen)
    limits = [*_machine(), *_control_groups(), *_address_space()]
    return max(0, min(limits)) if limits else None


def _gibibytes(text: str) -> int:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise OptionError(f"{VARIABLE} must be a number of GiB such as 8 or 0.5; got {text!r}.")
    return int(number * 2**30)


def _machine() -> list[int]:
    """Return free memory, with what the page cache would give back, or all memory where the system does not say."""
    for line in _lines(_PROC / "meminfo"):
        if line.startswith("MemAvailable:"):
            return [int(line.split()[1]) * 1024]
    for pages in ("SC_AVPHYS_PAGES", "SC_PHYS_PAGES"):
        try:
            return [os.sysconf(pages) * os.sysconf("SC_PAGE_SIZE")]
        except (AttributeError, ValueError, OSError):
            continue  # Windows, or macOS for the first name
    return []


def _lines(file: Path) -> list[str]:
    """Read the lines of a file; none where there is no such file, as outside Linux."""
    try:
        return file.read_text().splitlines()
    except OSError:
        return []


def _control_groups() -> list[int]:
    """Return what is left below the limit of every control group around this process (containers are killed there)."""
    left = []
    for line in _lines(_PROC / "self/cgroup"):
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            left += _along(_CGROUP, path, _VERSION_2)
        elif "memory" in controllers.split(","):
            left += _along(_CGROUP / "memory", path, _VERSION_1)
    return left


def _address_space() -> list[int]:
    """Return what is left below the limit of the address space of this process, if it has one."""
    try:
        import resource
    except ImportError:  # Windows
        return []
    limit, used = resource.getrlimit(resource.RLIMIT_AS)[0], _lines(_PROC / "self/statm")
    if limit == resource.RLIM_INFINITY or not used:
        return []
    return [limit - int(used[0].split()[0]) * resource.getpagesize()]


def _along(root: Path, path: str, names: tuple[str, str, str]) -> list[int]:
    """Return limits from ``root`` to ``path``; inside a container ``path`` may not exist, and the root is its own."""
    folder, left = root, []
    for part in ("", *(part for part in path.split("/") if part not in ("", ".."))):
        folder = folder / part
        left += _left_in(folder, *names)
    return left


def _left_in(folder: Path, limit_name: str, usage_name: str, cache_name: str) -> list[int]:
    try:
        limit = (folder / limit_name).read_text().strip()
        usage = int((folder / usage_name).read_text())
        statistics = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):
        return []  # no such group, or one without a limit of its own (the root of version 2)
    return [] if limit == "max" else [int(limit) - usage + int(statistics.get(cache_name, 0))]
