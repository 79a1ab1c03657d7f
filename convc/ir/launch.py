"""The waist of convc: a kernel as text, and the launch file that says how to run it.

A kernel folder holds ``kernel.ptx`` and ``launch.json`` and nothing else is needed to run it: no fact reaches the
machine except through these two. The launch file is plain JSON, meant to be written by hand for foreign kernels:

    {"format": "convc-launch/1", "entry": "scale", "grid": [4,1,1], "block": [128,1,1],
     "buffers": {"x": {"dtype": "f32", "shape": [512], "file": "x.npy"},
                 "y": {"dtype": "f32", "shape": [512], "save": "y.npy"}},
     "params": [{"kind": "pointer", "buffer": "x"}, {"kind": "pointer", "buffer": "y"},
                {"kind": "scalar", "dtype": "f32", "value": 2.0}]}
"""

from __future__ import annotations

import math
from pathlib import Path

import msgspec

from convc.errors import LaunchError
from convc.ir.arch import SM_100A
from convc.ir.element_types import BUFFER_TYPES, ELEMENT_TYPES
from convc.ir.tensormap import TensorMap

FORMAT = "convc-launch/1"

GIB = 1 << 30
MAX_BUFFER_BYTES = 64 * GIB

FIRST_ADDRESS = 1 << 40
"""Global address of the first buffer of a launch, and the distance from each to the next."""

MOST_BUFFERS = 0x4000
"""Buffers that have an address."""

_KNOWN_TYPES = f"one of {', '.join(BUFFER_TYPES)}"


