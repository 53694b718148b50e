"""Seeds inside containers: zip files, safetensors files, MATLAB files."""

import io
import json
import zipfile
import zlib
from collections.abc import Callable, Sequence

from hardening.parsers import Seed


def zip_of(members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def zip_seeds(members: dict[str, bytes], file: str, damaged: Sequence[str]) -> list[Seed]:
    """The zip file itself, and each of the members ``damaged`` inside an intact one."""

    def packer(name: str) -> Callable[[bytes], bytes]:
        return lambda content: zip_of({**members, name: content}, zipfile.ZIP_STORED)

    return [Seed(zip_of(members), file=file), *(Seed(members[name], file=file, pack=packer(name)) for name in damaged)]


def safetensors_seeds(content: bytes, file: str, texts: Sequence[str] = ()) -> list[Seed]:
    """The whole file; its header, with the length before it kept right; its values; and JSON texts of its metadata.

    The parts are those of a file without checksum, which would otherwise answer for everything behind it.
    """
    size = int.from_bytes(content[:8], "little")
    described, data = json.loads(content[8 : 8 + size]), content[8 + size :]
    metadata = described.get("__metadata__", {})
    metadata.pop("sha256", None)
    header = json.dumps(described).encode()

    def with_header(new: bytes) -> bytes:
        return len(new).to_bytes(8, "little") + new + data

    def with_text(key: str) -> Callable[[bytes], bytes]:
        def pack(new: bytes) -> bytes:
            changed = described | {"__metadata__": metadata | {key: new.decode("utf-8", "replace")}}
            return with_header(json.dumps(changed, ensure_ascii=False).encode())

        return pack

    values = Seed(data, file=file, pack=lambda new: len(header).to_bytes(8, "little") + header + new)
    seeds = [Seed(content, file=file), Seed(with_header(header), file=file)]
    seeds += [Seed(header, "json", file, with_header), values]
    return seeds + [Seed(metadata[key].encode(), "json", file, with_text(key)) for key in texts]


def mat_seeds(content: bytes, file: str) -> list[Seed]:
    """An uncompressed MATLAB file, and the same with its elements compressed after the damage was done."""

    def compressed(new: bytes) -> bytes:
        body = zlib.compress(new[128:])
        return new[:128] + (15).to_bytes(4, "little") + len(body).to_bytes(4, "little") + body

    return [Seed(content, file=file), Seed(content, file=file, pack=compressed), Seed(compressed(content), file=file)]
