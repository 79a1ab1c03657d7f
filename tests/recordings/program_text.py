"""Building blocks of the recorded programs: PTX text, contents of buffers, random tensor maps."""

from __future__ import annotations

import random

import numpy as np

HEAD = ".version 8.7\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 smem[];\n"
ELEMENT = {
    "u8": 1, "u16": 2, "u32": 4, "s32": 4, "u64": 8, "s64": 8, "f16": 2, "f32": 4, "f64": 8, "bf16": 2, "f32_ftz": 4,
    "tf32": 4, "tf32_ftz": 4,
}  # fmt: skip
SPAN = {"none": 1 << 20, "32B": 32, "64B": 64, "128B": 128}
BAR = 96 << 10
"""Offset of the mbarrier behind the data in shared memory."""


def contents(kind: str, seed: int, size: int) -> np.ndarray:
    """Initial bytes of a buffer: random bits, or floating-point patterns with special values among them."""
    rng = np.random.RandomState(seed)
    raw = np.frombuffer(rng.bytes(size), np.uint8).copy()
    if kind in ("zero", "cd"):
        raw[:] = 0 if kind == "zero" else 0xCD
    if kind in ("bits", "zero", "cd"):
        return raw
    if kind.startswith("spread "):
        return spread(kind.split()[1], raw, rng)
    if kind.startswith("small "):
        element, sums = kind.split()[1:]
        return np.concatenate([small(element, raw[: size // 2]), small(sums, raw[size // 2 :])])
    bits, exponent, mantissa = {"f16": (16, 5, 10), "bf16": (16, 8, 7), "f32": (32, 8, 23), "f64": (64, 11, 52)}[kind]
    words = raw.view({16: np.uint16, 32: np.uint32, 64: np.uint64}[bits])
    one = words.dtype.type(1)
    bias = words.dtype.type((1 << (exponent - 1)) - 1)
    fraction = (one << words.dtype.type(mantissa)) - one
    near = rng.randint(-3, 4, words.size).astype(np.int64) + int(bias)
    sign = words & (one << words.dtype.type(bits - 1))
    normal = sign | (near.astype(words.dtype) << words.dtype.type(mantissa)) | (words & fraction)
    top = words.dtype.type((1 << exponent) - 1)
    infinite, full = int(top) << mantissa, int(fraction)
    largest, least = infinite - 1, 1 << mantissa
    special = [0, 1, full, infinite, infinite | 1, infinite | full, largest, least, least | 1]
    chosen = np.array(special, words.dtype)[rng.randint(0, len(special), words.size)] | sign
    words[:] = np.where(rng.randint(0, 4, words.size) == 0, chosen, normal)
    return raw


def spread(kind: str, raw: np.ndarray, rng: np.random.RandomState) -> np.ndarray:
    """Finite numbers of a type, made of random bytes: exponents within eight of 1, one in sixteen zero."""
    if kind in ("s8", "u8", "s32"):
        return raw
    if kind in ("e4m3", "e5m2"):
        full = 0x7F if kind == "e4m3" else 0x7C
        return np.where(raw & full == full, raw ^ 0x40, raw).astype(np.uint8)
    bits, bias, mantissa = {"f16": (16, 15, 10), "bf16": (16, 127, 7), "f32": (32, 127, 23), "tf32": (32, 127, 23)}[
        kind
    ]
    words = raw.view({16: np.uint16, 32: np.uint32}[bits])
    kept = words & words.dtype.type(1 << bits - 1 | (1 << mantissa) - 1)
    exponent = (bias + rng.randint(-8, 9, words.size)).astype(words.dtype) << words.dtype.type(mantissa)
    return np.where(rng.randint(0, 16, words.size) == 0, words.dtype.type(0), kept | exponent).view(np.uint8)


def small(kind: str, raw: np.ndarray) -> np.ndarray:
    """Bytes that hold whole numbers from -4 to 4 of a type, made of random bytes; types below 8 bits keep all bits."""
    if kind in ("s4", "u4", "b1"):
        return raw
    size = ELEMENT.get(kind, 1)
    values = raw[::size].astype(np.int64) % 9 - (0 if kind[0] == "u" else 4)
    match kind:
        case "bf16":
            return (values.astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16).view(np.uint8)
        case "f16" | "f32" | "f64":
            return values.astype(f"f{size}").view(np.uint8)
        case "tf32":
            return values.astype(np.float32).view(np.uint8)
    return values.astype(f"i{size}").view(np.uint8)


def entry(body: str, maps: int = 0, buffers: tuple[str, ...] = (), numbers: int = 0) -> str:
    """A kernel: %m0.. hold the tensor maps' addresses, %p_<buffer> pointers, %n0.. numbers, %s the shared base."""
    params = [f".param .align 64 .b8 map{i}[128]" for i in range(maps)]
    params += [f".param .u64 {b}" for b in buffers] + [f".param .u32 num{i}" for i in range(numbers)]
    lines = [".reg .pred %p, %q; .reg .b32 %s, %bar, %t, %x, %y; .reg .b64 %d, %e; .reg .b16 %h;"]
    lines += [f".reg .b64 %m{i}; mov.b64 %m{i}, map{i}; cvta.param.u64 %m{i}, %m{i};" for i in range(maps)]
    lines += [f".reg .b64 %p_{b}; ld.param.u64 %p_{b}, [{b}];" for b in buffers]
    lines += [f".reg .b32 %n{i}; ld.param.u32 %n{i}, [num{i}];" for i in range(numbers)]
    lines += [f"mov.b32 %s, smem; add.u32 %bar, %s, {BAR}; mov.u32 %t, %tid.x;"]
    text = "\n".join(lines)
    return f"{HEAD}.visible .entry k({', '.join(params)})\n{{\n{text}\n{body}\nret;\n}}\n"


FIRST = "setp.ne.u32 %p, %t, 0; @%p bra END;\n"
INIT = "mbarrier.init.shared::cta.b64 [%bar], 1; fence.mbarrier_init.release.cluster;\n"
WAIT = "{W}: mbarrier.try_wait.parity.shared::cta.b64 %q, [%bar], {parity};\n@!%q bra {W};\n"
DRAIN = "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n"


def fetch(at: str, source: str, size: str) -> str:
    """Thread 0 copies ``size`` bytes from global memory into shared memory, and waits (first use of the barrier)."""
    return (
        INIT
        + f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], {size};\n"
        + "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
        + f"[{at}], [{source}], {size}, [%bar];\n"
        + WAIT.format(W="FETCHED", parity=0)
        + "fence.proxy.async.shared::cta;\n"
    )


def dump(size: int, out: str = "%p_out") -> str:
    """Thread 0 stores ``size`` bytes of shared memory to global memory."""
    return f"cp.async.bulk.global.shared::cta.bulk_group [{out}], [%s], {size};\n" + DRAIN


def case(name: str, text: str, buffers: dict, maps=(), numbers=(), **launch) -> dict:
    """One program; ``buffers``: name -> (kind, seed, bytes)."""
    base = {"grid": [1, 1, 1], "cluster": [1, 1, 1], "block": [32, 1, 1], "shared": (96 << 10) + 64}
    return (
        {"name": name, "text": text, "buffers": buffers, "maps": list(maps), "numbers": list(numbers)} | base | launch
    )


def tensor_map(rng: random.Random, mode: str, dtype: str, rank: int, swizzle: str = "none") -> dict:
    """A random map over buffer ``out``, of less than 60 KiB."""
    while True:
        tmap = _tensor_map(rng, mode, dtype, rank, swizzle)
        last = sum((n - 1) * step for n, step in zip(tmap["dims"][1:], tmap["strides"], strict=True))
        if last + tmap["dims"][0] * ELEMENT[dtype] < 60 << 10:
            return tmap


def _tensor_map(rng: random.Random, mode: str, dtype: str, rank: int, swizzle: str) -> dict:
    size = ELEMENT[dtype]
    unit = 16 // size
    inner = min(rng.randint(1, 6) * unit, SPAN[swizzle] // size, 256)
    dims = [rng.randint(1, 9) * unit if rng.random() < 0.5 else rng.randint(1, 100)]
    dims += [rng.randint(1, 7) for _ in range(rank - 1)]
    strides, line = [], dims[0] * size
    for extent in dims[1:]:
        strides.append(-(-line // 16) * 16 + 16 * rng.randint(0, 1))
        line = strides[-1] * extent
    steps = [1] + [rng.choice([1, 1, 2, 3]) for _ in dims[1:]]
    tmap = {
        "mode": mode,
        "buffer": "out",
        "dtype": dtype,
        "dims": dims,
        "strides": strides,
        "offset": 16 * rng.randint(0, 3),
        "element_strides": steps,
        "swizzle": swizzle,
        "fill": "zero",
    }
    if mode == "tile":
        return tmap | {"box": [inner] + [rng.randint(1, 5) for _ in range(rank - 1)]}
    spatial = rank - 2
    lower = [rng.randint(-2, 1) for _ in range(spatial)]
    upper = [max(rng.randint(-2, 1), low - n + 1) for n, low in zip(dims[1:], lower, strict=False)]
    return tmap | {"channels": inner, "pixels": rng.choice([1, 5, 16, 40]), "lower": lower, "upper": upper}


def start(rng: random.Random, tmap: dict, least: int = -2) -> list[int]:
    """Start coordinates in and out of the tensor, as far as the mode allows."""
    unit = 16 // ELEMENT[tmap["dtype"]]
    coords = [unit * rng.randint(max(least, -1), tmap["dims"][0] // unit)]
    for axis, extent in enumerate(tmap["dims"][1:]):
        low, high = least, extent + 1
        if axis < len(tmap.get("lower", ())):
            low, high = tmap["lower"][axis], extent + tmap["upper"][axis] - 1
        coords.append(rng.randint(low, high))
    return coords


def store_map(rng: random.Random, mode: str, dtype: str, rank: int) -> tuple[dict, list[int]]:
    """A map and a start that a store takes, but for one in eight."""
    while True:
        tmap = tensor_map(rng, mode, dtype, rank, rng.choice(list(SPAN)) if rank > 1 else "none")
        inside = min(tmap.get("lower", [0])) >= 0 >= max(tmap.get("upper", [0]))
        if inside or rng.random() < 0.02:
            return tmap, start(rng, tmap, 0 if rng.random() < 0.9 else -2)


def tensor_store(
    name: str, tmap: dict, coords: list[int], operation: str | None = None, kind: str = "bits", at: int = 0
):
    """Fill shared memory, then store or reduce one box of it."""
    rank = len(tmap["dims"])
    mode = "tile" if tmap["mode"] == "tile" else "im2col_no_offs"
    numbers = ", ".join(f"%n{i}" for i in range(rank))
    start_with = (
        f"cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.{operation}"
        if operation
        else (f"cp.async.bulk.tensor.{rank}d.global.shared::cta")
    )
    body = (
        FIRST
        + fetch("%s", "%p_src", str(80 << 10))
        + (f"add.u32 %x, %s, {at};\n{start_with}.{mode}.bulk_group [%m0, {{{numbers}}}], [%x];\n" + DRAIN + "END:")
    )
    seed = sum(map(ord, name))
    buffers = {"src": (kind, seed, 80 << 10), "out": (kind, seed + 1, 64 << 10)}
    return case(name, entry(body, 1, tuple(buffers), rank), buffers, [tmap], coords)
