"""A host program, run with the stand-ins in place of CUDA's libraries."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from convc.errors import InputError
from convc.ir.findings import Finding, Verdict, worst
from convc.recorder.build import build_stand_ins
from convc.recorder.session import RecordedLaunch, RecordOptions, Session
from convc.recorder.wire import read_question
from convc.support.counted import counted

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
            hint=f"ldd {program}; convc record stands in for libcuda.so.1 and libcudart.so.13",
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
