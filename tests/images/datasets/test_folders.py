"""The same files in a folder, a zip and a tar archive are read alike, by other processes and threads too."""

import os
import pickle
import threading
from multiprocessing import get_context

import pytest

pytest.importorskip("PIL")

from tests.images.datasets.files import write, write_tar, write_zip
from udtw.errors import DataError
from udtw.images.datasets.folders import Folder, Mounted, open_folder

MEMBERS = {f"data/{label}/{n}.png": f"{label}{n}".encode() * 40 for label in ("a", "b", "c0") for n in range(5)}
MEMBERS["data/list.txt"] = "\ufeffwörd".encode()
JUNK = {"__MACOSX/data/a/._1.png": b"x", "data/.DS_Store": b"x", "data/a/._0.png": b"x"}


@pytest.fixture(params=["folder", "zip", "tar", "tgz", "tar.gz"])
def folder(request, tmp_path):
    members = {**MEMBERS, **JUNK}
    if request.param == "folder":
        return open_folder(write(tmp_path / "d", members))
    path = tmp_path / f"d.{request.param}"
    if request.param == "zip":
        return open_folder(write_zip(path, members))
    mode = "w" if path.suffix == ".tar" else "w:gz"
    return open_folder(write_tar(path, {f"./{name}": content for name, content in members.items()}, mode))


def test_names_and_contents(folder):
    assert folder.files() == sorted(MEMBERS)
    assert folder.files("data/a") == [f"data/a/{n}.png" for n in range(5)]
    assert {name: folder.read(name) for name in reversed(folder.files())} == MEMBERS
    assert folder.has("data")
    assert folder.has("data/c0")
    assert folder.has("data/list.txt")
    assert not folder.has("data/c")
    assert folder.part("none") is None
    assert folder.read_text("data/list.txt") == "wörd"


def test_parts_and_mounts(folder):
    part = folder.part("none", "data").part("b")
    assert part.files() == [f"{n}.png" for n in range(5)]
    assert part.read("3.png") == MEMBERS["data/b/3.png"]
    assert part.has("3.png")
    both = Mounted("here", {"x": part, "y": folder})
    assert [name for name in both.files() if name.startswith("x")] == [f"x/{n}.png" for n in range(5)]
    assert len(both.files()) == 5 + len(MEMBERS)
    assert both.read("x/3.png") == MEMBERS["data/b/3.png"]
    with pytest.raises(DataError, match=r"here/z/3\.png does not exist"):
        both.read("z/3.png")


def test_errors_name_the_place(folder):
    # Of an archive its own path, not that of the unpacked file.
    for name, max_bytes, said in (
        ("data/a/9.png", 100, "cannot be read: No such file"),
        ("data/a/1.png", 10, "has 80 bytes, more than the 10 that are read"),
    ):
        with pytest.raises(DataError, match=said) as caught:
            folder.read(name, max_bytes)
        assert str(caught.value).startswith(f"{folder.source}/{name} ")


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_folders_are_sent_to_other_processes(folder, tmp_path, monkeypatch):
    folder.read("data/a/1.png")
    with get_context("fork").Pool(2) as pool:
        assert pool.map(folder.read, sorted(MEMBERS) * 5) == [MEMBERS[name] for name in sorted(MEMBERS)] * 5
    # As on another machine, whose cache is empty.
    sent = pickle.dumps(folder)
    monkeypatch.setenv("UDTW_CACHE", str(tmp_path / "other"))
    assert pickle.loads(sent).read("data/b/1.png") == MEMBERS["data/b/1.png"]
    assert (tmp_path / "other").exists() == folder.source.is_file()


def test_several_threads(folder):
    wrong = []

    def check():
        wrong.extend(name for name in folder.files() * 10 if folder.read(name) != MEMBERS[name])

    threads = [threading.Thread(target=check) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_part_may_be_an_archive(tmp_path):
    write_zip(tmp_path / "train.zip", {"train/a.png": b"1", "dog/b.png": b"2"})
    write_zip(tmp_path / "images.zip", {"images/a.png": b"1", "__MACOSX/x": b""})
    folder = Folder(tmp_path)
    assert folder.part("train").files() == ["dog/b.png", "train/a.png"]  # a folder "train" among others is a class
    assert folder.part("images").files() == ["a.png"]
    assert folder.part("images").where == str(tmp_path / "images.zip" / "images")


def test_folders_with_links_to_themselves(tmp_path):
    write(tmp_path, {"a/1.png": b"1"})
    (tmp_path / "a" / "back").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "a" / "pipe.png")
    assert Folder(tmp_path).files() == ["a/1.png"]
    with pytest.raises(DataError, match=r"pipe\.png is not a file"):
        Folder(tmp_path).read("a/pipe.png")
    with pytest.raises(DataError, match="none cannot be read"):
        Folder(tmp_path).files("none")


def test_files_that_are_neither_a_folder_nor_an_archive(tmp_path):
    (tmp_path / "x.tar.xz").write_bytes(b"no")
    with pytest.raises(DataError, match=r"Unpack it: tar -xf x\.tar\.xz"):
        open_folder(tmp_path / "x.tar.xz")
    with pytest.raises(DataError, match="does not exist; expected a folder"):
        open_folder(tmp_path / "none")
    (tmp_path / "x.rar").write_bytes(b"no")
    with pytest.raises(DataError, match=r"x\.rar is not a folder, a \.zip"):
        open_folder(tmp_path / "x.rar")
