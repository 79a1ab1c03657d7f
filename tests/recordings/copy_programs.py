"""Small PTX programs whose effect was recorded on a real GPU (record_programs.py) and is replayed on the simulator.

A program is PTX text and the description of one launch. The text that the GPU's driver compiled is the text that the
machine reads: nothing is written twice. Run as a script, this writes all programs to a JSON file for the recorder.

A launch has buffers (name, kind of contents, seed, bytes), and parameters in the order: tensor maps, pointers to the
buffers, 32-bit numbers.
"""

from __future__ import annotations

import itertools
import json
import random
import sys

import numpy as np
from recordings.program_text import (
    DRAIN,
    ELEMENT,
    FIRST,
    INIT,
    SPAN,
    WAIT,
    case,
    dump,
    entry,
    fetch,
    start,
    store_map,
    tensor_map,
    tensor_store,
)
from recordings.thread_programs import addresses, clusters, faults, threads


def stores(rng: random.Random) -> list[dict]:
    """Tile and im2col_no_offs stores: all ranks, types, swizzles, steps, positions; then faults."""
    found = []
    for i in range(240):
        mode = "tile" if i % 3 else "im2col"
        rank = rng.randint(1, 5) if mode == "tile" else rng.randint(3, 5)
        dtype = rng.choice(["u8", "u16", "f16", "bf16", "u32", "f32", "tf32", "f64"])
        tmap, coords = store_map(rng, mode, dtype, rank)
        found.append(tensor_store(f"store {i}", tmap, coords, kind="bits", at=rng.choice([0, 128, 1024, 384])))
    flat = {
        "mode": "tile",
        "buffer": "out",
        "dtype": "f16",
        "dims": [40, 9],
        "strides": [80],
        "offset": 0,
        "fill": "zero",
        "element_strides": [1, 1],
        "swizzle": "none",
        "box": [16, 4],
    }
    found.append(tensor_store("store fault: coordinate off 16 bytes", flat, [4, 0]))
    found.append(tensor_store("store fault: source off 128 bytes", flat, [0, 0], at=64))
    found.append(tensor_store("store: every dimension strided", flat | {"element_strides": [1, 3]}, [8, 1]))
    return found


