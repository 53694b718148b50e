"""Lists of the classes for training ("train"), for choosing settings ("val"), and of novel classes ("test").

The lists in the folder `splits` were published with the data sets: CIFAR-FS (Bertinetto et al. 2019), miniImageNet
(Ravi and Larochelle 2017), tieredImageNet (Ren et al. 2018), CUB (140/30/30) and Omniglot (Vinyals et al. 2016). Where
we have no published list the classes are divided by `by_digest`: these lists are our own, with the usual numbers of
classes but not the usual classes. A file of the user replaces either.
"""

import csv
import hashlib
import io
import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path

from udtw._io import strict_json
from udtw.errors import DataError, OptionError
from udtw.images.datasets.image_set import SPLITS

Split = dict[str, tuple[str, ...]]
MAX_SPLIT_FILE = 64 * 2**20


def shipped_split(name: str) -> Split:
    """Return the published list of a data set."""
    text = (files("udtw.images.datasets") / "splits" / f"{name}.json").read_text(encoding="utf-8")
    return {split: tuple(classes) for split, classes in json.loads(text).items()}


def read_split_file(path: Path) -> Split:
    """Return the classes of "train", "val" and "test" in a file of the user.

    JSON: {"train": [names of classes], "val": […], "test": […]}, each may be missing; or CSV with the columns ``class``
    and ``split``. A name stands for all classes that begin with it and a "/", such as an alphabet of Omniglot.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from udtw.images.datasets import read_split_file
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "split.csv"
    ...     _ = path.write_text("class,split\\ncat,train\\ndog,train\\nowl,test\\n")
    ...     read_split_file(path)
    {'train': ('cat', 'dog'), 'test': ('owl',)}
    """
    try:
        if path.stat().st_size > MAX_SPLIT_FILE:
            raise DataError(f"{path} has {path.stat().st_size} bytes, too many for a list of classes.")
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not text in UTF-8: {error}.") from error
    return checked(_from_csv(text, path) if path.suffix.lower() == ".csv" else _from_json(text, path), str(path))


def _from_json(text: str, path: Path) -> Split:
    try:
        content = strict_json.loads(text)
    except ValueError as error:
        raise DataError(f"{path} is not JSON: {error}.") from error
    if not isinstance(content, dict) or not all(
        isinstance(classes, list) and all(isinstance(one, str) for one in classes) for classes in content.values()
    ):
        raise DataError(f'{path} must be like {{"train": ["name", …], "val": […], "test": […]}}.')
    return {split: tuple(classes) for split, classes in content.items()}


def _from_csv(text: str, path: Path) -> Split:
    split_classes: dict[str, list[str]] = {}
    for name, split in csv_rows(text, ("class", "split"), str(path)):
        split_classes.setdefault(split, []).append(name)
    return {split: tuple(classes) for split, classes in split_classes.items()}


def csv_rows(text: str, columns: tuple[str, str], where: str) -> list[tuple[str, str]]:
    """Return two columns of a CSV file; ``where`` names it in errors. Missing cells are empty."""
    try:
        table = csv.DictReader(io.StringIO(text, newline=""))
        if not set(columns) <= set(table.fieldnames or ()):
            raise DataError(f"{where} must have the columns {' and '.join(columns)}; it has {table.fieldnames}.")
        return [(row[columns[0]] or "", row[columns[1]] or "") for row in table]
    except csv.Error as error:
        raise DataError(f"{where} is not a CSV file: {error}.") from error


def checked(split: Split, where: str) -> Split:
    """Return ``split`` without empty parts; raise `DataError` unless its parts are known and share no class."""
    unknown = sorted(set(split) - set(SPLITS))
    if unknown:
        raise DataError(f"{where} has the parts {unknown}; known are {', '.join(SPLITS)}.")
    names = [one for classes in split.values() for one in classes]
    twice = sorted(one for one, count in Counter(names).items() if count > 1)
    if twice:
        raise DataError(f"{where} names a class twice: {', '.join(twice[:5])}.")
    if not names:
        raise DataError(f"{where} names no class.")
    return {part: split[part] for part in SPLITS if split.get(part)}


