"""The device memory of a recorded program: one file in memory that convc and the program both map.

Allocation number n is the simulator's buffer at n << 40. The host may touch pinned and managed memory at that address
too, so these have numbers whose addresses a process has room for; device memory has the others.
"""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass

import numpy as np

from convc.errors import InputError, LimitError
from convc.ir.launch import FIRST_ADDRESS, MOST_BUFFERS
from convc.support.memory import require_memory

PAGE = mmap.PAGESIZE
HOST_NUMBERS = range(2, 0x50)
"""Numbers whose addresses no loader puts a program or its libraries at."""

DEVICE_NUMBERS = range(0x100, MOST_BUFFERS)
SHARED_BYTES = 1 << 42
"""Room of the file; what nothing was written to takes no memory."""

POISON = 0xFF


@dataclass(eq=False, slots=True)
class Allocation:
    """Some memory of the program.

    Attributes:
        number: of the buffer. name: in launches and findings.
        place: where it lies in the shared file. bytes: uint8, its contents.
        variable: of the module ``module`` that it is; None: it is none.
    """

    number: int
    name: str
    place: int
    bytes: np.ndarray
    variable: str | None = None

    @property
    def address(self) -> int:
        """Give the address of its first byte."""
        return self.number * FIRST_ADDRESS


class DeviceMemory:
    """All allocations of one program."""

    def __init__(self) -> None:
        if not hasattr(os, "memfd_create"):
            raise InputError("convc record runs programs on Linux alone")
        self.file = os.memfd_create("convc-record", os.MFD_CLOEXEC)
        os.ftruncate(self.file, SHARED_BYTES)
        self.alive: dict[int, Allocation] = {}
        self._end = 0
        self._count = 0
        self._next = {numbers: numbers.start for numbers in (HOST_NUMBERS, DEVICE_NUMBERS)}

    @property
    def path(self) -> str:
        """The name by which another process of the same user opens the file."""
        return f"/proc/{os.getpid()}/fd/{self.file}"

    def take(self, size: int, *, host: bool = False, name: str = "", poison: bool = True) -> Allocation:
        """Allocate ``size`` bytes, which begin as poison.

        Raises:
            LimitError: there is not so much memory, or there are too many allocations.
        """
        what = name or f"allocation {self._count + 1}"
        require_memory(2 * size, f"{what} of the program, and a copy of it for a launch,")
        number = self._number(HOST_NUMBERS if host else DEVICE_NUMBERS)
        room = -(-size // PAGE) * PAGE
        place = self._end
        if place + room > SHARED_BYTES:
            raise LimitError("the program has allocated 4 TiB in all, the limit of convc record")
        self._end += room
        self._count += 1
        mapped = np.frombuffer(mmap.mmap(self.file, room, offset=place), np.uint8)
        taken = Allocation(number=number, name=name or f"a{self._count}", place=place, bytes=mapped[:size])
        if poison:
            taken.bytes[:] = POISON
        self.alive[number] = taken
        return taken

    def give_back(self, number: int) -> bool:
        """Free an allocation; False where there is none."""
        freed = self.alive.pop(number, None)
        if freed is None:
            return False
        room = -(-freed.bytes.size // PAGE) * PAGE
        with mmap.mmap(self.file, room, offset=freed.place) as mapped:
            mapped.madvise(mmap.MADV_REMOVE)
        return True

    def at(self, address: int) -> Allocation | None:
        """The allocation that an address lies in."""
        return self.alive.get(address // FIRST_ADDRESS)

    def close(self) -> None:
        """Give all of it back."""
        self.alive.clear()
        os.close(self.file)

    def _number(self, numbers: range) -> int:
        """A free number: a new one as long as there are, so that what was freed stays away."""
        if self._next[numbers] < numbers.stop:
            self._next[numbers] += 1
            return self._next[numbers] - 1
        for number in numbers:
            if number not in self.alive:
                return number
        raise LimitError(f"the program has {len(numbers)} allocations at once, the limit of convc record")
