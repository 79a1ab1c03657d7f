"""A driver that notes what it is asked, keeps memory in arrays, and runs a function in place of a kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from convc.errors import GpuError
from convc.gpu.driver import Device
from convc.gpu.plan import LaunchPlan
from convc.gpu.tensormaps import EncodeCall

H100 = Device(name="A Hopper", capability=(9, 0), driver_version=13000, shared_bytes=232448, free_bytes=1 << 30)

BLACKWELL = replace(H100, name="A Blackwell", capability=(10, 0))


@dataclass
class FakeDriver:
    """Fulfils `convc.gpu.driver.Driver`.

    Attributes:
        sizes: bytes of the parameters that the kernel declares.
        kernel: called with the memory by address and the parameters at each launch of `entry`.
        fails: name of the call that fails, and the error.
        hangs: no event ever comes.
        ticks: cycles and nanoseconds that the kernel of `convc.gpu.clock` finds.
    """

    sizes: list[int] = field(default_factory=list)
    kernel: Callable[[dict[int, np.ndarray], list[bytes]], None] = lambda memory, params: None
    fails: dict[str, Exception] = field(default_factory=dict)
    hangs: bool = False
    now: Device = H100
    ticks: tuple[int, int] = (2_000_000, 1_000_000)
    calls: list[str] = field(default_factory=list)
    plans: list[LaunchPlan] = field(default_factory=list)
    memory: dict[int, np.ndarray] = field(default_factory=dict)
    encoded: list[tuple[EncodeCall, int]] = field(default_factory=list)
    entry: str = ""

    def _note(self, name: str) -> None:
        self.calls.append(name)
        if name in self.fails:
            raise self.fails[name]

    def device(self) -> Device:
        self._note("device")
        return self.now

    def load(self, image: bytes) -> str:
        self._note("load")
        return "module"

    def unload(self, module: str) -> None:
        self._note("unload")

    def function(self, module: str, entry: str) -> str:
        self._note("function")
        return entry

    def parameter_sizes(self, function: str, count: int | None) -> list[int]:
        self._note("parameter_sizes")
        return [8, 8] if function == "sm_clock" else self.sizes

    def prepare(self, function: str, shared_bytes: int, cluster: int) -> None:
        self._note(f"prepare {shared_bytes} {cluster}")

    def allocate(self, size: int) -> int:
        self._note("allocate")
        address = (1 + self.calls.count("allocate")) << 32
        self.memory[address] = np.zeros(size, np.uint8)
        return address

    def free(self, address: int) -> None:
        self._note("free")
        del self.memory[address]

    def _home(self, address: int) -> tuple[np.ndarray, int]:
        base = address >> 32 << 32
        if base not in self.memory:
            raise GpuError("the address is in no buffer")
        return self.memory[base], address - base

    def fill(self, address: int, byte: int, size: int) -> None:
        data, start = self._home(address)
        data[start : start + size] = byte

    def write(self, address: int, data: np.ndarray) -> None:
        home, start = self._home(address)
        home[start : start + data.size] = data

    def read(self, address: int, size: int) -> np.ndarray:
        self._note("read")
        data, start = self._home(address)
        return data[start : start + size].copy()

    def encode(self, call: EncodeCall, address: int) -> bytes:
        self._note(call.function)
        self.encoded.append((call, address))
        return address.to_bytes(8, "little") + b"\xff" * 120

    def launch(self, function: str, plan: LaunchPlan, params: list[np.ndarray]) -> None:
        self._note("launch")
        self.plans.append(plan)
        given = [param.tobytes() for param in params]
        if function == "sm_clock":
            self.write(int.from_bytes(given[0], "little"), np.array(self.ticks, np.uint64).view(np.uint8))
        else:
            self.kernel(self.memory, given)

    def mark(self) -> int:
        return len(self.plans)

    def wait(self, event: int, seconds: float) -> bool:
        self._note("wait")
        return not self.hangs

    def elapsed(self, start: int, end: int) -> float:
        return 10.0 * (end - start)

    def close(self) -> None:
        self._note("close")
