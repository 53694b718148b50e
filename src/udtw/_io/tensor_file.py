"""Tensors and JSON values in one safetensors file with a checksum, replaced atomically. Nothing is pickled."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from udtw._io import strict_json
from udtw._io.atomic import write_atomically
from udtw.errors import FileFormatError, OptionError

DIGEST = "sha256"
"""The key of the checksum. A file without it is read, because earlier versions wrote none."""


def write_tensors(path: Path, form: str, version: int, tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> None:
    """Write ``tensors`` and ``about``, JSON values by name; folders are created if needed."""
    from safetensors.torch import save

    described = {"format": form, "version": str(version)}
    described |= {name: json.dumps(value) for name, value in about.items()}
    # Copies, because safetensors refuses tensors that share memory.
    own = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in tensors.items()}
    described[DIGEST] = _digest(own, described)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, save(own, described))


def read_tensors(
    path: Path, form: str, version: int, about: tuple[str, ...], what: str
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read the tensors in ``path``, and its JSON values of the names ``about``; ``what`` describes it in messages."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), "pt") as file:
            described = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (safe_open is not a mapping)
    except FileNotFoundError:
        raise FileFormatError(f"There is no {what} at {path}.") from None
    except (OSError, SafetensorError) as error:
        raise FileFormatError(f"{path} cannot be read as a {what}: {error}.") from error
    if described.get("format") != form or described.get("version") != str(version):
        raise FileFormatError(f"{path} is not a {what} of {form}, version {version}.")
    if DIGEST in described and described.pop(DIGEST) != _digest(tensors, described):
        raise FileFormatError(f"{path} is damaged: its content does not have the checksum that was written with it.")
    try:
        return tensors, {name: strict_json.loads(described.get(name, "")) for name in about}
    except ValueError as error:
        raise FileFormatError(f"{path} is described by damaged JSON: {error}.") from error


def refuse_other_settings(path: Path, saved: Any, wanted: Mapping[str, Any]) -> None:
    """Raise an error that names what differs, unless the ``saved`` settings of a training are those ``wanted`` now."""
    if not isinstance(saved, dict):
        raise FileFormatError(f"{path} has settings that are not a dictionary: {saved!r:.100}.")
    plain = json.loads(json.dumps(wanted))
    changed = sorted(name for name in {*saved, *plain} if saved.get(name, ...) != plain.get(name, ...))
    if changed:
        raise OptionError(
            f"{path} was saved by a training with other settings or data ({', '.join(changed)}). Use those, or delete "
            "the file."
        )


def _digest(tensors: Mapping[str, Tensor], described: Mapping[str, str]) -> str:
    """Return the sha256 of everything in the file, independent of the order in which it is stored."""
    digest = hashlib.sha256(json.dumps(sorted(described.items())).encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"\n{json.dumps(name)} {tensor.dtype} {list(tensor.shape)}\n".encode())
        digest.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
