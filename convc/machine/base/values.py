"""Register values: as narrow as they really are.

The simulator runs many CTAs in lockstep, so a register of a strand (some warps of some CTAs with one program counter)
stands for rows x warps x 32 lanes values. Most of them are equal: loop counters, descriptors and barrier addresses are
the same for every lane of every CTA. A value is therefore one of

* a Python ``int`` (or ``bool`` for a predicate): the same everywhere, held as the unsigned bit pattern;
* a numpy array of shape (rows | 1, warps | 1, lanes | 1), unsigned (or bool) and of the register's width.

Floating-point registers hold bit patterns too, since PTX ``.b32`` registers are untyped; arithmetic views them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeGuard, overload

import numpy as np

from convc.ptx.syntax import TYPE_BITS

Value = int | bool | np.ndarray

Unary = Callable[[Value], Value]
Binary = Callable[[Value, Value], Value]
Ternary = Callable[[Value, Value, Value], Value]

Function = Callable[..., Value]
"""An operation on values, of any number of them."""

OneToFour = Unary | Binary | Ternary | Callable[[Value, Value, Value, Value], Value]
"""An operation on one to four values: where this is expected, a lambda's parameters have their types."""

UnaryArray = Callable[[np.ndarray], np.ndarray]
BinaryArray = Callable[[np.ndarray, np.ndarray], np.ndarray]
TernaryArray = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]

ArrayFunction = Callable[..., np.ndarray]
"""An operation on unsigned (or bool) arrays of three axes; `lifted` makes a `Function` of it."""

OneToFourArrays = (
    UnaryArray | BinaryArray | TernaryArray | Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], np.ndarray]
)
"""Such an operation as lambdas need it, see `OneToFour`."""

Operator = Callable[[Any, Any], Any]
"""One of Python's, which works on ints and on arrays."""

