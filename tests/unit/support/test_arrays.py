"""Arrays by name from .npy and .npz: what is refused before memory is taken."""

from __future__ import annotations

import io
import zipfile

import ml_dtypes
import numpy as np
import pytest

from convc.errors import InputError, LimitError
from convc.support import memory
from convc.support.arrays import arrays_of, npy_bytes, read_arrays, write_npz
from convc.support.files import read_npy, write_npy

ARRAYS = {"x": np.arange(6, dtype=np.float32).reshape(2, 3), "a/b": np.ones((2, 2), np.int8), "file": np.zeros(())}


def npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def archive(members: dict[str, bytes], **options) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", **options) as made:
        for name, data in members.items():
            made.writestr(name, data)
    return stream.getvalue()


def test_what_is_written_is_read_by_name_and_by_numpy(tmp_path):
    path = tmp_path / "x.npz"
    write_npz(path, ARRAYS)
    with np.load(path) as loaded:
        for name, array in ARRAYS.items():
            np.testing.assert_array_equal(loaded[name], array)
    for found in (read_arrays(path), arrays_of(path.read_bytes(), "stdin")):
        assert found.keys() == ARRAYS.keys()
        for name, array in ARRAYS.items():
            np.testing.assert_array_equal(found[name], array)
            assert found[name].flags.writeable
    assert [each.name for each in tmp_path.iterdir()] == ["x.npz"]


def test_an_array_without_extents_has_none_on_either_way(tmp_path):
    one = np.array(7.5)
    write_npz(tmp_path / "one.npz", {"one": one})
    assert np.load(tmp_path / "one.npz")["one"].shape == ()
    assert read_arrays(tmp_path / "one.npz")["one"].shape == ()
    write_npy(tmp_path / "one.npy", one)
    assert np.load(tmp_path / "one.npy").shape == read_npy(tmp_path / "one.npy").shape == ()
    assert np.load(io.BytesIO(npy_bytes(one))).shape == ()


def test_numpy_writes_what_is_read(tmp_path):
    np.savez_compressed(tmp_path / "c.npz", x=np.asfortranarray(ARRAYS["x"]))
    np.testing.assert_array_equal(read_arrays(tmp_path / "c.npz")["x"], ARRAYS["x"])
    np.save(tmp_path / "named.npz.npy", ARRAYS["x"])
    assert list(read_arrays(tmp_path / "named.npz.npy")) == [""]
    np.testing.assert_array_equal(arrays_of(npy(ARRAYS["x"]), "stdin")[""], ARRAYS["x"])
    half = arrays_of(npy(np.ones(3, ml_dtypes.bfloat16)), "stdin")[""]
    assert half.dtype == np.dtype("V2")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"PK\x03\x04 nothing", "not a .npz file"),
        (archive({"x.txt": b"1"}), "got 'x.txt'"),
        (archive({".npy": npy(np.ones(1))}), "expected arrays"),
        (archive({"x.npy": b"1"}), "not a .npy file"),
        (archive({"x.npy": npy(np.ones(9))[:-8]}), "truncated"),
        (archive({"x.npy": npy(np.array([object()]))}), "expected an array of numbers"),
        (archive({"x.npy": npy(np.ones(4))})[:-30], "not a .npz file"),
        (npy(np.ones(9))[:-8], "truncated"),
        (npy(np.array([object()])), "expected an array of numbers"),
        (npy(np.zeros(3, "V0")), "expected an array of numbers"),
        (b"", "not a .npy file"),
    ],
)
def test_damage_is_a_sentence(tmp_path, data, message):
    path = tmp_path / "x.npz"
    path.write_bytes(data)
    for read in (lambda: read_arrays(path), lambda: arrays_of(data, "stdin")):
        with pytest.raises(InputError, match=message):
            read()


def test_two_arrays_of_one_name_are_refused():
    data = archive({"x.npy": npy(np.ones(1)), "z.npy": npy(np.ones(1))}).replace(b"z.npy", b"x.npy")
    with pytest.raises(InputError, match="two arrays of the name 'x'"):
        arrays_of(data, "stdin")


def test_sizes_are_checked_before_memory_is_taken(monkeypatch, tmp_path):
    bomb = archive({"x.npy": npy(np.zeros(1 << 20))}, compression=zipfile.ZIP_DEFLATED)
    assert len(bomb) < 20_000
    monkeypatch.setattr(memory, "available_memory", lambda: 1 << 20)
    with pytest.raises(LimitError, match="reading stdin needs"):
        arrays_of(bomb, "stdin")
    big = npy(np.zeros(10)).replace(b"(10,)", b"(10**9,)")
    with pytest.raises(InputError):
        arrays_of(big, "stdin")


def test_the_caller_refuses_by_the_header(tmp_path):
    seen = []

    def accept(name, header):
        seen.append((name, header.shape))
        return "no" if name == "a/b" else None

    write_npz(tmp_path / "x.npz", ARRAYS)
    with pytest.raises(InputError, match="no") as caught:
        read_arrays(tmp_path / "x.npz", accept)
    assert caught.value.where.endswith("x.npz, array 'a/b'")
    assert seen == [("x", (2, 3)), ("a/b", (2, 2))]


@pytest.mark.parametrize("name", ["absent.npz", "."])
def test_what_is_no_file_is_said(tmp_path, name):
    with pytest.raises(InputError, match=r"there is no such file or folder|not a regular file"):
        read_arrays(tmp_path / name)
