"""Licenses of everything that udtw and its extras install, as a table: ``python -m hardening.licenses``.

It walks the requirements of the installed packages, so run it where all extras are installed (``make harden``).
"""

import re
from importlib.metadata import Distribution, PackageNotFoundError, distribution

from packaging.requirements import Requirement

DEVELOPMENT = {"dev", "test", "harden", "docs", "bench"}
"""Extras that only developers install."""
SHORT = {
    "Apache-2.0": r"apache",
    "BSD": r"\bbsd\b",
    "MIT": r"\bmit\b|\bmit-cmu\b|\bhpnd\b|expat",
    "ISC": r"\bisc\b",
    "PSF-2.0": r"python software foundation|\bpsf",
    "MPL-2.0": r"mpl|mozilla",
    "LGPL": r"lgpl|lesser general",
    "GPL": r"\bgpl|gnu general public",
    "NVIDIA": r"nvidia|proprietary",
}
"""Patterns of what metadata calls a license."""


def license_of(package: Distribution) -> str:
    """Return the short names of all licenses that the metadata of a package states, or "not stated"."""

    def stated(field: str) -> list[str]:
        return package.metadata.get_all(field, [])

    text = " ".join(
        [*stated("License-Expression"), *(one for one in stated("Classifier") if one.startswith("License"))]
    )
    text = text or " ".join(stated("License"))[:200]
    names = [name for name, pattern in SHORT.items() if re.search(pattern, text, re.IGNORECASE)]
    return " and ".join(names) or "not stated"


def installed(name: str, extras: set[str], found: dict[str, Distribution]) -> None:
    """Add what a package requires with these extras to ``found``, and what those require."""
    try:
        package = distribution(name)
    except PackageNotFoundError:
        return
    for line in package.requires or []:
        needed = Requirement(line)
        wanted = needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in extras | {""})
        key = re.sub(r"[-_.]+", "-", needed.name).lower()
        if wanted and (key == "udtw" or key not in found):
            if key != "udtw":
                try:
                    found[key] = distribution(key)
                except PackageNotFoundError:
                    continue
            if key != "udtw" or needed.extras - extras:
                installed(key, set(needed.extras), found)


def main() -> None:
    udtw = distribution("udtw")
    every = set(udtw.metadata.get_all("Provides-Extra", []))
    tables: list[dict[str, list[str]]] = []
    known: set[str] = set()
    for extras in (set(), every - DEVELOPMENT, every):
        found: dict[str, Distribution] = {}
        installed("udtw", extras, found)
        groups: dict[str, list[str]] = {}
        for name in sorted(found.keys() - known):
            groups.setdefault(license_of(found[name]), []).append(name)
        known |= found.keys()
        tables.append(groups)
    print("| installed with | license | packages |\n|---|---|---|")
    for title, groups in zip(("udtw", "its extras", "development"), tables, strict=True):
        for license_name, names in sorted(groups.items(), key=lambda one: -len(one[1])):
            print(f"| {title} | {license_name} | {', '.join(names)} |")


if __name__ == "__main__":
    main()
