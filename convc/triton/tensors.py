"""Arrays as Triton takes them: numpy's and torch's, and a stand-in where there is no torch.

Triton asks an argument for ``data_ptr()`` and ``dtype``, and a tensor descriptor asks its base for ``shape`` and
``stride()`` too. A numpy array has no ``data_ptr``, so `Tensor` wraps one. What a kernel may reach through a pointer is
the whole memory that the array is a view of, as on a GPU: `memory_of` finds it.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np

from convc.errors import InputError
from convc.ir.element_types import BUFFER_TYPES, ELEMENT_TYPES
from convc.support.arrays import is_array

WORDS = {"bool": "u8"} | {str(ELEMENT_TYPES[word].array): word for word in BUFFER_TYPES}
"""The launch file's word for each type of torch and numpy; elements of other types are bytes."""


class ElementKind:
    """The type of a `Tensor`'s elements, with what Triton reads of torch's."""

    def __init__(self, name: str, itemsize: int) -> None:
        self.name = name
        self.itemsize = itemsize
        self.is_floating_point = "float" in name

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        return str(other).rpartition(".")[2] == self.name

    def __hash__(self) -> int:
        return hash(self.name)


class Tensor:
    """A numpy array with what Triton asks of a tensor; both are the same memory.

    Args:
        array: of any type that Triton has, bfloat16 and float8 by ml_dtypes; strides are multiples of elements.

    Example:
        >>> x = Tensor(np.zeros((4, 8), np.float16))
        >>> x.shape, x.stride(), x.dtype
        ((4, 8), (8, 1), float16)
    """

    device = "cpu"

    def __init__(self, array: np.ndarray) -> None:
        if not is_array(array):
            raise InputError(f"expected a numpy array, got {type(array).__name__}")
        if any(step % array.itemsize for step in array.strides):
            raise InputError(f"strides must be whole elements of {array.itemsize} bytes, got {array.strides} bytes")
        self.array = array
        self.dtype = ElementKind(array.dtype.name, array.itemsize)

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents."""
        return self.array.shape

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self.array.ndim

    def data_ptr(self) -> int:
        """Address of the first element."""
        return self.array.ctypes.data

    def stride(self, axis: int | None = None) -> Any:
        """Elements from one to the next along an axis, or along each."""
        steps = tuple(step // self.array.itemsize for step in self.array.strides)
        return steps if axis is None else steps[axis]

    def element_size(self) -> int:
        """Bytes of an element."""
        return self.array.itemsize

    def numel(self) -> int:
        """Number of elements."""
        return self.array.size

    def size(self, axis: int | None = None) -> Any:
        """Extent of an axis, or of each."""
        return self.shape if axis is None else self.shape[axis]

    def is_contiguous(self) -> bool:
        """Whether elements lie one behind the other, the last axis fastest."""
        return self.array.flags.c_contiguous

    def numpy(self) -> np.ndarray:
        """The array itself."""
        return self.array

    def __repr__(self) -> str:
        return f"<Tensor {self.dtype} {list(self.shape)}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """The memory that an array is a view of.

    Attributes:
        start, size: address and bytes.
        pointer: address of the array's first element.
        dtype: its type in the launch file's words.
        shape: its extents where it is that memory from end to end, else None.
        writable: a kernel may change it.
    """

    start: int
    size: int
    pointer: int
    dtype: str
    shape: tuple[int, ...] | None
    writable: bool

    def bytes(self) -> np.ndarray:
        """All of it: uint8, the memory itself."""
        return np.ctypeslib.as_array((ctypes.c_uint8 * self.size).from_address(self.start))


def memory_of(name: str, array: Any) -> Memory:
    """The memory behind an argument.

    Args:
        name: of the argument.
        array: a numpy array, a `Tensor`, a torch tensor of the CPU, or what has ``data_ptr()``, ``dtype``, ``shape``,
            ``stride()`` and ``element_size()``.

    Raises:
        InputError: it is no such thing, or it lies on a GPU.
    """
    if isinstance(array, Tensor):
        array = array.array
    if is_array(array):
        return _of_numpy(array)
    if not hasattr(array, "data_ptr"):
        raise InputError(
            f"argument {name!r}: expected a torch tensor on the CPU or a numpy array, got {type(array).__name__}"
        )
    device = getattr(array, "device", "cpu")
    if str(getattr(device, "type", device)) != "cpu":
        raise InputError(
            f"argument {name!r} is a tensor on {device}, and the simulator runs on tensors of the CPU",
            hint="make it with device='cpu', or pass tensor.cpu(); "
            "triton.runtime.driver.active.get_active_torch_device() names the device that fits",
        )
    return _of_torch(array)


def _of_numpy(array: np.ndarray) -> Memory:
    owner = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    low, high = np.lib.array_utils.byte_bounds(owner) if owner.size else (owner.ctypes.data, owner.ctypes.data)
    whole = array.flags.c_contiguous and array.nbytes == high - low
    return Memory(
        start=low,
        size=high - low,
        pointer=array.ctypes.data,
        dtype=WORDS.get(array.dtype.name, "u8"),
        shape=array.shape if whole else None,
        writable=array.flags.writeable,
    )


def _of_torch(array: Any) -> Memory:
    pointer = int(array.data_ptr())
    size = int(array.element_size()) if hasattr(array, "element_size") else int(array.dtype.itemsize)
    shape = tuple(int(each) for each in array.shape)
    if hasattr(array, "untyped_storage"):
        storage = array.untyped_storage()
        start = int(storage.data_ptr())
        reach = int(storage.nbytes())
    else:
        steps = [int(each) for each in array.stride()]
        last = sum((extent - 1) * step for extent, step in zip(shape, steps, strict=True))
        start = pointer
        reach = (last + 1) * size if all(shape) else 0
    whole = pointer == start and int(np.prod(shape, dtype=np.int64)) * size == reach
    contiguous = not hasattr(array, "is_contiguous") or bool(array.is_contiguous())
    return Memory(
        start=start,
        size=reach,
        pointer=pointer,
        dtype=WORDS.get(str(array.dtype).rpartition(".")[2], "u8"),
        shape=shape if whole and contiguous else None,
        writable=True,
    )
