"""Archives are unpacked once, in full or not at all; hostile and damaged archives are refused."""

import os
import random
import shutil
import tarfile
import zipfile
from collections import namedtuple

import pytest

pytest.importorskip("PIL")

from tests.images.datasets.files import PNG, mutated, write_tar, write_zip
from udtw.errors import DataError
from udtw.images.datasets import archives, load_images
from udtw.images.datasets.archives import unpack

MEMBERS = {"cat/1.png": PNG, "dog/2.png": PNG, "list.txt": b"words"}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("UDTW_CACHE", str(folder))
    yield folder / "archives"
    # Whatever happened, no temporary folder is left behind.
    assert not [path for path in folder.rglob("*") if path.name.endswith(".tmp")]


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", ["x.zip", "x.tar", "x.tar.gz", "x.tgz"])
def test_an_archive_is_unpacked_once_and_again_when_it_changed(tmp_path, cache, name):
    def make(members):
        if name == "x.zip":
            return write_zip(tmp_path / name, members)
        return write_tar(tmp_path / name, members, "w" if name == "x.tar" else "w:gz")

    folder = unpack(make(MEMBERS))
    assert folder.parent == cache
    assert contents(folder) == MEMBERS
    (folder / "mark").touch()
    assert unpack(tmp_path / name) == folder
    assert (folder / "mark").exists()
    other = unpack(make({**MEMBERS, "cat/1.png": PNG[::-1]}))
    assert other != folder
    assert contents(other)["cat/1.png"] == PNG[::-1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", name]  # nothing beside the archive


def test_the_users_cache_by_default(tmp_path, monkeypatch):
    pytest.importorskip("platformdirs")
    monkeypatch.delenv("UDTW_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home" / "cache"))
    folder = unpack(write_zip(tmp_path / "x.zip", MEMBERS))
    assert folder.is_relative_to(tmp_path / "home")
    assert contents(folder) == MEMBERS


def test_another_process_may_be_faster(tmp_path, monkeypatch):
    path = write_zip(tmp_path / "x.zip", MEMBERS)
    rename = os.rename

    def later(source, target):
        shutil.copytree(source, target)
        rename(source, target)

    monkeypatch.setattr(os, "rename", later)
    assert contents(unpack(path)) == MEMBERS


def test_an_interrupted_run_leaves_nothing(tmp_path, cache, monkeypatch):
    path = write_zip(tmp_path / "x.zip", MEMBERS)

    def stop(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(archives, "_rename", stop)
        with pytest.raises(KeyboardInterrupt):
            unpack(path)
    assert not list(cache.iterdir())
    assert contents(unpack(path)) == MEMBERS


def test_what_a_killed_run_has_left_is_removed_later(tmp_path, cache):
    new, old = cache / ".1.tmp", cache / ".2.tmp"
    for folder in (new, old):
        folder.mkdir(parents=True)
        (folder / "a.png").write_bytes(PNG)
    os.utime(old, (0, 0))
    unpack(write_zip(tmp_path / "x.zip", MEMBERS))
    assert (new.exists(), old.exists()) == (True, False)
    shutil.rmtree(new)


def test_a_cache_that_cannot_be_written_to(tmp_path, monkeypatch):
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("UDTW_CACHE", str(tmp_path / "file"))
    with pytest.raises(DataError, match=r"x\.zip cannot be unpacked into .*file/archives: .*Set .* UDTW_CACHE"):
        unpack(write_zip(tmp_path / "x.zip", MEMBERS))


@pytest.mark.parametrize("name", ["x.zip", "x.tar", "x.tgz"])
def test_too_little_room_on_the_disk(tmp_path, monkeypatch, name):
    members = {"a.txt": random.Random(0).randbytes(20_000), "b.txt": b"1"}
    path = tmp_path / name
    write_zip(path, members) if name == "x.zip" else write_tar(path, members, "w" if name == "x.tar" else "w:gz")
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage(10**9, 10**9, 10_000))
    with pytest.raises(DataError, match=r"unpacks to 0\.0\d GB or more, and .* has 0\.00 GB free.*UDTW_CACHE"):
        unpack(path)


