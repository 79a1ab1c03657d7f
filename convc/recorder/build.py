"""The stand-ins, built by the system's C compiler into a folder for one run of a program."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from convc.errors import ToolError
from convc.recorder.linked import linked_runtime, redirection
from convc.support.programs import run_program

HERE = Path(__file__).parent
COMPILER = "CC"
"""The environment variable that names another compiler."""

TIMEOUT_S = 120.0
RUNTIME = "libcudart.so.13"

_NAMES = re.compile(rb"\0((?:cu|cuda|__cuda)[A-Z]\w+)(?=[\0@])")
_WORD = re.compile(r"\b(?:cu|cuda|__cuda)[A-Z]\w+")


def compiler() -> str:
    """The compiler to use.

    Raises:
        ToolError: there is none.
    """
    named = os.environ.get(COMPILER)
    for name in (named, "cc", "gcc", "clang"):
        if name and (found := shutil.which(name)):
            return found
    raise ToolError(
        "convc record builds its stand-ins of CUDA's libraries with the system's C compiler, and there is none",
        hint=f"apt install gcc, or set {COMPILER} to the path of a C compiler",
    )


def build_stand_ins(program: Path, folder: Path) -> Path | None:
    """Build ``libcuda.so.1`` and the runtime's library into a folder.

    What the program names of CUDA, and they do not have, gets a stub that refuses by its name. Where the runtime is
    linked into the program, its functions are redirected to the stand-in.

    Returns:
        The library that is to be loaded before the program's own, if one is.

    Raises:
        ToolError: there is no compiler, or it fails.
    """
    sources = {name: (HERE / name).read_text(encoding="utf-8") for name in ("libcuda.c", "libcudart.c")}
    known = {word for text in sources.values() for word in _WORD.findall(text)}
    known |= {f"{name}_v2" for name in re.findall(r"V2\((\w+)\)", sources["libcuda.c"])}
    linked = linked_runtime(program)
    lacking = sorted({*_names(program), *(each.name for each in linked)} - known)
    (folder / "stubs.c").write_text(_stubs(lacking) + redirection(program, linked), encoding="utf-8")
    (folder / "versions").write_text(f"{RUNTIME} {{ global: *; }};\n", encoding="utf-8")
    common = [compiler(), "-shared", "-fPIC", "-O0", "-w", "-Wl,-Bsymbolic", f"-I{HERE}"]
    driver = [str(HERE / "libcuda.c"), "-Wl,-soname,libcuda.so.1", "-ldl", "-lpthread"]
    _run([*common, "-o", str(folder / "libcuda.so.1"), *driver])
    runtime = [str(HERE / "libcudart.c"), str(folder / "stubs.c"), str(folder / "libcuda.so.1")]
    script = [f"-Wl,-soname,{RUNTIME}", f"-Wl,--version-script={folder / 'versions'}"]
    _run([*common, "-o", str(folder / RUNTIME), *runtime, *script])
    return folder / RUNTIME if linked else None


def _stubs(names: Sequence[str]) -> str:
    """Functions that refuse by their name."""
    stubs = (f'void {name}(void) {{ convc_refuse("{name}"); }}\n' for name in names)
    return "void convc_refuse(const char *);\n" + "".join(stubs)


def _run(command: list[str]) -> None:
    done = run_program(command, TIMEOUT_S, "the stand-ins of convc record")
    if done.returncode:
        first = (done.stderr.strip() or f"exit status {done.returncode}").splitlines()[0]
        raise ToolError(f"the C compiler failed: {first}", where=command[0])


def _names(program: Path) -> list[str]:
    """Names of CUDA's functions in a program: those that it calls, and some more."""
    return [found.decode() for found in _NAMES.findall(program.read_bytes())]
