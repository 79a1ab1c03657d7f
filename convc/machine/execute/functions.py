"""Which functions an indirect call may reach.

They are the functions with a body whose address the module takes somewhere (in a variable's initial value, as virtual
methods are, or by mov) and whose parameters and results are as long as those of the call's prototype.
"""

from __future__ import annotations

from convc.machine.state.variables import Initial
from convc.ptx import Func, Kernel, Module, Prototype, Variable


def fitting(module: Module, prototype: Prototype) -> list[Kernel]:
    """The functions that a call with this prototype may reach."""
    taken = {name for variable in module.variables for name in _named(variable.init)}
    for kernel in (*module.kernels, *module.functions):
        taken |= {o.name for i in kernel.body if i.form.name == "mov" for o in i.operands if isinstance(o, Func)}
    return [
        function
        for function in module.functions
        if function.name in taken
        and not function.declared_only
        and _lengths(function.returns) == _lengths(prototype.returns)
        and _lengths(function.params) == _lengths(prototype.params)
    ]


def _named(value: Initial | None) -> list[str]:
    """Names of the functions in an initial value."""
    if isinstance(value, tuple):
        return [name for item in value for name in _named(item)]
    return [value.name] if isinstance(value, Func) else []


def _lengths(variables: tuple[Variable, ...]) -> list[int]:
    return [variable.size_bytes for variable in variables]
