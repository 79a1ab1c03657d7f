"""A copy of the checkout, and processes that run its tests: the checkout itself is never written to.

A process is forked from one that has imported what the tests take from elsewhere, so that a run of few tests costs
about a second. It imports convc and the tests from the copy, and so do the processes that tests start.
"""

from __future__ import annotations

import importlib
import math
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
IMPORTED = (
    "pytest", "_pytest.assertion.rewrite", "hypothesis", "numpy", "ml_dtypes", "msgspec", "onnx", "onnx.reference",
    "sympy", "islpy", "jinja2", "click", "rich.console", "coverage",
)  # fmt: skip
MEMORY = 6 << 30
"""Bytes of address space of a process: a mutant may ask for more than there is."""

PATIENCE = 8
"""Seconds on the clock for each second of processor time that a process may take, beside other programs."""


def prepare() -> None:
    """Import what all tests take from elsewhere, before anything is forked."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for name in IMPORTED:
        importlib.import_module(name)


def copied(to: Path, root: Path = ROOT) -> Path:
    """The files of a checkout that git knows or does not ignore, as they are now, under a folder."""
    listed = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, capture_output=True, check=True).stdout.decode().split("\0")
    for name in filter(None, names):
        if (root / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, to / name)
    return to


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a process ended: its exit status, negative where a signal ended it; None where it took too long."""

    status: int | None
    seconds: float


class Process:
    """A forked process; its words go to a file. It may take seconds of processor time, or (None) what it likes."""

    def __init__(self, work: Callable[[], int], *, cpu_s: float | None, words: Path) -> None:
        self._began = time.monotonic()
        self._most_s = PATIENCE * (cpu_s or math.inf)
        self._pid = os.fork()
        if self._pid == 0:
            _be_child(work, cpu_s, words)

    def ended(self) -> Ended | None:
        """How it ended; None while it runs."""
        seconds = time.monotonic() - self._began
        pid, status = os.waitpid(self._pid, os.WNOHANG)
        if pid:
            code = os.waitstatus_to_exitcode(status)
            self._end_group()
            late = code in (-signal.SIGXCPU, -signal.SIGPROF)
            return Ended(status=None if late else code, seconds=seconds)
        if seconds > self._most_s:
            self.stop()
            return Ended(status=None, seconds=seconds)
        return None

    def stop(self) -> None:
        """End it, and what it has started."""
        self._end_group()
        os.waitpid(self._pid, 0)

    def _end_group(self) -> None:
        try:
            os.killpg(self._pid, signal.SIGKILL)
        except ProcessLookupError:
            return


def _be_child(work: Callable[[], int], cpu_s: float | None, words: Path) -> None:
    """Be the forked process: never comes back."""
    status = 70
    try:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        if cpu_s is not None:
            seconds = max(1, round(cpu_s))
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
        out = os.open(words, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for descriptor in (1, 2):
            os.dup2(out, descriptor)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        status = work()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def in_copy(tree: Path, work: Callable[[], int]) -> int:
    """Do something where convc and the tests are imported from a copy."""
    _move_to(tree)
    return work()


def _move_to(tree: Path) -> None:
    """From now on import from the copy what lies in the checkout."""
    os.chdir(tree)
    ours = (f"{ROOT}{os.sep}convc", f"{ROOT}{os.sep}tests", f"{ROOT}{os.sep}benchmarks")
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(ours) and name != "__main__":
            del sys.modules[name]
    elsewhere = [path for path in sys.path if path and Path(path) not in (ROOT, ROOT / "tests")]
    sys.path[:] = [str(tree), *elsewhere]
    os.environ |= {"PYTHONPATH": str(tree), "PYTHONPYCACHEPREFIX": str(tree / "build" / "pycache")}
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.pycache_prefix = str(tree / "build" / "pycache")
    sys.dont_write_bytecode = False
