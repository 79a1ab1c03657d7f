"""The parameters of a Triton kernel: what its compiler made of the arguments of a call.

Triton's types of arguments are words: ``*fp16`` (a pointer), ``i32``, ``fp32``, ``constexpr`` (no parameter),
``tensordesc<fp16[128, 64]>`` (a tensor descriptor of the host), and tuples of such. A descriptor becomes a tensor map,
and its shape and strides behind it, as integers of 32 and of 64 bits. Where the compiler did not use the tensor memory
accelerator, it becomes a pointer, shape and strides of 64 bits, and flags, and the same behind them. Two pointers end
every list: scratch memory and memory of a profiler.

Source: ``triton/backends/nvidia/driver.py`` of Triton 3.5 to 3.9 for the order, and the texts that it compiles.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeAlias

from convc.errors import LaunchError
from convc.ir.launch import Param, PointerParam, ScalarParam, TensorMapParam
from convc.ir.tensormap import Fill, Swizzle, TensorMap

SCALARS = {
    "i1": "u8", "u1": "u8", "i8": "s8", "u8": "u8", "i16": "s16", "u16": "u16", "i32": "s32", "u32": "u32",
    "i64": "s64", "u64": "u64", "fp16": "f16", "bf16": "bf16", "fp32": "f32", "f32": "f32", "fp64": "f64",
}  # fmt: skip
"""The launch file's word for each type of a number."""

MAP_TYPES = (
    "u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "bf16", "f32_ftz", "f64", "tf32", "tf32_ftz",
    "b4x16", "b4x16_p64", "b6x16_p32",
)  # fmt: skip
"""Types of tensor maps by the number that Triton's compiler gives."""
DEVICE_TO_HOST = {8: "bf16", 9: "f32_ftz", 10: "f64"}
SWIZZLES: tuple[Swizzle, ...] = ("none", "32B", "64B", "128B")

ENTRY = re.compile(r"\.entry\s+([\w$]+)\s*\(([^)]*)\)([^{]*)", re.DOTALL)
THREADS = re.compile(r"\.(?:reqntid|maxntid)\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?")


class Descriptor(Protocol):
    """All that is read of a tensor descriptor of the host, as Triton has them; lists are outermost first."""

    @property
    def base(self) -> Any:
        """The tensor in memory."""
        ...

    @property
    def shape(self) -> Sequence[int]:
        """Extents in elements."""
        ...

    @property
    def strides(self) -> Sequence[int]:
        """Elements from one to the next along each axis."""
        ...

    @property
    def padding(self) -> str:
        """``zero`` or ``nan``, for what is outside."""
        ...


class PointerSource(Protocol):
    """Knows where arrays lie."""

    def pointer(self, name: str, array: object) -> PointerParam:
        """The address of an array's first element; ``name`` is the argument's."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A kernel as its text declares it.

    Attributes:
        name: of the entry. params: how many it has. threads: of a CTA, None where it is not said.
    """

    name: str
    params: int
    threads: tuple[int, int, int] | None


def entry_of(text: str, name: str = "") -> Entry:
    """The entry of a text, or the one of a name.

    Raises:
        LaunchError: there is none, or several and no name.
    """
    found = [each for each in ENTRY.finditer(text) if not name or each[1] == name]
    if len(found) != 1:
        entries = ", ".join(each[1] for each in ENTRY.finditer(text)) or "none"
        raise LaunchError(f"expected one kernel{f' {name!r}' if name else ''} in the text, got {entries}")
    threads = THREADS.search(found[0][3])
    block = None if threads is None else (int(threads[1]), int(threads[2] or 1), int(threads[3] or 1))
    return Entry(name=found[0][1], params=found[0][2].count(".param"), threads=block)


Kind: TypeAlias = "str | Sequence[Kind]"
"""The type of a parameter as Triton writes it, or those of a tuple."""


def leaves(kinds: Sequence[Kind], values: Sequence[Any], names: Sequence[str]) -> Iterator[tuple[str, str, Any]]:
    """Name, type and value of every parameter, tuples taken apart and constants left out."""
    for name, kind, value in zip(names, kinds, values, strict=True):
        if not isinstance(kind, str):
            yield from leaves(kind, value, [f"{name}.{index}" for index in range(len(kind))])
        elif kind != "constexpr":
            yield name, kind, value


