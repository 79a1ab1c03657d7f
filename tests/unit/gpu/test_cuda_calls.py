"""`CudaDriver` on bindings that note each call: which function of the driver is called, with which arguments."""

from __future__ import annotations

import ctypes
import struct
import sys
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest
from unit.gpu.fake_bindings import NOT_READY, SUCCESS, Attribute, Error, FakeBindings
from unit.gpu.test_plan import TILE, spec

from convc.errors import GpuError, GpuFault
from convc.gpu.cuda import FAULTS, HINTS, CudaDriver
from convc.gpu.driver import Device
from convc.gpu.plan import plan_launch
from convc.gpu.tensormaps import encode_call
from convc.ir.tensormap import TensorMap

NUMBERS = {
    "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR": 10,
    "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR": 3,
    "CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 232448,
}


def opened(monkeypatch, **answers) -> tuple[CudaDriver, FakeBindings]:
    """The driver, and its bindings with no calls yet."""
    bindings = FakeBindings(cuDeviceGet="device", cuDevicePrimaryCtxRetain="context", **answers)
    monkeypatch.setitem(sys.modules, "cuda", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "cuda.bindings", SimpleNamespace(driver=bindings))
    driver = CudaDriver()
    assert bindings.calls == [
        *(("cuInit", 0), ("cuDeviceGet", 0), ("cuDevicePrimaryCtxRetain", "device"), ("cuCtxSetCurrent", "context")),
    ]
    bindings.calls.clear()
    return driver, bindings


def test_a_device_is_what_the_driver_says(monkeypatch):
    driver, bindings = opened(
        monkeypatch,
        cuDeviceGetAttribute=lambda name, device: NUMBERS[name],
        cuDeviceGetName=b"A GPU\0\0\0",
        cuDriverGetVersion=13010,
        cuMemGetInfo=(5 << 30, 8 << 30),
    )
    now = driver.device()
    assert now == Device(
        name="A GPU", capability=(10, 3), driver_version=13010, shared_bytes=232448, free_bytes=5 << 30
    )
    assert (now.arch, now.cuda) == ("sm_103", "13.1")
    assert ("cuDeviceGetName", 128, "device") in bindings.calls


@pytest.mark.parametrize(
    ("ask", "calls", "answer"),
    [
        (lambda driver: driver.unload("m"), [("cuModuleUnload", "m")], None),
        (lambda driver: driver.function("m", "k"), [("cuModuleGetFunction", "m", b"k")], "function"),
        (lambda driver: driver.allocate(7), [("cuMemAlloc", 7)], 4096),
        (lambda driver: driver.free(4096), [("cuMemFree", 4096)], None),
        (lambda driver: driver.fill(4096, 255, 9), [("cuMemsetD8", 4096, 255, 9)], None),
        (lambda driver: driver.mark(), [("cuEventCreate", 0), ("cuEventRecord", "event", 0)], "event"),
        (lambda driver: driver.elapsed("a", "b"), [("cuEventElapsedTime", "a", "b")], 2500.0),
        (lambda driver: driver.close(), [("cuDevicePrimaryCtxRelease", "device")], None),
        (
            lambda driver: driver.load(b"text"),
            [
                (
                    "cuModuleLoadDataEx", b"text\0", 2,
                    ("CU_JIT_ERROR_LOG_BUFFER", "CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES"), 8192,
                )
            ],
            "module",
        ),
        (
            lambda driver: driver.prepare("f", 100, 8),
            [("cuFuncSetAttribute", "f", "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES", 100)],
            None,
        ),
        (
            lambda driver: driver.prepare("f", 100, 9),
            [
                ("cuFuncSetAttribute", "f", "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES", 100),
                ("cuFuncSetAttribute", "f", "CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED", 1),
            ],
            None,
        ),
    ],
)  # fmt: skip
def test_each_call_of_ours_is_these_of_the_driver(ask, calls, answer, monkeypatch):
    driver, bindings = opened(
        monkeypatch, cuModuleGetFunction="function", cuMemAlloc=4096, cuEventCreate="event", cuEventElapsedTime=2.5
    )
    assert ask(driver) == answer
    assert bindings.calls == calls


