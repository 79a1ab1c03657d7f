"""Memory limits: ask before taking.

A huge problem is then refused with a sentence, instead of the operating system killing the process.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator
from pathlib import Path

from convc.errors import LimitError

_MEMINFO = Path("/proc/meminfo")
_STATM = Path("/proc/self/statm")
_CGROUP = Path("/sys/fs/cgroup")
_PLAIN_BYTES = 1000
"""A size below this many of a unit is written in it."""


def require_memory(size: int, what: str) -> None:
    """Raise `LimitError` when ``size`` bytes for ``what`` are more than the simulator has free now.

    On a system that does not tell how much is free, nothing is refused.
    """
    available = available_memory()
    if available is not None and size > available:
        exact = f" ({size} bytes)" if size >= _PLAIN_BYTES else ""
        raise _too_large(f"{what} needs {human_bytes(size)}{exact} of memory", available)


@contextlib.contextmanager
def named_memory(what: str, where: str = "", hint: str = "") -> Generator[None]:
    """Raise `LimitError` about ``what``, at ``where``, for memory that the system refuses to those inside."""
    try:
        yield
    except MemoryError as problem:
        raise out_of_memory(problem, what, where, hint) from None


def out_of_memory(problem: MemoryError, what: str, where: str = "", hint: str = "") -> LimitError:
    """Memory that the system refused, as an error; numpy says for which array, which then stands there.

    Args:
        problem: as it was raised.
        what: the work, as the beginning of a sentence.
        where: of it; empty where nothing is known.
        hint: what else is known, in front of what to do.
    """
    asked = str(problem)
    asked = asked[:1].lower() + asked[1:] or "the system has no more"
    error = _too_large(f"{what} needs more memory than there is: {asked}", available_memory())
    error.where = where
    error.hint = f"{hint}; {error.hint}" if hint else error.hint
    return error


def _too_large(needs: str, available: int | None) -> LimitError:
    """The error of what is too large."""
    limit = "" if available is None else f", and {human_bytes(available)} are available"
    return LimitError(needs + limit, hint="use a smaller batch or image, or a machine with more memory")


def available_memory() -> int | None:
    """Bytes free without swapping, the least of what system, container and process allow; None where unknown."""
    asked = (_system_available(), _container_available(), _process_available())
    found = [size for size in asked if size is not None]
    return min(found) if found else None


def human_bytes(size: int) -> str:
    """A size for people: ``1.5 GiB``; three digits or fewer before the point."""
    value = float(size)
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if value < _PLAIN_BYTES:
            return f"{value:.0f} {unit}" if unit == "bytes" else f"{value:.3g} {unit}"
        value /= 1024
    return f"{value:.3g} PiB"


def _system_available() -> int | None:
    """What Linux says can be had without swapping, or else the free pages that any Unix counts."""
    try:
        for line in _MEMINFO.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def _process_available() -> int | None:
    """What the limit on the addresses of a process (``ulimit -v``) leaves; None where there is none."""
    try:
        # Imported here because Windows has no such module.
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit == resource.RLIM_INFINITY:
            return None
        return max(0, limit - int(_STATM.read_text().split()[0]) * resource.getpagesize())
    except (ImportError, OSError, ValueError, IndexError):
        return None


def _container_available() -> int | None:
    """What a Linux control group (version 2, of containers) leaves; file pages it can drop count as free."""
    try:
        limit = int((_CGROUP / "memory.max").read_text())  # the word "max" means none: ValueError
        used = int((_CGROUP / "memory.current").read_text())
        stat = dict(line.split() for line in (_CGROUP / "memory.stat").read_text().splitlines())
        return max(0, limit - used + int(stat.get("inactive_file", 0)))
    except (OSError, ValueError):
        return None
