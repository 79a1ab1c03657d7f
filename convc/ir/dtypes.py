"""Number formats: what an operand or a result is stored as, and how a real number gets there.

The floating-point formats are each ``sign, exponent, fraction``:

    ======  ====  ========  ========  =========  ==========================================
    name    bits  exponent  fraction  precision  stored as
    ======  ====  ========  ========  =========  ==========================================
    f16     16    5         10        11         numpy float16
    bf16    16    8         7         8          ml_dtypes bfloat16
    tf32    19    8         10        11         numpy float32 whose low 13 bits are zero
    f32     32    8         23        24         numpy float32
    e4m3    8     4         3         4          ml_dtypes float8_e4m3fn (no infinity)
    e5m2    8     5         2         3          ml_dtypes float8_e5m2
    ======  ====  ========  ========  =========  ==========================================

(IEEE 754-2019 section 3.6 for f16 and f32; PTX manual, section "Alternate Floating-Point Data Formats", for
the others; OCP, "8-bit floating point specification", for e4m3 and e5m2.) Then there are whole numbers: u8, s8 and
s32 in numpy's uint8, int8 and int32. `encode` rounds to nearest, ties to even, in ONE rounding even from float64:
rounding first to float32 and then to bfloat16 would round twice, and a value just above a tie could land on the wrong
side.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import ml_dtypes
import numpy as np

from convc.ir.element_types import ELEMENT_TYPES, ML_DTYPES


@dataclass(frozen=True, slots=True, kw_only=True)
class DType:
    """A number format.

    Attributes:
        name: short name, as in `ConvProblem.operand` and in launch files.
        bits: bits an element takes in memory (tf32 takes 32); of block-scaled types those of a device element, a byte.
        storage: numpy type that holds it.
        precision: significant bits, the hidden one included (p in the literature); all whole numbers of a magnitude up
            to 2^p that are in range are in the format.
        min_exponent: exponent of the smallest normal number.
        max_finite: the largest finite value.
        integer: whole numbers only.
        signed: whether there are numbers below zero.
        kind: ``.kind`` of the instruction that multiplies it; empty: it is no operand.
        result: whether results are stored in it.
        parts: float32 that is multiplied as a sum of parts (see `convc.host_layout.split_precision`).
        scaled: float32 that is multiplied as bytes with scale factors (see `convc.host_layout.block_scaled`).
    """

    name: str
    bits: int
    storage: np.dtype
    precision: int
    min_exponent: int
    max_finite: float
    integer: bool = False
    signed: bool = True
    kind: str = ""
    result: bool = False
    parts: bool = False
    scaled: bool = False

    @property
    def bytes(self) -> int:
        """Bytes of an element in memory."""
        return self.bits // 8

    @property
    def min_finite(self) -> float:
        """The lowest finite value."""
        if not self.integer:
            return -self.max_finite
        return -self.max_finite - 1 if self.signed else 0.0

    @property
    def unit_roundoff(self) -> float:
        """u = 2^-p: the largest relative error of rounding a normal number to nearest."""
        return 2.0**-self.precision

    @property
    def min_normal(self) -> float:
        """The smallest positive normal number."""
        return 2.0**self.min_exponent

    @property
    def min_subnormal(self) -> float:
        """The smallest positive number; below the normals, all numbers are multiples of it."""
        return 2.0 ** (self.min_exponent + 1 - self.precision)


ARRAY_TYPES = {
    name: np.dtype(getattr(ml_dtypes, element.array) if element.array in ML_DTYPES else element.array)
    for name, element in ELEMENT_TYPES.items()
    if element.array is not None
}
"""The numpy type of an array of each type in `convc.ir.element_types` that has one."""


def _floating(
    name: str, *, precision: int, min_exponent: int, max_finite: float, kind: str = "", result: bool = False
) -> DType:
    return DType(
        name=name,
        bits=ELEMENT_TYPES[name].bits,
        storage=ARRAY_TYPES[name],
        precision=precision,
        min_exponent=min_exponent,
        max_finite=max_finite,
        kind=kind,
        result=result,
    )


def _whole(name: str, *, max_finite: float, signed: bool = True, kind: str = "") -> DType:
    bits = ELEMENT_TYPES[name].bits
    return DType(
        name=name,
        bits=bits,
        storage=ARRAY_TYPES[name],
        precision=bits - 1 if signed else bits,
        min_exponent=0,
        max_finite=max_finite,
        integer=True,
        signed=signed,
        kind=kind,
        result=True,
    )


def _float32_as(name: str, kind: str, *, bits: int = 32) -> DType:
    return replace(F32, name=name, bits=bits, kind=kind, result=False, parts=bits == 32, scaled=bits == 8)


F16 = _floating("f16", precision=11, min_exponent=-14, max_finite=65504.0, kind="f16", result=True)
BF16 = _floating("bf16", precision=8, min_exponent=-126, max_finite=(2 - 2.0**-7) * 2.0**127, kind="f16", result=True)
TF32 = _floating("tf32", precision=11, min_exponent=-126, max_finite=(2 - 2.0**-10) * 2.0**127, kind="tf32")
F32 = _floating("f32", precision=24, min_exponent=-126, max_finite=(2 - 2.0**-23) * 2.0**127, result=True)
E4M3 = _floating("e4m3", precision=4, min_exponent=-6, max_finite=448.0, kind="f8f6f4")
E5M2 = _floating("e5m2", precision=3, min_exponent=-14, max_finite=57344.0, kind="f8f6f4")
BF16X3 = _float32_as("bf16x3", "f16")
BF16X6 = _float32_as("bf16x6", "f16")
TF32X3 = _float32_as("tf32x3", "tf32")
MXFP8 = _float32_as("mxfp8", "mxf8f6f4", bits=8)
MXFP4 = _float32_as("mxfp4", "mxf4", bits=8)
NVFP4 = _float32_as("nvfp4", "mxf4nvf4", bits=8)
S32 = _whole("s32", max_finite=2.0**31 - 1)
U8 = _whole("u8", max_finite=255.0, signed=False, kind="i8")
S8 = _whole("s8", max_finite=127.0, kind="i8")

DTYPES = (F16, BF16, TF32, F32, E4M3, E5M2, BF16X3, BF16X6, TF32X3, MXFP8, MXFP4, NVFP4, S32, U8, S8)
"""The table, in the order of messages; all names below are read off it."""

BY_NAME = {dtype.name: dtype for dtype in DTYPES}

SPLIT_OPERANDS = tuple(dtype.name for dtype in DTYPES if dtype.parts)
"""Names for float32 that is multiplied as parts of bf16 or tf32."""

SCALED_OPERANDS = tuple(dtype.name for dtype in DTYPES if dtype.scaled)
"""Names for float32 that is multiplied as numbers of few bits, with a scale factor for each block of channels."""

FLOAT_OPERANDS = tuple(dtype.name for dtype in DTYPES if dtype.kind and not dtype.integer)
"""Names of the floating-point types that are multiplied; sums of their products are f32."""

INTEGER_OPERANDS = tuple(dtype.name for dtype in DTYPES if dtype.kind and dtype.integer)
"""Names of the whole numbers that the tensor core multiplies; sums of their products are s32."""

OPERANDS = FLOAT_OPERANDS + INTEGER_OPERANDS
"""Names of the types that are multiplied."""

KINDS = {dtype.name: dtype.kind for dtype in DTYPES if dtype.kind}
"""``.kind`` of the instruction that multiplies a type (PTX manual, tcgen05.mma)."""

MIXED_KINDS = ("f8f6f4", "i8")
"""Kinds whose two operands may have different types."""

FLOAT_OUTPUTS = tuple(dtype.name for dtype in DTYPES if dtype.result and not dtype.integer)
"""Names of the types that a floating-point convolution can store its result in."""

INTEGER_OUTPUTS = tuple(dtype.name for dtype in DTYPES if dtype.result and dtype.integer)
"""Names of the types that a convolution of whole numbers can store its result in."""

OUTPUTS = FLOAT_OUTPUTS + INTEGER_OUTPUTS
"""Names of the types that a convolution can store its result in."""


def encode(dtype: DType, array: np.ndarray) -> np.ndarray:
    """Round numbers (any shape, any real type) to nearest, ties to even; the result is in ``dtype.storage``.

    Too large becomes infinity (e4m3, which has none: NaN), NaN stays NaN, subnormals and signed zeros are kept. u8 and
    s8 take the nearest number they have, s32 wraps modulo 2^32 as sums of the tensor core do; NaN becomes 0 there.
    """
    array = np.asarray(array)
    if array.ndim == 0:
        return encode(dtype, array.reshape(1)).reshape(())
    if dtype.integer:
        return _encode_integer(dtype, array)
    if dtype.bits == 8 and dtype.precision < F32.precision:
        with np.errstate(all="ignore"):
            return _to_f32_odd(array).astype(dtype.storage)
    if dtype.precision == F32.precision or dtype is F16 or array.dtype == dtype.storage == BF16.storage:
        with np.errstate(all="ignore"):
            return array.astype(dtype.storage)  # numpy rounds once, from any type
    dropped = 24 - dtype.precision  # low fraction bits of a float32 that the format lacks
    single = np.ascontiguousarray(_to_f32_odd(array))
    bits = single.view(np.uint32)
    rounded = (bits >> np.uint32(dropped)) & np.uint32(1)
    rounded += bits
    rounded += np.uint32((1 << (dropped - 1)) - 1)  # + half a unit, less one where the kept part is even
    rounded &= np.uint32(0xFFFFFFFF << dropped & 0xFFFFFFFF)
    nan = np.isnan(single)
    if nan.any():
        rounded[nan] = 0x7FC00000  # the addition above may have carried a NaN into infinity or zero
    if dtype is BF16:
        return (rounded >> np.uint32(16)).astype(np.uint16).view(BF16.storage)
    return rounded.view(np.float32)


def decode(dtype: DType, storage: np.ndarray) -> np.ndarray:
    """The values of stored elements as float64 (exact), same shape."""
    if dtype is S32:
        return _stored(dtype, storage).astype(np.float64)
    with np.errstate(invalid="ignore"):  # a signalling NaN
        return widen(dtype, storage).astype(np.float64)


def widen(dtype: DType, storage: np.ndarray) -> np.ndarray:
    """The values of stored elements as float32 (exact: every format but s32 fits), same shape; f32 is not copied."""
    storage = _stored(dtype, storage)
    if dtype is S32:
        raise TypeError("float32 cannot hold every s32")
    if dtype is BF16:
        bits = np.ascontiguousarray(storage).view(np.uint16).astype(np.uint32)
        return (bits << np.uint32(16)).view(np.float32)
    with np.errstate(invalid="ignore"):
        return storage.astype(np.float32, copy=False)


def quantise(dtype: DType, array: np.ndarray) -> np.ndarray:
    """Numbers rounded to ``dtype``, as float32 values, same shape."""
    return widen(dtype, encode(dtype, array))


def of_array(array: np.ndarray) -> DType:
    """The format that an array of results holds, one of `OUTPUTS`, by its numpy type."""
    for name in OUTPUTS:
        if array.dtype == BY_NAME[name].storage:
            return BY_NAME[name]
    expected = ", ".join(str(BY_NAME[name].storage) for name in OUTPUTS)
    raise TypeError(f"expected an array of one of {expected}, got {array.dtype}")


def _stored(dtype: DType, storage: np.ndarray) -> np.ndarray:
    storage = np.asarray(storage)
    if storage.dtype != dtype.storage:
        raise TypeError(f"{dtype.name} is stored as {dtype.storage}, got an array of {storage.dtype}")
    return storage


def _encode_integer(dtype: DType, array: np.ndarray) -> np.ndarray:
    """Whole numbers: to nearest, ties to even; s32 modulo 2^32 (of numbers below 2^62), the others to their range."""
    if array.dtype == dtype.storage:
        return array.astype(dtype.storage)
    if array.dtype.kind not in "iub":
        array = np.rint(np.nan_to_num(array.astype(np.float64), nan=0.0))
    if dtype is S32:
        whole = np.clip(array, -(2.0**62), 2.0**62) if array.dtype.kind == "f" else array
        return (whole.astype(np.int64) & 0xFFFFFFFF).astype(np.uint32).view(np.int32)
    return np.clip(array, int(dtype.min_finite), int(dtype.max_finite)).astype(dtype.storage)


def _to_f32_odd(array: np.ndarray) -> np.ndarray:
    """To float32, exactly or *to odd*: an inexact result takes whichever neighbour has an odd last bit.

    A later rounding to at most 22 bits then gives what rounding the original once would have given (Boldo and
    Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd", 2008).
    """
    with np.errstate(all="ignore"):
        if array.dtype in (np.float32, np.float16, BF16.storage):
            return array.astype(np.float32, copy=False)
        exact = array.astype(np.float64, copy=False)
        nearest = exact.astype(np.float32)
        back = nearest.astype(np.float64)
        bits = nearest.view(np.uint32)
        fix = (back != exact) & (bits & np.uint32(1) == 0) & (exact == exact)
        outwards = np.abs(exact) > np.abs(back)
        bits += fix & outwards
        bits -= fix & ~outwards
    return nearest
