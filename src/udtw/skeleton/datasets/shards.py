"""One shard (see `udtw.data.checked_shards`): a few hundred clips in a safetensors file.

Its tensors are ``rows`` (R, J, C) float32, where a clip of T frames with P people takes T·P rows one after the other,
``offsets`` (n + 1,) int64, where clip i has the rows ``offsets[i]`` to ``offsets[i + 1]``, and ``people`` (n,) int64.
Who the clips are is in the header, as JSON.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from udtw.data.checked_shards import CheckedShard, write_checked
from udtw.data.skipping import Skipped
from udtw.errors import FileFormatError, ShapeError
from udtw.skeleton.datasets.clip import Clip, check_frames


@dataclass(frozen=True)
class Contents:
    """Who is in a shard: one item a clip in each list. ``plan`` tells from which files it was made."""

    plan: str
    names: list[str]
    labels: list[int]
    subjects: list[int]
    cameras: list[int]
    skipped: list[Skipped]


def write_shard(folder: Path, number: int, plan: str, clips: Sequence[Clip], skipped: Sequence[Skipped]) -> Path:
    """Write a shard, there in full or not at all; its path comes back."""
    shapes = {clip.frames.shape[2:] for clip in clips}
    if len(shapes) > 1:
        raise ShapeError(f"Clips of one data set must agree in joints and coordinates; got {sorted(shapes)}.")
    joints, coordinates = next(iter(shapes), (1, 3))
    rows = [clip.frames.reshape(-1, joints, coordinates) for clip in clips]
    tensors = {
        "rows": np.concatenate([np.zeros((0, joints, coordinates), np.float32), *rows]),
        "offsets": np.cumsum([0, *(len(row) for row in rows)], dtype=np.int64),
        "people": np.array([clip.frames.shape[1] for clip in clips], dtype=np.int64),
    }
    contents = Contents(
        plan,
        [clip.name for clip in clips],
        [clip.label for clip in clips],
        [clip.subject for clip in clips],
        [clip.camera for clip in clips],
        list(skipped),
    )
    return write_checked(folder, number, tensors, {"clips": asdict(contents)})


class Shard(CheckedShard):
    """A shard that is mapped into memory: only the rows of the clip that is asked for are read. Checked on opening."""

    items, kind, mend = "clips", "a shard of skeletons", "Prepare the data set again"

    def _map(self, file: Any) -> None:
        self._rows = file.get_slice("rows")
        self._offsets, self._people = (file.get_tensor(name) for name in ("offsets", "people"))
        self._check()

    def _check(self) -> None:
        offsets, people, rows = self._offsets, self._people, self._rows.get_shape()
        if offsets.dtype != np.int64 or people.dtype != np.int64 or self._rows.get_dtype() != "F32":
            raise ValueError("arrays of unexpected type")
        if len(rows) != 3 or people.ndim != 1 or offsets.shape != (len(people) + 1,):
            raise ValueError("arrays of unexpected shape")
        lengths = np.diff(offsets)
        if offsets[0] != 0 or offsets[-1] != rows[0] or (lengths < 1).any() or not np.isin(people, (1, 2)).all():
            raise ValueError("offsets that do not fit the rows")
        if (lengths % people).any():
            raise ValueError("rows that do not fit the number of people")

    def __len__(self) -> int:
        return len(self._people)

    def frames(self, index: int) -> np.ndarray:
        """(T, P, J, C) of clip ``index`` of this shard, in memory of its own."""
        start, stop = (int(self._offsets[index + step]) for step in (0, 1))
        rows = self._rows[start:stop]
        frames = rows.reshape(-1, int(self._people[index]), *rows.shape[1:])
        check_frames(frames, f"{self.path}, clip {index}")
        return frames

    def contents(self) -> Contents:
        """Who is in it, as written in the header."""
        try:
            found = self.header("clips")
            contents = Contents(**{**found, "skipped": [Skipped(**one) for one in found["skipped"]]})
            counts = {len(getattr(contents, column)) for column in ("names", "labels", "subjects", "cameras")}
            numbers = [*contents.labels, *contents.subjects, *contents.cameras]
            if not all(isinstance(name, str) for name in contents.names) or any(type(n) is not int for n in numbers):
                raise ValueError("names that are no text, or labels that are no whole numbers")
        except (KeyError, TypeError, ValueError) as error:
            raise FileFormatError(f"{self.path} does not say whose clips it holds ({error!r}).") from error
        if counts != {len(self)}:
            raise FileFormatError(f"{self.path} holds {len(self)} clips, but names of {sorted(counts)}.")
        return contents
