"""wgmma: four warps have 16 rows of D each, and of A where it comes from registers; B lies in shared memory.

PTX manual, 9.7.15.5.1, "Register Fragments for wgmma.mma_async.m64nNk16" and its like: those of mma.sync, warp below
warp. Operands in shared memory: `shared`.
"""

from __future__ import annotations

from convc.atoms import shared
from convc.atoms.held import Atom
from convc.atoms.warp import BITS, left, total
from convc.errors import InputError

ROWS = 64
WARPS = 4
WIDEST = 256


def wgmma(n: int, element: str, *, a_shared: bool = False, mn_major: bool = False, swizzle: str = "128B") -> Atom:
    """wgmma of 64 x n and 32 bytes of k.

    Args:
        n: columns of D, a multiple of 8 up to 256.
        element: of `convc.atoms.warp.ASYNCHRONOUS`.
        a_shared: A comes from shared memory, K-major.
        mn_major: B is MN-major (16-bit types).
        swizzle: of what lies in shared memory.

    Raises:
        InputError: sm_90a has no such instruction, or an operand does not fit its swizzle.
    """
    if n % 8 or not 0 < n <= WIDEST:
        raise InputError(f"expected N of wgmma as a multiple of 8 from 8 to {WIDEST}, got {n}")
    if element in ("s8", "u8") and n not in (8, 16, 24, *range(32, WIDEST + 1, 16)):
        raise InputError(f"there is no wgmma of {element} with N={n}", hint="N is 8, 16, 24, 32, 48, ... 256")
    bits = BITS[element]
    if mn_major and bits != 16:
        raise InputError(f"B of {element} cannot be MN-major: operands of wgmma may be so with elements of 16 bits")
    k = 8 * shared.DEPTH // bits
    a = shared.operand("A", ROWS, bits, swizzle=swizzle) if a_shared else left("A", ROWS, k, bits, WARPS)
    said = ((".ss", a_shared), (".mn", mn_major), (f".{swizzle}", swizzle != "128B"))
    tail = "".join(word for word, given in said if given)
    return Atom(
        name=f"wgmma.m64n{n}k{k}.{element}{tail}",
        title=f"wgmma.mma_async.sync.aligned.m64n{n}k{k} of {element}",
        held=(
            a,
            shared.operand("B", n, bits, swizzle=swizzle, mn_major=mn_major),
            total("D", ROWS, n, 32, WARPS),
        ),
        source="PTX ISA 9.7.15.5.1, Register Fragments for wgmma.mma_async, Shared Memory Matrix Layout",
    )
