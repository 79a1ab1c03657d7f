"""A host program, run with the stand-ins in place of CUDA's libraries, which the system's C compiler builds for it."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from convc.errors import InputError, ToolError
from convc.ir.findings import Finding, Verdict, worst
from convc.recorder.linked import linked_runtime, redirection
from convc.recorder.session import RecordedLaunch, RecordOptions, Session
from convc.recorder.wire import read_question
from convc.support.counted import counted
from convc.support.programs import run_program

PATH = "CONVC_RECORD"
"""The environment variable by which the program finds convc."""

LOADER_FAILED = 127
WAIT_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """A program that came to its end.

    Attributes:
        program: its name. status: its exit status, negative for a signal.
        launches: in its order. notes: calls that were answered with an error.
    """

    program: str
    target: str
    status: int
    launches: tuple[RecordedLaunch, ...]
    notes: tuple[str, ...]

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of all launches."""
        return worst(self.findings)

    @property
    def ok(self) -> bool:
        """The program is content, and nothing is wrong, as far as it was looked at."""
        return self.status == 0 and self.verdict < Verdict.incomplete

    @property
    def by_the_manual(self) -> bool:
        """Nothing is wrong, and nothing is done that the manual forbids."""
        return self.status == 0 and self.verdict < Verdict.rule

    def __repr__(self) -> str:
        launches = counted(len(self.launches), "launch", "launches")
        return f"<Recording {self.program}: exit status {self.status}, {launches}, {self.verdict.name}>"

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Those of all launches, in their order."""
        return tuple(finding for launch in self.launches for finding in launch.findings)


def record_program(command: Sequence[str], options: RecordOptions, stdout: TextIO | int | None = None) -> Recording:
    """Run a program to its end, its launches on the simulator.

    Args:
        command: the program and its arguments.
        stdout: where its output goes; None: to that of this process.

    Raises:
        InputError: there is no such program, or it needs what convc record does not have.
        ToolError: there is no C compiler.
        ConvcError: what a kernel of it is refused for.
    """
    program = _found(command[0])
    session = Session(program=str(program), options=options)
    try:
        with tempfile.TemporaryDirectory(prefix="convc-record-") as folder:
            first = build_stand_ins(program, Path(folder))
            status = _run([str(program), *command[1:]], session, Path(folder), first, stdout)
    finally:
        session.memory.close()
    if session.refused is not None:
        raise session.refused
    if status == LOADER_FAILED and not session.launches:
        raise InputError(
            "the program does not start: a library that it needs is missing, or has no such function",
            where=str(program),
            hint=f"ldd {program}; convc record stands in for libcuda.so.1, {' and '.join(RUNTIMES.values())}",
        )
    return Recording(
        program=str(program),
        target=options.target,
        status=status,
        launches=tuple(session.launches),
        notes=tuple(session.notes),
    )


def _found(name: str) -> Path:
    """The program's file."""
    found = shutil.which(name)
    if found is None:
        raise InputError(
            "there is no program of that name, or it may not be run", where=name, hint="convc record -- ./program"
        )
    return Path(found).absolute()


def _run(command: list[str], session: Session, folder: Path, first: Path | None, stdout: TextIO | int | None) -> int:
    """Run the program, with a library loaded before its own; answer its questions, and give its exit status."""
    path = folder / "line"
    libraries = os.pathsep.join(filter(None, (str(folder), os.environ.get("LD_LIBRARY_PATH"))))
    environment = {**os.environ, PATH: str(path), "LD_LIBRARY_PATH": libraries}
    if first is not None:
        environment["LD_PRELOAD"] = os.pathsep.join(filter(None, (str(first), os.environ.get("LD_PRELOAD"))))
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        listening.settimeout(WAIT_S)
        with subprocess.Popen(command, env=environment, stdout=stdout) as child:
            try:
                while child.poll() is None:
                    try:
                        line, _ = listening.accept()
                    except TimeoutError:
                        continue
                    _answer(line, session)
                    if session.refused is not None:
                        child.kill()
            except BaseException:
                child.kill()
                raise
    return child.returncode


