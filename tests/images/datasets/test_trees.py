"""The same files in a folder, a zip and a tar are the same tree; hostile and damaged archives are refused."""

import gzip
import os
import pickle
import random
import tarfile
import threading
import zipfile
from multiprocessing import get_context

import pytest

pytest.importorskip("PIL")

from tests.images.datasets.files import mutated, write, write_tar, write_zip
from udtw.errors import DataError
from udtw.images.datasets import archives, gzip_file
from udtw.images.datasets.archives import TarArchive, ZipArchive
from udtw.images.datasets.trees import Below, Folder, Mounted, open_tree

MEMBERS = {f"data/{label}/{n}.png": f"{label}{n}".encode() * 40 for label in ("a", "b", "c0") for n in range(5)}
MEMBERS["data/list.txt"] = "\ufeffwörd".encode()
JUNK = {"__MACOSX/data/a/._1.png": b"x", "data/.DS_Store": b"x", "data/a/._0.png": b"x"}


@pytest.fixture(params=["folder", "zip", "tar", "tgz", "tar.gz"])
def tree(request, tmp_path):
    members = {**MEMBERS, **JUNK}
    if request.param == "folder":
        return open_tree(write(tmp_path / "d", members))
    path = tmp_path / f"d.{request.param}"
    if request.param == "zip":
        return open_tree(write_zip(path, members))
    return open_tree(write_tar(path, {f"./{name}": content for name, content in members.items()}, _mode(path)))


def _mode(path):
    return "w" if path.suffix == ".tar" else "w:gz"


def test_names_and_contents(tree):
    assert tree.files() == sorted(MEMBERS)
    assert tree.files("data/a") == [f"data/a/{n}.png" for n in range(5)]
    assert {name: tree.read(name) for name in reversed(tree.files())} == MEMBERS
    assert tree.has("data")
    assert tree.has("data/c0")
    assert tree.has("data/list.txt")
    assert not tree.has("data/c")
    assert tree.part("none") is None
    assert tree.read_text("data/list.txt") == "wörd"


def test_parts_and_mounts(tree):
    part = tree.part("none", "data").part("b")
    assert part.files() == [f"{n}.png" for n in range(5)]
    assert part.read("3.png") == MEMBERS["data/b/3.png"]
    assert part.has("3.png")
    both = Mounted("here", {"x": part, "y": tree})
    assert both.files("y/data/a") == [f"y/data/a/{n}.png" for n in range(5)]
    assert len(both.files()) == 5 + len(MEMBERS)
    assert both.read("x/3.png") == MEMBERS["data/b/3.png"]
    assert both.has("x")
    assert not both.has("z/3.png")
    with pytest.raises(DataError, match=r"here/z/3\.png does not exist"):
        both.read("z/3.png")


def test_errors_name_the_place(tree):
    with pytest.raises(DataError, match=r"(?s)d.*data/a/9\.png"):
        tree.read("data/a/9.png")
    with pytest.raises(DataError, match=r"data/a/1\.png.*at most 10|data/a/1\.png.*than the 10"):
        tree.read("data/a/1.png", max_bytes=10)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_trees_are_sent_to_other_processes(tree):
    tree.read("data/a/1.png")
    assert pickle.loads(pickle.dumps(tree)).read("data/b/1.png") == MEMBERS["data/b/1.png"]
    with get_context("fork").Pool(2) as pool:
        assert pool.map(tree.read, sorted(MEMBERS) * 5) == [MEMBERS[name] for name in sorted(MEMBERS)] * 5


def test_several_threads(tree):
    wrong = []

    def check():
        wrong.extend(name for name in tree.files() * 10 if tree.read(name) != MEMBERS[name])

    threads = [threading.Thread(target=check) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_part_may_be_an_archive(tmp_path):
    write_zip(tmp_path / "train.zip", {"train/a.png": b"1", "dog/b.png": b"2"})
    write_zip(tmp_path / "images.zip", {"images/a.png": b"1"})
    folder = Folder(tmp_path)
    assert folder.part("train").files() == ["dog/b.png", "train/a.png"]  # a folder "train" among others is a class
    assert folder.part("images").files() == ["a.png"]
    assert isinstance(folder.part("images"), Below)


def test_folders_with_links_to_themselves(tmp_path):
    write(tmp_path, {"a/1.png": b"1"})
    (tmp_path / "a" / "back").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "a" / "pipe.png")
    assert Folder(tmp_path).files() == ["a/1.png"]
    with pytest.raises(DataError, match=r"pipe\.png is not a file"):
        Folder(tmp_path).read("a/pipe.png")
    with pytest.raises(DataError, match="none cannot be read"):
        Folder(tmp_path).files("none")


@pytest.mark.parametrize("name", ["/etc/x.png", "../x.png", "a/../../x.png", "a\\..\\x.png", "C:/x.png"])
def test_names_that_lead_out_are_refused(tmp_path, name):
    members = {"a.png": b"", name: b""}
    for path in (write_zip(tmp_path / "x.zip", members), write_tar(tmp_path / "x.tar", members)):
        with pytest.raises(DataError, match=r"is refused: its member .* leads out of the archive"):
            open_tree(path).files()


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_in_tar_files_are_refused(tmp_path, kind):
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        info = tarfile.TarInfo("a.png")
        info.type, info.linkname = kind, "/etc/passwd"
        archive.addfile(info)
    with pytest.raises(DataError, match=r"a\.png' is a link, a device"):
        TarArchive(tmp_path / "x.tar").files()


