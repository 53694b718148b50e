"""A gzip file that can be read at any place: the decompressor is kept as it was every few megabytes."""

import io
import zlib
from bisect import bisect_right
from typing import IO, Any

CHUNK = 2**16
SPAN = 4 * 2**20  # of unpacked bytes from one kept decompressor to the next, each of about 40 kB
MAX_RATIO, RATIO_FROM = 200, 64 * 2**20
GZIP_WINDOW = 16 + zlib.MAX_WBITS


class SeekableGzip(io.RawIOBase):
    """Reads what ``raw`` unpacks to; a jump back costs at most ``SPAN`` bytes of unpacking, one ahead all on the way.

    Raises `OSError` where unpacking yields so much that it can only be meant to fill memory, `EOFError` where the file
    is cut off, and `zlib.error` where it is damaged.
    """

    def __init__(self, raw: IO[bytes]) -> None:
        self.raw = raw
        # Of each kept state: where it is in the unpacked bytes; where in the file, and the decompressor.
        self._starts = [0]
        self._states: list[tuple[int, Any]] = [(0, zlib.decompressobj(GZIP_WINDOW))]
        self._resume(0)
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_END:
            raise OSError("a gzip file does not know its end")
        self._at = max(offset + (self._at if whence == io.SEEK_CUR else 0), 0)
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        """``size`` bytes, fewer at the end of the file."""
        if size is None or size < 0:
            raise OSError("a gzip file is read in pieces of a known size")
        if not self._start <= self._at:
            self._resume(bisect_right(self._starts, self._at) - 1)
        elif self._at > self._start + len(self._block):
            nearest = bisect_right(self._starts, self._at) - 1
            if self._starts[nearest] > self._start:
                self._resume(nearest)
        parts, wanted = [], size
        while wanted > 0:
            end = self._start + len(self._block)
            if self._at < end:
                part = self._block[self._at - self._start : self._at - self._start + wanted]
                parts.append(part)
                self._at += len(part)
                wanted -= len(part)
            elif not self._next_block():
                break
        return b"".join(parts)

    def close(self) -> None:
        self.raw.close()
        super().close()

    def _resume(self, number: int) -> None:
        """Go back to a kept state; the block that was unpacked last is forgotten."""
        self._raw_at, kept = self._states[number]
        self._unpack = kept.copy()
        self._start, self._block = self._starts[number], b""

    def _next_block(self) -> bool:
        """Unpack another chunk of the file; False at its end."""
        self.raw.seek(self._raw_at)
        packed = self.raw.read(CHUNK)
        if self._unpack.eof:
            # Gzip files may follow one another, and zeros may fill the last block of a tape.
            while packed and not packed.strip(b"\0"):
                packed = self.raw.read(CHUNK)
            if not packed:
                return False
            self._raw_at = self.raw.tell() - len(packed)
            self._unpack = zlib.decompressobj(GZIP_WINDOW)
        elif not packed:
            raise EOFError("the gzip file is cut off")
        self._start += len(self._block)
        self._block = self._unpack.decompress(packed)
        self._raw_at += len(packed) - len(self._unpack.unused_data)
        end = self._start + len(self._block)
        if end > RATIO_FROM and end > MAX_RATIO * self._raw_at:
            raise OSError(f"{self._raw_at} bytes unpack to more than {end}")
        if end >= self._starts[-1] + SPAN:
            self._starts.append(end)
            self._states.append((self._raw_at, self._unpack.copy()))
        return True