class AddressOf(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The global address of a buffer plus ``offset`` bytes, as an element of another buffer."""

    address_of: str
    offset: int = 0


class BufferSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A buffer in global memory.

    Attributes:
        dtype: element type, one of `convc.ir.element_types.BUFFER_TYPES`.
        shape: extents; the buffer is contiguous, last dimension fastest.
        file: .npy with the contents before the launch, relative to the launch file; without one (and with no
            array given at run time) the buffer starts as poison.
        values: in place of a file, every element: whole numbers, and addresses of buffers (of 64-bit integers only).
        save: .npy to write after the launch, relative to the launch file.
        address: where it begins in global memory, a multiple of `FIRST_ADDRESS`; left out: behind the buffer in front.
        variable: the ``.global`` or ``.const`` variable of the module that this buffer is, as
            ``cudaMemcpyToSymbol`` would fill it; of its bytes, or its initial ones where nothing else fills it.
    """

    dtype: str
    shape: tuple[int, ...]
    file: str | None = None
    values: tuple[int | AddressOf, ...] | None = None
    save: str | None = None
    address: int | None = None
    variable: str | None = None

    @property
    def size_bytes(self) -> int:
        """Bytes that the buffer takes."""
        return math.prod(self.shape) * ELEMENT_TYPES[self.dtype].bytes


class TensorMapParam(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="tensor_map", forbid_unknown_fields=True
):
    """A 128-byte tensor-map parameter."""

    map: TensorMap


class PointerParam(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="pointer", forbid_unknown_fields=True
):
    """A 64-bit global address: the start of a buffer plus ``offset`` bytes."""

    buffer: str
    offset: int = 0


class ScalarParam(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="scalar", forbid_unknown_fields=True
):
    """A number passed by value."""

    dtype: str
    value: int | float


Part = TensorMapParam | PointerParam | ScalarParam
"""A parameter that is one thing."""


class StructField(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A field of a structure.

    Attributes:
        at: its offset in bytes.
        param: what it holds.
    """

    at: int
    param: Part

    @property
    def size(self) -> int:
        """Bytes that it takes; its type is known (`LaunchSpec.check`)."""
        match self.param:
            case ScalarParam(dtype=dtype):
                return ELEMENT_TYPES[dtype].bytes
            case PointerParam():
                return 8
            case TensorMapParam():
                return 128


class StructParam(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="struct", forbid_unknown_fields=True
):
    """A structure passed by value: ``.param .align 8 .b8 name[24]``.

    Attributes:
        fields: its fields, at their offsets; they must not overlap.
        bytes: all of its bytes in hexadecimal, which fields replace; without them the rest is zero.
    """

    fields: tuple[StructField, ...] = ()
    bytes: str | None = None


Param = TensorMapParam | PointerParam | ScalarParam | StructParam
"""Any parameter."""


class LaunchSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to launch one entry of a PTX module.

    Attributes:
        entry: name of the ``.entry``.
        grid, block, cluster: extents (x, y, z).
        shared_bytes: dynamic shared memory per CTA.
        buffers: global memory by name.
        params: one per kernel parameter, in order.
        dependent: buffers that the preceding kernel may still write, or read, where this one may begin before it has
            ended (``griddepcontrol``, programmatic dependent launch); left out: nothing is known of that.
    """

    format: str = FORMAT
    entry: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int] = (1, 1, 1)
    shared_bytes: int = 0
    buffers: dict[str, BufferSpec]
    params: tuple[Param, ...]
    dependent: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET

    @property
    def in_front(self) -> tuple[str, ...] | None:
        """Buffers that the preceding kernel may still use; None where that is not said."""
        return None if isinstance(self.dependent, msgspec.UnsetType) else self.dependent

    @property
    def ctas(self) -> int:
        """Number of CTAs in the grid."""
        return math.prod(self.grid)

    def check(self, where: str = "launch file") -> None:
        """Raise `LaunchError` where the numbers cannot be a launch (limits: CUDA programming guide)."""
        if self.format != FORMAT:
            raise LaunchError(f"expected format {FORMAT!r}, got {self.format!r}", where=where)
        self._check_extents(where)
        for name, buffer in self.buffers.items():
            _check_buffer(name, buffer, where)
            _check_values(name, buffer, self.buffers, where)
        _check_addresses(self.buffers, where)
        for index, param in enumerate(self.params):
            self._check_param(index, param, where)
        for name in self.in_front or ():
            if name not in self.buffers:
                raise LaunchError(
                    f"dependent names buffer {name!r}, which the launch file does not have",
                    where=where,
                    hint=f"buffers are: {', '.join(self.buffers) or 'none'}",
                )

    def _check_extents(self, where: str) -> None:
        """Grid, block, cluster and shared memory within the limits of the hardware."""
        most = SM_100A.limits
        for name, extents, limits in (
            ("grid", self.grid, (most.grid_x, most.grid_y, most.grid_z)),
            ("block", self.block, most.block),
            ("cluster", self.cluster, (most.cluster_ctas,) * 3),
        ):
            for axis, extent, limit in zip("xyz", extents, limits, strict=True):
                if not 1 <= extent <= limit:
                    raise LaunchError(f"{name}.{axis} must be in 1..{limit}, got {extent}", where=where)
        if math.prod(self.block) > most.block_threads:
            got = math.prod(self.block)
            raise LaunchError(f"a block has at most {most.block_threads} threads, got {got}", where=where)
        whole = all(g % c == 0 for g, c in zip(self.grid, self.cluster, strict=True))
        if math.prod(self.cluster) > most.cluster_ctas or not whole:
            raise LaunchError(
                f"grid {self.grid} must be a multiple of cluster {self.cluster}, "
                f"and a cluster has at most {most.cluster_ctas} CTAs",
                where=where,
            )
        if not 0 <= self.shared_bytes <= most.shared_bytes:
            raise LaunchError(
                f"shared_bytes must be in 0..{most.shared_bytes} ({most.shared_bytes >> 10} KiB, the limit of "
                f"{SM_100A.name}), got {self.shared_bytes}",
                where=where,
            )

    def _check_param(self, index: int, param: Param, where: str) -> None:
        """The type of a number is known, the buffer of anything else is there."""
        match param:
            case StructParam():
                for field in param.fields:
                    self._check_param(index, field.param, where)
                _check_struct(index, param, where)
            case ScalarParam(dtype=dtype):
                if dtype not in BUFFER_TYPES:
                    message = f"parameter {index}: unknown scalar type {dtype!r}"
                    raise LaunchError(message, where=where, hint=_KNOWN_TYPES)
            case PointerParam(buffer=name) | TensorMapParam(map=TensorMap(buffer=name)):
                if name not in self.buffers:
                    raise LaunchError(
                        f"parameter {index} names buffer {name!r}, which the launch file does not have",
                        where=where,
                        hint=f"buffers are: {', '.join(self.buffers) or 'none'}",
                    )


def _check_struct(index: int, param: StructParam, where: str) -> None:
    """Its bytes are hexadecimal, its fields lie behind one another."""
    try:
        bytes.fromhex(param.bytes or "")
    except ValueError:
        raise LaunchError(f"parameter {index}: the bytes of a struct must be hexadecimal digits", where=where) from None
    end = 0
    for field in sorted(param.fields, key=lambda field: field.at):
        if field.at < end:
            raise LaunchError(
                f"parameter {index}: the field at byte {field.at} overlaps what is before it", where=where
            )
        end = field.at + field.size


def _check_buffer(name: str, buffer: BufferSpec, where: str) -> None:
    """The type of a buffer is known, its size possible."""
    if buffer.dtype not in BUFFER_TYPES:
        raise LaunchError(f"buffer {name!r}: unknown dtype {buffer.dtype!r}", where=where, hint=_KNOWN_TYPES)
    if any(extent < 0 for extent in buffer.shape):
        raise LaunchError(f"buffer {name!r}: an extent of shape {buffer.shape} is negative", where=where)
    if buffer.size_bytes > MAX_BUFFER_BYTES:
        raise LaunchError(
            f"buffer {name!r}: shape {buffer.shape} of {buffer.dtype} takes {buffer.size_bytes} bytes, "
            f"a buffer has at most {MAX_BUFFER_BYTES} (64 GiB)",
            where=where,
            hint="use a smaller batch or image",
        )


def _check_addresses(buffers: dict[str, BufferSpec], where: str) -> None:
    """All buffers have an address of their own, or none has one; no two are the same variable."""
    given = [buffer.address for buffer in buffers.values() if buffer.address is not None]
    if given and len(given) < len(buffers):
        raise LaunchError("some buffers have an address, and others have none", where=where)
    for address in given:
        if address % FIRST_ADDRESS or not 1 <= address // FIRST_ADDRESS <= MOST_BUFFERS or given.count(address) > 1:
            raise LaunchError(
                f"the address of a buffer must be its own multiple of {FIRST_ADDRESS:#x}, at most {MOST_BUFFERS} "
                f"times that, got {address:#x}",
                where=where,
            )
    variables = [buffer.variable for buffer in buffers.values() if buffer.variable is not None]
    for variable in variables:
        if variables.count(variable) > 1:
            raise LaunchError(f"two buffers are the variable {variable!r}", where=where)


INTEGERS = ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64")
"""Types whose elements may stand in a launch file."""


def _check_values(name: str, buffer: BufferSpec, buffers: dict[str, BufferSpec], where: str) -> None:
    """As many values as elements, each inside of the type, and addresses of buffers that are there."""
    if buffer.values is None:
        return
    count = math.prod(buffer.shape)
    if buffer.file is not None:
        raise LaunchError(f"buffer {name!r} has values and a file: one of the two fills it", where=where)
    if buffer.dtype not in INTEGERS or len(buffer.values) != count:
        raise LaunchError(
            f"buffer {name!r}: values are as many whole numbers or addresses as it has elements ({count}), of a type "
            f"among {', '.join(INTEGERS)}; got {len(buffer.values)} for {buffer.dtype}",
            where=where,
        )
    bits = int(buffer.dtype[1:])
    low = -(1 << bits - 1) if buffer.dtype[0] == "s" else 0
    for at, value in enumerate(buffer.values):
        here = f"buffer {name!r}: value {at}"
        if isinstance(value, AddressOf):
            _check_address(here, buffer, value, buffers, where)
        elif not low <= value < low + (1 << bits):
            raise LaunchError(f"{here} is no {buffer.dtype}: {value}", where=where)


def _check_address(here: str, buffer: BufferSpec, value: AddressOf, buffers: dict[str, BufferSpec], where: str) -> None:
    if buffer.dtype not in ("u64", "s64"):
        raise LaunchError(f"{here} is an address, which takes 64 bits; the type is {buffer.dtype}", where=where)
    target = buffers.get(value.address_of)
    if target is None:
        hint = f"buffers are: {', '.join(buffers)}"
        raise LaunchError(f"{here} is the address of {value.address_of!r}, which is no buffer", where=where, hint=hint)
    if not 0 <= value.offset <= target.size_bytes:
        raise LaunchError(
            f"{here}: the offset into buffer {value.address_of!r} must be in 0..{target.size_bytes}, "
            f"got {value.offset}",
            where=where,
        )


class KernelArtifact(msgspec.Struct, frozen=True, kw_only=True):
    """A kernel: its text and its launch."""

    ptx: str
    launch: LaunchSpec


def load_launch(path: Path) -> LaunchSpec:
    """Read and check a launch file; `LaunchError` names the offending JSON path."""
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise LaunchError("there is no such file or folder", where=str(path)) from None
    except OSError as error:
        raise LaunchError(f"cannot read the launch file: {error.strerror}", where=str(path)) from None
    try:
        launch = msgspec.json.decode(data, type=LaunchSpec)
    except msgspec.MsgspecError as error:
        raise LaunchError(f"not a launch file: {error}", where=str(path)) from None
    launch.check(str(path))
    return launch


def dump_launch(launch: LaunchSpec) -> bytes:
    """JSON of a launch, indented for people."""
    return msgspec.json.format(msgspec.json.encode(launch), indent=1)
