"""Launches kernels with `convc.launch` on a GPU (sm_90) and records what they leave, how long they take, and mistakes.

    cd tests
    python -m recordings.record_launches launches.json

Needs what `convc launch` needs, and nvcc for the host programs. Kernels of tests/foreign say ``.target sm_100a``. Those
without an instruction of Blackwell alone run on Hopper as well, once the target says so; else their text is the same.
"""

from __future__ import annotations

import datetime
import json
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

import convc
from convc.errors import ConvcError
from convc.gpu.contents import digest, drawn
from convc.gpu.cuda import CudaDriver
from convc.gpu.tensormaps import encode_call
from convc.ir.launch import LaunchSpec, TensorMapParam, load_launch
from convc.ir.tensormap import TensorMap

TESTS = Path(__file__).resolve().parents[1]
SEED = 1
TIMED = 50

FOREIGN = (
    "conv_pointers", "cuda_cluster", "cuda_dispatch", "cuda_groups", "cuda_pipeline", "cuda_tensor_copy", "cuda_wmma",
    "dropout", "histogram", "recurrence", "saxpy", "small_dot_f16", "small_dot_s8", "sort_rows", "split_k_tf32",
    "transpose", "vector_add",
)  # fmt: skip
"""Kernels of tests/foreign that ptxas takes for sm_90a."""

COUNTED = ("cuda_cluster", "histogram")
"""Kernels whose inputs are numbers of bins: without a sign."""

WAIT = """again:
    mbarrier.try_wait.parity.shared::cta.b64 %landed, [%full], 0;
    @!%landed bra again;
"""
"""What im2col_rows must not lose: the wait for the copy."""


VARIANTS = {
    "saxpy_dependent": ("saxpy", "mov.u32 %i, %tid.x;", "griddepcontrol.wait;\n    mov.u32 %i, %tid.x;"),
    "saxpy_cooperative": ("saxpy", "mov.u32 %i, %tid.x;", "mov.b32 %i, %envreg2;\n    mov.u32 %i, %tid.x;"),
}
"""Kernels with one change that asks for an attribute of the launch: (kernel, what is replaced, by what)."""


KERNELS = (*FOREIGN, *VARIANTS, "im2col_rows")
"""Everything that is launched."""


def folder_of(name: str) -> Path:
    """The folder of a kernel."""
    name = VARIANTS[name][0] if name in VARIANTS else name
    return TESTS / ("foreign" if name in FOREIGN else "recordings") / name


def text_of(name: str) -> str:
    """The text of a kernel, for Hopper."""
    text = (folder_of(name) / "kernel.ptx").read_text().replace(".target sm_100a", ".target sm_90a")
    return text.replace(*VARIANTS[name][1:]) if name in VARIANTS else text


def launch_of(name: str) -> LaunchSpec:
    """The launch of a kernel, without files."""
    launch = load_launch(folder_of(name) / "launch.json")
    buffers = {buffer: msgspec.structs.replace(spec, file=None, save=None) for buffer, spec in launch.buffers.items()}
    return msgspec.structs.replace(launch, buffers=buffers)


def inputs_of(name: str) -> dict[str, np.ndarray]:
    """The contents of every buffer of a kernel."""
    values = {buffer: drawn(spec, buffer, SEED) for buffer, spec in launch_of(name).buffers.items()}
    return {buffer: np.abs(array) for buffer, array in values.items()} if name in COUNTED else values


def launched(name: str, text: str, launch: LaunchSpec, **options: Any) -> convc.Launched:
    """One launch, compared with the simulator."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.ptx"
        file.write_text(text)
        inputs = convc.KernelInputs(arrays=inputs_of(name))
        return convc.launch(file, launch, inputs, gpu=convc.GpuOptions(compare=True, **options))


def right(name: str) -> dict[str, Any]:
    """A kernel as it is: what it leaves, and its times."""
    done = launched(name, text_of(name), launch_of(name), repeat=TIMED)
    assert done.timing is not None
    record = {
        "name": name,
        "digests": {buffer: digest(array) for buffer, array in done.buffers.items()},
        "as_on_the_machine": done.ok,
        "differ": {each.buffer: each.differ for each in done.comparison or () if each.differ},
        "microseconds": round(done.timing.median, 2),
        "streamed": round(done.timing.streamed, 2),
        "clock_ghz": round(done.timing.clock_ghz, 3),
    }
    print(record, flush=True)
    return record


def edited() -> dict[str, Any]:
    """im2col_rows without its wait reads shared memory before the copy is there: the comparison must fail."""
    text = text_of("im2col_rows")
    assert WAIT in text
    done = launched("im2col_rows", text.replace(WAIT, ""), launch_of("im2col_rows"))
    return {"ok": done.ok, "wrong": {each.buffer: each.wrong for each in done.comparison or ()}}


def command(text: str, launch: dict[str, Any], *words: str) -> dict[str, Any]:
    """A call of ``convc launch`` in a process of its own: how it ends, and what it says."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "kernel.ptx").write_text(text)
        (Path(folder) / "launch.json").write_text(json.dumps(launch))
        done = subprocess.run(
            [sys.executable, "-m", "convc", "launch", "kernel.ptx", "launch.json", "--seed", str(SEED), *words],
            capture_output=True,
            text=True,
            timeout=120,
            cwd=folder,
            check=False,
        )
    record = {"exit": done.returncode, "stdout": done.stdout, "stderr": done.stderr}
    print(record, flush=True)
    return record


