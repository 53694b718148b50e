"""Small sets of clips for tests, in memory and as original files."""

import io
import zipfile

import numpy as np

from udtw.errors import DataError, UdtwError
from udtw.skeleton.datasets.clip import Clip
from udtw.skeleton.datasets.skeleton_set import Entry, Source


def clip(name="clip", *, label=0, frames=5, people=1, joints=4, coordinates=3, seed=0, **known):
    values = np.random.default_rng(seed).standard_normal((frames, people, joints, coordinates)).astype(np.float32)
    return Clip(values, label, name, **known)


def many(n=10, classes=3):
    """Clips of different lengths with one or two people and some missing joints."""
    made = []
    for i in range(n):
        one = clip(f"clip {i}", label=i % classes, frames=2 + i, people=1 + i % 2, seed=i, subject=i % 4, camera=i % 2)
        one.frames[0, :, i % 4] = np.nan
        if i % 3 == 1:
            one.confidence[1] = 0.25 * (i % 4)
        made.append(one)
    return made


def source(clips, *, name="toy", broken=(), stamps=None, reads=None):
    """A source without files: clips in ``broken`` cannot be read; ``reads`` collects the indices that are read."""

    def read(index):
        if reads is not None:
            reads.append(index)
        if index in broken:
            raise DataError(f"file {index}, line 1: nonsense.")
        return clips[index].frames, clips[index].confidence

    entries = tuple(
        Entry(one.name, one.label, one.subject, one.camera, (stamps or {}).get(i, "1")) for i, one in enumerate(clips)
    )
    return Source(name, "toy4", ("a", "b", "c"), entries, read)


def same(one, other):
    known = ("label", "name", "subject", "camera")
    return (
        np.array_equal(one.frames, other.frames, equal_nan=True)
        and np.array_equal(one.confidence, other.confidence)
        and all(getattr(one, key) == getattr(other, key) for key in known)
    )


def outcome(call, *args, **options):
    """The result of ``call``, or the `UdtwError` that it raises; other errors are not caught."""
    try:
        return call(*args, **options)
    except UdtwError as error:
        return error


def mat_bytes(frames=6, seed=0, **arrays):
    from scipy.io import savemat

    buffer = io.BytesIO()
    values = np.random.default_rng(seed).standard_normal((20, 3, frames))
    savemat(buffer, arrays or {"d_skel": values}, do_compression=True)
    return buffer.getvalue()


def zip_bytes(members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()
