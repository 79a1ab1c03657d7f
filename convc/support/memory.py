"""Memory limits: ask before taking.

A huge problem is then refused with a sentence, instead of the operating system killing the process.
"""

from __future__ import annotations

import os
from pathlib import Path

from convc.errors import LimitError

_MEMINFO = Path("/proc/meminfo")
_CGROUP = Path("/sys/fs/cgroup")


def require_memory(size: int, what: str) -> None:
    """Raise `LimitError` when ``size`` bytes for ``what`` are more than the machine has free now.

    On a system that does not tell how much is free, nothing is refused.
    """
    available = available_memory()
    if available is not None and size > available:
        raise LimitError(
            f"{what} needs {human_bytes(size)} of memory, and {human_bytes(available)} are available",
            hint="use a smaller batch or image, or a machine with more memory",
        )


def available_memory() -> int | None:
    """Bytes free without swapping, the least of what system and container allow; None where unknown."""
    found = [size for size in (_system_available(), _container_available()) if size is not None]
    return min(found) if found else None


def human_bytes(size: int) -> str:
    """A size for people: ``1.5 GiB``; three digits or fewer before the point."""
    value = float(size)
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if value < 1000:
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


def _container_available() -> int | None:
    """What a Linux control group (version 2, of containers) leaves; file pages it can drop count as free."""
    try:
        limit = int((_CGROUP / "memory.max").read_text())  # the word "max" means none: ValueError
        used = int((_CGROUP / "memory.current").read_text())
        stat = dict(line.split() for line in (_CGROUP / "memory.stat").read_text().splitlines())
        return max(0, limit - used + int(stat.get("inactive_file", 0)))
    except (OSError, ValueError):
        return None
