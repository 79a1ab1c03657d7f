"""The driver that Triton's runtime calls: which device there is, and how a compiled kernel is launched.

Triton asks the active driver for a target, a device and a stream, for the properties of the device, and for a class of
launchers. A launcher is made of a compiled kernel's source and metadata, and called with the grid and the arguments.
The kernel's PTX is in Triton's cache, under the hash that the metadata has.

Imports Triton: nothing but `activate` may import this module.
"""

# pyright: reportPrivateUsage=false, reportMissingModuleSource=false
# Triton has no other way to what its active driver was.

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import triton
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase
from triton.runtime import driver as config
from triton.runtime.cache import get_cache_manager
from triton.runtime.jit import JITFunction

from convc.api.options import ChipOptions
from convc.errors import InputError, ToolError
from convc.ir.arch import SM_100A
from convc.support.arrays import is_array
from convc.timing.parameters import chip_for, read_chip
from convc.triton.session import Call, Session
from convc.triton.tensors import Tensor
from convc.triton.versions import check_kernel_target

WARP = 32


class Utilities:
    """Answers to what Triton's runtime asks of a device."""

    def __init__(self, session: Session) -> None:
        chip = read_chip(chip_for(session.target))
        hertz = int(chip["chip.clock"] * 1e6)
        self._properties = {
            "max_shared_mem": SM_100A.limits.shared_bytes,
            "max_num_regs": 65536,
            "multiprocessor_count": int(chip["chip.sms"]),
            "warpSize": WARP,
            "sm_clock_rate": hertz,
            "mem_clock_rate": hertz,
            "mem_bus_width": 8192,
        }

    def get_device_properties(self, device: int) -> dict[str, int]:
        """Shared memory in bytes, SMs, registers, clocks in kHz."""
        return dict(self._properties)

    def load_binary(self, name: str, kernel: bytes, shared: int, device: int) -> tuple[str, str, int, int, int]:
        """Module, function, registers, spilled registers and threads of a CTA: nothing is loaded."""
        return name, name, 0, 0, 1024

    def unload_module(self, module: object) -> None:
        """Nothing was loaded."""

    def get_current_device(self) -> int:
        """There is one device."""
        return 0

    def set_current_device(self, device: int) -> None:
        """There is one device."""

    def get_default_stream(self, device: int) -> int:
        """There is one stream."""
        return 0

    def is_stream_capturing(self, stream: int) -> bool:
        """Graphs are not captured."""
        return False


class Driver(DriverBase):
    """One simulated device."""

    def __init__(self, session: Session, number: int) -> None:
        super().__init__()
        self._session = session
        self._target = GPUTarget("cuda", number, WARP)
        self.utils = Utilities(session)
        self.launcher_cls = self._launcher
        self.get_current_stream = lambda device=0: 0
        self.get_current_device = lambda: 0
        self.set_current_device = self.utils.set_current_device
        self.get_device_capability = lambda device=0: divmod(number, 10)

    def _launcher(self, source: Any, metadata: Any) -> Launcher:
        return Launcher(self._session, source, metadata)

    @classmethod
    def is_active(cls) -> bool:
        """Say no: it is never chosen by itself."""
        return False

    def map_python_to_cpp_type(self, ty: str) -> str:
        """Triton asks for it where a launcher is made as C++, which is not done here."""
        raise InputError(f"the simulator does not support the type {ty}")

    def get_current_target(self) -> GPUTarget:
        """The target of `activate`."""
        return self._target

    def get_active_torch_device(self) -> Any:
        """The CPU, where tensors are."""
        import torch

        return torch.device("cpu")

    def get_device_interface(self) -> Any:
        """The module of torch that stands for its CPU."""
        import torch

        return torch.cpu

    def get_benchmarker(self) -> Callable[..., Any]:
        """Time of a call as the timing engine has it, for the autotuner."""
        return self._benchmark

    def _benchmark(self, call: Callable[[], Any], *, quantiles: Sequence[float] | None = None, **_: Any) -> Any:
        """Milliseconds of all launches of a call; a model does not spread."""
        before = len(self._session.launches)
        call()
        spent = sum(each.microseconds for each in self._session.times(ChipOptions(), before)) / 1e3
        return spent if quantiles is None else [spent] * len(quantiles)

    def get_empty_cache_for_benchmark(self) -> np.ndarray:
        """A cache of one byte: every launch is timed by the engine."""
        return np.zeros(1, np.uint8)

    def clear_cache(self, cache: np.ndarray) -> None:
        """There is none."""

    def allocate_default_profile_scratch(self, size: int, alignment: int, stream: object) -> np.ndarray:
        """Memory for the profiler; launches have their own."""
        return np.zeros(size, np.int8)


