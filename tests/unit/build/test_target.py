"""A build comes to its place whole or not at all, also where the folder itself cannot be renamed."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from convc.build.target import check_build_target, writing
from convc.errors import InputError
from convc.support.files import write_bytes

OLD = {"network.json": "convc-build/ old", "weights/a.npy": "old", "kernels/0/kernel.ptx": "old"}
NEW = {"network.json": "convc-build/ new", "weights/b.npy": "new", "kernels/1/kernel.ptx": "new"}
RENAME = os.rename


def fill(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def held(folder: Path) -> dict[str, str]:
    """All files below a folder; a name that begins with a dot is something left behind."""
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def build_new(path: Path) -> None:
    with writing(path) as folder:
        fill(folder, NEW)


@pytest.fixture
def old(tmp_path) -> Path:
    folder = tmp_path / "build"
    fill(folder, OLD)
    return folder


@pytest.fixture
def place(request, old, monkeypatch) -> Path:
    """An old build that may be renamed, or in a place where it may not."""
    if request.param == "shell":
        monkeypatch.chdir(old)
    if request.param == "mount":
        monkeypatch.setattr(Path, "is_mount", lambda path: path == old)
    return old


PLACES = pytest.mark.parametrize("place", ["free", "shell", "mount"], indirect=True)


@PLACES
def test_the_new_build_is_there_and_nothing_else(place):
    build_new(place)
    assert held(place) == NEW
    assert os.listdir(place.parent) == ["build"]


@pytest.mark.parametrize("empty", [True, False])
def test_the_folder_that_the_shell_is_in_stays(old, monkeypatch, empty):
    if empty:
        subprocess.run(["rm", "-r", *map(str, old.iterdir())], check=True)
    monkeypatch.chdir(old)
    inode = old.stat().st_ino
    build_new(Path())
    assert held(Path.cwd()) == NEW
    assert Path.cwd().stat().st_ino == old.stat().st_ino == inode


@pytest.mark.parametrize("number", [errno.EBUSY, errno.EXDEV, errno.EACCES])
@pytest.mark.parametrize("empty", [True, False])
def test_a_folder_that_cannot_be_renamed_is_filled(old, monkeypatch, number, empty):
    """As a bind mount of the same disk, which looks like any other folder until it is moved."""
    if empty:
        subprocess.run(["rm", "-r", *map(str, old.iterdir())], check=True)

    def rename(source, target):
        if old in (Path(source), Path(target)):
            raise OSError(number, os.strerror(number))
        RENAME(source, target)

    monkeypatch.setattr(os, "rename", rename)
    build_new(old)
    assert held(old) == NEW
    assert os.listdir(old.parent) == ["build"]


@PLACES
@pytest.mark.parametrize("step", range(6))
@pytest.mark.parametrize("failure", [OSError(errno.EIO, "Input/output error"), KeyboardInterrupt()])
def test_a_step_that_fails_takes_back_those_before(place, monkeypatch, step, failure):
    steps = []

    def rename(source, target):
        steps.append(source)
        if len(steps) == step + 1:
            raise failure
        RENAME(source, target)

    monkeypatch.setattr(os, "rename", rename)
    try:
        build_new(place)
    except (InputError, KeyboardInterrupt):
        assert held(place) == OLD
    else:
        assert len(steps) <= step
        assert held(place) == NEW
    assert os.listdir(place.parent) == ["build"]


@pytest.mark.parametrize("step", range(1, 7))
def test_after_a_kill_in_the_middle_the_folder_can_be_written_again(old, monkeypatch, step):
    code = (
        "import os, sys; from pathlib import Path; from convc.build.target import writing\n"
        "rename, count = os.rename, iter(range(1, 99))\n"
        "def counted(a, b):\n"
        "    if next(count) == int(sys.argv[1]): os._exit(9)\n"
        "    rename(a, b)\n"
        "os.rename = counted\n"
        "with writing(Path()) as folder: (folder / 'network.json').write_text('convc-build/ half')\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(step)], cwd=old, check=False)
    assert done.returncode == 9
    monkeypatch.chdir(old)
    build_new(Path())
    assert held(old) == NEW
    assert sorted(os.listdir(old)) == ["kernels", "network.json", "weights"]


def test_the_files_of_a_process_that_works_are_left_alone(old, monkeypatch):
    other = old / f".convc.{os.getppid()}.part"
    other.mkdir()
    monkeypatch.chdir(old)
    build_new(Path())
    assert other.is_dir()


def test_a_read_only_build_is_refused_before_the_work(old, monkeypatch):
    access = os.access
    closed = old / "kernels" / "0"
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != closed and access(path, mode))
    with pytest.raises(InputError, match="the folder is read-only") as caught:
        check_build_target(old)
    assert caught.value.where == str(closed)
    with pytest.raises(InputError, match="the folder is read-only"):
        build_new(old)
    assert held(old) == OLD
    assert os.listdir(old.parent) == ["build"]


def test_a_folder_below_one_that_may_not_be_written(tmp_path, monkeypatch):
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tmp_path and access(path, mode))
    with pytest.raises(InputError, match="read-only"):
        check_build_target(tmp_path / "a" / "b")
    (tmp_path / "there").mkdir()
    build_new(tmp_path / "there")
    assert held(tmp_path / "there") == NEW, "an empty folder of one's own in there is fine"


def test_a_build_that_fails_takes_the_folders_above_with_it(tmp_path):
    with pytest.raises(InputError, match="No space left"), writing(tmp_path / "a" / "b" / "c"):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert os.listdir(tmp_path) == []


def test_a_file_above_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot write a build here: '.*file' is a file"):
        check_build_target(tmp_path / "file" / "a" / "b")


def test_a_file_of_a_build_that_cannot_be_written_is_called_what_it_would_have_been(tmp_path):
    with (
        pytest.raises(InputError, match="the folder to write to does not exist") as caught,
        writing(tmp_path / "b") as new,
    ):
        write_bytes(new / "kernels" / "k" / "kernel.ptx", b"")
    assert caught.value.where == str(tmp_path / "b" / "kernels" / "k" / "kernel.ptx")
    assert os.listdir(tmp_path) == []
