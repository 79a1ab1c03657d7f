"""The manual's formulas for the fragments of mma.sync (PTX manual, 9.7.14.5.1 to .13), element by element.

Every function takes a lane and the number i of an element in its fragment and gives (matrix, row, column); B is
given as the manual has it, k x n.
"""

from __future__ import annotations

from collections.abc import Callable

Place = Callable[[int, int], tuple[int, int, int]]


def lane_parts(lane: int) -> tuple[int, int]:
    """(groupID, threadID_in_group)."""
    return lane >> 2, lane % 4


def a_8(parts: int) -> Place:
    """m8: one register."""
    return lambda lane, i: (0, lane_parts(lane)[0], lane_parts(lane)[1] * parts + i)


def a_16(parts: int) -> Place:
    """m16: registers for rows 0-7 and 8-15 of the first columns, then of the next ones."""

    def place(lane: int, i: int) -> tuple[int, int, int]:
        group, thread = lane_parts(lane)
        register, part = divmod(i, parts)
        row = group if register % 2 == 0 else group + 8
        return 0, row, thread * parts + part + register // 2 * 4 * parts

    return place


def b(parts: int) -> Place:
    def place(lane: int, i: int) -> tuple[int, int, int]:
        group, thread = lane_parts(lane)
        register, part = divmod(i, parts)
        return 0, thread * parts + part + register * 4 * parts, group

    return place


def c(lane: int, i: int) -> tuple[int, int, int]:
    group, thread = lane_parts(lane)
    return 0, group if i < 2 else group + 8, thread * 2 + (i & 1)


def quad(lane: int) -> int:
    """m8n8k4 of f16: which of the four computations."""
    return lane % 16 // 4


def quad_a_row(lane: int, i: int) -> tuple[int, int, int]:
    return quad(lane), lane % 4 + (0 if lane < 16 else 4), i


def quad_a_col(lane: int, i: int) -> tuple[int, int, int]:
    return quad(lane), i % 4 + (0 if lane < 16 else 4), lane % 4


def quad_b_row(lane: int, i: int) -> tuple[int, int, int]:
    return quad(lane), lane % 4, i + (0 if lane < 16 else 4)


def quad_b_col(lane: int, i: int) -> tuple[int, int, int]:
    return quad(lane), i, lane % 4 + (0 if lane < 16 else 4)


def quad_c_f16(lane: int, i: int) -> tuple[int, int, int]:
    return quad(lane), lane % 4 + (0 if lane < 16 else 4), i


def quad_c_f32(lane: int, i: int) -> tuple[int, int, int]:
    x = (lane & 1) + (i & 2)
    return quad(lane), x + (0 if lane < 16 else 4), (i & 4) + (lane & 2) + (i & 1)


QUADS = {
    "a.row": quad_a_row, "a.col": quad_a_col, "b.row": quad_b_row, "b.col": quad_b_col, "c.f16": quad_c_f16,
    "c.f32": quad_c_f32,
}  # fmt: skip
