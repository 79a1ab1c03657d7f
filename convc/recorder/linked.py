"""NVIDIA's runtime as nvcc links it into a program, unless it is told ``-cudart shared``.

Its public functions stand in the program's symbol table. Each begins with a jump to the stand-in's, which is written
over it when the program starts, so that nothing of the runtime runs.
"""

from __future__ import annotations

import platform
import re
from dataclasses import dataclass
from pathlib import Path

from convc.errors import InputError, ToolError
from convc.support.programs import run_program

JUMP_BYTES = 14
"""``jmp [rip + 0]`` and the address that it reads."""

ALIGNMENT = 16
"""What a function of the runtime begins at a multiple of: between two is room for a jump."""

TIMEOUT_S = 60.0
SHARED = "nvcc -cudart shared"

_SYMBOL = re.compile(r"^([0-9a-f]+) (?:[0-9a-f]+ )?[tTwW] ((?:__)?cuda[A-Z]\w*)$", re.MULTILINE)
_OWN = b"cudart_global.cpp"
"""A source file of the runtime, which the symbol table names."""


@dataclass(frozen=True, slots=True)
class LinkedFunction:
    """A function of the runtime: its name, and its address relative to the program's first byte in memory."""

    name: str
    address: int


def linked_runtime(program: Path) -> tuple[LinkedFunction, ...]:
    """The runtime's functions in a program; none where it is a library of its own.

    Raises:
        InputError: the processor is another than x86-64.
        ToolError: binutils' ``nm`` is missing, or fails.
    """
    if _OWN not in program.read_bytes():
        return ()
    if platform.machine() != "x86_64":
        raise InputError(
            f"the program has NVIDIA's runtime linked into it, which is redirected on x86-64 alone, not on "
            f"{platform.machine()}",
            where=str(program),
            hint=SHARED,
        )
    listed = run_program(["nm", "--defined-only", str(program)], TIMEOUT_S, "the list of the program's functions")
    if listed.returncode:
        first = (listed.stderr.strip() or f"exit status {listed.returncode}").splitlines()[0]
        raise ToolError(f"nm failed: {first}", where=str(program), hint=SHARED)
    found = [LinkedFunction(name, int(address, 16)) for address, name in _SYMBOL.findall(listed.stdout)]
    return tuple(each for each in found if each.address % ALIGNMENT == 0)


def redirection(program: Path, functions: tuple[LinkedFunction, ...]) -> str:
    """C text that writes the jumps before ``main``, in that program and in none that it starts."""
    if not functions:
        return ""
    declared = "".join(f"void {name}();\n" for name in sorted({each.name for each in functions}))
    rows = "".join(f"  {{{each.address:#x}, {each.name}}},\n" for each in functions)
    spelt = ", ".join(str(byte) for byte in bytes(program.resolve()))
    return f"""#define _GNU_SOURCE
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
{declared}
static const struct {{ unsigned long address; void (*to)(); }} linked[] = {{
{rows}}};
static int first(struct dl_phdr_info *program, size_t size, void *base) {{
  *(unsigned long *)base = program->dlpi_addr;
  return 1;
}}
__attribute__((constructor)) static void redirect(void) {{
  static const unsigned char program[] = {{{spelt}}};
  char running[sizeof program + 1];
  if (readlink("/proc/self/exe", running, sizeof running) != sizeof program) return;
  if (memcmp(running, program, sizeof program)) return;
  unsigned long base, page = sysconf(_SC_PAGESIZE);
  dl_iterate_phdr(first, &base);
  for (unsigned i = 0; i < sizeof linked / sizeof *linked; i++) {{
    char *at = (char *)(base + linked[i].address), *from = (char *)((unsigned long)at & -page);
    unsigned long bytes = at + {JUMP_BYTES} - from;
    if (mprotect(from, bytes, PROT_READ | PROT_WRITE | PROT_EXEC)) _exit(126);
    memcpy(at, "\\xff\\x25\\0\\0\\0\\0", 6);
    memcpy(at + 6, &linked[i].to, 8);
    if (mprotect(from, bytes, PROT_READ | PROT_EXEC)) _exit(126);
  }}
}}
"""
