"""The operand table of a kernel: everything that its instructions name has a slot in a strand's list of values.

Registers come first, then constants, special registers and addresses of shared variables as instructions name them, so
that executing an instruction is a few list look-ups and one numpy (or integer) operation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from convc.errors import UnmodelledError
from convc.machine.base.cluster_ranks import own_address
from convc.machine.base.values import DTYPE, FLOAT, MASK, POISON, Value, width
from convc.machine.state.cohort import Cohort
from convc.machine.state.strand import Strand
from convc.machine.state.variables import Variables
from convc.ptx import Func, Imm, Kernel, Operand, Pair, Reg, Sink, Special, Symbol, Vector
from convc.ptx.special import SPECIAL_TYPES
from convc.ptx.syntax import TYPE_BITS

UNMODELLED_SPECIALS = frozenset(
    name
    for name in SPECIAL_TYPES
    if name.startswith(("pm", "envreg", "reserved_smem", "current_graph")) or name.endswith(("_hi", "_lo"))
) - {"envreg1", "envreg2"}
"""Special registers without a value here (the clocks' halves have one in mov only)."""

WORKSPACE = frozenset(("envreg1", "envreg2"))
"""Halves of the address of the workspace by which the CTAs of a cooperative launch meet."""


class Applied(NamedTuple):
    """An instruction that computes each element of its result from the same element of its operands.

    Attributes:
        run: its operation.
        function: from the values of ``sources`` to that of ``target``; of any number of axes.
        target: slot. sources: slots.
        pairs: where the sources are odd and even elements of one array: from that array to the result; or None.
    """

    run: Callable[[Strand], int | None]
    function: Callable[..., Value]
    target: int
    sources: list[int]
    pairs: Callable[[np.ndarray], np.ndarray] | None


class SlotTable:
    """Slots of a kernel; those of constants and the like come into being as builders ask for them.

    Attributes:
        kernel: the kernel.
        widths: bits of the value in each slot.
        applied: instructions on floating-point numbers that work element by element, by their index.
        unheard: indices of waits for mbarriers whose answer goes nowhere.
    """

    def __init__(self, kernel: Kernel, variables: Variables) -> None:
        self.kernel = kernel
        self.widths = [TYPE_BITS[register.type] for register in kernel.registers]
        self._variables = variables
        self._initial: list[Value] = [POISON[bits] for bits in self.widths]
        self._specials: list[tuple[int, str]] = []
        self._shared: list[tuple[int, int]] = []
        self._known: dict[tuple[object, ...], int] = {}
        self._constants: dict[tuple[int, int], int] = {}
        self.applied: dict[int, Applied] = {}
        self.unheard = frozenset[int]()

    @property
    def cooperative(self) -> bool:
        """Whether the kernel asks for the workspace by which all CTAs of its grid meet."""
        return any(name in WORKSPACE for _, name in self._specials)

    # ---- sources -----------------------------------------------------------------------------------------------------

    def slot(self, operand: Operand | None, bits: int = 64) -> int:
        """Slot of a register, an immediate read as ``bits`` bits, a special register or a symbol's address.

        Raises:
            UnmodelledError: for anything else.
        """
        if type(operand) is Reg:  # nearly always
            return operand.slot
        if type(operand) is Imm:
            value = immediate(operand, bits)
            slot = self._constants.get((value, bits))
            return self.constant(value, bits) if slot is None else slot
        match operand:
            case Special(name=name):
                if name.partition(".")[0] in UNMODELLED_SPECIALS:
                    raise UnmodelledError(f"the simulator has no special register %{name}")
                slot, fresh = self._extra(("special", name), 0, width(SPECIAL_TYPES[name]))
                if fresh:
                    self._specials.append((slot, name))
                return slot
            case Symbol(space="shared"):
                address = self._variables.address(operand)
                slot, fresh = self._extra(("shared", address, bits), address, bits)
                if fresh:
                    self._shared.append((slot, address))
                return slot
            case Symbol() | Func():
                return self.constant(self._variables.address(operand), bits)
            case _:
                raise UnmodelledError(f"operand {operand} cannot be a value here")

    def slots(self, operand: Operand | None, bits: int = 64) -> list[int]:
        """Slots of the elements of a vector, or of a lone operand."""
        return [self.slot(item, bits) for item in elements(operand)]

    def optional(self, operand: Operand | None, bits: int = 64) -> int | None:
        """Slot of a source operand that may be absent."""
        return None if operand is None else self.slot(operand, bits)

    def constant(self, value: int, bits: int) -> int:
        """Slot of a constant."""
        slot = self._constants.get((value, bits))
        if slot is None:
            slot = self._constants[value, bits] = self._fresh(value & MASK[bits], bits)
        return slot

    def carry(self) -> int:
        """Slot of the condition code's carry bit, one per thread."""
        return self._extra(("carry",), False, 1)[0]

    def _extra(self, key: tuple[object, ...], value: Value, bits: int) -> tuple[int, bool]:
        """A slot behind the registers, and whether it is new."""
        slot = self._known.get(key)
        if slot is not None:
            return slot, False
        slot = self._known[key] = self._fresh(value, bits)
        return slot, True

    def _fresh(self, value: Value, bits: int) -> int:
        slot = len(self._initial)
        self._initial.append(value)
        self.widths.append(bits)
        return slot

    # ---- results -----------------------------------------------------------------------------------------------------

    def target(self, operand: Operand | None) -> int | None:
        """Slot of a result; None where it is thrown away (``_``)."""
        return None if isinstance(operand, Sink) else self.slot(operand)

    def targets(self, operand: Operand | None) -> list[int | None]:
        """Slots of the results in a vector, or of a lone one."""
        return [self.target(item) for item in elements(operand)]

    def pair(self, operand: Operand | None) -> tuple[int | None, int | None]:
        """Slots of the two results ``d|p``; None for one that is missing or thrown away."""
        if isinstance(operand, Pair):
            return self.target(operand.first), self.target(operand.second)
        return self.target(operand), None

    def width_of(self, operand: Operand | None) -> int:
        """Bits of a result's register."""
        return self.widths[self.slot(operand)]

    # ---- running -----------------------------------------------------------------------------------------------------

    def fresh_values(self, cohort: Cohort, warps: np.ndarray) -> list[Value]:
        """The values of a strand of these warps (int (warps,)) before its first instruction."""
        values = list(self._initial)
        for slot, name in self._specials:
            values[slot] = cohort.special(name, warps)
        for slot, address in self._shared:
            values[slot] = own_address(cohort.place.rank, cohort.cluster_size, address, self.widths[slot])
        return values


def elements(operand: Operand | None) -> tuple[Operand | None, ...]:
    """The elements of a vector; of anything else, itself."""
    return operand.items if isinstance(operand, Vector) else (operand,)


def immediate(operand: Imm, bits: int) -> int:
    """The bit pattern of a number used where ``bits`` bits are read; a decimal float becomes the type's nearest."""
    if operand.is_float and operand.width != bits:
        return int(np.asarray(operand.value, FLOAT[bits]).view(DTYPE[bits]))
    return operand.bits & MASK[bits]
