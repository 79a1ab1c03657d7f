"""Zero-column masks of weight-stationary MMAs (PTX manual, section "Zero-column mask descriptor")."""

from __future__ import annotations

from dataclasses import dataclass

from convc.ptx.descriptors.bit_fields import Fields, pack, unpack

ZERO_MASK_FIELDS: Fields = {
    "start_0": (0, 8), "start_1": (8, 8), "start_2": (16, 8), "start_3": (24, 8),
    "zero_first_0": (32, 1), "zero_first_1": (33, 1), "zero_first_2": (34, 1), "zero_first_3": (35, 1),
    "generate": (39, 1), "zeroed": (40, 8), "used": (48, 8), "shift": (56, 6),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ZeroColumnMask:
    """Which columns of B a weight-stationary MMA reads as zero, and how far it shifts them.

    The mask is periodic: a run of ``used`` columns, then a run of ``zeroed`` ones (or the other way round).
    It is made of one sub-mask over N for M = 128, two halves for M = 64, four quarters for M = 32.

    Attributes:
        starts: per sub-mask, how many columns into its first run it begins (0 to 255).
        zero_first: per sub-mask, True where the first run is a zeroed one.
        generate: False: no column is zeroed, and the fields above mean nothing.
        zeroed, used: lengths of the runs (1 to 256). The manual's table swaps these two fields; its examples,
            CUTLASS and an independent SM100 model have them as here.
        shift: column j of the MMA reads column j + shift of B (0 to 32).
    """

    starts: tuple[int, int, int, int] = (0, 0, 0, 0)
    zero_first: tuple[bool, bool, bool, bool] = (False, False, False, False)
    generate: bool = False
    zeroed: int = 1
    used: int = 1
    shift: int = 0


def encode_zero_mask(mask: ZeroColumnMask) -> int:
    """The 64-bit word of a mask."""
    _check_zero_mask(mask)
    starts = {f"start_{i}": start for i, start in enumerate(mask.starts)}
    firsts = {f"zero_first_{i}": first for i, first in enumerate(mask.zero_first)}
    runs = {"zeroed": mask.zeroed - 1, "used": mask.used - 1}
    return pack(ZERO_MASK_FIELDS, **starts, **firsts, **runs, generate=mask.generate, shift=mask.shift)


def decode_zero_mask(value: int) -> ZeroColumnMask:
    """The mask that a 64-bit word says."""
    got = unpack(ZERO_MASK_FIELDS, value, 64)
    mask = ZeroColumnMask(
        starts=(got["start_0"], got["start_1"], got["start_2"], got["start_3"]),
        zero_first=(
            bool(got["zero_first_0"]),
            bool(got["zero_first_1"]),
            bool(got["zero_first_2"]),
            bool(got["zero_first_3"]),
        ),
        generate=bool(got["generate"]),
        zeroed=got["zeroed"] + 1,
        used=got["used"] + 1,
        shift=got["shift"],
    )
    _check_zero_mask(mask)
    return mask


def _check_zero_mask(mask: ZeroColumnMask) -> None:
    if not 0 <= mask.shift <= 32:
        raise ValueError(f"shift must be in 0..32, got {mask.shift}")
    if len(mask.starts) != 4 or len(mask.zero_first) != 4:
        raise ValueError("a mask has four sub-masks: starts and zero_first take four entries each")
