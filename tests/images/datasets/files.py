"""Small files in the layouts of the data sets."""

import io
import random
import tarfile
import zipfile
from pathlib import Path

from PIL import Image


def encoded(form: str = "PNG", mode: str = "RGB", size: tuple[int, int] = (6, 4), colour: int = 0) -> bytes:
    image = Image.new(mode, size)
    image.putdata([colour if mode in "1L" else (colour, number % 256, 7) for number in range(size[0] * size[1])])
    buffer = io.BytesIO()
    image.save(buffer, form)
    return buffer.getvalue()


PNG = encoded()


def pictures(*names: str) -> dict[str, bytes]:
    return dict.fromkeys(names, PNG)


def write(root: Path, members: dict[str, bytes]) -> Path:
    for name, content in members.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    return root


def write_zip(path: Path, members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def write_tar(path: Path, members: dict[str, bytes], mode: str = "w") -> Path:
    with tarfile.open(path, mode) as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def mutated(content: bytes, rng: random.Random) -> bytes:
    """``content`` with a few bytes changed, put in or left out."""
    changed = bytearray(content)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(changed))
        changed[at : at + rng.choice([0, 1, 1, 1, 4, 9])] = bytes([rng.choice([0, 255, rng.randrange(256)])])
    return bytes(changed)