def test_bytes_go_there_and_back(monkeypatch):
    held = np.zeros(16, np.uint8)

    def write(address: int, data: int, size: int) -> tuple:
        held[address : address + size] = np.frombuffer(ctypes.string_at(data, size), np.uint8)
        return ()

    def read(data: int, address: int, size: int) -> tuple:
        ctypes.memmove(data, held[address:].ctypes.data, size)
        return ()

    driver, _ = opened(monkeypatch, cuMemcpyHtoD=write, cuMemcpyDtoH=read)
    driver.write(4, np.arange(8, dtype=np.uint8))
    assert driver.read(3, 6).tolist() == [0, 0, 1, 2, 3, 4]


def test_as_many_parameters_are_asked_for_as_a_text_declares(monkeypatch):
    driver, bindings = opened(monkeypatch)
    bindings.sizes = [8, 128, 4]
    assert driver.parameter_sizes("f", 3) == [8, 128, 4]
    asked = [call[2] for call in bindings.calls if call[0] == "cuFuncGetParamInfo"]
    assert asked == [0, 1, 2]
    with pytest.raises(GpuError, match="refused cuFuncGetParamInfo"):
        driver.parameter_sizes("f", 4)


def test_parameters_of_machine_code_are_counted_until_the_driver_refuses_one(monkeypatch):
    driver, bindings = opened(monkeypatch)
    bindings.sizes = [8, 128, 4]
    assert driver.parameter_sizes("f", None) == [8, 128, 4]
    bindings.fails["cuFuncGetParamInfo"] = Error(999, "CUDA_ERROR_UNKNOWN")
    with pytest.raises(GpuError, match="refused cuFuncGetParamInfo"):
        driver.parameter_sizes("f", None)


def types(*names: str):
    """Lists of numbers of these types."""
    return [lambda numbers, name=name: [(name, number) for number in numbers] for name in names]


def test_a_map_is_encoded_with_arguments_of_the_drivers_types(monkeypatch):
    """Order and types: cuTensorMapEncodeTiled of the driver API."""
    words = SimpleNamespace(opaque=range(16))
    driver, bindings = opened(monkeypatch, cuTensorMapEncodeTiled=words, cuTensorMapEncodeIm2col=words)
    assert driver.encode(encode_call(TILE), 1 << 20) == struct.pack("<16Q", *range(16))
    wide, narrow = types("cuuint64_t", "cuuint32_t")
    layout = [("CUtensorMapInterleave", 0), ("CUtensorMapSwizzle", 3), ("CUtensorMapL2promotion", 0)]
    ((name, *given),) = bindings.calls
    assert name == "cuTensorMapEncodeTiled"
    assert given == [
        *(("CUtensorMapDataType", 6), 2, 1 << 20, wide([64, 8]), wide([128]), narrow([64, 4]), narrow([1, 1])),
        *(*layout, ("CUtensorMapFloatOOBfill", 1)),
    ]
    bindings.calls.clear()
    im2col = TensorMap(
        mode="im2col", buffer="x", dtype="f16", dims=(64, 9, 9, 2), strides=(128, 1152, 10368), lower=(-1, -2),
        upper=(0, 1), channels=32, pixels=16, element_strides=(1, 1, 2, 1), swizzle="128B",
    )  # fmt: skip
    driver.encode(encode_call(im2col), 64)
    ((name, *given),) = bindings.calls
    assert name == "cuTensorMapEncodeIm2col"
    assert given[5:10] == [[-1, -2], [0, 1], 32, 16, narrow([1, 1, 2, 1])]


def test_a_map_of_rank_1_has_a_list_of_strides_all_the_same(monkeypatch):
    driver, bindings = opened(monkeypatch, cuTensorMapEncodeTiled=SimpleNamespace(opaque=[0] * 16))
    line = msgspec.structs.replace(TILE, dims=(64,), strides=(), box=(64,), element_strides=(1,))
    driver.encode(encode_call(line), 64)
    assert bindings.calls[0][5] == [("cuuint64_t", 0)]