def expanded(split: Split, classes: Sequence[str]) -> Split:
    """Replace "Greek" in ``split`` by "Greek/character01", "Greek/character02", …, where there are such classes."""
    groups: dict[str, list[str]] = {}
    for one in classes:
        if "/" in one:
            groups.setdefault(one.rpartition("/")[0], []).append(one)
    known = set(classes)
    return {
        part: tuple(
            one for name in names for one in (groups[name] if name not in known and name in groups else (name,))
        )
        for part, names in split.items()
    }


def by_digest(classes: Sequence[str], n_train: int, n_val: int) -> Split:
    """Split classes in the order of the SHA-256 of their names into ``n_train``, ``n_val`` and the others for tests.

    Only letters and digits of a name count, in lower case, since redistributed folders differ in the others. The order
    does not depend on the meaning of the classes and is the same on every machine.
    """
    if not 0 < n_train < n_train + n_val < len(classes) and not (n_val == 0 and 0 < n_train < len(classes)):
        raise OptionError(f"{len(classes)} classes cannot be divided into {n_train}, {n_val} and at least one.")

    def digest(name: str) -> tuple[str, str]:
        return hashlib.sha256(re.sub(r"[\W_]", "", name.lower()).encode()).hexdigest(), name

    order = sorted(classes, key=digest)
    parts = order[:n_train], order[n_train : n_train + n_val], order[n_train + n_val :]
    return {split: tuple(sorted(part)) for split, part in zip(SPLITS, parts, strict=True) if part}


def by_shares(classes: Sequence[str]) -> Split:
    """Split `by_digest`: a third of the classes for tests (rounded up), a sixth for validation (down), others train."""
    n_test, n_val = math.ceil(len(classes) / 3), len(classes) // 6
    return by_digest(classes, len(classes) - n_val - n_test, n_val)


def odd_novel(classes: Sequence[str]) -> Split:
    """Split by the ultra-fine-grained protocol: classes at odd indices of the sorted list are novel, the others train.

    Indices count from 0 and numbers in names are sorted as numbers. There is no validation.
    """
    ordered = sorted(classes, key=natural)
    return {"train": tuple(ordered[::2]), "test": tuple(ordered[1::2])}


def by_alphabet(classes: Sequence[str]) -> Split:
    """Split Omniglot without its evaluation set: whole alphabets, sorted by name, by their index (from 0) modulo 8.

    3 and 7 are novel, 5 validates, the other five train. Of the eight alphabets of the two small sets Japanese
    (katakana) and Tagalog are novel, with 64 characters, and Latin validates, with 26.
    """
    alphabets = sorted({one.rpartition("/")[0] for one in classes})
    part_of = {alphabet: ALPHABET_PARTS.get(place % 8, "train") for place, alphabet in enumerate(alphabets)}
    return {
        split: tuple(one for one in classes if part_of[one.rpartition("/")[0]] == split)
        for split in SPLITS
        if split in part_of.values()
    }


ALPHABET_PARTS: Mapping[int, str] = {3: "test", 5: "val", 7: "test"}


def split_omniglot(classes: Sequence[str]) -> Split:
    """Return the published split (Vinyals et al. 2016) if all 1623 characters are there, else `by_alphabet`.

    The published one has 1028, 172 and 423 characters of whole alphabets, except Gurmukhi: 41 of its characters train
    and 4 are novel.
    """
    published = expanded(shipped_split("omniglot"), classes)
    if set(classes) == {one for part in published.values() for one in part}:
        return published
    return by_alphabet(classes)


def natural(name: str) -> list[tuple[int, int, str]]:
    """Return a sort key by which "10" comes after "9"."""
    # By the number of digits, then the digits: `int` refuses numbers of thousands of digits.
    parts = ((part, part.lstrip("0")) for part in re.split(r"([0-9]+)", name) if part)
    return [(0, len(digits), digits) if re.match("[0-9]", part) else (1, 0, part) for part, digits in parts]
