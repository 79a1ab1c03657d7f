"""NVIDIA's driver through `cuda-bindings` (extra ``convc[gpu]``): the only module that imports them.

A failing call is told by the driver's name of the error, its number, and what can be done about it.
"""

# The bindings are a compiled module without types, and an extra that need not be installed.
# pyright: reportAttributeAccessIssue=false, reportMissingImports=false

from __future__ import annotations

import struct
import time
from typing import Any, cast

import numpy as np

from convc.errors import GpuError, GpuFault
from convc.gpu.driver import Device, Handle
from convc.gpu.plan import LaunchPlan
from convc.gpu.tensormaps import EncodeCall, Value

LOG_BYTES = 8192

ENUMERATIONS = {
    "tensorDataType": "CUtensorMapDataType", "interleave": "CUtensorMapInterleave", "mode": "CUtensorMapIm2ColWideMode",
    "swizzle": "CUtensorMapSwizzle", "l2Promotion": "CUtensorMapL2promotion", "oobFill": "CUtensorMapFloatOOBfill",
}  # fmt: skip
"""The bindings' types of an encoder's arguments that are enumerations."""

PORTABLE_CLUSTER = 8
"""Larger clusters must be asked for (CUDA programming guide, thread block clusters)."""

FAULTS = {
    "CUDA_ERROR_ILLEGAL_ADDRESS": "illegal memory access",
    "CUDA_ERROR_MISALIGNED_ADDRESS": "misaligned address",
    "CUDA_ERROR_ILLEGAL_INSTRUCTION": "illegal instruction or operand",
    "CUDA_ERROR_INVALID_ADDRESS_SPACE": "address of another state space",
    "CUDA_ERROR_INVALID_PC": "jump outside of its code",
    "CUDA_ERROR_HARDWARE_STACK_ERROR": "stack corrupted or too small",
    "CUDA_ERROR_LAUNCH_FAILED": "the driver gives no cause",
    "CUDA_ERROR_LAUNCH_TIMEOUT": "stopped by the launch timeout",
    "CUDA_ERROR_ASSERT": "an assertion failed",
    "CUDA_ERROR_TENSOR_MEMORY_LEAK": "tensor memory was not freed",
}
"""Errors of kernels that ran, which every later call of the process reports too."""

HINTS = {
    "CUDA_ERROR_NO_DEVICE": "no GPU is visible: look at nvidia-smi and CUDA_VISIBLE_DEVICES",
    "CUDA_ERROR_NO_BINARY_FOR_GPU": "the kernel is for another GPU: its .target must fit the GPU's architecture",
    "CUDA_ERROR_INVALID_PTX": "the driver cannot compile the text; its .target must match the GPU",
    "CUDA_ERROR_UNSUPPORTED_PTX_VERSION": "the .version of the text is newer than the driver: update the driver",
    "CUDA_ERROR_NOT_FOUND": "the module has no kernel of that name: look at `entry` in the launch file",
    "CUDA_ERROR_OUT_OF_MEMORY": "free memory of the GPU, or launch smaller buffers",
    "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES": "a CTA needs more registers or threads than an SM has",
    "CUDA_ERROR_INVALID_CLUSTER_SIZE": "the GPU cannot place such clusters with so much shared memory",
    "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE": "a cooperative launch must fit on the GPU at once: launch fewer CTAs",
    "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH": "driver and libraries do not match: restart, or reinstall them",
    "CUDA_ERROR_SYSTEM_NOT_READY": "the driver is not ready: look at nvidia-smi",
}


def require_bindings() -> Any:
    """The bindings of NVIDIA's driver; `GpuError` where they are not installed."""
    try:
        # Imported when a GPU is asked for: the bindings are an extra.
        from cuda.bindings import driver  # pyright: ignore[reportUnknownVariableType] - its stubs are of the extra
    except ImportError:
        raise GpuError("launching needs cuda-bindings", hint="pip install 'convc[gpu]'") from None
    return cast("Any", driver)


