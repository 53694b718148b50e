"""The files of a Hugging Face checkpoint: from a folder, or from the hub into its cache."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from udtw.data import strict_json
from udtw.errors import DataError, FileFormatError
from udtw.images.backbones.packages import needed
from udtw.images.backbones.processing import FILE as PROCESSOR_FILE

CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
DOWNLOADED = [CONFIG, PROCESSOR_FILE, WEIGHTS, INDEX, "model-*-of-*.safetensors"]
HUB_ID = 2  # OWNER/NAME
LONGEST_NAME = 200  # bytes; file systems refuse longer ones, each in its own way


@dataclass(frozen=True)
class Checkpoint:
    """``name`` is the hub id or the folder's name, ``revision`` the commit if the hub gave it.

    ``checksum`` is the SHA-256 of the configuration and the weights.
    """

    folder: Path
    name: str
    revision: str | None
    checksum: str


def find_checkpoint(where: str | os.PathLike, revision: str | None = None) -> Checkpoint:
    """The files of ``where``, a folder or an id of the hub; only safetensors weights are accepted."""
    folder = Path(where).expanduser()
    if folder.is_dir():
        if revision is not None:
            raise DataError(f"A revision is of the hub; {folder} is a folder, and has none. Got {revision!r}.")
        folder = folder.resolve()
        return Checkpoint(folder, folder.name, None, _checksum(folder))
    name = os.fspath(where)
    parts = name.split("/")
    if len(parts) != HUB_ID or not all(parts) or name.startswith((".", "~")) or folder.exists():
        raise DataError(f"There is no folder {name}, and it is not an id OWNER/NAME of the Hugging Face hub.")
    folder = _from_hub(name, revision)
    return Checkpoint(folder, name, folder.name, _checksum(folder))


def _from_hub(name: str, revision: str | None) -> Path:
    hub = needed("huggingface_hub", "Models of the Hugging Face hub")
    offline = hub.is_offline_mode() or os.environ.get("TRANSFORMERS_OFFLINE", "").upper() in ("1", "TRUE", "YES", "ON")
    try:
        folder = hub.snapshot_download(name, revision=revision, allow_patterns=DOWNLOADED, local_files_only=offline)
    except (OSError, ValueError, hub.errors.EntryNotFoundError, hub.errors.HTTPError) as error:
        reason = str(error).strip().partition("\n")[0]
        at = f" --revision {revision}" if revision else ""
        raise DataError(
            f"The model {name} is not on this machine and cannot be downloaded{' (offline mode)' if offline else ''}: "
            f"{reason} Where there is a network, download it with: hf download {name}{at} (a gated model such as "
            "DINOv3 wants its licence accepted on its page at Hugging Face and `hf auth login` first). "
            f"Or copy its {CONFIG}, {PROCESSOR_FILE} and {WEIGHTS} into a folder, and give that as hf:FOLDER."
        ) from error
    return Path(folder)


def _checksum(folder: Path) -> str:
    checksum = hashlib.sha256()
    for path in [_required(folder, CONFIG), *_weights(folder)]:
        checksum.update(f"{path.name} {path.stat().st_size} ".encode())
        with path.open("rb") as file:
            checksum.update(hashlib.file_digest(file, "sha256").digest())
    return checksum.hexdigest()


def _weights(folder: Path) -> list[Path]:
    if (folder / WEIGHTS).is_file():
        return [folder / WEIGHTS]
    if not (folder / INDEX).is_file():
        pickled = sorted(path.name for path in folder.glob("*.bin"))
        hint = f" ({pickled[0]} is pickled, which may run foreign code, and is not read)" if pickled else ""
        raise DataError(f"{folder} holds no {WEIGHTS}{hint}. Download it, or save the model with save_pretrained.")
    try:
        index = strict_json.loads((folder / INDEX).read_text(encoding="utf-8"))
        names = set(index["weight_map"].values())
        if not all(isinstance(name, str) and name.endswith(".safetensors") and "/" not in name for name in names):
            raise ValueError("it names other files than safetensors beside it")
        if max((len(name.encode("utf-8", "replace")) for name in names), default=0) > LONGEST_NAME:
            raise ValueError(f"it names files by more than {LONGEST_NAME} letters")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise FileFormatError(f"{folder / INDEX} is damaged: {error}.") from error
    return [_required(folder, name) for name in sorted(names)]


def _required(folder: Path, name: str) -> Path:
    if not (folder / name).is_file():
        raise DataError(f"{folder} holds no {name}. Download it, or save the model with save_pretrained.")
    return folder / name