class Launcher:
    """Launches one compiled kernel."""

    def __init__(self, session: Session, source: Any, metadata: Any) -> None:
        self._session = session
        clusters = tuple(getattr(metadata, "cluster_dims", ()) or ())
        text, file = _compiled(metadata)
        check_kernel_target(metadata.name, session.target, text)
        self._call = Call(
            name=metadata.name,
            text=text,
            file=file,
            signature=dict(source.signature),
            maps=tuple(getattr(metadata, "tensordesc_meta", None) or ()),
            ctas=int(np.prod(clusters)) if clusters else int(getattr(metadata, "num_ctas", 1)),
            shared=int(metadata.shared),
            scratch=(int(metadata.global_scratch_size), int(metadata.profile_scratch_size)),
        )

    def __call__(  # noqa: PLR0913 - as Triton calls it
        self,
        x: int,
        y: int,
        z: int,
        stream: int,
        function: object,
        kernel_metadata: object,
        launch_metadata: object,
        enter: Callable[[object], None] | None,
        leave: Callable[[object], None] | None,
        *args: Any,
    ) -> None:
        """Run it; the hooks are a profiler's."""
        if enter is not None:
            enter(launch_metadata)
        self._session.run(self._call, (int(x), int(y), int(z)), args)
        if leave is not None:
            leave(launch_metadata)


def _compiled(metadata: Any) -> tuple[str, str]:
    """The PTX of a kernel, and its file in Triton's cache."""
    group = get_cache_manager(metadata.hash).get_group(f"{metadata.name[:150]}.json") or {}
    for name, path in group.items():
        if name.endswith(".ptx"):
            return Path(path).read_text(encoding="utf-8"), str(path)
    raise InputError(
        f"Triton's cache has no PTX of kernel {metadata.name!r}",
        where=str(get_cache_manager(metadata.hash).cache_dir),
        hint="leave TRITON_STORE_BINARY_ONLY unset, and delete the folder",
    )


_before: list[tuple[Any, Any]] = []
"""The driver and `JITFunction.run` that there were before `install`."""


def install(session: Session, number: int) -> None:
    """Make a session's driver the active one; ToolError where Triton cannot compile."""
    _check_tools()
    _before.append((config._active, JITFunction.run))
    config.set_active(Driver(session, number))
    JITFunction.run = _taking_arrays(JITFunction.run)


def remove() -> None:
    """Make the driver from before the active one."""
    driver, run = _before.pop()
    config._active = driver
    JITFunction.run = run


def _taking_arrays(run: Callable[..., Any]) -> Callable[..., Any]:
    """Let a kernel be called with numpy arrays, which Triton itself does not take."""

    def wrapped(self: Any, *args: Any, **named: Any) -> Any:
        return run(self, *map(_tensor, args), **{name: _tensor(value) for name, value in named.items()})

    return wrapped


def _tensor(value: Any) -> Any:
    return Tensor(value) if is_array(value) else value


def _check_tools() -> None:
    """ToolError where Triton's own ptxas is missing."""
    for name in ("ptxas", "ptxas_blackwell"):
        if not hasattr(type(knobs.nvidia), name):
            continue
        try:
            getattr(knobs.nvidia, name)
        except (RuntimeError, OSError) as error:
            raise ToolError(
                f"Triton {triton.__version__} on {sys.platform} has no ptxas: {error}",
                hint="install Triton from PyPI, which brings it, or set TRITON_PTXAS_PATH to one",
            ) from None
