"""Runs the programs of `copy_programs` on a GPU (sm_90a) and records what they leave in global memory.

    cd tests
    python -m recordings.copy_programs programs.json
    python -m recordings.record_programs programs.json recorded.npz

Needs numpy and the driver (libcuda) alone. A program that faults takes its process along, so several processes share
the work, and one that dies is started again behind the program that killed it.
"""

from __future__ import annotations

import ctypes
import json
import os
import pickle
import subprocess
import sys
import time

import numpy as np
from recordings.program_text import contents

TYPES = {
    "u8": 0, "u16": 1, "u32": 2, "s32": 3, "u64": 4, "s64": 5, "f16": 6, "f32": 7, "f64": 8, "bf16": 9,
    "f32_ftz": 10, "tf32": 11, "tf32_ftz": 12,
}  # fmt: skip
SWIZZLES = ("none", "32B", "64B", "128B")
GUARD = 4096
HUNG, REFUSED = -1000, -2000
"""Status of a program that did not end, and of a map that the driver's encoder refused; else 1, or minus the error."""


def check(error: int) -> None:
    """Leave the process with the error where there is one: the context is lost."""
    if error:
        raise SystemExit(error)


class Gpu:
    """The driver, through ctypes."""

    def __init__(self) -> None:
        self.cuda = ctypes.CDLL("libcuda.so.1")
        check(self.cuda.cuInit(0))
        device, context = ctypes.c_int(), ctypes.c_void_p()
        check(self.cuda.cuDeviceGet(ctypes.byref(device), 0))
        check(self.cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
        check(self.cuda.cuCtxSetCurrent(context))
        self.functions: dict[str, ctypes.c_void_p] = {}

    def function(self, text: str, shared: int) -> ctypes.c_void_p:
        """The entry ``k`` of a module, compiled by the driver."""
        if text not in self.functions:
            module, function = ctypes.c_void_p(), ctypes.c_void_p()
            check(self.cuda.cuModuleLoadData(ctypes.byref(module), text.encode()))
            check(self.cuda.cuModuleGetFunction(ctypes.byref(function), module, b"k"))
            check(self.cuda.cuFuncSetAttribute(function, 8, shared))
            self.functions[text] = function
        return self.functions[text]

    def tensor_map(self, tmap: dict, address: int) -> tuple[int, ctypes.Array]:
        """The driver's answer, and the 128 bytes (64-byte aligned)."""
        room = (ctypes.c_uint8 * 192)()
        aligned = (ctypes.c_uint8 * 128).from_buffer(room, -ctypes.addressof(room) % 64)
        rank = len(tmap["dims"])
        dims, strides = (ctypes.c_uint64 * rank)(*tmap["dims"]), (ctypes.c_uint64 * max(rank - 1, 1))(*tmap["strides"])
        steps = (ctypes.c_uint32 * rank)(*tmap["element_strides"])
        start = ctypes.c_void_p(address + tmap["offset"])
        tail = (0, SWIZZLES.index(tmap["swizzle"]), 0, int(tmap["fill"] == "nan"))
        if tmap["mode"] == "tile":
            box = (ctypes.c_uint32 * rank)(*tmap["box"])
            error = self.cuda.cuTensorMapEncodeTiled(
                aligned, TYPES[tmap["dtype"]], rank, start, dims, strides, box, steps, *tail
            )
        else:
            lower, upper = ((ctypes.c_int * (rank - 2))(*tmap[name]) for name in ("lower", "upper"))
            error = self.cuda.cuTensorMapEncodeIm2col(
                aligned,
                TYPES[tmap["dtype"]],
                rank,
                start,
                dims,
                strides,
                lower,
                upper,
                tmap["channels"],
                tmap["pixels"],
                steps,
                *tail,
            )
        return error, aligned

    def run(self, program: dict) -> tuple[int, dict[str, np.ndarray]]:
        """Status and buffers after the launch."""
        pointers, sizes = {}, {}
        for name, (kind, seed, size) in program["buffers"].items():
            pointer = ctypes.c_uint64()
            data = np.concatenate([contents(kind, seed, size), np.full(GUARD, 0xCD, np.uint8)])
            check(self.cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(data.size)))
            check(self.cuda.cuMemcpyHtoD_v2(pointer, data.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(data.size)))
            pointers[name], sizes[name] = pointer, size
        maps = []
        for tmap in program["maps"]:
            error, encoded = self.tensor_map(tmap, pointers[tmap["buffer"]].value)
            if error:
                return REFUSED - error, {}
            maps.append(encoded)
        numbers = [ctypes.c_uint32(n & 0xFFFFFFFF) for n in program["numbers"]]
        arguments = [*maps, *pointers.values(), *numbers]
        table = (ctypes.c_void_p * len(arguments))(*(ctypes.addressof(a) for a in arguments))
        self.launch(program, table)
        after = {}
        for name, pointer in pointers.items():
            data = np.empty(sizes[name] + GUARD, np.uint8)
            check(self.cuda.cuMemcpyDtoH_v2(data.ctypes.data_as(ctypes.c_void_p), pointer, ctypes.c_size_t(data.size)))
            if (data[sizes[name] :] != 0xCD).any():
                raise AssertionError(f"{program['name']} wrote behind buffer {name}")
            after[name] = data[: sizes[name]]
            check(self.cuda.cuMemFree_v2(pointer))
        return 1, after

    def launch(self, program: dict, table: ctypes.Array) -> None:
        """Launch, and wait for the end."""

        class Attribute(ctypes.Structure):
            _fields_ = (("id", ctypes.c_int), ("pad", ctypes.c_int), ("value", ctypes.c_uint32 * 16))

        class Config(ctypes.Structure):
            _fields_ = (
                ("grid", ctypes.c_uint * 3),
                ("block", ctypes.c_uint * 3),
                ("shared", ctypes.c_uint),
                ("stream", ctypes.c_void_p),
                ("attributes", ctypes.POINTER(Attribute)),
                ("count", ctypes.c_uint),
            )

        cluster = Attribute(4, 0, (ctypes.c_uint32 * 16)(*program["cluster"]))
        grid, block = ((ctypes.c_uint * 3)(*program[name]) for name in ("grid", "block"))
        config = Config(grid, block, program["shared"], None, ctypes.pointer(cluster), 1)
        function = self.function(program["text"], program["shared"])
        check(self.cuda.cuLaunchKernelEx(ctypes.byref(config), function, table, None))
        until = time.monotonic() + 5
        while (error := self.cuda.cuStreamQuery(None)) == 600:
            if time.monotonic() > until:
                os._exit(99)
        check(error)


