"""Modules that a recorded program loads, and their kernels and variables."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from convc import ptx
from convc.errors import InputError
from convc.machine.launch import Placed, program_of
from convc.machine.state.variables import SHARED_BASE, Parameter, function_address, image
from convc.recorder.device import DEFAULT_SHARED
from convc.recorder.memory import Allocation, DeviceMemory

MAX_THREADS, SHARED, CONSTANT, LOCAL, REGISTERS, PTX_VERSION, BINARY_VERSION = range(7)
MOST_DYNAMIC, CARVEOUT, CLUSTER_MUST, CLUSTER_X, CLUSTER_Y, CLUSTER_Z, BEYOND_PORTABLE = range(8, 15)
"""Attributes of a function (``CUfunction_attribute``)."""

ROOM_LEFT = 100
"""A question of ours: dynamic shared memory that is left for a CTA."""


@dataclass(eq=False)
class Module:
    """A module of the program.

    Attributes:
        number: of it. text: its PTX. file: its name in messages.
        variables: allocations of those of its variables that are known by now, by name.
    """

    number: int
    text: str
    file: str
    variables: dict[str, Allocation] = field(default_factory=dict[str, Allocation])

    @functools.cached_property
    def outline(self) -> ptx.Module:
        """Its declarations, without the bodies of kernels."""
        return ptx.parse(self.text, self.file, "")

    @property
    def entries(self) -> list[str]:
        """Names of its kernels."""
        return [kernel.name for kernel in self.outline.kernels]

    @property
    def placed(self) -> Placed:
        """The variables that are buffers of every launch, as the simulator takes them."""
        return tuple((name, held.bytes.size, held.address) for name, held in self.variables.items())

    def variable(self, name: str, memory: DeviceMemory) -> Allocation | None:
        """The memory of a variable, with its initial bytes at the first request; None where there is none."""
        if name not in self.variables:
            declared = next((each for each in self.outline.variables if each.name == name), None)
            if declared is None or not declared.size_bytes:
                return None
            held = memory.take(declared.size_bytes, host=declared.managed, name=self._name(name, memory))
            held.variable = name
            self.variables[name] = held
            held.bytes[:] = image(declared, self._address)
        return self.variables[name]

    def place_used(self, memory: DeviceMemory) -> None:
        """Give those ``.global`` variables memory that the text names: what a kernel leaves in one, the next finds."""
        for declared in self.outline.variables:
            used = declared.space == "global" and declared.name not in self.variables
            if used and len(re.findall(rf"(?<![\w$]){re.escape(declared.name)}(?![\w$])", self.text)) > 1:
                self.variable(declared.name, memory)

    def _address(self, symbol: ptx.Symbol | ptx.Func) -> int:
        """The address that a variable has in the initial value of another one."""
        if isinstance(symbol, ptx.Func):
            return function_address(self.outline, symbol.name)
        held = self.variables.get(symbol.name)
        if held is None:
            raise InputError(
                f"a variable begins with the address of {symbol.name!r}, which has none yet", where=self.file
            )
        return held.address + symbol.offset

    def _name(self, name: str, memory: DeviceMemory) -> str:
        taken = {held.name for held in memory.alive.values()}
        return name if name not in taken else f"{name}.{self.number}"


@dataclass(slots=True, eq=False)
class Function:
    """A kernel of the program.

    Attributes:
        parameters: where each lies in parameter space.
        shared: bytes of static shared memory. cluster: that the text asks for, or None.
        attributes: those that the program has set, by number.
    """

    module: Module
    entry: str
    parameters: list[Parameter]
    shared: int
    local: int
    constant: int
    most_threads: int
    cluster: tuple[int, int, int] | None
    attributes: dict[int, int] = field(default_factory=dict[int, int])

    @property
    def dynamic_limit(self) -> int:
        """Bytes of dynamic shared memory that a launch may ask for."""
        return self.attributes.get(MOST_DYNAMIC, DEFAULT_SHARED - self.shared)

    def attribute(self, which: int, target: int, most: int) -> int:
        """An attribute of the function; ``target``: compute capability, as 100, ``most``: bytes of a CTA."""
        cluster = self.cluster or (0, 0, 0)
        known = {
            MAX_THREADS: self.most_threads,
            SHARED: self.shared,
            CONSTANT: self.constant,
            LOCAL: self.local,
            REGISTERS: 32,  # not known from the text
            PTX_VERSION: target,
            BINARY_VERSION: target,
            MOST_DYNAMIC: self.dynamic_limit,
            CLUSTER_X: cluster[0],
            CLUSTER_Y: cluster[1],
            CLUSTER_Z: cluster[2],
            ROOM_LEFT: most - self.shared,
        }
        return self.attributes.get(which, known.get(which, 0))


def function_of(module: Module, entry: str, memory: DeviceMemory) -> Function | None:
    """A kernel of a module; None where it has none of that name.

    Raises:
        PtxSyntaxError, UnmodelledError: the simulator does not take the text.
    """
    if entry not in module.entries:
        return None
    module.place_used(memory)
    program = program_of(module.text, module.file, entry, module.placed)
    directives: Mapping[str, tuple[int, ...]] = program.kernel.directives
    cluster = (*directives.get("reqnctapercluster", ()), 1, 1)[:3]
    threads = directives.get("reqntid") or directives.get("maxntid") or (1024,)
    return Function(
        module=module,
        entry=entry,
        parameters=program.variables.parameters,
        shared=program.shared_bytes(0) - SHARED_BASE,
        local=program.local_bytes,
        constant=program.constants.size,
        most_threads=math.prod(threads),
        cluster=(cluster[0], cluster[1], cluster[2]) if directives.get("reqnctapercluster") else None,
    )
