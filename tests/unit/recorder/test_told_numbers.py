"""Numbers that a recorded program is told: of the device, by CUDA's own table, and of a kernel, by its text."""

from __future__ import annotations

import pytest

from convc.recorder.device import arch_of, attributes, resident
from convc.recorder.memory import DeviceMemory
from convc.recorder.modules import CLUSTER_X, CLUSTER_Y, CLUSTER_Z, MAX_THREADS, SHARED, Module, function_of

DEVICE = {
    "MAX_THREADS_PER_BLOCK": (1, 1024),
    "MAX_BLOCK_DIM_Z": (4, 64),
    "MAX_SHARED_MEMORY_PER_BLOCK": (8, 49152),
    "WARP_SIZE": (10, 32),
    "MAX_REGISTERS_PER_BLOCK": (12, 65536),
    "MULTIPROCESSOR_COUNT": (16, 100),
    "MAX_THREADS_PER_MULTIPROCESSOR": (39, 2048),
    "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": (81, 233472),
    "MAX_REGISTERS_PER_MULTIPROCESSOR": (82, 65536),
    "COOPERATIVE_LAUNCH": (95, 1),
    "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": (97, 232448),
    "MAX_BLOCKS_PER_MULTIPROCESSOR": (106, 32),
    "RESERVED_SHARED_MEMORY_PER_BLOCK": (111, 1024),
    "CLUSTER_LAUNCH": (120, 1),
}
"""Of cuda.h, CU_DEVICE_ATTRIBUTE_...: the number, and what an H100 or a B200 says (CUDA programming guide)."""


@pytest.mark.parametrize(
    ("target", "capability", "khz"), [("sm_90a", (9, 0), 1_830_000), ("sm_100a", (10, 0), 1_850_000)]
)
def test_attributes_of_the_device(target, capability, khz):
    told = attributes(arch_of(target), 100)
    assert {name: told.get(number, 0) for name, (number, _) in DEVICE.items()} == {
        name: value for name, (_, value) in DEVICE.items()
    }
    assert (told[75], told[76]) == capability
    assert told[13] == khz  # CLOCK_RATE


@pytest.mark.parametrize(
    ("threads", "shared", "ctas"),
    [(0, 0, 0), (1, 0, 32), (64, 0, 32), (65, 0, 21), (96, 6144, 21), (1024, 0, 2), (32, 232448, 1), (32, 115712, 2)],
)
def test_ctas_that_an_sm_has_at_once(threads, shared, ctas):
    assert resident(threads, shared) == ctas


@pytest.mark.parametrize(
    ("directives", "threads", "cluster"),
    [
        ("", 1024, (0, 0, 0)),
        (".maxntid 128, 2", 256, (0, 0, 0)),
        (".reqntid 96 .reqnctapercluster 2", 96, (2, 1, 1)),
        (".maxntid 64 .explicitcluster .reqnctapercluster 1, 2, 4", 64, (1, 2, 4)),
    ],
)
def test_attributes_of_a_kernel(directives, threads, cluster):
    text = f".version 9.0\n.target sm_100a\n.address_size 64\n.entry k() {directives} {{ .shared .b64 room[5]; ret; }}"
    function = function_of(Module(0, text, "k.ptx"), "k", DeviceMemory())
    asked = (MAX_THREADS, SHARED, CLUSTER_X, CLUSTER_Y, CLUSTER_Z)
    assert tuple(function.attribute(which, 100, 0) for which in asked) == (threads, 40, *cluster)
    assert function_of(function.module, "other", DeviceMemory()) is None