def zip_with(path, **changes):
    info = zipfile.ZipInfo("a.png")
    for key, value in changes.items():
        setattr(info, key, value)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(info, b"0" * 2**21, changes.get("compress_type", zipfile.ZIP_STORED))
    return ZipArchive(path)


def test_links_bombs_and_other_methods_in_zip_files_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "x.zip"
    with pytest.raises(DataError, match="is a link or a device"):
        zip_with(path, external_attr=0o120777 << 16).files()
    with pytest.raises(DataError, match=r"unpacks from \d+ to 2097152 bytes"):
        zip_with(path, compress_type=zipfile.ZIP_DEFLATED).files()
    with pytest.raises(DataError, match="packed by method 14"):
        zip_with(path, compress_type=zipfile.ZIP_LZMA).files()
    encrypted = bytearray(write_zip(path, {"a.png": b"1"}).read_bytes())
    encrypted[encrypted.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(encrypted)
    with pytest.raises(DataError, match="is encrypted"):
        ZipArchive(path).files()
    monkeypatch.setattr(archives, "MAX_FILE", 1000)
    with pytest.raises(DataError, match=r"'a\.png' unpacks to 2097152 bytes, too many for an image"):
        zip_with(path).files()
    with pytest.raises(DataError, match="unpacks to 1001 bytes"):
        TarArchive(write_tar(tmp_path / "x.tar", {"a.png": bytes(1001)})).files()


def test_a_name_that_is_there_twice(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("a.png", b"1")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("a.png", b"2")
    with pytest.raises(DataError, match="is there twice"):
        ZipArchive(tmp_path / "x.zip").files()


def test_gzip_bombs(tmp_path, monkeypatch):
    monkeypatch.setattr(gzip_file, "RATIO_FROM", 2**20)
    path = write_tar(tmp_path / "x.tgz", {"a.txt": bytes(2**23), "b.txt": b""}, "w:gz")
    with pytest.raises(DataError, match="bytes unpack to more than"):
        TarArchive(path).files()


def test_gzipped_files_are_read_at_any_place(tmp_path, monkeypatch):
    monkeypatch.setattr(gzip_file, "SPAN", 5000)
    monkeypatch.setattr(gzip_file, "CHUNK", 700)
    rng = random.Random(0)
    content = b"".join(bytes([rng.randrange(20)]) * rng.randrange(9) for _ in range(20000))
    path = tmp_path / "x.gz"
    # Two files one after the other, then the zeros of a tape.
    halves = [gzip.compress(content[:30000]), gzip.compress(content[30000:])]
    path.write_bytes(b"".join(halves) + bytes(3000))
    with path.open("rb") as raw:
        file = gzip_file.SeekableGzip(raw)
        for _ in range(300):
            at, size = rng.randrange(len(content) + 50), rng.randrange(4000)
            file.seek(at)
            assert file.read(size) == content[at : at + size]
        assert len(file._states) > 5
    path.write_bytes(halves[0][:-20])
    with path.open("rb") as raw, pytest.raises(EOFError, match="cut off"):
        gzip_file.SeekableGzip(raw).read(40000)


def test_files_that_are_no_archive(tmp_path):
    (tmp_path / "x.zip").write_bytes(b"no")
    (tmp_path / "x.tar").write_bytes(b"no")
    for name in ("x.zip", "x.tar"):
        with pytest.raises(DataError, match=f"{name} cannot be read, or is damaged"):
            open_tree(tmp_path / name).files()
    with pytest.raises(DataError, match=r"Unpack it first: tar -xf x\.tar\.xz"):
        open_tree(tmp_path / "x.tar.xz")
    with pytest.raises(DataError, match="does not exist; expected a folder"):
        open_tree(tmp_path / "none")


def test_a_damaged_header_inside_a_tar_file_is_not_its_end(tmp_path):
    path = write_tar(tmp_path / "x.tar", {"a.png": b"1" * 600, "b.png": b"2"})
    content = bytearray(path.read_bytes())
    content[512 * 3 + 150] ^= 1  # in the checksum of the second header
    path.write_bytes(content)
    with pytest.raises(DataError, match="damaged after 1 files"):
        TarArchive(path).files()


def outcomes(tmp_path, rounds, seed):
    rng = random.Random(seed)
    small = dict(list(MEMBERS.items())[:3])
    wholes = {
        "zip": write_zip(tmp_path / "w.zip", small).read_bytes(),
        "tar": write_tar(tmp_path / "w.tar", small).read_bytes()[: 512 * 8],
        "tgz": write_tar(tmp_path / "w.tgz", small, "w:gz").read_bytes(),
    }
    found = set()
    for _ in range(rounds):
        kind = rng.choice(list(wholes))
        path = tmp_path / f"m.{kind}"
        path.write_bytes(mutated(wholes[kind], rng))
        try:
            tree = open_tree(path)
            found |= {(kind, type(tree.read(name))) for name in tree.files()}
        except DataError:
            found.add((kind, DataError))
    return found


EVERY = {(kind, outcome) for kind in ("zip", "tar", "tgz") for outcome in (bytes, DataError)}


def test_mutated_archives_give_members_or_that_error(tmp_path):
    assert outcomes(tmp_path, 600, seed=0) >= EVERY - {("tgz", bytes)}