BITWISE: dict[str, Operator] = {"and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b}

DTYPE: dict[int, np.dtype[Any]] = {
    1: np.dtype(bool),
    8: np.dtype(np.uint8),
    16: np.dtype(np.uint16),
    32: np.dtype(np.uint32),
    64: np.dtype(np.uint64),
    128: np.dtype(np.complex128),
}
"""numpy type of a register; 128-bit ones are moved as complex128, which is not computed with."""
SIGNED: dict[int, np.dtype[Any]] = {bits: np.dtype(f"i{bits // 8}") for bits in (8, 16, 32, 64)}
FLOAT: dict[int, np.dtype[Any]] = {bits: np.dtype(f"f{bits // 8}") for bits in (16, 32, 64)}
MASK = {bits: (1 << bits) - 1 for bits in (1, 8, 16, 32, 64, 128)}
POISON = {1: False, 8: 0xFF, 16: 0xFFFF, 32: 0xFFFFFFFF, 64: 0xFFFFFFFFFFFFFFFF, 128: (1 << 128) - 1}
"""What never-written storage reads as: a NaN in every floating type, -1 in every integer type."""


def fixed(array: np.ndarray) -> np.ndarray:
    """An array that cannot be written from now on, so that it may be kept and given to many."""
    array.flags.writeable = False
    return array


def distinct(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Find the distinct ones of whole numbers (n,): where each comes first, ascending, and which of them each is.

    `numpy.unique` does so with ``return_index`` and ``return_inverse``; for rows of a table it is much slower.
    """
    order = keys.argsort(kind="stable")
    ascending = keys[order]
    new = np.empty(len(keys), bool)
    new[:1] = True
    np.not_equal(ascending[1:], ascending[:-1], out=new[1:])
    which = np.empty(len(keys), np.intp)
    which[order] = new.cumsum() - 1
    return order[new], which


def distinct_columns(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Do as `distinct` for the columns of whole numbers of at most 32 bits (axes, n)."""
    first, which = distinct(table[0])
    for row in table[1:]:
        if len(first) == len(which):
            break
        low = int(row.min())
        first, which = distinct(which * (int(row.max()) - low + 1) + (row.astype(np.int64) - low))
    return first, which


def plain(values: Sequence[Value]) -> TypeGuard[list[int]]:
    """Whether all values are numbers, the same for every thread."""
    return all(type(value) is int for value in values)


def width(type_name: str) -> int:
    """Bits of a register or instruction type such as ``b32``, ``f16x2`` or ``pred``."""
    return TYPE_BITS[type_name]


def array(value: Value, bits: int) -> np.ndarray:
    """The value as an unsigned array of three axes, which must not be written."""
    return value if isinstance(value, np.ndarray) else _scalar_array(value, bits)


@lru_cache(maxsize=4096)
def _scalar_array(value: int, bits: int) -> np.ndarray:
    """A number as an array (1, 1, 1): a kernel has few, and asks for the same again and again."""
    if bits == 128:
        return np.frombuffer(int(value).to_bytes(16, "little"), DTYPE[128]).reshape(1, 1, 1)
    return fixed(np.full((1, 1, 1), value, DTYPE[bits]))


def lifted(function: OneToFourArrays, *widths: int) -> Function:
    """A function of unsigned arrays made to take ints too: all ints give an int, computed by the same code."""
    call: ArrayFunction = function

    def run(*values: Value) -> Value:
        ints = [value for value in values if not isinstance(value, np.ndarray)]
        if not ints:
            return call(*values)
        result = call(*[array(v, bits) for v, bits in zip(values, widths, strict=True)])
        return result if len(ints) < len(values) else result.reshape(-1)[0].item()

    return run


def packed(function: Function, bits: int, parts: int = 2) -> Function:
    """``function`` of elements of ``bits`` bits, applied to each of the ``parts`` packed in wider registers.

    Arrays of one shape are taken as they are, as so many more elements, and numbers with them whose parts are alike;
    the function must not ask for three axes.
    """
    total = DTYPE[bits * parts]
    part = DTYPE[bits]
    mask = MASK[bits]
    ones = sum(1 << (bits * i) for i in range(parts))

    def element(value: Value, index: int) -> Value:
        return value[..., index] if isinstance(value, np.ndarray) else (value >> (bits * index)) & mask

    def run(*values: Value) -> Value:
        wide = [value[..., None].view(part) if isinstance(value, np.ndarray) else value for value in values]
        shapes = {value.shape for value in wide if isinstance(value, np.ndarray)}
        if len(shapes) == 1 and all(isinstance(value, np.ndarray) or value == (value & mask) * ones for value in wide):
            all_parts = function(*[value if isinstance(value, np.ndarray) else value & mask for value in wide])
            return np.ascontiguousarray(all_parts).view(total)[..., 0]
        return join([function(*[element(value, i) for value in wide]) for i in range(parts)], bits)

    return run


def join(items: list[Value], bits: int) -> Value:
    """Elements of ``bits`` bits, lowest first, as one wide value."""
    shapes = {v.shape for v in items if isinstance(v, np.ndarray)}
    if not shapes:
        return sum(int(v) << (bits * i) for i, v in enumerate(items))
    shape = shapes.pop() if len(shapes) == 1 else np.broadcast_shapes(*shapes)
    out = np.empty((*shape, len(items)), DTYPE[bits])
    for i, v in enumerate(items):
        out[..., i] = v
    return out.view(DTYPE[bits * len(items)])[..., 0]


def split(value: Value, bits: int, parts: int) -> list[Value]:
    """The ``parts`` elements of ``bits`` bits of a wide value, lowest first."""
    if not isinstance(value, np.ndarray):
        return [(value >> (bits * i)) & MASK[bits] for i in range(parts)]
    elements = value[..., None].view(DTYPE[bits])
    return [elements[..., i].copy() for i in range(parts)]


def narrow(value: Value) -> Value:
    """An array whose elements are all equal becomes a plain int or bool."""
    if isinstance(value, np.ndarray) and value.dtype.kind == "c":
        words = np.ascontiguousarray(value).view(np.uint64).reshape(-1, 2)
        return int.from_bytes(words[0].tobytes(), "little") if len(words) and (words == words[0]).all() else value
    if isinstance(value, np.ndarray) and value.size:
        first = value.flat[0]
        # Two threads tell most arrays whose elements differ, without a look at the others.
        if first == value.flat[-1] and (value == first).all():
            return first.item()
    return value


@overload
def signed(value: np.ndarray, bits: int) -> np.ndarray: ...
@overload
def signed(value: int, bits: int) -> int: ...
def signed(value: Value, bits: int) -> Value:
    """A value's bits read as two's complement."""
    if isinstance(value, np.ndarray):
        return value.view(SIGNED[bits])
    return value - (1 << bits) if value >> (bits - 1) else value


def unsigned(value: Value, bits: int) -> Value:
    """The bits of a signed result."""
    if isinstance(value, np.ndarray):
        return value.view(DTYPE[bits])
    return value & MASK[bits]


_FORMAT = {16: ("<H", "<e"), 32: ("<I", "<f"), 64: ("<Q", "<d")}


@lru_cache(maxsize=4096)
def _scalar_float(bits_value: int, bits: int) -> np.floating:
    pack, _ = _FORMAT[bits]
    return np.frombuffer(struct.pack(pack, bits_value), FLOAT[bits])[0]


def floats(value: Value, bits: int) -> np.ndarray | np.floating:
    """The bits read as IEEE floating point (16, 32 or 64 bits)."""
    if isinstance(value, np.ndarray):
        return value.view(FLOAT[bits])
    return _scalar_float(value, bits)


def from_floats(value: np.ndarray | np.floating, bits: int) -> Value:
    """The bits of floating-point numbers; a numpy scalar becomes an int."""
    if isinstance(value, np.ndarray):
        return value.view(DTYPE[bits])
    return int(value.view(DTYPE[bits]))