def _answer(line: socket.socket, session: Session) -> None:
    """Answer the questions of one process, until it ends or is ended."""
    with line, line.makefile("rb") as stream:
        while (question := read_question(stream)) is not None:
            answer = session.answer(question)
            if answer is None:
                return
            line.sendall(answer.packed())


HERE = Path(__file__).parent
COMPILER = "CC"
"""The environment variable that names another compiler."""

TIMEOUT_S = 120.0
RUNTIMES = {12: "libcudart.so.12", 13: "libcudart.so.13"}
"""The runtime's library by its major version; the symbols of each have the library's name as their version."""

PER_THREAD = ("_ptsz", "_ptds")
"""What functions end in that take 0 for the thread's default stream (nvcc -default-stream per-thread)."""

OF_CUDA_12 = "cudaGetDeviceProperties_v2"
"""A function of that runtime, which later ones do not have."""

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
    """Build ``libcuda.so.1`` and the runtime's libraries into a folder.

    What the program names of CUDA, and they do not have, gets a stub that refuses by its name. Where the runtime is
    linked into the program, its functions are redirected to the stand-in.

    Returns:
        The library that is to be loaded before the program's own, if one is.

    Raises:
        ToolError: there is no compiler, or it fails.
    """
    sources = {name: (HERE / name).read_text(encoding="utf-8") for name in ("libcuda.c", "graphs.c", "libcudart.c")}
    known = {word for text in sources.values() for word in _WORD.findall(text)}
    known |= {f"{name}_v2" for text in sources.values() for name in re.findall(r"V2\((\w+)", text)}
    linked = linked_runtime(program)
    wanted = {*_names(program), *(each.name for each in linked)} - known
    per_thread = {name for name in wanted if name[:-5] in known and name.endswith(PER_THREAD)}
    lacking = sorted(wanted - per_thread)
    (folder / "stubs.c").write_text(_stubs(lacking) + redirection(program, linked), encoding="utf-8")
    common = [compiler(), "-shared", "-fPIC", "-O0", "-w", "-Wl,-Bsymbolic", f"-I{HERE}"]
    driver = [str(HERE / "libcuda.c"), str(HERE / "graphs.c"), "-Wl,-soname,libcuda.so.1", "-ldl", "-lpthread"]
    driver += _aliases(name for name in per_thread if "cuda" not in name)
    _compile([*common, "-o", str(folder / "libcuda.so.1"), *driver])
    for version, name in RUNTIMES.items():
        script = folder / f"versions.{version}"
        script.write_text(f"{name} {{ global: *; }};\n", encoding="utf-8")
        runtime = [str(HERE / "libcudart.c"), str(folder / "stubs.c"), str(folder / "libcuda.so.1")]
        words = [f"-DVERSION={version}", f"-Wl,-soname,{name}", f"-Wl,--version-script={script}"]
        words += _aliases(name for name in per_thread if "cuda" in name)
        _compile([*common, *words, "-o", str(folder / name), *runtime])
    if not linked:
        return None
    return folder / RUNTIMES[12 if any(each.name == OF_CUDA_12 for each in linked) else 13]


def _aliases(names: Iterable[str]) -> list[str]:
    """Words for the linker by which functions of `PER_THREAD` streams are those without the ending."""
    return [f"-Wl,--defsym={name}={name[:-5]}" for name in sorted(names)]


def _stubs(names: Sequence[str]) -> str:
    """Functions that refuse by their name."""
    stubs = (f'void {name}(void) {{ convc_refuse("{name}"); }}\n' for name in names)
    return "void convc_refuse(const char *);\n" + "".join(stubs)


def _compile(command: list[str]) -> None:
    done = run_program(command, TIMEOUT_S, "the stand-ins of convc record")
    if done.returncode:
        first = (done.stderr.strip() or f"exit status {done.returncode}").splitlines()[0]
        raise ToolError(f"the C compiler failed: {first}", where=command[0])


def _names(program: Path) -> list[str]:
    """Names of CUDA's functions in a program: those that it calls, and some more."""
    return [found.decode() for found in _NAMES.findall(program.read_bytes())]