@pytest.mark.parametrize(
    ("cluster", "text", "attributes"),
    [
        ((1, 1, 1), "", []),
        ((2, 4, 1), "", [("CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION", (2, 4, 1), {})]),
        ((1, 1, 1), "%envreg1", [("CU_LAUNCH_ATTRIBUTE_COOPERATIVE", (0, 0, 0), {"cooperative": 1})]),
        (
            (1, 1, 1),
            "griddepcontrol.wait",
            [
                (
                    "CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION", (0, 0, 0),
                    {"programmaticStreamSerializationAllowed": 1},
                )
            ],
        ),
    ],
)  # fmt: skip
def test_a_launch_has_its_extents_its_parameters_and_no_attribute_that_it_does_not_need(
    cluster, text, attributes, monkeypatch
):
    given: list[bytes] = []

    def launched(config, function, addresses: int, extra) -> tuple:
        first, second = np.frombuffer(ctypes.string_at(addresses, 16), np.uint64).tolist()
        given.extend((ctypes.string_at(first, 8), ctypes.string_at(second, 128)))
        return ()

    driver, bindings = opened(monkeypatch, cuLaunchKernelEx=launched)
    launch = msgspec.structs.replace(spec(shared_bytes=300), grid=(4, 8, 2), block=(32, 3, 1), cluster=cluster)
    params = [np.arange(8, dtype=np.uint8), np.full(128, 3, np.uint8)]
    driver.launch("f", plan_launch(launch, text), params)
    ((name, config, function, _, extra),) = bindings.calls
    assert (name, function, extra) == ("cuLaunchKernelEx", "f", 0)
    assert (config.gridDimX, config.gridDimY, config.gridDimZ) == (4, 8, 2)
    assert (config.blockDimX, config.blockDimY, config.blockDimZ) == (32, 3, 1)
    assert (config.sharedMemBytes, config.hStream, config.numAttrs) == (300, 0, len(attributes))
    assert [Attribute.told(one) for one in config.attrs] == attributes
    assert given == [bytes(range(8)), b"\3" * 128]


def test_an_event_is_asked_for_until_it_has_come_or_the_time_is_over(monkeypatch):
    driver, bindings = opened(monkeypatch)
    bindings.events = [NOT_READY, NOT_READY, SUCCESS]
    assert driver.wait("e", 60)
    assert bindings.calls == [("cuEventQuery", "e")] * 3
    bindings.events = [NOT_READY]
    assert not driver.wait("e", 0)
    bindings.events = [Error(700, "CUDA_ERROR_ILLEGAL_ADDRESS")]
    with pytest.raises(GpuFault, match="illegal memory access"):
        driver.wait("e", 60)


@pytest.mark.parametrize("name", [*FAULTS, *HINTS, "CUDA_ERROR_UNKNOWN"])
def test_an_error_is_a_fault_of_the_kernel_or_has_its_hint(name, monkeypatch):
    driver, bindings = opened(monkeypatch)
    bindings.fails["cuMemFree"] = Error(321, name)
    with pytest.raises((GpuError, GpuFault)) as raised:
        driver.free(4)
    error = raised.value
    assert isinstance(error, GpuFault) == (name in FAULTS)
    if name in FAULTS:
        assert error.message == f"the kernel faulted on the GPU: {FAULTS[name]} ({name}, 321, seen by cuMemFree)"
        assert error.hint.startswith("`convc exec")
    else:
        assert error.message == f"the driver refused cuMemFree: {name} (321)"
        assert error.hint == HINTS.get(name, "")


@pytest.mark.parametrize(("log", "more"), [(b"ptxas: line 3\nmore\0", "\n  ptxas: line 3"), (b"", ""), (b" \n", "")])
def test_what_the_drivers_compiler_says_is_told(log, more, monkeypatch):
    driver, bindings = opened(monkeypatch)
    bindings.fails["cuModuleLoadDataEx"] = Error(218, "CUDA_ERROR_INVALID_PTX")
    bindings.log = log
    with pytest.raises(GpuError) as raised:
        driver.load(b"text")
    assert raised.value.message == f"the driver refused cuModuleLoadDataEx: CUDA_ERROR_INVALID_PTX (218){more}"
