"""NVIDIA's assembler: the second reader of every kernel.

``ptxas`` turns PTX text into machine code (a *cubin*) for one GPU. It needs no GPU to run, so it can say
whether a kernel is well formed for sm_100a and how many registers it takes. It is never needed to compile or
to run a convolution here.

It is looked for in this order: the file named by the environment variable ``CONVC_PTXAS``, the
``nvidia-cuda-nvcc`` package next to convc (``pip install 'convc[ptxas]'``), the ``PATH``.

Formats of its messages: as printed by ptxas 13.5 (``ptxas FILE, line N; error   : TEXT``; ``-v`` prints one
``Used R registers, used B barriers, S bytes smem`` line per entry).
"""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from convc.errors import Span, ToolError
from convc.support.programs import find_program, run_program

VARIABLE = "CONVC_PTXAS"
TIMEOUT_S = 120.0

_DIAGNOSTIC = re.compile(r"^ptxas .*?, line (?P<line>\d+); (?:error|fatal)\s*: (?P<text>.*)$", re.MULTILINE)
_FATAL = re.compile(r"^ptxas (?:error|fatal)\s*: (?P<text>.*)$", re.MULTILINE)
_USED = re.compile(r"Used (?P<registers>\d+) registers(?P<rest>.*)")
_SHARED = re.compile(r"(\d+) bytes smem")
_STACK = re.compile(r"(\d+) bytes stack frame")
_SPILL = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembled:
    """What ptxas made of one module.

    Attributes:
        cubin: the machine code, an ELF file.
        registers: registers per thread, the largest of all entries (0 for a module without entries).
        shared_bytes: static shared memory per CTA, the largest of all entries.
        spill_bytes: bytes of register spill stores and loads; more than 0 means slow.
        stack_bytes: stack per thread, the largest of all entries and functions.
    """

    cubin: bytes
    registers: int
    shared_bytes: int
    spill_bytes: int
    stack_bytes: int = 0


def find_ptxas() -> Path | None:
    """The assembler to use, or None; `ToolError` where CONVC_PTXAS names something that is no program."""
    return find_program("ptxas", VARIABLE)


def require_ptxas() -> Path:
    """The assembler to use; `ToolError` that says how to get one where there is none."""
    program = find_ptxas()
    if program is None:
        raise ToolError(
            "ptxas was not found",
            hint=f"pip install 'convc[ptxas]', or set {VARIABLE} to the path of a CUDA toolkit's ptxas",
        )
    return program


def assemble(
    ptx: str,
    arch: str = "sm_100a",
    *,
    file: str = "kernel.ptx",
    lines: bool = False,
    timeout_s: float = TIMEOUT_S,
) -> Assembled:
    """Assemble PTX text for one architecture.

    Args:
        ptx: the module's text.
        arch: name of the target, as ptxas spells it.
        file: name of the text in messages.
        lines: put a table of the PTX lines into the machine code, which stays as fast as it is.
        timeout_s: seconds after which ptxas is stopped.

    Raises:
        ToolError: ptxas is missing, takes too long, or refuses the text (pointing at the first such line).
    """
    program = require_ptxas()
    with tempfile.TemporaryDirectory(prefix="convc-ptxas-") as folder:
        source = Path(folder) / "kernel.ptx"
        target = Path(folder) / "kernel.cubin"
        source.write_text(ptx, encoding="utf-8")
        command = [str(program), "-v", "--gpu-name", arch, "--output-file", str(target), str(source)]
        if lines:
            command.append("--generate-line-info")
        done = run_program(command, timeout_s, file)
        said = done.stdout + done.stderr
        if done.returncode != 0 or not target.is_file():
            raise _refusal(said, done.returncode, ptx, file)
        return _assembled(target.read_bytes(), said)


def _assembled(cubin: bytes, said: str) -> Assembled:
    """What ptxas -v said of a module's entries, put together."""
    used = list(_USED.finditer(said))
    return Assembled(
        cubin=cubin,
        registers=max((int(m["registers"]) for m in used), default=0),
        shared_bytes=max((int(n) for m in used for n in _SHARED.findall(m["rest"])), default=0),
        spill_bytes=sum(int(stores) + int(loads) for stores, loads in _SPILL.findall(said)),
        stack_bytes=max((int(n) for n in _STACK.findall(said)), default=0),
    )


def _refusal(said: str, status: int, ptx: str, file: str) -> ToolError:
    """The error that says what ptxas said, at the line that it named first."""
    found = list(_DIAGNOSTIC.finditer(said))
    if not found:
        reasons = [match["text"] for match in _FATAL.finditer(said)] or [f"exit status {status}"]
        return ToolError(f"ptxas refused the kernel: {reasons[0]}", where=file)
    first = found[0]
    number = int(first["line"])
    lines = ptx.splitlines()
    text = lines[number - 1] if 1 <= number <= len(lines) else ""
    start = len(text) - len(text.lstrip())
    span = Span(file=file, line=number, column=start + 1, length=max(1, len(text.strip())), text=text)
    more = len(found) - 1
    return ToolError(
        f"ptxas refused the kernel: {first['text']}",
        span=span,
        hint=f"ptxas has {more} more to say; this is the first" if more else "",
    )
