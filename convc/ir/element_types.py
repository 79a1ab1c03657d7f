"""Types of elements in memory: the one table of their names, sizes and arrays.

Launch files and tensor maps name the type of every buffer and tensor by a word, in PTX's spelling where PTX has one.
Here is what each word means: how many bits an element takes in global memory, and in which array the host holds it.
What numbers a format has, and how a real number becomes one of them, is arithmetic and stands in `convc.ir.dtypes`,
which is built on this table. Nothing here needs numpy, so that a launch file is read without it.

    =========  ====  ==================================================================================
    name       bits  note
    =========  ====  ==================================================================================
    e4m3       8     floating point without infinity (OCP, "8-bit floating point specification")
    tf32       32    a float32 of which the tensor core does not read the low 13 bits
    f32_ftz    32    in tensor maps only: subnormal numbers are flushed to zero; tf32_ftz likewise
    b4x16      4     in tensor maps only: 16 elements in 8 bytes (CUDA driver: 16U4_ALIGN8B)
    b4x16_p64  4     the same, spread over 16 bytes of shared memory, 8 of them padding (16U4_ALIGN16B)
    b6x16_p32  6     16 elements in 12 bytes, spread over 16 bytes of shared memory (16U6_ALIGN16B)
    =========  ====  ==================================================================================

Sources: PTX manual, fundamental types and alternate floating-point formats; CUDA driver API, ``CUtensorMapDataType``.
"""

from __future__ import annotations

from dataclasses import dataclass

ML_DTYPES = ("bfloat16", "float8_e4m3fn", "float8_e5m2")
"""Array types of the ml_dtypes package; a ``.npy`` file cannot name them and holds the bits of their elements."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ElementType:
    """A type of elements in memory.

    Attributes:
        name: the word for it.
        bits: bits that an element takes in global memory.
        array: name of the type of an array with such elements, of numpy or one of `ML_DTYPES`; None: no such array.
        floating: whether elements are floating-point numbers, which have a NaN.
    """

    name: str
    bits: int
    array: str | None
    floating: bool

    @property
    def bytes(self) -> int:
        """Bytes of an element; ValueError where these are not whole bytes."""
        if self.bits % 8:
            raise ValueError(f"an element of {self.name} takes {self.bits} bits, not whole bytes")
        return self.bits // 8

    @property
    def raw(self) -> str:
        """Name of the numpy type of an element's bits, an unsigned integer."""
        return f"uint{8 * self.bytes}"

    @property
    def npy(self) -> str:
        """Name of the numpy type that a ``.npy`` file holds the elements as."""
        return self.raw if self.array is None or self.array in ML_DTYPES else self.array


_ROWS = (
    # name, bits, array, floating
    ("u8", 8, "uint8", False),
    ("s8", 8, "int8", False),
    ("u16", 16, "uint16", False),
    ("s16", 16, "int16", False),
    ("u32", 32, "uint32", False),
    ("s32", 32, "int32", False),
    ("u64", 64, "uint64", False),
    ("s64", 64, "int64", False),
    ("f16", 16, "float16", True),
    ("bf16", 16, "bfloat16", True),
    ("tf32", 32, "float32", True),
    ("tf32_ftz", 32, "float32", True),
    ("f32", 32, "float32", True),
    ("f32_ftz", 32, "float32", True),
    ("f64", 64, "float64", True),
    ("e4m3", 8, "float8_e4m3fn", True),
    ("e5m2", 8, "float8_e5m2", True),
    ("b4x16", 4, None, False),
    ("b4x16_p64", 4, None, False),
    ("b6x16_p32", 6, None, False),
)

ELEMENT_TYPES = {
    name: ElementType(name=name, bits=bits, array=array, floating=floating) for name, bits, array, floating in _ROWS
}
"""Every type, by its word."""

BUFFER_TYPES = (
    "u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64", "f16", "bf16", "tf32", "f32", "f64", "e4m3", "e5m2",
)  # fmt: skip
"""Words of the types that a buffer of a launch file, or a number passed by value, can have."""

TENSOR_MAP_TYPES = (
    "u8", "u16", "u32", "s32", "u64", "s64", "f16", "bf16", "f32", "f32_ftz", "tf32", "tf32_ftz", "f64",
    "b4x16", "b4x16_p64", "b6x16_p32",
)  # fmt: skip
"""Words of the types that a tensor map can have."""
