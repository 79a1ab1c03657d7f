"""Arrays from files: what is refused before it is read; outputs: whole or not there."""

from __future__ import annotations

import io
import os
import resource
from pathlib import Path

import numpy as np
import pytest

from convc.errors import BuildError, InputError
from convc.support.files import read_npy, read_npy_header, replacing, write_bytes, write_npy


def npy_bytes(array, **options) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, **options)
    return stream.getvalue()


@pytest.mark.parametrize("dtype", ["float16", "float32", "int8", "uint64"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_what_is_written_is_read(tmp_path, dtype, order):
    array = np.asarray(np.arange(24).reshape(2, 3, 4), dtype=dtype, order=order)
    path = tmp_path / "x.npy"
    path.write_bytes(npy_bytes(array))
    header = read_npy_header(path)
    assert (header.shape, header.dtype, header.nbytes) == ((2, 3, 4), np.dtype(dtype), array.nbytes)
    back = read_npy(path)
    assert back.flags.c_contiguous
    np.testing.assert_array_equal(back, array)
    write_npy(path, array)
    np.testing.assert_array_equal(np.load(path), array)


def test_a_missing_file_and_a_folder_are_named(tmp_path):
    with pytest.raises(InputError, match="there is no such file or folder") as caught:
        read_npy(tmp_path / "no.npy")
    assert caught.value.where.endswith("no.npy")
    with pytest.raises(InputError, match="not a regular file"):
        read_npy(tmp_path)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not a .npy file"),
        (b"hello, this is text", "not a .npy file"),
        (b"\x93NUMPY\x07\x00" + b"\0" * 64, "format version is 7.0"),
        (b"\x93NUMPY\x01\x00\x10\x00" + b"(" * 16, "not a .npy file"),
        (npy_bytes(np.array([{}], dtype=object), allow_pickle=True), "array of numbers"),
        (npy_bytes(np.zeros(3, dtype="i4,f4")), "array of numbers"),
        (npy_bytes(np.zeros((4, 5), "f4"))[:-1], "truncated: float32 [4, 5] takes 80 bytes, got 79"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path, data, message):
    path = tmp_path / "x.npy"
    path.write_bytes(data)
    with pytest.raises(BuildError) as caught:
        read_npy(path, error=BuildError)
    assert message in caught.value.message


def test_a_header_that_promises_terabytes_takes_no_memory(tmp_path):
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000, 1000000), }\n"
    path = tmp_path / "x.npy"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    with pytest.raises(InputError, match="takes 4000000000000 bytes, got 0"):
        read_npy(path)


def test_the_callers_check_comes_before_the_data(tmp_path, monkeypatch):
    path = tmp_path / "x.npy"
    path.write_bytes(npy_bytes(np.zeros(3)))
    monkeypatch.setattr(np, "load", lambda *a, **k: pytest.fail("the data were read"))
    with pytest.raises(InputError, match="expected 4, got 3"):
        read_npy(path, check=lambda header: f"expected 4, got {header.shape[0]}")


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "y.npy"
    path.write_bytes(b"old")
    with pytest.raises(TypeError), replacing(path) as stream:
        stream.writelines([b"half", "not bytes"])
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["y.npy"]
    write_bytes(path, b"new")
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["y.npy"]


def test_a_folder_that_is_missing_or_is_the_target_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match="the folder to write to does not exist"):
        write_bytes(tmp_path / "no" / "y.npy", b"")
    with pytest.raises(InputError, match="this is a folder"):
        write_bytes(tmp_path, b"")


def test_a_device_is_written_directly():
    write_bytes(Path("/dev/null"), b"gone")
    assert not Path("/dev/null").is_file()


def test_a_full_disk_is_called_that_for_arrays_too(tmp_path):
    path = tmp_path / "y.npy"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))  # what a full disk answers, but for the number of the error
    try:
        with pytest.raises(InputError) as caught:
            write_npy(path, np.zeros(1000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (caught.value.message, caught.value.where) == ("cannot write the file: File too large", str(path))
    assert os.listdir(tmp_path) == []