def test_a_large_archive_shows_its_progress(tmp_path, monkeypatch, capsys):
    pytest.importorskip("rich")
    monkeypatch.setattr(archives, "SHOWN_FROM", 0)
    monkeypatch.setenv("COLUMNS", "200")
    unpack(write_zip(tmp_path / "x.zip", MEMBERS))
    assert "unpacking x.zip, 0.0 GB, once into" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["/etc/x.png", "../x.png", "a/../../x.png", "a\\..\\x.png", "C:/x.png"])
def test_names_that_lead_out_are_refused(tmp_path, name):
    members = {"a.png": b"", name: b""}
    for path in (write_zip(tmp_path / "x.zip", members), write_tar(tmp_path / "x.tar", members)):
        with pytest.raises(DataError, match=r"is refused: its member .* leads out of the archive"):
            unpack(path)


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_in_tar_files_are_refused(tmp_path, kind):
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        info = tarfile.TarInfo("a.png")
        info.type, info.linkname = kind, "/etc/passwd"
        archive.addfile(info)
    with pytest.raises(DataError, match=r"a\.png' is a link, a device"):
        unpack(tmp_path / "x.tar")


def zip_with(path, **changes):
    info = zipfile.ZipInfo("a.png")
    for key, value in changes.items():
        setattr(info, key, value)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(info, b"0" * 2**21, changes.get("compress_type", zipfile.ZIP_STORED))
    return path