def reductions(rng: random.Random) -> list[dict]:
    """Every operation on every element type, then random boxes of those that exist."""
    found = []
    operations = ("add", "min", "max", "inc", "dec", "and", "or", "xor")
    for operation, dtype in itertools.product(operations, ELEMENT):
        size = ELEMENT[dtype]
        tmap = {
            "mode": "tile",
            "buffer": "out",
            "dtype": dtype,
            "dims": [1008 // size, 5],
            "strides": [1024],
            "offset": 0,
            "element_strides": [1, 1],
            "swizzle": "none",
            "box": [128 // size, 4],
            "fill": "zero",
        }
        kind = {"f16": "f16", "bf16": "bf16", "f64": "f64"}.get(dtype, "f32" if "f32" in dtype else "bits")
        found.append(tensor_store(f"reduce {operation} {dtype}", tmap, [32 // size, 2], operation, kind))
    for i in range(60):
        mode = rng.choice(["tile", "tile", "im2col"])
        rank = rng.randint(1, 5) if mode == "tile" else rng.randint(3, 5)
        dtype = rng.choice(["f16", "bf16", "f32", "u32", "s32"])
        tmap, coords = store_map(rng, mode, dtype, rank)
        kind = {"f16": "f16", "bf16": "bf16", "f32": "f32"}.get(dtype, "bits")
        operation = "max" if dtype == "s32" else "add"
        found.append(tensor_store(f"random reduce {i}", tmap, coords, operation, kind))
    return found


def bulk(rng: random.Random) -> list[dict]:
    """cp.reduce.async.bulk into global memory, and cp.async.bulk sizes."""
    found = []
    types = {
        "add": ["u32", "s32", "u64", "noftz.f16", "noftz.bf16", "f32", "f64"],
        "min": ["u32", "s32", "u64", "s64", "f16", "bf16"],
        "max": ["u32", "s32", "u64", "s64", "f16", "bf16"],
        "inc": ["u32"],
        "dec": ["u32"],
        "and": ["b32", "b64"],
        "or": ["b32", "b64"],
        "xor": ["b32", "b64"],
    }
    for operation, dtype in ((o, t) for o, ts in types.items() for t in ts):
        last = dtype.split(".")[-1]
        kind = last if last in ("f16", "bf16", "f32", "f64") else "bits"
        body = (
            FIRST
            + fetch("%s", "%p_src", "4096")
            + (
                f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{operation}.{dtype} [%p_out+32], [%s], 4096;\n"
                + DRAIN
            )
            + "END:"
        )
        buffers = {"src": (kind, 5, 4096), "out": (kind, 6, 4352)}
        found.append(case(f"bulk reduce {operation} {dtype}", entry(body, 0, tuple(buffers)), buffers))
    buffers = {"src": ("bits", 7, 8192), "out": ("bits", 8, 8192)}
    copy = "cp.async.bulk.global.shared::cta.bulk_group [%p_out+{out}], [%s+{at}], {size};\n"
    for size in (16, 48, 4096):
        body = FIRST + fetch("%s+16", "%p_src+32", str(size)) + copy.format(out=16, at=16, size=size) + DRAIN + "END:"
        found.append(case(f"bulk copy of {size}", entry(body, 0, tuple(buffers)), buffers))
    for what, out, at, size in (
        ("global address", 8, 0, 64),
        ("shared address", 0, 8, 64),
        ("size", 0, 0, 72),
        ("size 0", 0, 0, 0),
    ):
        store = f"mov.u32 %x, {size};\n" + copy.format(out=out, at=at, size="%x")
        body = FIRST + fetch("%s", "%p_src", "4096") + store + DRAIN + "END:"
        found.append(case(f"bulk fault: {what}", entry(body, 0, tuple(buffers)), buffers))
    for what, at in (("source", "%s, [%p_src+8]"), ("destination", "%s+8, [%p_src]")):
        body = FIRST + fetch(at.split(",")[0], at.split("[")[1][:-1], "64") + dump(128) + "END:"
        found.append(case(f"bulk fault: {what} of a load", entry(body, 0, tuple(buffers)), buffers))
    return found


def loads(rng: random.Random) -> list[dict]:
    """Loads of the types that change on their way."""
    found = []
    for dtype, seed in itertools.product(("f32_ftz", "tf32_ftz", "tf32", "f32"), range(3)):
        tmap = {
            "mode": "tile",
            "buffer": "src",
            "dtype": dtype,
            "dims": [256, 8],
            "strides": [1024],
            "offset": 0,
            "element_strides": [1, 1],
            "swizzle": "none",
            "box": [256, 8],
            "fill": "nan" if seed else "zero",
        }
        body = (
            FIRST
            + INIT
            + "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 8192;\n"
            + (
                "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                "[%s], [%m0, {%n0, %n1}], [%bar];\n"
                + WAIT.format(W="LOADED", parity=0)
                + "fence.proxy.async.shared::cta;\n"
                + dump(8192)
                + "END:"
            )
        )
        buffers = {"src": ("f32", 20 + seed, 8192), "out": ("bits", 8, 8192)}
        found.append(
            case(f"load {dtype} {seed}", entry(body, 1, tuple(buffers), 2), buffers, [tmap], [4 * seed, -seed])
        )
    return found


def made_maps(rng: random.Random) -> list[dict]:
    """Tensor maps that the kernel makes with tensormap.replace from zeros, uses, edits in global memory, uses again."""
    types = {
        "u8": 0,
        "u16": 1,
        "u32": 2,
        "s32": 3,
        "u64": 4,
        "s64": 5,
        "f16": 6,
        "f32": 7,
        "f32_ftz": 8,
        "f64": 9,
        "bf16": 10,
        "tf32": 11,
        "tf32_ftz": 12,
    }
    found = []
    for i, (dtype, number) in enumerate(types.items()):
        rank, swizzle = 2 + i % 4, list(SPAN)[i % 4]
        tmap = tensor_map(rng, "tile", dtype, rank, swizzle)
        while "f" not in dtype and tmap["fill"] == "nan":
            tmap = tensor_map(rng, "tile", dtype, rank, swizzle)
        at = start(rng, tmap)
        visits = [-(-b // e) for b, e in zip(tmap["box"][1:], tmap["element_strides"][1:], strict=True)]
        count = int(np.prod(visits)) * tmap["box"][0] * ELEMENT[dtype]
        edit = "tensormap.replace.tile.{f}.shared::cta.b1024.{t} [%s], {v};\n"
        fields = [
            ("rank", "b32", rank - 1),
            ("elemtype", "b32", number),
            ("interleave_layout", "b32", 0),
            ("swizzle_mode", "b32", i % 4),
            ("fill_mode", "b32", i % 2 if "f" in dtype else 0),
        ]
        make = "".join(f"st.shared.b64 [%s+{8 * j}], 0;\n" for j in range(16))
        make += f"add.u64 %d, %p_out, {tmap['offset']};\n" + edit.format(f="global_address", t="b64", v="%d")
        for name, kind, value in fields:
            make += edit.format(f=name, t=kind, v=value if name != "rank" else f"{value}")
        for axis in range(rank):
            for name, values in (("global_dim", "dims"), ("box_dim", "box"), ("element_stride", "element_strides")):
                make += edit.format(f=name, t="b32", v=f"{axis}, {tmap[values][axis]}")
            if axis < rank - 1:
                make += f"mov.u64 %e, {tmap['strides'][axis]};\n" + edit.format(
                    f="global_stride", t="b64", v=f"{axis}, %e"
                )
        numbers = ", ".join(f"%n{j}" for j in range(rank))
        acquire = "fence.proxy.tensormap::generic.acquire.gpu [%p_desc], 128;\n"
        load = (
            "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], " + str(count) + ";\n"
            f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
            f"[%y], [%p_desc, {{{numbers}}}], [%bar];\n"
        )
        body = (
            "setp.ne.u32 %p, %t, 0; @%p bra MADE;\n"
            + fetch("%s", "%p_src", str(80 << 10))
            + make
            + "MADE: bar.warp.sync -1;\n"
            "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned "
            "[%p_desc], [%s], 128;\nbar.warp.sync -1;\n"
            + FIRST
            + acquire
            + "add.u32 %y, %s, 1024;\n"
            + load
            + WAIT.format(W="ONE", parity=1)
            + f"tensormap.replace.tile.global_dim.global.b1024.b32 [%p_desc], {rank - 1}, 1;\n"
            "fence.proxy.tensormap::generic.release.gpu;\n"
            + acquire
            + f"add.u32 %y, %s, {40 << 10};\n"
            + load
            + WAIT.format(W="TWO", parity=0)
            + "fence.proxy.async.shared::cta; add.u32 %s, %s, 1024;\n"
            + dump(78 << 10, "%p_got")
            + "END:"
        )
        if int(np.prod(visits)) * 128 > 38 << 10:
            continue
        buffers = {
            "src": ("cd", 0, 80 << 10),
            "out": ("f32" if "f32" in dtype else "bits", 41, 64 << 10),
            "got": ("zero", 0, 78 << 10),
            "desc": ("zero", 0, 128),
        }
        found.append(case(f"made map {dtype}", entry(body, 0, tuple(buffers), rank), buffers, (), at))
    return found


def programs(seed: int = 2026) -> list[dict]:
    """All programs, always the same."""
    rng = random.Random(seed)
    makers = (stores, reductions, bulk, loads, clusters, threads, made_maps)
    return [program for make in makers for program in make(rng)] + faults() + addresses()


if __name__ == "__main__":
    with open(sys.argv[1], "w") as file:
        json.dump(programs(), file)
