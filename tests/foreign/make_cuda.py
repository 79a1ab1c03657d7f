"""Compile the CUDA kernels of the folders cuda_*: kernel.cu becomes kernel.ptx beside it.

Sources, texts and launch files are committed, so that the tests need neither NVIDIA's compiler nor a GPU. To make the
texts anew with nvcc of CUDA 13.0 on the PATH:

    python tests/foreign/make_cuda.py [NAME ...]
"""

from __future__ import annotations

import argparse
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
NVCC = ("nvcc", "-std=c++17", "-ptx", "--diag-suppress", "20054")
"""20054: shared variables with a constructor, which the kernels call themselves."""

ARCH = {"cuda_warpgroup": "sm_90a"}
"""Targets other than sm_100a."""


def main() -> None:
    names = sorted(path.parent.name for path in HERE.glob("*/kernel.cu"))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(names)}; all when left out")
    for name in parser.parse_args().names or names:
        folder = HERE / name
        arch = f"-arch={ARCH.get(name, 'sm_100a')}"
        subprocess.run([*NVCC, arch, "-o", str(folder / "kernel.ptx"), str(folder / "kernel.cu")], check=True)
        print(f"{name}: {(folder / 'kernel.ptx').stat().st_size} bytes")


if __name__ == "__main__":
    main()
