"""Bindings of NVIDIA's driver that note each call: enumerations say their names, structures hold what they are told.

Signatures: CUDA driver API, and cuda-bindings, whose functions give an error in front of their results.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


class Error(int):
    """A result of a call, with its name."""

    name: str

    def __new__(cls, value: int, name: str) -> Error:
        error = super().__new__(cls, value)
        error.name = name
        return error


SUCCESS = Error(0, "CUDA_SUCCESS")
INVALID_VALUE = Error(1, "CUDA_ERROR_INVALID_VALUE")
NOT_READY = Error(600, "CUDA_ERROR_NOT_READY")


class Names:
    """An enumeration whose members are their names."""

    def __getattr__(self, name: str) -> str:
        return name


def of_type(name: str) -> Any:
    """A type whose values are (its name, value)."""
    return lambda value: (name, value)


class Attribute:
    """CUlaunchAttribute: a kind, and a union."""

    def __init__(self) -> None:
        self.id = ""
        self.value = SimpleNamespace(clusterDim=SimpleNamespace(x=0, y=0, z=0))

    def told(self) -> tuple[Any, ...]:
        """The kind, and the fields that were set."""
        fields = dict(vars(self.value))
        extents = fields.pop("clusterDim")
        return (self.id, (extents.x, extents.y, extents.z), fields)


class FakeBindings:
    """`cuda.bindings.driver`.

    Attributes:
        answers: results of calls by name; without one a call gives nothing.
        fails: errors by name of the call.
        events: what cuEventQuery answers, one after the other.
        calls: names and arguments.
    """

    CUresult = SimpleNamespace(CUDA_ERROR_INVALID_VALUE=INVALID_VALUE, CUDA_ERROR_NOT_READY=NOT_READY)
    CUdevice_attribute = CUfunction_attribute = CUjit_option = CUlaunchAttributeID = Names()
    CUlaunchConfig = SimpleNamespace
    CUlaunchAttribute = Attribute

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.fails: dict[str, Error] = {}
        self.events: list[Error] = []
        self.sizes: list[int] = []
        self.log = b""
        self.calls: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("CU", "cuuint")):
            return of_type(name)

        def call(*arguments: Any) -> tuple[Any, ...]:
            self.calls.append((name, *arguments))
            answer = self.answers.get(name, ())
            answer = answer(*arguments) if callable(answer) else answer
            return (self.fails.get(name, SUCCESS), *(answer if isinstance(answer, tuple) else (answer,)))

        return call

    def cuFuncGetParamInfo(self, function: Any, index: int) -> tuple[Any, ...]:
        self.calls.append(("cuFuncGetParamInfo", function, index))
        if index >= len(self.sizes):
            return self.fails.get("cuFuncGetParamInfo", INVALID_VALUE), 0, 0
        return SUCCESS, 8 * index, self.sizes[index]

    def cuModuleLoadDataEx(self, image: bytes, count: int, names: list[str], values: list[Any]) -> tuple[Any, ...]:
        self.calls.append(("cuModuleLoadDataEx", image, count, tuple(names), values[1]))
        values[0][: len(self.log)] = self.log
        return self.fails.get("cuModuleLoadDataEx", SUCCESS), "module"

    def cuEventQuery(self, event: Any) -> tuple[Error]:
        self.calls.append(("cuEventQuery", event))
        return (self.events.pop(0) if len(self.events) > 1 else self.events[0],)