def mistakes() -> dict[str, Any]:
    """Launches that go wrong, and one that goes well, as the command tells them."""
    text = text_of("saxpy")
    launch = msgspec.to_builtins(launch_of("saxpy"))
    far = {
        **launch,
        "grid": [1 << 20, 1, 1],
        "params": [*launch["params"][:3], {**launch["params"][3], "value": 1 << 30}],
    }
    behind = {**launch, "params": [*launch["params"][:3], {**launch["params"][3], "value": 1024}]}
    loop = text.replace("    ret;", "forever:\n    bra forever;\n    ret;", 1)
    return {
        "runs": command(text, launch, "--compare", "--time", "20"),
        "target": command(text.replace("sm_90a", "sm_100a"), launch),
        "fault": command(text, far),
        "behind": command(text, behind),
        "hang": command(loop, launch, "--timeout", "3"),
        "entry": command(text, {**launch, "entry": "saxpi"}),
        "syntax": command(text.replace("fma.rn.f32", "fma.rn.f33"), launch),
        "parameters": command(text, {**launch, "params": launch["params"][:3]}),
    }


def host_program(name: str, digests: dict[str, str]) -> bool:
    """Whether the emitted program, compiled by nvcc, prints the digests of the launcher."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "kernel.ptx").write_text(text_of(name))
        inputs = convc.KernelInputs(arrays=inputs_of(name)) if name in COUNTED else convc.KernelInputs(seed=SEED)
        convc.write_host_program(folder / "kernel.ptx", launch_of(name), inputs, folder / "host.cu")
        compiler = shutil.which("nvcc") or "nvcc"
        subprocess.run([compiler, "-std=c++17", "-o", "host", "host.cu", "-lcuda"], cwd=folder, check=True)
        done = subprocess.run(["./host"], cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    same = done.stdout.splitlines() == [f"{buffer}: {each}" for buffer, each in digests.items()]
    if not same:
        print(name, done.stdout, done.stderr, digests, flush=True)
    return same


def encoded_maps() -> dict[str, int]:
    """The maps of tma_h200.npz encoded again, at the addresses of the recording: how many have the same 128 bytes."""
    from unit.machine.tma_recordings import read

    driver = CudaDriver()
    with np.load(TESTS / "recordings" / "tma_h200.npz") as stored:
        maps = stored["maps"]
    same = 0
    cases = read("tma_h200.npz", False)
    for case, wanted in zip(cases, maps, strict=True):
        address = int(wanted[:8].view("<u8")[0])
        same += driver.encode(encode_call(case.tmap), address) == wanted.tobytes()
    driver.close()
    return {"encoded": len(cases), "same": same}


def own_maps() -> dict[str, str]:
    """The tensor maps of our own kernels (tests/golden), and one of each wide mode: does the driver encode them?"""
    driver = CudaDriver()
    said: dict[str, str] = {}
    for folder in sorted((TESTS / "golden").iterdir()):
        if not (folder / "launch.json").is_file():
            continue
        for index, param in enumerate(load_launch(folder / "launch.json").params):
            if isinstance(param, TensorMapParam):
                said[f"{folder.name}, {index}: {param.map.mode} {param.map.dtype}"] = _answer(driver, param.map)
    for mode, swizzle in (("im2col_w", "128B"), ("im2col_w128", "64B")):
        wide = TensorMap(
            mode=mode, buffer="x", dtype="f16", dims=(64, 9, 9, 2), strides=(128, 1152, 10368), lower=(-1,),
            upper=(-2,), channels=32, pixels=64, element_strides=(1, 1, 1, 1), swizzle=swizzle,
        )  # fmt: skip
        said[mode] = _answer(driver, wide)
    driver.close()
    return said


def _answer(driver: CudaDriver, tmap: TensorMap) -> str:
    """What the driver says to a map: "encoded", or its error."""
    try:
        driver.encode(encode_call(tmap), 1 << 33)
    except ConvcError as error:
        return error.message
    return "encoded"


def machine_code() -> bool:
    """Whether saxpy as a cubin gives what its text gives."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "kernel.ptx").write_text(text_of("saxpy"))
        assembler = shutil.which("ptxas") or "/usr/local/cuda/bin/ptxas"
        subprocess.run([assembler, "-arch", "sm_90a", "-o", "kernel.cubin", "kernel.ptx"], cwd=folder, check=True)
        inputs = convc.KernelInputs(arrays=inputs_of("saxpy"))
        both = [convc.launch(folder / f"kernel.{kind}", launch_of("saxpy"), inputs) for kind in ("ptx", "cubin")]
    return digest(both[0].buffers["y"]) == digest(both[1].buffers["y"])


def guarded(name: str) -> dict[str, Any]:
    """`right`, or what is said where it is not."""
    try:
        return right(name)
    except ConvcError as error:
        print(name, error, flush=True)
        return {"name": name, "error": str(error)}


def main(out: str) -> None:
    """Record everything."""
    device = CudaDriver().device()
    print(device, flush=True)
    record: dict[str, Any] = {
        "device": device.name,
        "arch": device.arch,
        "cuda": device.cuda,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "seed": SEED,
        "maps": encoded_maps(),
        "own_maps": own_maps(),
        "cubin": machine_code(),
    }
    print(record, flush=True)
    record["launches"] = [guarded(name) for name in KERNELS]
    record["without_wait"] = edited()
    print(record["without_wait"], flush=True)
    Path(out).write_text(json.dumps(record, indent=1) + "\n")
    record["mistakes"] = mistakes()
    Path(out).write_text(json.dumps(record, indent=1) + "\n")
    if shutil.which("nvcc"):
        done = [each for each in record["launches"] if "digests" in each]
        with ThreadPoolExecutor(8) as pool:
            same = list(pool.map(lambda each: host_program(each["name"], each["digests"]), done))
        record["host_programs"] = {each["name"]: ok for each, ok in zip(done, same, strict=True)}
        print(record["host_programs"], flush=True)
    Path(out).write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
