"""What PTX text says, as records: modules, kernels, instructions, operands.

A kernel's body is one flat tuple of instructions. PTX scopes ``{ … }`` may reuse names, so the parser resolves
every name to its declaration: each declared register has its own *slot* (0, 1, 2, …), each shared or local
variable of a kernel its own name, each label the index of the instruction it stands before. Nothing that only
helps people (spans, register names) takes part in comparisons, so two bodies are equal when they do the same.

Words follow the PTX manual: chapter 4 "Syntax", 5 "State spaces, types and variables", 6 "Instruction operands".
Operand records take positional arguments (they are matched a lot); the others take keywords.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from convc.errors import Span
from convc.ptx.lexer import Tokens

TYPE_BITS = {
    "pred": 1, "b8": 8, "u8": 8, "s8": 8, "b16": 16, "u16": 16, "s16": 16, "f16": 16, "bf16": 16,
    "b32": 32, "u32": 32, "s32": 32, "f32": 32, "f16x2": 32, "bf16x2": 32, "tf32": 32, "u16x2": 32, "s16x2": 32,
    "b64": 64, "u64": 64, "s64": 64, "f64": 64, "f32x2": 64, "b128": 128,
    "e4m3": 8, "e5m2": 8, "e4m3x2": 16, "e5m2x2": 16, "e2m3x2": 16, "e3m2x2": 16, "ue8m0x2": 16, "e2m1x2": 8,
    "e2m1x4": 16, "e4m3x4": 32, "e5m2x4": 32, "e2m3x4": 32, "e3m2x4": 32,
}  # fmt: skip
"""Width in bits of every type that an instruction or a declaration names."""

REGISTER_TYPES = (
    "pred", "b8", "b16", "b32", "b64", "b128", "u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64",
    "f16", "f16x2", "f32", "f64",
)  # fmt: skip
"""Types that a register or a variable may be declared with (manual, table 10); predicates only as registers."""


@dataclass(frozen=True, slots=True)
class Reg:
    """A register: its slot in the kernel's register file, its name (for people) and its declared type."""

    slot: int
    name: str = field(compare=False)
    type: str


@dataclass(frozen=True, slots=True)
class Imm:
    """A number.

    Attributes:
        value: what it says. ``0f3F800000`` says 1.0.
        is_float: spelled as a floating-point constant (``1.0``, ``0f…``, ``0d…``).
        bits: the pattern: two's complement of 64 bits for an integer, IEEE 754 of ``width`` bits for a float.
        width: 64, or 32 for ``0f…``.
    """

    value: int | float = field(compare=False)
    is_float: bool
    bits: int
    width: int = 64


@dataclass(frozen=True, slots=True)
class Special:
    """A special register, without the ``%``: ``tid.x``, ``laneid``, ``clock64``."""

    name: str


@dataclass(frozen=True, slots=True)
class Symbol:
    """The address of a variable, plus ``offset`` bytes. `name` is the unique name the kernel or module lists."""

    name: str
    space: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Address:
    """``[base + offset]``; the offset is in bytes (a Symbol base has offset 0 itself)."""

    base: Reg | Symbol | Imm
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Vector:
    """``{a, b, …}``."""

    items: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class TensorAddress:
    """``[map, {c0, c1, …}]``: a tensor map and coordinates, innermost dimension first."""

    map: Reg | Symbol
    coords: Vector


@dataclass(frozen=True, slots=True)
class Pair:
    """``d|p``."""

    first: Operand
    second: Operand


@dataclass(frozen=True, slots=True)
class Sink:
    """``_``: the result is thrown away."""


@dataclass(frozen=True, slots=True)
class NotPred:
    """``!p``."""

    reg: Reg


@dataclass(frozen=True, slots=True)
class Label:
    """A branch target: the index in the body of the instruction after the label (the body's length at its end)."""

    name: str = field(compare=False)
    target: int


@dataclass(frozen=True, slots=True)
class Targets:
    """A ``.branchtargets`` list, for brx.idx."""

    name: str = field(compare=False)
    labels: tuple[Label, ...]


@dataclass(frozen=True, slots=True)
class Prototype:
    """A ``.callprototype``: what functions return and take that a call reaches through a register."""

    name: str = field(compare=False)
    returns: tuple[Variable, ...]
    params: tuple[Variable, ...]


@dataclass(frozen=True, slots=True)
class Func:
    """The name of a function."""

    name: str