class CudaDriver:
    """The first GPU that is visible, and its primary context."""

    def __init__(self) -> None:
        """Open the GPU; `GpuError` where there is no GPU, no driver or no `cuda-bindings`."""
        self._cuda: Any = require_bindings()
        try:
            self._call("cuInit", 0)
        except RuntimeError:  # the bindings look for libcuda when it is first called
            raise GpuError("there is no NVIDIA driver here", hint="a launch needs a GPU and its driver") from None
        self._device = self._call("cuDeviceGet", 0)
        self._context = self._call("cuDevicePrimaryCtxRetain", self._device)
        self._call("cuCtxSetCurrent", self._context)

    def device(self) -> Device:
        """The GPU that is used, as it is now."""
        attribute = self._cuda.CUdevice_attribute

        def number(name: str) -> int:
            return int(self._call("cuDeviceGetAttribute", getattr(attribute, name), self._device))

        return Device(
            name=self._call("cuDeviceGetName", 128, self._device).split(b"\0")[0].decode(),
            capability=(
                number("CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR"),
                number("CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR"),
            ),
            driver_version=int(self._call("cuDriverGetVersion")),
            shared_bytes=number("CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
            free_bytes=int(self._call("cuMemGetInfo")[0]),
        )

    def load(self, image: bytes) -> Handle:
        """Load a module; where the driver's compiler refuses a text, the error has what it says."""
        options = self._cuda.CUjit_option
        log = bytearray(LOG_BYTES)
        names = [options.CU_JIT_ERROR_LOG_BUFFER, options.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES]
        try:
            return self._call("cuModuleLoadDataEx", image + b"\0", len(names), names, [log, LOG_BYTES])
        except GpuError as error:
            said = bytes(log).split(b"\0")[0].decode(errors="replace").strip()
            if said:
                error.message = f"{error.message}\n  {said.splitlines()[0]}"
            raise

    def unload(self, module: Handle) -> None:
        """Give a module back."""
        self._call("cuModuleUnload", module)

    def function(self, module: Handle, entry: str) -> Handle:
        """A kernel of a module."""
        return self._call("cuModuleGetFunction", module, entry.encode())

    def parameter_sizes(self, function: Handle, count: int | None) -> list[int]:
        """Bytes of each parameter.

        Where their number is not known they are asked for until the driver refuses one, which compute-sanitizer calls
        an error; drivers tell the number from CUDA 13.2 on only.
        """
        sizes: list[int] = []
        while len(sizes) != count:
            error, _, size = self._cuda.cuFuncGetParamInfo(function, len(sizes))
            if error == self._cuda.CUresult.CUDA_ERROR_INVALID_VALUE and count is None:
                break
            self._check("cuFuncGetParamInfo", error)
            sizes.append(int(size))
        return sizes

    def prepare(self, function: Handle, shared_bytes: int, cluster: int) -> None:
        """Allow a kernel that much dynamic shared memory, and clusters of that many CTAs."""
        attribute = self._cuda.CUfunction_attribute
        wanted = [(attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared_bytes)]
        if cluster > PORTABLE_CLUSTER:
            wanted.append((attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1))
        for name, value in wanted:
            self._call("cuFuncSetAttribute", function, name, value)

    def allocate(self, size: int) -> int:
        """Take memory of the GPU; its address."""
        return int(self._call("cuMemAlloc", size))

    def free(self, address: int) -> None:
        """Give memory back."""
        self._call("cuMemFree", address)

    def fill(self, address: int, byte: int, size: int) -> None:
        """Set memory to one byte."""
        self._call("cuMemsetD8", address, byte, size)

    def write(self, address: int, data: np.ndarray) -> None:
        """Copy an array of bytes to the GPU."""
        self._call("cuMemcpyHtoD", address, data.ctypes.data, data.nbytes)

    def read(self, address: int, size: int) -> np.ndarray:
        """Copy bytes from the GPU."""
        data = np.empty(size, np.uint8)
        self._call("cuMemcpyDtoH", data.ctypes.data, address, size)
        return data

    def encode(self, call: EncodeCall, address: int) -> bytes:
        """Encode a tensor map."""
        before = [self._argument(name, value) for name, value in call.before]
        after = [self._argument(name, value) for name, value in call.after]
        encoded = self._call(call.function, *before, address, *after)
        return struct.pack("<16Q", *(int(word) for word in encoded.opaque))

    def launch(self, function: Handle, plan: LaunchPlan, params: list[np.ndarray]) -> None:
        """Launch a kernel on the default stream."""
        config = self._cuda.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = plan.grid
        config.blockDimX, config.blockDimY, config.blockDimZ = plan.block
        config.sharedMemBytes = plan.shared_bytes
        config.hStream = 0
        config.attrs = self._attributes(plan)
        config.numAttrs = len(config.attrs)
        addresses = np.array([param.ctypes.data for param in params], np.uint64)
        self._call("cuLaunchKernelEx", config, function, int(addresses.ctypes.data), 0)

    def mark(self) -> Handle:
        """An event behind everything that was launched."""
        event = self._call("cuEventCreate", 0)
        self._call("cuEventRecord", event, 0)
        return event

    def wait(self, event: Handle, seconds: float) -> bool:
        """Wait until an event has come; asking does not block, so a kernel that hangs is noticed."""
        until = time.monotonic() + seconds
        while True:
            (error,) = self._cuda.cuEventQuery(event)
            if error != self._cuda.CUresult.CUDA_ERROR_NOT_READY:
                self._check("cuEventQuery", error)
                return True
            if time.monotonic() > until:
                return False
            time.sleep(0)

    def elapsed(self, start: Handle, end: Handle) -> float:
        """Microseconds between two events."""
        return 1000.0 * float(self._call("cuEventElapsedTime", start, end))

    def close(self) -> None:
        """Release the primary context, and with it the events."""
        self._call("cuDevicePrimaryCtxRelease", self._device)

    def _argument(self, name: str, value: Value) -> Any:
        """An argument of an encoder in the type of the bindings."""
        cuda = self._cuda
        match name:
            case "globalDim" | "globalStrides":
                # Of rank 1 there are no strides, and the driver refuses a null pointer all the same.
                return [cuda.cuuint64_t(number) for number in _numbers(value) or (0,)]
            case "boxDim" | "elementStrides":
                return [cuda.cuuint32_t(number) for number in _numbers(value)]
            case "pixelBoxLowerCorner" | "pixelBoxUpperCorner":
                return list(_numbers(value))
            case _:
                return getattr(cuda, ENUMERATIONS[name])(value) if name in ENUMERATIONS else value

    def _attributes(self, plan: LaunchPlan) -> list[Any]:
        """The attributes of a launch: only those that the kernel needs."""
        cuda = self._cuda
        kinds = cuda.CUlaunchAttributeID
        made: list[Any] = []

        def add(kind: Any) -> Any:
            attribute = cuda.CUlaunchAttribute()
            attribute.id = kind
            made.append(attribute)
            return attribute.value

        if plan.cluster != (1, 1, 1):
            extents = add(kinds.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION).clusterDim
            extents.x, extents.y, extents.z = plan.cluster
        if plan.cooperative:
            add(kinds.CU_LAUNCH_ATTRIBUTE_COOPERATIVE).cooperative = 1
        if plan.dependent:
            kind = kinds.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
            add(kind).programmaticStreamSerializationAllowed = 1
        return made

    def _call(self, name: str, *arguments: Any) -> Any:
        """Call the driver: its result, a tuple where there are several, None where there is none."""
        error, *results = getattr(self._cuda, name)(*arguments)
        self._check(name, error)
        return tuple(results) if len(results) > 1 else next(iter(results), None)

    def _check(self, call: str, error: Any) -> None:
        """Raise what an error of the driver means."""
        if not int(error):
            return
        known = error.name
        if known in FAULTS:
            raise GpuFault(
                f"the kernel faulted on the GPU: {FAULTS[known]} ({known}, {int(error)}, seen by {call})",
                hint="`convc exec KERNEL.ptx LAUNCH.json --check` says where, if the simulator finds it too",
            )
        raise GpuError(f"the driver refused {call}: {known} ({int(error)})", hint=HINTS.get(known, ""))


def _numbers(value: Value) -> tuple[int, ...]:
    """A list of numbers of an encoder's argument."""
    return value if isinstance(value, tuple) else (value,)