def parameters(
    text: str,
    signature: Mapping[str, Any],
    values: Sequence[Any],
    maps: Sequence[Mapping[str, Any]],
    places: PointerSource,
    scratch: tuple[PointerParam | None, PointerParam | None] = (None, None),
    entry: str = "",
) -> tuple[Param, ...]:
    """The parameters of a launch, in the order of Triton's launcher.

    Args:
        text: PTX.
        signature: Triton's types by name of the argument.
        values: arguments, one for each of the signature, constants too.
        maps: what the compiler says of each tensor descriptor (``tensordesc_meta`` of its metadata).
        places: where arrays lie.
        scratch: scratch memory and memory of the profiler; None for a null pointer.
        entry: name of the kernel, where the text has several.

    Raises:
        LaunchError: the text has another number of parameters than come of the arguments, or a value does not fit.
    """
    described = iter(maps)
    wanted = entry_of(text, entry).params
    out: list[Param] = []
    flags: list[int] = []
    for name, kind, value in leaves(tuple(signature.values()), values, tuple(signature)):
        if not kind.startswith("tensordesc"):
            out.append(_plain(name, kind, value, places))
            continue
        if maps:
            out.append(TensorMapParam(map=tensor_map(value, next(described), places.pointer(name, value.base))))
        else:
            out += [_plain(name, "*", value.base, places)]
            out += [ScalarParam(dtype="s64", value=int(each)) for each in (*value.shape, *value.strides)]
            out.append(ScalarParam(dtype="u8", value=int(value.padding == "nan")))
            flags.append(len(out))
            out.append(ScalarParam(dtype="u8", value=int(getattr(value, "round_f32_to_tf32", False))))
        out += [ScalarParam(dtype="s32", value=int(each)) for each in value.shape]
        out += [ScalarParam(dtype="s64", value=int(each)) for each in value.strides]
    null = ScalarParam(dtype="u64", value=0)
    ends = [null if each is None else each for each in scratch]
    if flags and len(out) + len(ends) == wanted + len(flags):  # before Triton 3.6 there was one flag
        out = [each for index, each in enumerate(out) if index not in flags]
    if len(out) + len(ends) != wanted:
        raise LaunchError(
            f"the kernel takes {wanted} parameters, its arguments make {len(out)}, scratch memory {len(ends)}",
            hint="expected a text of Triton 3.5 to 3.9 for NVIDIA",
        )
    return (*out, *ends)


def _plain(name: str, kind: str, value: Any, places: PointerSource) -> Param:
    """A pointer or a number."""
    if kind.startswith("*"):
        return places.pointer(name, value)
    if kind not in SCALARS:
        raise LaunchError(f"argument {name!r}: expected a type among {', '.join(SCALARS)}, got {kind!r}")
    dtype = SCALARS[kind]
    if dtype[0] in "us":
        whole = int(value)
        bits = int(dtype[1:])
        if dtype[0] == "s" and whole >> (bits - 1) > 0:  # Triton calls whole numbers of either sign i32
            whole -= 1 << bits
        return ScalarParam(dtype=dtype, value=whole)
    return ScalarParam(dtype=dtype, value=float(value))


def tensor_map(given: Descriptor, meta: Mapping[str, Any], base: PointerParam) -> TensorMap:
    """The map that Triton's launcher asks the driver for.

    Args:
        given: shape and strides.
        meta: what the compiler says of it: type, block, swizzle.
        base: where its tensor lies.
    """
    shape = [int(each) for each in given.shape]
    if meta.get("fp4_padded"):
        shape[-1] *= 2  # extents of a map count elements, of which a byte has two
    size = int(meta["elem_size"])
    number = int(meta["elem_type"])
    dtype = DEVICE_TO_HOST.get(number, MAP_TYPES[number])
    if getattr(given, "round_f32_to_tf32", False):
        dtype = "tf32"
    block = tuple(int(each) for each in meta["block_size"][::-1])
    fill: Fill = "nan" if given.padding == "nan" else "zero"
    tensor = partial(
        TensorMap,
        buffer=base.buffer,
        offset=base.offset,
        dtype=dtype,
        dims=tuple(shape[::-1]),
        strides=tuple(int(each) * size for each in given.strides[-2::-1]),
        swizzle=SWIZZLES[int(meta["swizzle"])],
        fill=fill,
    )
    if not meta.get("is_im2col"):
        return tensor(mode="tile", box=block, element_strides=(1,) * len(shape))
    steps = getattr(given, "element_strides", None) or (1,) * len(shape)
    return tensor(
        mode="im2col",
        channels=block[0],
        pixels=block[1],
        element_strides=tuple(steps)[::-1],
        lower=tuple(getattr(given, "pixel_box_lower_corner", ()))[::-1],
        upper=tuple(getattr(given, "pixel_box_upper_corner", ()))[::-1],
    )