Initial: TypeAlias = "int | float | Symbol | Func | tuple[Initial, ...]"
"""An initial value of a variable as written; braces make tuples."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """``(a, b, …)`` of a call."""

    items: tuple[Operand, ...]


Operand = (
    Reg
    | Imm
    | Special
    | Symbol
    | Address
    | Vector
    | TensorAddress
    | Pair
    | Sink
    | NotPred
    | Label
    | Targets
    | Prototype
    | Func
    | Arguments
)


@dataclass(frozen=True, slots=True)
class Guard:
    """``@p`` or ``@!p`` before an instruction: it acts only in lanes where the predicate is true (false)."""

    slot: int
    name: str = field(compare=False)
    negate: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """One row of the grammar: an instruction with its modifiers and operands.

    Attributes:
        name: what the simulator calls it, e.g. ``int.add``. Several rows may spell one form.
        opcode: the word before the first dot, e.g. ``add``.
        pattern: the row, in the manual's notation.
        section: where the PTX manual describes it.
        ptx: first ``.version`` that has it.
        target: oldest architecture that has it, e.g. ``sm_90``; with a letter, only that family's own targets.
        only: whether no later architecture has it.
    """

    name: str
    opcode: str
    pattern: str
    section: str
    ptx: tuple[int, int]
    target: str
    only: bool = False


@dataclass(slots=True)
class Instr:
    """One instruction. It is never changed: it is not frozen because that would triple the time that making it takes.

    Fields may be given in their order, which takes a third of the time that giving them by name does.

    Attributes:
        form: the grammar row.
        mods: all modifiers after the opcode, without the leading dot, in the order of the row.
        slots: modifier chosen for each set of the form (``type`` -> ``u32``, ``cta_group`` -> ``cta_group::1``);
            None where it is optional and absent.
        operands: in source order.
        named: from operands to these by their names in the row. Where two instructions have the same one, their forms,
            modifiers and kinds of operands are the same, too.
        guard: ``@p``, or None.
        tokens, first, count: where the instruction stands in the text: its first token, and how many it has.
        step, role: of the ``//@ step=… role=…`` mark above it, or None. They never change what it does.
        index: position in the kernel's body.
    """

    form: Form
    mods: tuple[str, ...]
    slots: Mapping[str, str | None]
    operands: tuple[Operand, ...]
    named: Callable[[Sequence[Operand]], Mapping[str, Operand | None]] = field(compare=False, repr=False)
    guard: Guard | None
    tokens: Tokens = field(compare=False, repr=False)
    first: int = field(compare=False)
    count: int = field(compare=False)
    step: str | None
    role: str | None
    index: int
    _args: Mapping[str, Operand | None] | None = field(default=None, init=False, compare=False, repr=False)
    _span: Span | None = field(default=None, init=False, compare=False, repr=False)

    @property
    def args(self) -> Mapping[str, Operand | None]:
        """Operand by its name in the row; None where it is optional and absent."""
        if self._args is None:
            self._args = self.named(self.operands)
        return self._args

    @property
    def span(self) -> Span:
        """The instruction's place in the text."""
        if self._span is None:
            self._span = self.tokens.span(self.first, self.first + self.count - 1)
        return self._span


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """A variable or a parameter.

    Attributes:
        name: unique within the kernel (or within the module, for one declared outside of kernels).
        space: global, const, shared, local, param, or reg (a function's register parameter).
        type: element type. vector: elements of one ``.v2``/``.v4`` (1 for a scalar).
        align: alignment in bytes.
        shape: array extents, outermost first; () for a scalar; (0,) for a ``[]`` that is sized at launch.
        init: initial values as written, or None.
        linkage: visible, extern, weak, common, or None.
        points_to: state space named by ``.ptr``, "generic" for a bare one, None without it.
        managed: ``.attribute(.managed)``: the host has it at the same address.
    """

    name: str
    space: str
    type: str
    align: int
    shape: tuple[int, ...] = ()
    vector: int = 1
    init: Initial | None = None
    linkage: str | None = None
    points_to: str | None = None
    managed: bool = False

    @property
    def count(self) -> int:
        """Number of elements (of `vector` values each)."""
        return math.prod(self.shape)

    @property
    def size_bytes(self) -> int:
        """Bytes that the variable takes."""
        return self.count * self.vector * TYPE_BITS[self.type] // 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """An ``.entry`` or a ``.func``.

    Attributes:
        params, returns: parameters in order; only a function returns.
        shared: static shared variables: those of the module that the body names, then its own, of nested scopes too.
        extern_shared: the dynamic shared array (every ``.extern .shared`` is the same memory), or None.
        local: ``.local`` variables. call_params: ``.param`` variables that hold the operands of calls.
        directives: performance-tuning directives, e.g. ``reqntid`` -> (192, 1, 1); () for a bare one.
        registers: every declared register, by slot.
        body: the instructions.
        entry: True for ``.entry``. linkage: visible, extern, weak, or None. declared_only: a prototype without a body.
    """

    name: str
    entry: bool
    linkage: str | None
    params: tuple[Variable, ...]
    returns: tuple[Variable, ...] = ()
    shared: tuple[Variable, ...] = ()
    extern_shared: Variable | None = None
    local: tuple[Variable, ...] = ()
    call_params: tuple[Variable, ...] = ()
    directives: Mapping[str, tuple[int, ...]]
    registers: tuple[Reg, ...] = ()
    body: tuple[Instr, ...] = ()
    declared_only: bool = False


LISTED = 8
"""Entries that a message names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """One PTX file.

    Attributes:
        version: of the ``.version`` directive, e.g. (9, 0).
        target: first name of ``.target``, e.g. ``sm_100a``.
        kernels: the ``.entry`` functions; functions: the ``.func`` ones.
        variables: those declared outside of kernels.
    """

    file: str
    version: tuple[int, int]
    target: str
    address_size: int
    kernels: tuple[Kernel, ...]
    functions: tuple[Kernel, ...]
    variables: tuple[Variable, ...]

    def kernel(self, name: str) -> Kernel | None:
        """The entry with that name, or None."""
        return next((kernel for kernel in self.kernels if kernel.name == name), None)

    def listed(self) -> str:
        """Names of the entries as a hint has them: the first few, and how many more there are."""
        names = [kernel.name for kernel in self.kernels]
        more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
        return f"{', '.join(names[:LISTED]) or 'none'}{more}"
