"""The device that a recorded program sees: what it is told of a B200 or an H100, and how many CTAs an SM takes.

Numbers of attributes and of errors are those of the CUDA driver API (``CUdevice_attribute``, ``CUresult``).
"""

from __future__ import annotations

from convc.errors import InputError
from convc.ir.arch import ARCHS, Arch

THREADS_OF_SM = 2048
CTAS_OF_SM = 32
SHARED_OF_SM = 228 << 10
RESERVED = 1 << 10
"""Bytes of shared memory that every CTA takes besides its own."""

DEFAULT_SHARED = 48 << 10
"""Bytes that a CTA may have unless the kernel's attribute asks for more."""

INVALID_VALUE = 1
OUT_OF_MEMORY = 2
NOT_FOUND = 500
LAUNCH_FAILED = 719

ERRORS = {
    0: ("CUDA_SUCCESS", "no error"),
    1: ("CUDA_ERROR_INVALID_VALUE", "invalid argument"),
    2: ("CUDA_ERROR_OUT_OF_MEMORY", "out of memory"),
    13: ("cudaErrorInvalidSymbol", "invalid device symbol"),
    98: ("cudaErrorInvalidDeviceFunction", "invalid device function"),
    100: ("CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"),
    101: ("CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"),
    301: ("CUDA_ERROR_FILE_NOT_FOUND", "file not found"),
    500: ("CUDA_ERROR_NOT_FOUND", "named symbol not found"),
    719: ("CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"),
    801: ("CUDA_ERROR_NOT_SUPPORTED", "operation not supported"),
    900: ("CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"),
    901: ("CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture"),
    902: ("CUDA_ERROR_STREAM_CAPTURE_MERGE", "operation would result in a merge of separate capture sequences"),
    903: ("CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "capture was not ended in the same stream as it began"),
    904: ("CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work"),
    905: ("CUDA_ERROR_STREAM_CAPTURE_ISOLATION", "dependency created on uncaptured work in another stream"),
    906: (
        "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
        "operation would make the legacy stream depend on a capturing blocking stream",
    ),
    907: (
        "CUDA_ERROR_CAPTURED_EVENT",
        "operation not permitted on an event last recorded in a capturing stream",
    ),
    910: ("CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE", "the graph update was not performed"),
}


def arch_of(target: str) -> Arch:
    """The architecture of a target; `InputError` for one that the simulator does not have."""
    if target not in ARCHS:
        raise InputError(f"a program runs for one of {', '.join(ARCHS)}, got {target!r}")
    return ARCHS[target]


def sms_of(arch: Arch, sms: int | None) -> int:
    """SMs of the device: those of the chip, or fewer; `InputError` for more."""
    if sms is not None and not 1 <= sms <= arch.rates.sms:
        raise InputError(f"sms: a device of {arch.name} has 1 to {arch.rates.sms} SMs, got {sms}")
    return sms or arch.rates.sms


def attributes(arch: Arch, sms: int) -> dict[int, int]:
    """Attributes of the device by their numbers; those that are left out are 0: what is not there."""
    major, minor = divmod(int(arch.name.removeprefix("sm_").rstrip("af")), 10)
    limits = arch.limits
    return {
        1: limits.block_threads,
        2: limits.block[0],
        3: limits.block[1],
        4: limits.block[2],
        5: limits.grid_x,
        6: limits.grid_y,
        7: limits.grid_z,
        8: DEFAULT_SHARED,
        9: 64 << 10,
        10: 32,
        11: 2**31 - 1,
        12: 65536,
        13: arch.rates.clock_mhz * 1000,
        14: 512,
        15: 1,
        16: sms,
        19: 1,
        31: 1,
        36: 4_000_000,
        37: 8192,
        38: arch.rates.l2_bytes,
        39: THREADS_OF_SM,
        40: 1,
        41: 1,
        51: 32,
        75: major,
        76: minor,
        78: 1,
        79: 1,
        80: 1,
        81: SHARED_OF_SM,
        82: 65536,
        83: 1,
        89: 1,
        90: 1,
        95: 1,
        97: limits.shared_bytes,
        106: CTAS_OF_SM,
        111: RESERVED,
        115: 1,
        120: 1,
        127: 1,
        129: 1,
    }


def resident(threads: int, shared: int) -> int:
    """CTAs of so many threads and bytes of shared memory that an SM has at once; registers are not known here."""
    if threads < 1:
        return 0
    warps = -(-threads // 32) * 32
    return min(CTAS_OF_SM, THREADS_OF_SM // warps, SHARED_OF_SM // (shared + RESERVED))