def test_links_bombs_and_other_methods_in_zip_files_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "x.zip"
    with pytest.raises(DataError, match="is a link or a device"):
        unpack(zip_with(path, external_attr=0o120777 << 16))
    with pytest.raises(DataError, match=r"unpacks from \d+ to 2097152 bytes"):
        unpack(zip_with(path, compress_type=zipfile.ZIP_DEFLATED))
    with pytest.raises(DataError, match="packed by method 14"):
        unpack(zip_with(path, compress_type=zipfile.ZIP_LZMA))
    encrypted = bytearray(write_zip(path, {"a.png": b"1"}).read_bytes())
    encrypted[encrypted.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(encrypted)
    with pytest.raises(DataError, match="is encrypted"):
        unpack(path)
    monkeypatch.setattr(archives, "MAX_FILE", 1000)
    with pytest.raises(DataError, match=r"'a\.png' unpacks to 2097152 bytes, too many for an image"):
        unpack(zip_with(path))
    with pytest.raises(DataError, match="unpacks to 1001 bytes"):
        unpack(write_tar(tmp_path / "x.tar", {"a.png": bytes(1001)}))


def test_many_members_that_are_small_each(tmp_path, monkeypatch):
    members = {f"{n}.txt": bytes(2**18) for n in range(20)}
    monkeypatch.setattr(archives, "STREAM_RATIO_FROM", 2**20)
    with pytest.raises(DataError, match=r"its \d+ bytes unpack to 5242880"):
        unpack(write_zip(tmp_path / "x.zip", members))
    monkeypatch.setattr(archives, "MAX_MEMBERS", 19)
    for path in (write_zip(tmp_path / "y.zip", members), write_tar(tmp_path / "y.tar", members)):
        with pytest.raises(DataError, match="is refused: it has more than 19 files"):
            unpack(path)


def test_a_name_that_is_there_twice(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("a.png", b"1")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("a.png", b"2")
    with pytest.raises(DataError, match="occurs twice"):
        unpack(tmp_path / "x.zip")
    with pytest.raises(DataError, match="occurs twice"):
        unpack(write_tar(tmp_path / "x.tar", {"a.png": b"1", "./a.png": b"2"}))


def test_a_file_that_is_also_a_folder(tmp_path):
    for path in (
        write_zip(tmp_path / "x.zip", {"a": b"1", "a/b.png": b"2"}),
        write_tar(tmp_path / "x.tar", {"a": b"1", "a/b.png": b"2"}),
    ):
        with pytest.raises(DataError, match=r"'a/b\.png' cannot be written"):
            unpack(path)


def test_gzip_bombs(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "STREAM_RATIO_FROM", 2**20)
    path = write_tar(tmp_path / "x.tgz", {"a.txt": bytes(2**23), "b.txt": b""}, "w:gz")
    with pytest.raises(DataError, match="bytes unpack to more than"):
        unpack(path)


def test_files_that_are_no_archive(tmp_path):
    for name in ("x.zip", "x.tar", "x.tgz"):
        (tmp_path / name).write_bytes(b"no")
        with pytest.raises(DataError, match=f"{name} cannot be read, or is damaged"):
            unpack(tmp_path / name)
    with pytest.raises(DataError, match=r"none\.zip cannot be read: No such file"):
        unpack(tmp_path / "none.zip")


def test_a_damaged_header_inside_a_tar_file_is_not_its_end(tmp_path):
    for name, mode in (("x.tar", "w"), ("x.tgz", "w:gz")):
        path = write_tar(tmp_path / "x.tar", {"a.png": b"1" * 600, "b.png": b"2"})
        content = bytearray(path.read_bytes())
        content[512 * 3 + 150] ^= 1  # in the checksum of the second header
        if mode == "w:gz":
            content = archives.gzip.compress(content)
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError, match="damaged after 1 files"):
            unpack(tmp_path / name)


@pytest.mark.parametrize("cut", [3, 30, 200])
def test_gzipped_files_that_are_cut_off_or_followed_by_zeros(tmp_path, cut):
    path = write_tar(tmp_path / "x.tgz", {"a.png": random.Random(0).randbytes(5000)}, "w:gz")
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    with pytest.raises(DataError, match=r"x\.tgz.* damaged"):
        unpack(path)
    path.write_bytes(whole + bytes(3000))  # which fill the last block of a tape
    assert list(contents(unpack(path))) == ["a.png"]


def test_one_damaged_image_in_a_zip_file_is_refused_by_name_and_the_others_are_read(tmp_path):
    path = write_zip(tmp_path / "x.zip", MEMBERS | {"cat/3.png": PNG}, zipfile.ZIP_STORED)
    whole = path.read_bytes()
    path.write_bytes(whole.replace(PNG, PNG[:-1] + b"?", 1))
    images = load_images("folder", path)
    assert images.names == ("cat/1.png", "cat/3.png", "dog/2.png")
    assert images.image(1).size == images.image(2).size == (6, 4)
    with pytest.raises(DataError, match=r"x\.zip/cat/1\.png is damaged"):
        images.image(0)
    # A list is needed for all images.
    path.write_bytes(whole.replace(b"words", b"wordy"))
    with pytest.raises(DataError, match=r"x\.zip, member list\.txt is damaged: Bad CRC-32"):
        unpack(path)


def outcomes(tmp_path, rounds, seed):
    rng = random.Random(seed)
    small = {f"data/{n}.png": f"a{n}".encode() * 40 for n in range(3)}
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
            folder = unpack(path)
            found |= {(kind, type(content)) for content in contents(folder).values()}
            assert not any(one.is_symlink() for one in folder.rglob("*"))
        except DataError:
            found.add((kind, DataError))
    return found


EVERY = {(kind, outcome) for kind in ("zip", "tar", "tgz") for outcome in (bytes, DataError)}


def test_mutated_archives_give_files_or_that_error(tmp_path):
    assert outcomes(tmp_path, 600, seed=0) >= EVERY - {("tgz", bytes)}
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        ["cache", *(f"{stem}.{kind}" for stem in "mw" for kind in ("zip", "tar", "tgz"))]
    )