def work(path: str, out: str, numbers: list[int]) -> None:
    """Run programs one after the other, writing each result at once."""
    with open(path) as file:
        programs = json.load(file)
    gpu = Gpu()
    with open(out, "ab") as file:
        for number in numbers:
            try:
                answer = gpu.run(programs[number])
            except SystemExit as stop:
                pickle.dump((number, -stop.code, {}), file)
                raise
            pickle.dump((number, *answer), file)
            file.flush()


def results(out: str) -> dict[int, tuple[int, dict[str, np.ndarray]]]:
    """What a worker wrote so far."""
    found = {}
    with open(out, "rb") as file:
        while True:
            try:
                number, status, after = pickle.load(file)
            except EOFError:
                return found
            found[number] = (status, after)


def share(path: str, out: str, numbers: list[int]) -> dict[int, tuple[int, dict[str, np.ndarray]]]:
    """Have worker processes run programs until all have an answer."""
    open(out, "wb").close()
    left = numbers
    while left:
        code = subprocess.run(
            [sys.executable, "-m", "recordings.record_programs", path, out, *map(str, left)]
        ).returncode
        done = results(out)
        left = [n for n in left if n not in done]
        if left and code == 99:
            with open(out, "ab") as file:
                pickle.dump((left.pop(0), HUNG, {}), file)
    return results(out)


def main(path: str, out: str) -> None:
    """Run all programs, in four processes, and pack what changed."""
    from concurrent.futures import ThreadPoolExecutor

    with open(path) as file:
        programs = json.load(file)
    everything = range(len(programs))
    with ThreadPoolExecutor(4) as pool:
        parts = list(pool.map(lambda i: share(path, f"{out}.{i}", list(everything[i::4])), range(4)))
    answers = {number: answer for part in parts for number, answer in part.items()}
    changes, ends = [], []
    for number in everything:
        _, after = answers[number]
        for name, data in after.items():
            changes.append(data ^ contents(*programs[number]["buffers"][name]))
        ends.append(sum(map(len, changes)))
    np.savez_compressed(
        out,
        programs=np.frombuffer(json.dumps(programs).encode(), np.uint8),
        status=np.array([answers[n][0] for n in everything]),
        ends=np.array(ends),
        changed=np.concatenate(changes),
    )
    for number in everything:
        if answers[number][0] != 1:
            print(programs[number]["name"], answers[number][0])


if __name__ == "__main__":
    if len(sys.argv) > 3:
        work(sys.argv[1], sys.argv[2], [int(n) for n in sys.argv[3:]])
    else:
        main(*sys.argv[1:])
