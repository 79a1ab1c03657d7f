"""Arrays of a caller as buffers of the simulator: views, shared memory, alignment, and what is refused."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from convc.errors import InputError
from convc.ir.launch import BufferSpec, PointerParam
from convc.triton.buffers import Buffers
from convc.triton.tensors import Tensor


def test_views_of_one_array_share_a_buffer():
    whole = np.arange(64, dtype=np.float32)
    placed = Buffers({"x": whole[8:], "other": np.zeros(4, np.int32), "y": whole})
    assert [piece.name for piece in placed.pieces] == ["x", "other"]
    assert placed.pointer("x", None).offset - placed.pointer("y", None).offset == 32
    placed.write_back({"x": np.ones(64 + placed.pieces[0].shift // 4, np.float32), "other": np.full(4, 7, np.int32)})
    assert whole.tolist() == [1.0] * 64


def test_a_whole_array_keeps_its_type_and_shape():
    placed = Buffers({"x": np.zeros((4, 8), np.float16)})
    assert placed.pieces[0].spec == BufferSpec(dtype="f16", shape=(4, 8))
    assert placed.pointer("x", None) == PointerParam(buffer="x")


def test_pointers_are_as_aligned_as_they_are_in_memory():
    held = np.zeros(64, np.uint8)
    offset = -held.ctypes.data % 16 + 4
    bare = SimpleNamespace(
        data_ptr=lambda: held.ctypes.data + offset,
        dtype="float32",
        shape=(2,),
        stride=lambda: (1,),
        element_size=lambda: 4,
    )
    placed = Buffers({"x": bare})
    assert placed.pointer("x", None) == PointerParam(buffer="x", offset=4)
    left = np.arange(12, dtype=np.uint8)
    placed.write_back({"x": left})
    assert held[offset : offset + 8].tolist() == left[4:].tolist()


def test_storage_of_torch_is_the_buffer():
    held = np.arange(16, dtype=np.float32)
    storage = SimpleNamespace(data_ptr=lambda: held.ctypes.data, nbytes=lambda: held.nbytes)
    view = SimpleNamespace(
        data_ptr=lambda: held.ctypes.data + 16,
        dtype="torch.float32",
        shape=(2, 2),
        stride=lambda: (4, 1),
        element_size=lambda: 4,
        untyped_storage=lambda: storage,
        device=SimpleNamespace(type="cpu"),
    )
    placed = Buffers({"x": view})
    piece = placed.pieces[0]
    assert (piece.spec.size_bytes, placed.pointer("x", None).offset - piece.shift) == (64 + piece.shift, 16)


def test_a_tensor_is_the_array():
    array = np.zeros((4, 8), np.float32)[:, ::2]
    tensor = Tensor(array)
    assert (tensor.shape, tensor.stride(), tensor.stride(0), tensor.size(1)) == ((4, 4), (8, 2), 8, 4)
    assert (str(tensor.dtype), tensor.dtype.is_floating_point, tensor.dtype.itemsize) == ("float32", True, 4)
    assert tensor.dtype == "torch.float32"
    assert (tensor.numel(), tensor.element_size(), tensor.ndim, tensor.is_contiguous()) == (16, 4, 2, False)
    assert tensor.numpy() is array


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (SimpleNamespace(data_ptr=int, device=SimpleNamespace(type="cuda")), "is a tensor on .*of the CPU"),
        ([1, 2], "expected a torch tensor on the CPU or a numpy array, got list"),
    ],
)
def test_what_is_no_array_of_the_host(value, message):
    with pytest.raises(InputError, match=message):
        Buffers({"x": value})


def test_read_only_arrays_stay():
    fixed = np.zeros(4, np.uint8)
    fixed.flags.writeable = False
    placed = Buffers({"x": fixed})
    same = np.zeros(4 + placed.pieces[0].shift, np.uint8)
    placed.write_back({"x": same})
    with pytest.raises(InputError, match="wrote to argument 'x', an array that is read-only"):
        placed.write_back({"x": same + 1})


def test_tensors_of_what_is_no_array():
    with pytest.raises(InputError, match="expected a numpy array, got list"):
        Tensor([1])
    with pytest.raises(InputError, match="strides must be whole elements"):
        Tensor(np.zeros(4, [("a", "u1"), ("b", "<f4")])["b"])
