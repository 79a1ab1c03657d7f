"""NVIDIA's disassembler: machine code of a cubin as text, with the PTX lines it comes from.

It is looked for as ptxas is: the file named by the environment variable ``CONVC_NVDISASM``, the
``nvidia-cuda-nvdisasm`` package next to convc (``pip install 'convc[sass]'``), the ``PATH``.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from convc.errors import ToolError
from convc.support.programs import find_program, run_program

VARIABLE = "CONVC_NVDISASM"
TIMEOUT_S = 120.0


def require_nvdisasm() -> Path:
    """The disassembler to use; `ToolError` that says how to get one where there is none."""
    program = find_program("nvdisasm", VARIABLE)
    if program is None:
        raise ToolError(
            "nvdisasm was not found",
            hint=f"pip install 'convc[sass]', or set {VARIABLE} to the path of a CUDA toolkit's nvdisasm",
        )
    return program


def disassemble(cubin: bytes, *, file: str = "kernel.cubin", timeout_s: float = TIMEOUT_S) -> str:
    """The code of a cubin: instructions with their encoding, and the PTX line of each in a comment before it.

    Args:
        cubin: machine code that `convc.support.ptxas.assemble` made with its table of lines.
        file: what it is called in messages.
        timeout_s: seconds after which the program is stopped.

    Raises:
        ToolError: nvdisasm is missing, takes too long, or cannot read the code.
    """
    program = require_nvdisasm()
    with tempfile.TemporaryDirectory(prefix="convc-nvdisasm-") as folder:
        source = Path(folder) / "kernel.cubin"
        source.write_bytes(cubin)
        done = run_program([str(program), "-c", "-hex", "-gp", str(source)], timeout_s, file)
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        raise ToolError(f"nvdisasm cannot read it: {said[0] if said else f'exit status {done.returncode}'}", where=file)
    return done.stdout
